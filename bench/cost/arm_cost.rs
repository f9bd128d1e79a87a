//! The cost of an arm that evaluates networks: the time of a report in the arm, and the agent's
//! processor time for a hundred flows.
//!
//! Reports are timed one by one on a computed path. Nothing on it ends a slot of Anole, so its
//! reports there contain no evaluation of its network; `--arm learned` times the same network. The
//! agent's time is measured on real flows, under the arm and under CUBIC in turn.

use crate::hundred_flows::{FLOWS, core_percent};
use crate::report_cost::{Course, start};
use crate::{Fallible, Options, Promise, Verdict};
use ccp_agent::clock;
use remuda_algorithms::ArmInfo;
use remuda_bench::stats::{Spread, percentile, sorted};
use std::hint::black_box;

/// Row B9 of Anole's table: the bound in per cent of a core for [`FLOWS`] flows, beyond [`ARM`].
const CORE_PERCENT_MAX: f64 = 2.0;
/// The arm that the other one is compared with.
const ARM: &str = "cubic";
const ROUNDS: usize = 9;
const REPORTS: usize = 20_000;

/// Microseconds of each report, ascending.
fn report_us(arm: &ArmInfo) -> Vec<f64> {
    let (mut controller, _, mut decision) = start(arm);
    let mut course = Course::new();
    let took = (0..REPORTS).map(|_| {
        let m = course.step(decision);
        let before_ns = clock::monotonic_ns();
        decision = black_box(controller.on_measurement(black_box(&m), course.now));
        (clock::monotonic_ns() - before_ns) as f64 / 1e3
    });
    sorted(took.collect::<Vec<_>>())
}

pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    let name = &options.arm;
    println!("\n## Cost of the arm {name}\n");
    let arm = remuda_algorithms::arm(name)
        .filter(|arm| arm.loads.is_none())
        .ok_or_else(|| format!("--arm {name}: it must be an arm that needs no file"))?;
    let (mut p50, mut p99, mut with, mut without) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let us = report_us(arm);
        p50.push(percentile(&us, 50.0));
        p99.push(percentile(&us, 99.0));
        with.push(core_percent(options, &["--arm", name])?);
        without.push(core_percent(options, &["--arm", ARM])?);
    }
    let more = Spread::of(with.iter().zip(&without).map(|(with, without)| with - without));
    let [p50, p99, with, without] = [p50, p99, with, without].map(Spread::of);
    println!("{ROUNDS} rounds of {REPORTS} reports; {FLOWS} flows under {name} and {ARM} in turn.");
    Ok(vec![
        Promise::shown(
            &format!("a report in {name}, p99"),
            &format!("{p99:.1} us; at p50 {p50:.1} us"),
        ),
        Promise {
            what: format!("{FLOWS} flows under {name} beyond {ARM}: of a core"),
            figure: format!("{more:.2} %"),
            bound: format!("<= {CORE_PERCENT_MAX} %"),
            verdict: Verdict::of(more.median <= CORE_PERCENT_MAX),
        },
        Promise::shown(
            &format!("{FLOWS} flows under {name}, under {ARM}: of a core, all in all"),
            &format!("{with:.2} %, {without:.2} %"),
        ),
    ])
}
