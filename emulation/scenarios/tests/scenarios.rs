//! Scenario files: the examples load, wrong values are refused, and a written file reads back
//! equal.

use proptest::prelude::*;
use remuda_algorithms::{Preference, Wants};
use remuda_link::QueueSpec;
use remuda_scenarios::{Driver, Error, FlowSpec, LinkSpec, Nanos, Override, Scenario};
use std::fs;
use std::path::{Path, PathBuf};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = fs::read_dir(folder).expect("it is there").map(|it| it.expect("a file").path());
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|it| it == "toml");
    let mut files: Vec<PathBuf> = files.filter(is_toml).collect();
    files.sort();
    files
}

#[test]
fn every_example_loads_and_says_what_it_shows() {
    let examples = examples();
    assert!(examples.len() >= 9, "{examples:?}");
    for path in examples {
        let scenario = Scenario::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(scenario.name, path.file_stem().unwrap().to_str().unwrap());
        let links = scenario.build_links::<u32>().unwrap_or_else(|error| panic!("{error}"));
        assert!(links.len() >= 2 && !scenario.flows_expanded().is_empty());
        let text = fs::read_to_string(&path).unwrap();
        let comment = text.lines().take_while(|line| line.starts_with("# "));
        assert!(comment.map(str::len).sum::<usize>() > 80, "{} says nothing", path.display());
    }
}

#[test]
fn the_examples_are_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let load = |name: &str| Scenario::load(&folder.join(name)).unwrap();
    let one = load("one-cubic.toml");
    assert_eq!((one.rtt(), one.duration()), (Nanos::from_millis(40), Nanos::from_millis(30_000)));
    assert_eq!(load("incast.toml").flows_expanded()[99].name, "server-100");
    let lot = load("parking-lot.toml");
    let flows = lot.flows_expanded();
    assert_eq!(flows[3].driver, Driver::Unresponsive);
    assert_eq!(lot.rtt_of(&flows[0]), Nanos::from_millis(40));
    assert_eq!(lot.rtt_of(&flows[1]), Nanos::from_millis(20));
    assert_eq!(lot.rtt(), Nanos::from_millis(30));
}

/// A valid scenario with one change: either a `FROM => TO` replacement, or lines to put before.
fn text(change: &str) -> String {
    let base = "[links.down]\nrate_mbit_per_sec = 12\ndelay_ms = 20\n\
                [links.up]\ndelay_ms = 20\n[[flows]]\ndriver = 'cubic'\n";
    match change.split_once(" => ") {
        Some((from, to)) => {
            assert!(base.contains(from), "{from}");
            base.replace(from, to)
        }
        None => format!("{change}\n{base}"),
    }
}

#[track_caller]
fn refused(change: &str, parts: &[&str]) {
    let error = Scenario::parse(&text(change), "some.toml").expect_err(change).to_string();
    for part in ["some.toml", ": "].iter().chain(parts) {
        assert!(error.contains(part), "{change}: {error:?} lacks {part:?}");
    }
}

#[test]
fn a_value_out_of_bounds_is_refused_with_key_value_and_rule() {
    refused("duration_s = 0", &["`duration_s` is 0: must be above 0"]);
    refused("duration_s = nan", &["`duration_s` is NaN: must be above 0"]);
    refused("control_delay_ms = 251", &["`control_delay_ms` is 251: must be between 0 and 250"]);
    refused("sample_ms = -1", &["`sample_ms` is -1: must be between 0.1"]);
    refused(
        "sample_ms = 0.1\nduration_s = 1e6",
        &["`sample_ms` is 0.1: would keep", "raise it to"],
    );
    refused("name = \"a\\u0007b\"", &["`name` is", "control character"]);
    refused("delay_ms = 20\n[links.up] => delay_ms = -1\n[links.up]", &["[links.down] `delay_ms`"]);
    refused("links.up => links.'u p'", &["`links` is \"u p\": a link's name"]);
    let flow = |lines: &str| format!("driver = 'cubic' => driver = 'cubic'\n{lines}");
    refused(&flow("count = 0"), &["`flows` is 0 flows: needs 1 to 100000"]);
    refused(&flow("count = 100001"), &["`flows` is 100001 flows"]);
    refused(
        &flow("count = 1\n[[flows]]\ncount = 0"),
        &["`flows.1.count` is 0: must be at least 1"],
    );
    refused(&flow("start_s = 30"), &["`flows.0.start_s` is 30: must be", "duration_s = 30"]);
    refused(&flow("start_s = -1"), &["`flows.0.start_s` is -1"]);
    refused(&flow("count = 4\nstagger_s = 10"), &["`flows.0.stagger_s` is 10: the last of 4"]);
    refused(&flow("stagger_s = inf"), &["`flows.0.stagger_s` is inf: must be between"]);
    refused(&flow("start_s = 5\nstop_s = 5"), &["`flows.0.stop_s` is 5: must be after", "5 s"]);
    refused(&flow("bytes = 0"), &["`flows.0.bytes` is 0: must be at least 1"]);
    refused(&flow("app_rate_mbit_per_sec = 0"), &["`flows.0.app_rate_mbit_per_sec` is 0"]);
    refused(&flow("app_write_bytes = 5000"), &["needs app_rate_mbit_per_sec"]);
    let zero = "app_rate_mbit_per_sec = 1\napp_write_bytes = 0";
    refused(&flow(zero), &["`flows.0.app_write_bytes` is 0"]);
    refused(&flow("poisson = true"), &["`flows.0.poisson` is true: only driver"]);
    refused(&flow("init_cwnd_pkts = 0"), &["`flows.0.init_cwnd_pkts` is 0: must be between 1"]);
    refused(&flow("mss_bytes = 70000"), &["`flows.0.mss_bytes` is 70000: must be between 16"]);
    let weights = "wants = { throughput = 0, delay = 1.5 }";
    refused(&flow(weights), &[weights, "two weights of 0 to 1"]);
    refused(&flow("wants = 'speed'"), &["wants = \"speed\"", "\"throughput\""]);
    refused(&flow("extra_delay_ms = -1"), &["`flows.0.extra_delay_ms` is -1"]);
    refused(&flow("route = []"), &["`flows.0.route` is []: needs at least one link"]);
    refused(&flow("route = ['side']"), &["`flows.0.route` is [side]", "the links are: down, up"]);
    refused(&flow("back = ['up', 'up']"), &["`flows.0.back` is [up, up]: crosses `up` twice"]);
    refused("driver = 'cubic' => driver = 'unresponsive'", &["needs app_rate_mbit_per_sec"]);
    let rule = "no flow crosses this link; routes have `down`, `up`";
    refused("[links.dwn]\ndelay_ms = 2", &["`links` is dwn: ", rule]);
}

const STEPPED: &str = "[links.a]\ndelay_ms = 5\ndelay_steps = [{ at_s = 1, delay_ms = 0 }]";

#[test]
fn a_segment_fits_the_queues_on_its_way() {
    let text = "[links.down]\nrate_mbit_per_sec = 10\ndelay_ms = 10\nqueue = QUEUE\n\
                [links.up]\ndelay_ms = 10\n[[flows]]\nmss_bytes = 30000\n";
    for (queue, most) in [("limit_bdp = 1", 25_000), ("limit_bytes = 20000", 20_000)] {
        let queue = format!("{{ kind = 'droptail', {queue} }}");
        let error = Scenario::parse(&text.replace("QUEUE", &queue), "-").unwrap_err().to_string();
        let rule = format!(
            "`flows.0.mss_bytes` is 30000: packets have 30052 bytes, and \
                            links.down lets at most {most} through"
        );
        assert!(error.contains(&rule), "{error}");
    }
    let queue = "{ kind = 'droptail', limit_bdp = 2 }";
    Scenario::parse(&text.replace("QUEUE", queue), "-").unwrap();
}

#[test]
fn a_round_trip_takes_time() {
    let text = "[links.a]\n[[flows]]\nroute = ['a']\nback = []\n";
    let error = Scenario::parse(text, "-").unwrap_err().to_string();
    assert!(error.contains("its round trip takes no time"), "{error}");
    let error = Scenario::parse(&text.replace("[links.a]", STEPPED), "-").unwrap_err().to_string();
    assert!(error.contains("its round trip takes no time"), "{error}");
    let short = text.replace("[links.a]", "[links.a]\ndelay_ms = 1e-9");
    let error = Scenario::parse(&short, "-").unwrap_err().to_string();
    assert!(error.contains("a delay_ms of at least 0.001"), "{error}");
    for timed in ["[links.a]\ndelay_ms = 1", "[links.a]\nrate_mbit_per_sec = 1"] {
        Scenario::parse(&text.replace("[links.a]", timed), "-").unwrap();
    }
}

#[test]
fn a_key_that_is_none_is_refused_and_the_right_one_offered() {
    refused("duration = 3", &["unknown field `duration`", "fix: `duration_s`?"]);
    refused("delay_ms => delay", &["unknown field `delay`", "in: [links.down]", "`delay_ms`?"]);
    refused("driver => drivr", &["unknown field `drivr`", "in: [[flows]]", "fix: `driver`?"]);
    refused("colour = 3", &["unknown field `colour`", "expected one of `name`"]);
    refused("driver = 'cubic' => driver = 'window:x'", &["line 7", "`window:x`: a fixed window"]);
    refused("driver = 'cubic' => count = -1", &["line 7", "u32"]);
    refused("seed = -1", &["line 1", "u64"]);
    refused("links = 3 # ", &["some.toml"]);
    let error = Scenario::parse("", "some.toml").unwrap_err().to_string();
    assert!(error.contains("`links` is 0 tables: needs 1"), "{error}");
}

#[test]
fn a_file_is_named_and_its_traces_are_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cell.toml");
    assert!(matches!(Scenario::load(&path), Err(Error::Read { .. })));
    fs::write(&path, text("rate_mbit_per_sec = 12 => trace = 'sub/a.trace'")).unwrap();
    let scenario = Scenario::load(&path).unwrap();
    let trace = folder.path().join("sub/a.trace");
    assert_eq!(scenario.links["down"].trace.as_ref(), Some(&trace));
    let error = scenario.build_links::<u32>().unwrap_err().to_string();
    assert!(error.starts_with("[links.down] `trace`: "), "{error}");
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(&trace, "1\n").unwrap();
    assert_eq!(scenario.build_links::<u32>().unwrap().len(), 2);
    fs::write(&path, vec![b'#'; (4 << 20) + 1]).unwrap();
    assert!(
        Scenario::load(&path)
            .unwrap_err()
            .to_string()
            .ends_with("above 4 MiB, the limit of a scenario file")
    );
}

#[test]
fn overrides_change_what_a_file_says() {
    let overrides =
        |all: &[&str]| -> Vec<Override> { all.iter().map(|it| it.parse().unwrap()).collect() };
    let with = |all: &[&str]| Scenario::parse_with(&text(""), "some.toml", &overrides(all));
    let scenario = with(&[
        "seed=7",
        "flows.*.driver=window:9",
        "links.down.queue={ kind = 'droptail', limit_bdp = 2 }",
        "links.up.delay_ms=30",
    ]);
    let scenario = scenario.unwrap();
    assert_eq!((scenario.seed, scenario.rtt()), (7, Nanos::from_millis(50)));
    assert_eq!(scenario.flows[0].driver, Driver::Window(9));
    assert_eq!(scenario.links["down"].queue, QueueSpec::droptail_bdp(2.0));
    for (change, part) in [
        ("flows.0.drivr=bbr", "with flows.0.drivr=bbr: "),
        ("flows.0.drivr=bbr", "fix: `driver`?"),
        ("flows.1.driver=bbr", "some.toml: `flows.1.driver=bbr`: `flows` has 1 entries"),
        ("links.up.delay_ms=-2", "some.toml: [links.up] `delay_ms` is -2"),
    ] {
        let error = with(&[change]).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn every_part_of_a_link_is_written_and_read_back() {
    let link = "rate_mbit_per_sec = 12\nrate_steps = [{ at_s = 1, rate_mbit_per_sec = 6 }]\n\
                rate_steps_period_s = 2\noutages = [{ at_s = 3, duration_s = 0.5 }]\n\
                delay_ms = 20\ndelay_steps = [{ at_s = 4, delay_ms = 60 }]\njitter_std_ms = 1\n\
                reordering = { percent = 1, extra_ms = 5 }\nloss_percent = 0.5\n\
                policer = { rate_mbit_per_sec = 10, burst_bytes = 30000 }\n\
                queue = { kind = 'fq-codel', limit_packets = 100, ecn = true }\n\
                aggregation = { interval_ms = 10, packets_max = 5 }\nseed = 3\n";
    let full = text(&format!("rate_mbit_per_sec = 12\ndelay_ms = 20\n => {link}"));
    let scenario = Scenario::parse(&full, "-").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(Scenario::parse(&scenario.to_toml().unwrap(), "-").unwrap(), scenario);
    assert_eq!(scenario.build_links::<u32>().unwrap().len(), 2);
}

fn any_driver() -> impl Strategy<Value = Driver> {
    prop_oneof![
        "[a-z][a-z0-9-]{0,9}".prop_map(Driver::Named),
        "[a-z]{1,9}".prop_map(Driver::Native),
        (1..=1_000_000u32).prop_map(Driver::Window),
        Just(Driver::External),
    ]
}

fn any_flow() -> impl Strategy<Value = FlowSpec> {
    let first = (any_driver(), "[ -~äß]{0,12}", 1..5u32, 0.0..1.0, 0.0..1.0);
    let second = (any::<bool>(), proptest::option::of(1..1u64 << 40), 16..1449u32, 0.0..300.0);
    let weights = (0.0..=1.0f64, prop_oneof![Just(1.0), 0.01..=1.0f64]);
    let wants = weights.prop_map(|(throughput, delay)| {
        Wants::checked(Preference { throughput, delay }).expect("in range")
    });
    (first, second, wants).prop_map(|((driver, name, count, start_s, stagger_s), second, wants)| {
        let (ecn, bytes, mss_bytes, extra_delay_ms) = second;
        let numbers =
            FlowSpec { count, start_s, stagger_s, bytes, mss_bytes, ..Default::default() };
        FlowSpec { driver, name, ecn, extra_delay_ms, wants, ..numbers }
    })
}

fn any_scenario() -> impl Strategy<Value = Scenario> {
    let link = (0.01..1000.0, 0.0..200.0, 0.0..5.0, 0.1..20.0f64, 0..u64::MAX / 2);
    let link = link.prop_map(|(rate, delay_ms, loss_percent, bdp, seed)| LinkSpec {
        rate_mbit_per_sec: Some(rate),
        delay_ms,
        loss_percent,
        queue: QueueSpec::droptail_bdp(bdp),
        seed,
        ..LinkSpec::default()
    });
    let flows = proptest::collection::vec(any_flow(), 1..6);
    (link.clone(), link, flows, 10.0..1e3, 0..u64::MAX / 2).prop_map(
        |(down, up, flows, duration_s, seed)| Scenario {
            name: "any".to_owned(),
            duration_s,
            seed,
            links: [("down".to_owned(), down), ("up".to_owned(), up)].into(),
            flows,
            ..Scenario::default()
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(scenario in any_scenario()) {
        let text = scenario.to_toml().unwrap();
        prop_assert_eq!(Scenario::parse(&text, "-").unwrap(), scenario);
    }

    #[test]
    fn expanded_flows_have_unique_names_and_start_in_time(scenario in any_scenario()) {
        let flows = scenario.flows_expanded();
        let names: std::collections::BTreeSet<_> = flows.iter().map(|flow| &flow.name).collect();
        prop_assert_eq!(names.len(), flows.len());
        prop_assert!(flows.iter().all(|flow| flow.start_s < scenario.duration_s));
        let count: u32 = scenario.flows.iter().map(|flow| flow.count).sum();
        prop_assert_eq!(flows.len(), count as usize);
    }

    #[test]
    fn no_text_makes_it_panic(noise in "[\\[\\]a-z_.=0-9'\"\n -]{0,200}") {
        let _ = Scenario::parse(&noise, "-");
        let _ = Scenario::parse(&format!("{noise}\n{}", text("")), "-");
        let _ = noise.parse::<Override>();
        let _ = noise.parse::<Driver>();
    }
}

#[test]
fn the_readme_shows_every_key_and_is_a_scenario() {
    let readme = include_str!("../README.md");
    let text = readme.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let scenario = Scenario::parse(text, "README.md").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(scenario.flows_expanded().len(), 3);
    let mut full = scenario.clone();
    full.flows[0].poisson = true;
    let written = full.to_toml().unwrap();
    let top = written.lines().take_while(|line| !line.starts_with('['));
    let flow = written.split("[[flows]]").nth(1).unwrap().lines();
    for line in top.chain(flow).filter(|line| line.contains(" = ")) {
        let key = line.split(" = ").next().unwrap();
        assert!(text.contains(&format!("{key} = ")), "{key} is not in the README");
    }
}
