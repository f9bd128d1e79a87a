//! The cost of an arm that evaluates networks: the time of a report in the arm, and the agent's
//! processor time for a hundred flows.
//!
//! Decisions are timed one by one on a computed path: a report's, and those of the arm's timers. If
//! the arm numbers what it sends, as PCC and Anole do, a round trip later a report says that what
//! was sent under the new number is acknowledged; so a slot of Anole ends, and its network runs.
//! The agent's time is measured on real flows, under the arm and under CUBIC in turn.

use crate::hundred_flows::{FLOWS, core_percent};
use crate::report_cost::{Course, start};
use crate::{Fallible, Options, Promise, Verdict};
use ccp_agent::clock;
use remuda_algorithms::arm::Registers;
use remuda_algorithms::units::Time;
use remuda_algorithms::{Arm, ArmInfo};
use remuda_bench::stats::{Spread, percentile, sorted};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

/// Row B9 of Anole's table: the bound in per cent of a core for [`FLOWS`] flows, beyond [`ARM`].
const CORE_PERCENT_MAX: f64 = 2.0;
/// The bound of a decision, in microseconds.
const DECISION_US_MAX: f64 = 50.0;
/// The arm that the other one is compared with.
const ARM: &str = "cubic";
const ROUNDS: usize = 9;
const REPORTS: usize = 20_000;

/// The numbers under which the arm sends, of which the first segment is not acknowledged yet.
#[derive(Default)]
struct Numbers {
    registers: Registers,
    last: Option<u32>,
    sent: VecDeque<Time>,
}

impl Numbers {
    /// The arm has decided. Its first register is the number, if it has any.
    fn decided(&mut self, arm: &dyn Arm, now: Time) {
        self.registers.clear();
        arm.registers(&mut self.registers);
        let number = self.registers.as_slice().first().map(|(_, value)| *value);
        if number != self.last {
            self.last = number;
            self.sent.push_back(now);
        }
    }

    /// Whether the first segment of the next number is acknowledged now.
    fn crosses(&mut self, rtt: Duration, now: Time) -> bool {
        let is_due = self.sent.front().is_some_and(|sent| now - *sent >= rtt);
        is_due && self.sent.pop_front().is_some()
    }
}

/// Microseconds of each decision, ascending.
fn decision_us(info: &ArmInfo) -> Vec<f64> {
    let (mut arm, _, mut decision) = start(info);
    let (mut course, mut numbers) = (Course::new(), Numbers::default());
    let mut took = Vec::with_capacity(REPORTS);
    let mut time = |decide: &mut dyn FnMut()| {
        let before_ns = clock::monotonic_ns();
        decide();
        took.push((clock::monotonic_ns() - before_ns) as f64 / 1e3);
    };
    for _ in 0..REPORTS {
        let mut m = course.step(decision);
        let now = course.now;
        if arm.wake_at().is_some_and(|at| at <= now) {
            time(&mut || decision = black_box(arm.on_wake(now)).unwrap_or(decision));
        }
        if numbers.crosses(m.rtt.map_or(Duration::ZERO, |rtt| rtt.last), now) {
            m.own[0] = m.acked.0 + 1;
        }
        time(&mut || decision = black_box(arm.on_measurement(black_box(&m), now)));
        numbers.decided(&*arm, now);
    }
    sorted(took)
}

pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    let name = &options.arm;
    println!("\n## Cost of the arm {name}\n");
    let arm = remuda_algorithms::arm(name)
        .filter(|arm| arm.loads.is_none())
        .ok_or_else(|| format!("--arm {name}: it must be an arm that needs no file"))?;
    let [mut p50, mut p99, mut most, mut with, mut without] = [const { Vec::new() }; 5];
    for _ in 0..ROUNDS {
        let us = decision_us(arm);
        p50.push(percentile(&us, 50.0));
        p99.push(percentile(&us, 99.0));
        most.push(percentile(&us, 100.0));
        with.push(core_percent(options, &["--arm", name])?);
        without.push(core_percent(options, &["--arm", ARM])?);
    }
    let more = Spread::of(with.iter().zip(&without).map(|(with, without)| with - without));
    let [p50, p99, most, with, without] = [p50, p99, most, with, without].map(Spread::of);
    println!("{ROUNDS} rounds of {REPORTS} reports; {FLOWS} flows under {name} and {ARM} in turn.");
    Ok(vec![
        Promise {
            what: format!("a decision in {name}, p99"),
            figure: format!("{p99:.1} us; at p50 {p50:.1} us, the longest {most:.1} us"),
            bound: format!("<= {DECISION_US_MAX} us"),
            verdict: Verdict::of(p99.median <= DECISION_US_MAX),
        },
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
