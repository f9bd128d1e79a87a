//! What a run gets over time agrees with what the whole run gets.

use ccp_agent::Setup;
use remuda_matrix::{Course, Only, Plan, Row, measure, over_time};
use remuda_scenarios::Suite;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SUITE: &str = r#"
title = "For tests"
source = "this file"
[scenario]
duration_s = 20
links.down.rate_mbit_per_sec = 12
links.down.delay_ms = 10
links.down.queue = { kind = "droptail", limit_bdp = 2 }
links.up = { delay_ms = 10 }
flows = [{ driver = "tested" }]
[[families]]
name = "alone"
group = "A"
path = "wired"
[[families]]
name = "steps"
group = "C"
path = "wired"
scenario.links.down.rate_steps = [{ at_s = 10, rate_mbit_per_sec = 6 }]
[[families]]
name = "beside"
group = "K"
path = "wired"
scenario.flows = [{ driver = "cubic", name = "neighbour" }, { driver = "tested" }]
[[families]]
name = "transfers"
group = "M"
path = "wired"
scenario.flows = [
    { driver = "tested", arrivals = { load_mbit_per_sec = 6, sizes = "web-search" }, stop_s = 5 },
]
"#;

fn runs() -> Vec<(Row, Option<Course>)> {
    let suites = [Suite::parse(SUITE, "test").expect("it is one")];
    let drivers = ["reno", "bbr", "vegas"].map(str::to_owned);
    let plan = Plan::of(&suites, &Only::default(), &drivers, 1..=1).expect("it has environments");
    let setup = Arc::new(Setup::default());
    let done = measure(&plan, (None, &setup), (2, &AtomicBool::new(false)), |_| {}, over_time);
    done.into_iter().flatten().map(|run| run.expect("it runs")).collect()
}

#[test]
fn the_merit_of_a_course_is_near_that_of_the_run_and_is_that_of_its_parts() {
    for (row, course) in runs() {
        let name = format!("{} {}", row.family, row.driver);
        let Some(course) = course else {
            assert_eq!(row.family, "transfers", "{name}: completion times have no course");
            continue;
        };
        assert_eq!(course.len(), 40, "{name}: twenty seconds");
        let (whole, half) = (course.merit(0..40), course.merit(0..20));
        let parts = course.merit_of(&[(&course, 0..20), (&course, 20..40)]);
        assert!((parts / whole - 1.0).abs() < 1e-9 && half > 0.0, "{name}: {parts} {whole}");
        // The course knows round trips, the run the delay of each segment.
        let ratio = whole / row.merit;
        assert!((0.7..1.4).contains(&ratio), "{name}: {whole} {}", row.merit);
        let changes_s: &[f64] = if row.family == "steps" { &[10.0] } else { &[] };
        assert_eq!(course.changes.at_s, changes_s, "{name}");
    }
}
