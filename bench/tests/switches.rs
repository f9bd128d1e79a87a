//! The page about switches has the figures that a measurement now gives, and no warm switch among
//! the usual arms misses a bound.

use ccp_agent::guard::HandOff;
use remuda_bench::switches::matrix::{MOMENTS_S, Plan, arms, cells};
use remuda_bench::switches::report;
use std::path::Path;

fn plan(arms: Vec<&'static str>) -> Plan {
    let jobs = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    Plan { arms, buffers_bdp: vec![1.0, 4.0], moments_s: MOMENTS_S.to_vec(), jobs, seed: 1 }
}

/// Every ordered pair of all arms, warm and cold: takes a minute and a half of one core.
#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "minutes without optimisation; `make test` runs it optimised"
)]
fn the_page_and_its_picture_are_what_is_measured() {
    let plan = plan(arms());
    let warm = cells(&plan, HandOff::Warm).expect("warm");
    let cold = cells(&plan, HandOff::Cold).expect("cold");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let is_written = |name: &str, now: String| {
        let written = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
        assert!(written == now, "docs/{name} is not what is measured: run `make switches`");
    };
    is_written("switching.md", report::page(&plan, &warm, &cold));
    let means = [("warm", warm.as_slice()), ("cold", &cold)];
    is_written("switching.svg", report::picture(&plan, &means));
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

/// The rule in words: among these arms, with any buffer and at any moment (also in BBR's PROBE_RTT,
/// some 10.15 s after the start), at most 20 segments are sent again in the two seconds after a
/// switch.
#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "minutes without optimisation; `make test` runs it optimised"
)]
fn a_warm_switch_among_the_first_arms_costs_next_to_nothing() {
    let first = ["reno", "cubic", "bbr", "westwood"];
    let plan = Plan { moments_s: vec![8.5, 10.15, 10.25], ..plan(first.to_vec()) };
    for cell in cells(&plan, HandOff::Warm).expect("warm") {
        let (resent, _) = cell.retransmitted_pkts;
        assert!(resent.high <= 20.0, "{} to {}: {resent}", cell.from, cell.to);
        assert!(cell.goodput_ratio.median >= 0.95, "{} to {}", cell.from, cell.to);
    }
}

/// The rule in words: two arms that alternate every two seconds for twenty seconds send again at
/// most twice as much as the worse of the two does by itself.
#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "minutes without optimisation; `make test` runs it optimised"
)]
fn flapping_is_harmless() {
    let usual = ["reno", "cubic", "bbr", "bbr3", "vegas", "westwood", "copa"];
    for buffer_bdp in [1.0, 4.0] {
        for (index, first) in usual.iter().enumerate() {
            for other in &usual[index + 1..] {
                let path = |arm| remuda_bench::switches::Path { arm, buffer_bdp, seed: 1 };
                let turns = |arm, other| {
                    remuda_bench::switches::flap(&path(arm), other, HandOff::Warm).expect("it runs")
                };
                let ((resent, one), (_, two)) = (turns(first, other), turns(other, first));
                let bound = 2.0 * f64::max(one, two);
                assert!(resent <= bound, "{first} and {other}, {buffer_bdp} BDP: {resent}");
            }
        }
    }
}
