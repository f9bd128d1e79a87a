//! The same matrix gives the same table: when it is repeated, on any number of threads, and after
//! it was stopped half way.

use ccp_agent::Setup;
use remuda_matrix::{Only, Plan, Progress, ROWS, Row, Store, run, suite_named};
use remuda_scenarios::{HEADER_BYTES, Suite};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Short runs that together fill every metric: neighbours, steps, transfers.
const SUITE: &str = r#"
title = "For tests"
source = "this file"
[scenario]
duration_s = 8
links.down.rate_mbit_per_sec = 12
links.down.delay_ms = 10
links.down.loss_percent = 0.05
links.down.queue = { kind = "droptail", limit_bdp = 2 }
links.up = { delay_ms = 10, jitter_std_ms = 0.5 }
flows = [{ driver = "tested" }]
[[families]]
name = "steps"
group = "C"
path = "wired"
scenario.links.down.rate_steps = [{ at_s = 4, rate_mbit_per_sec = 24 }]
axes = [{ name = "queue_bdp", keys = ["links.down.queue.limit_bdp"], values = [1, 4] }]
[[families]]
name = "cell"
group = "E"
path = "cellular"
scenario.links.side.queue = { kind = "droptail", limit_packets = 100 }
scenario.links.side.generator = { kind = "markov", min_mbit_per_sec = 1, max_mbit_per_sec = 9 }
scenario.flows = [{ driver = "tested", count = 2, route = ["side", "down"] }]
[[families]]
name = "beside"
group = "K"
path = "wired"
expect = ["goodput_mbit_per_sec >= 0.1", "utilisation <= 0.1", "response_s <= 9"]
scenario.flows = [{ driver = "cubic", name = "neighbour" }, { driver = "tested", start_s = 1 }]
[[families]]
name = "transfers"
group = "M"
path = "wired"
scenario.flows = [
    { driver = "tested", arrivals = { load_mbit_per_sec = 6, sizes = "web-search" }, stop_s = 5 },
]
"#;

fn plan() -> Plan {
    let suites = [Suite::parse(SUITE, "test").expect("it is one")];
    let drivers = ["reno", "bbr"].map(str::to_owned);
    Plan::of(&suites, &Only::default(), &drivers, 1..=2).expect("it has environments")
}

/// Runs a plan. With `stop_after`, stops after that many runs that were not in the store.
fn rows(plan: &Plan, store: Option<&Store>, threads: usize, stop_after: Option<usize>) -> Vec<Row> {
    let (setup, stopped) = (Arc::new(Setup::default()), AtomicBool::new(false));
    let watch = |so_far: &Progress| {
        if stop_after.is_some_and(|after| so_far.done - so_far.kept >= after) {
            stopped.store(true, Ordering::Relaxed);
        }
    };
    let finished = run(plan, (store, &setup), (threads, &stopped), watch);
    finished.into_iter().flatten().map(|row| row.expect("it runs")).collect()
}

fn bytes(folder: &Path, rows: &[Row]) -> Vec<u8> {
    let path = folder.join("table.parquet");
    ROWS.write(&path, rows, &BTreeMap::new()).expect("it is written");
    std::fs::read(&path).expect("it is there")
}

#[test]
fn the_same_matrix_gives_the_same_bytes_whatever_happens_on_the_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan();
    let once = rows(&plan, None, 1, None);
    assert_eq!(once.len(), 5 * 2 * 2);
    let want = bytes(folder.path(), &once);
    assert_eq!(bytes(folder.path(), &rows(&plan, None, 3, None)), want, "over threads");

    let open = || Store::open(&folder.path().join("runs"), "code".to_owned()).expect("a store");
    let part = rows(&plan, Some(&open()), 2, Some(5));
    assert!((5..20).contains(&part.len()), "{} of 20 rows", part.len());
    let mut kept = 0;
    let setup = Arc::new(Setup::default());
    let whole = run(&plan, (Some(&open()), &setup), (2, &AtomicBool::new(false)), |so_far| {
        kept = so_far.kept;
    });
    let whole: Vec<Row> = whole.into_iter().flatten().map(|row| row.expect("it runs")).collect();
    assert_eq!(kept, part.len(), "what was done is not done again");
    assert_eq!(bytes(folder.path(), &whole), want, "stopped and gone on");

    let (read, _) = ROWS.read(&folder.path().join("table.parquet")).expect("it is read");
    assert_eq!(read, whole);
}

/// A full disk is simulated: no file can be written in the store's folder.
#[test]
fn a_row_that_cannot_be_kept_is_in_the_table_and_said_to_be_unkept() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan();
    let want = rows(&plan, None, 2, None);
    let runs = folder.path().join("runs");
    let store = Store::open(&runs, "code".to_owned()).expect("a store");
    std::fs::remove_dir(&runs).expect("it is empty");
    std::fs::write(&runs, "").expect("a file in its place");
    let (setup, mut last) = (Arc::new(Setup::default()), Progress::default());
    let finished = run(&plan, (Some(&store), &setup), (2, &AtomicBool::new(false)), |so_far| {
        last.clone_from(so_far);
    });
    let got: Vec<Row> = finished.into_iter().flatten().map(|row| row.expect("it runs")).collect();
    assert_eq!(got, want);
    let unkept = last.unkept.expect("no row could be kept");
    assert_eq!((last.done, last.failed, unkept.runs), (20, 0, 20));
    let file = format!("{}/", runs.display());
    assert!(unkept.why.starts_with(&file) && unkept.why.contains(".json: "), "{}", unkept.why);
}

#[test]
fn every_metric_has_a_run_that_says_it() {
    let rows = rows(&plan(), None, 2, None);
    let some = |what: &str, metric: fn(&Row) -> Option<f64>| {
        let said: Vec<f64> = rows.iter().filter_map(metric).collect();
        assert!(!said.is_empty() && said.iter().all(|it| it.is_finite()), "{what}: {said:?}");
    };
    some("response_s", |row| row.response_s);
    some("jain_100ms", |row| row.jain_100ms);
    some("jain_1s", |row| row.jain_1s);
    some("jain", |row| row.jain);
    some("share", |row| row.share);
    some("neighbour_mbit_per_sec", |row| row.neighbour_mbit_per_sec);
    some("completed_percent", |row| row.completed_percent);
    some("fct_small_p99_ms", |row| row.fct_small_p99_ms);
    some("slowdown_p50", |row| row.slowdown_p50);
    for row in &rows {
        let used = row.utilisation.expect("every link here has a limit");
        assert!((0.005..=1.001).contains(&used), "{row:?}");
        assert!(row.queueing_p50_ms <= row.queueing_p95_ms, "{row:?}");
        assert!(row.fct_small_p50_ms.is_none_or(|took| took > 0.0), "{row:?}");
        assert!(row.slowdown_p50.is_none_or(|slower| slower > 0.5), "{row:?}");
    }
    let cell = rows.iter().find(|row| row.family == "cell").expect("there is one");
    assert!(cell.capacity_mbit_per_sec.expect("a limit") < 9.0, "the narrowest link: {cell:?}");
}

/// The formula of `algorithms/src/merit.rs`, from the other columns of a row. All links here delay
/// data by 10 ms.
#[test]
fn a_merit_is_made_of_goodput_delay_loss_and_harm() {
    let payload = 1_448.0 / (1_448.0 + f64::from(HEADER_BYTES));
    let rows = rows(&plan(), None, 2, None);
    let near = |row: &Row, goodput: f64, harm: f64| {
        let kept = (1.0 - row.retransmitted_percent / 100.0).powi(5) * (1.0 - harm).powi(2);
        let want = goodput.powi(2) / (row.delay_mean_ms / 10.0) * kept;
        assert!((row.merit / want - 1.0).abs() < 1e-6, "{want}: {row:?}");
    };
    for row in rows.iter().filter(|row| row.family == "steps") {
        let capacity = row.capacity_mbit_per_sec.expect("a limit") * payload;
        near(row, row.goodput_mbit_per_sec / capacity, 0.0);
    }
    for row in rows.iter().filter(|row| row.family == "beside") {
        let equal = 12.0 * payload / 2.0;
        let neighbour = row.neighbour_mbit_per_sec.expect("it has one");
        let share = row.share.expect("it has a neighbour");
        let own = neighbour * share / (2.0 - share);
        near(row, (own / equal).min(1.0), 1.0 - (neighbour / equal).min(1.0));
    }
}

#[test]
fn a_driver_that_is_none_costs_its_runs_and_no_other() {
    let suites = [suite_named("ccp").expect("it comes with us")];
    let drivers = ["no-such-arm", "window:20"].map(str::to_owned);
    let only = Only { parts: vec!["drop".to_owned()], ..Only::default() };
    let plan = Plan::of(&suites, &only, &drivers, 1..=1).expect("the names are well formed");
    let (setup, stopped) = (Arc::new(Setup::default()), AtomicBool::new(false));
    let finished = run(&plan, (None, &setup), (2, &stopped), |_| {});
    let [Some(Err(error)), Some(Ok(row))] = &finished[..] else { panic!("{finished:?}") };
    assert!(error.to_string().starts_with("ccp/drop, no-such-arm, seed 1: "), "{error}");
    assert!(row.goodput_mbit_per_sec > 5.0, "{row:?}");
}

#[test]
fn what_a_suite_expects_passes_or_fails_line_by_line() {
    let rows = rows(&plan(), None, 2, None);
    for row in rows {
        if row.family != "beside" {
            assert_eq!((row.expected, row.missed.as_str()), (0, ""));
            continue;
        }
        assert_eq!((row.expected, row.neighbours.as_str()), (3, "cubic"));
        let missed: Vec<&str> = row.missed.split("; ").collect();
        assert_eq!(missed.len(), 2, "{}", row.missed);
        assert!(missed[0].starts_with("utilisation <= 0.1 (0."), "{}", row.missed);
        assert_eq!(missed[1], "response_s <= 9 (none)");
    }
    let suite =
        Suite::parse(&SUITE.replace("response_s <=", "respond_s <="), "test").expect("it is one");
    let plan = Plan::of(&[suite], &Only::default(), &["reno".to_owned()], 1..=1);
    let error = plan.expect_err("no such metric").to_string();
    assert!(error.contains("expects `respond_s <= 9`") && error.contains("response_s"), "{error}");
}
