//! The page about switches says what would be measured now; and among the arms of the papers' first
//! choice no switch misses a bound.

use ccp_agent::guard::HandOff;
use remuda_switches::matrix::{MOMENTS_S, Plan, arms, cells};
use remuda_switches::report;
use std::path::Path;

fn plan(arms: Vec<&'static str>) -> Plan {
    let jobs = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    Plan { arms, buffers_bdp: vec![1.0, 4.0], moments_s: MOMENTS_S.to_vec(), jobs, seed: 1 }
}

/// Every ordered pair of every arm of `ARMS`, warm and cold: a minute and a half of one core.
#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "minutes without optimisation; `make test` runs it optimised"
)]
fn the_page_and_its_picture_are_what_is_measured() {
    let plan = plan(arms());
    let warm = cells(&plan, HandOff::Warm).expect("warm");
    let cold = cells(&plan, HandOff::Cold).expect("cold");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let is_written = |name: &str, now: String| {
        let written = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
        assert!(written == now, "docs/{name} is not what is measured: run `make switches`");
    };
    is_written("switching.md", report::page(&plan, &warm, &cold));
    is_written("switching.svg", report::picture(&plan, &warm, &cold));
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "minutes without optimisation; `make test` runs it optimised"
)]
fn a_warm_switch_among_the_usual_arms_misses_no_bound() {
    let usual = ["reno", "cubic", "bbr", "bbr3", "vegas", "westwood", "illinois", "c2tcp", "copa"];
    let cells = cells(&plan(usual.to_vec()), HandOff::Warm).expect("warm");
    let missed = report::misses(&cells);
    assert!(missed.is_empty(), "{missed}");
}
