//! One flow over one emulated path.

use remuda_live::transfer::Transfer;
use remuda_live::{Error, LinkSpec, PathSpec, QueueSpec, Testbed};
use std::time::Duration;

/// A path and what runs on it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The algorithm, under the same name on both sides.
    pub arm: String,
    /// Of the bottleneck.
    pub rate_mbit_per_sec: f64,
    /// One way.
    pub delay_ms: f64,
    /// Of the bottleneck's buffer.
    pub buffer_bdp: f64,
    /// Random, towards the receiver.
    pub loss_percent: f64,
}

/// One of the two runs of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The path.
    pub scenario: &'a Scenario,
    /// The name the sender's socket asks for.
    pub algorithm: &'a str,
    /// Of the random loss.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Over the whole flow.
    pub goodput_mbit_per_sec: f64,
    /// 95th percentile over packets.
    pub queueing_p95_ms: f64,
    /// Segments sent again.
    pub retransmitted_pkts: u32,
}

/// When the two runs of a round take place.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// At the same time.
    Together,
    /// The kernel's, then ours.
    KernelFirst,
    /// Ours, then the kernel's.
    OursFirst,
}

impl Order {
    /// Of this many runs at once, in this round.
    pub fn of(jobs: u64, round: u64) -> Self {
        match (jobs, round % 2) {
            (1, 0) => Self::KernelFirst,
            (1, _) => Self::OursFirst,
            _ => Self::Together,
        }
    }
}

/// Runs both: what came of the kernel's, and of ours.
pub fn run_both(
    kernel: &Side<'_>,
    ours: &Side<'_>,
    seconds: Duration,
    order: Order,
) -> Result<(Figures, Figures), Error> {
    match order {
        Order::Together => std::thread::scope(|scope| {
            let kernel = scope.spawn(|| run_side(kernel, seconds));
            let ours = run_side(ours, seconds);
            Ok((kernel.join().expect("the other side does not panic")?, ours?))
        }),
        Order::KernelFirst => {
            let kernel = run_side(kernel, seconds)?;
            Ok((kernel, run_side(ours, seconds)?))
        }
        Order::OursFirst => {
            let ours = run_side(ours, seconds)?;
            Ok((run_side(kernel, seconds)?, ours))
        }
    }
}

/// Runs it.
fn run_side(side: &Side<'_>, seconds: Duration) -> Result<Figures, Error> {
    let Scenario { rate_mbit_per_sec, delay_ms, buffer_bdp, loss_percent, .. } = *side.scenario;
    let up = LinkSpec {
        rate_mbit_per_sec: Some(rate_mbit_per_sec),
        delay_ms,
        queue: QueueSpec::droptail_bdp(buffer_bdp),
        seed: side.seed,
        ..LinkSpec::default()
    };
    let down = LinkSpec { loss_percent, ..up.clone() };
    let testbed = Testbed::new(&PathSpec { up, down, ..PathSpec::default() })?;
    let transfer = Transfer {
        algorithm: Some(side.algorithm.to_owned()),
        verify: false,
        ..Transfer::default()
    };
    let running = transfer.start(testbed.server(), testbed.client())?;
    std::thread::sleep(seconds);
    let queueing = testbed.stats()?.down.link.queueing_delay;
    running.stop();
    let outcome = running.join()?;
    Ok(Figures {
        goodput_mbit_per_sec: outcome.goodput_mbit_per_sec(Duration::ZERO, seconds),
        queueing_p95_ms: queueing.p95_ms,
        retransmitted_pkts: outcome.retransmitted_pkts,
    })
}
