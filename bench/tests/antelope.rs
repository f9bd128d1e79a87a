//! A smoke test of the table, with a policy that ships: it checks the structure, not the values.

use remuda_bench::antelope::measure::{Keep, Settings, simulate};
use remuda_bench::antelope::page::{self, Head};
use remuda_bench::antelope::rows::{Line, Table};
use remuda_bench::antelope::scene::Extent;
use remuda_bench::antelope::{Error, ablations, head_to_head, online};
use remuda_bench::only;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn settings() -> Settings {
    Settings {
        driver: "rein".to_owned(),
        arms: ["cubic", "bbr", "copa"].map(str::to_owned).to_vec(),
        against: Vec::new(),
        remembering: vec![only::CUBIC.to_owned()],
        seeds: 1..=1,
        extent: Extent::Smoke,
    }
}

/// The page's part, the table's lines, and the number of runs that the store already had.
fn table(keep: &Path) -> (String, Vec<Line>, usize) {
    only::add();
    let (settings, go) = (settings(), AtomicBool::new(false));
    let keep = Keep { folder: Some(keep.to_owned()) };
    let mut kept = 0;
    let measured = simulate(&settings, &keep, (2, &go), |so_far| kept = so_far.kept);
    let measured = measured.expect("every scene runs");
    let suites = ["ccp".to_owned()];
    let rows = head_to_head::run((&settings, &suites, 1..=1), &keep, (2, &go), |_| {});
    let rows = rows.expect("the suite runs");
    let comparison = head_to_head::compare(&rows, &settings.driver, &settings.arms);
    let table = Table { measured: &measured, settings: &settings };
    let lines = table.lines(None);
    let head = Head { origin: "here".to_owned(), command: "this".to_owned() };
    (page::simulated(&head, &table, &lines, (&comparison, &suites)), lines, kept)
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "minutes without optimisation; `make test` runs it optimised"
)]
fn every_row_has_a_line_and_what_was_run_is_not_run_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (page, lines, kept) = table(folder.path());
    assert_eq!(kept, 0);
    let rows: BTreeSet<&str> = lines.iter().map(|line| line.row).collect();
    let want = (1..=10).map(|row| format!("A{row}")).collect::<BTreeSet<_>>();
    assert_eq!(rows, want.iter().map(String::as_str).collect());
    for line in &lines {
        assert!(!line.got.is_empty() && !line.target.is_empty(), "{line:?}");
        assert!(!line.got.contains("NaN") && !line.got.contains("inf"), "{line:?}");
    }
    let line = |what: &str| lines.iter().find(|line| line.what.contains(what)).expect(what);
    assert!(line("Jain").got.contains("of all that time"));
    let beside = lines.iter().filter(|line| line.what.contains("remembers windows too"));
    assert_eq!(beside.map(|line| line.row).collect::<Vec<_>>(), ["A1", "A1", "A1", "A2"]);
    let place = &line("place by goodput").got;
    assert!(place.contains(" of 4; ") && place.ends_with(" of 3 with the paper's arms alone"));
    assert!(page.contains("| oracle | | 1 |") && page.contains("| rein | policy |"), "{page}");
    let (again, _, kept) = table(folder.path());
    assert!(kept > 0, "all of it was kept");
    assert_eq!(again, page);
}

#[test]
fn a_table_that_is_stopped_says_so() {
    let stopped = AtomicBool::new(true);
    let nothing = simulate(&settings(), &Keep { folder: None }, (1, &stopped), |_| {});
    let error = nothing.expect_err("it was stopped");
    assert!(matches!(error, Error::Stopped { done: 0, .. }), "{error}");
}

/// `make train-antelope-smoke` tests a real trainer.
#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "minutes without optimisation; `make test` runs it optimised"
)]
fn a_trainer_that_is_not_there_is_named_with_the_fix() {
    let trainer = online::Trainer { python: "no/such/python".into(), seed: 1 };
    let (keep, go) = (Keep { folder: None }, AtomicBool::new(false));
    let found = online::run((&settings(), &[1]), &keep, &trainer, (2, &go), |_| {});
    let error = found.expect_err("nothing trains").to_string();
    assert!(error.starts_with("no/such/python: ") && error.contains("--python"), "{error}");
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "minutes without optimisation; `make test` runs it optimised"
)]
fn every_part_is_taken_out_where_it_is_meant_to_matter() {
    let settings = Settings { driver: "antelope".to_owned(), ..settings() };
    let folder = tempfile::tempdir().expect("a folder");
    let keep = Keep { folder: Some(folder.path().to_owned()) };
    let (suites, go) = (["drawn:1000000..1000012".to_owned()], AtomicBool::new(false));
    let mut said = Vec::new();
    let mut run = || {
        let held = (&suites[..], 1..=1);
        let all = ablations::run(&settings, &held, &keep, (2, &go), |it| said.push(it.clone()));
        all.expect("every variant runs")
    };
    let findings = run();
    let grounds: usize = ablations::PARTS.iter().map(|part| part.grounds.len()).sum();
    assert_eq!(findings.len(), grounds);
    assert!(findings.iter().all(|it| it.power.middle > 0.0 && it.power.middle < 10.0));
    let changed = |part: usize| {
        let of = findings.iter().filter(|it| it.part == part);
        of.filter(|it| it.power.middle != 1.0 || it.resent.1.middle != 0.0).count()
    };
    assert!(changed(0) > 0, "the IP level decides nothing: {findings:#?}");
    assert_eq!(run(), findings, "the same of what was kept");
    let (first, last) = (said.iter().find(|it| it.done == it.all), said.last());
    let kept = [first, last].map(|it| it.map(|it| (it.done == it.all, it.kept == it.all)));
    assert_eq!(kept, [Some((true, false)), Some((true, true))]);
}
