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

/// One of the runs of a scenario.
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

/// What came of one round, one run after the other.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// The kernel's own.
    pub kernel: Figures,
    /// Ours.
    pub ours: Figures,
    /// The kernel's own once more.
    pub again: Option<Figures>,
}

impl Round {
    /// Runs the sides of round `number`: each round begins with another of them.
    pub fn run(
        (kernel, ours): (&Side<'_>, &Side<'_>),
        control: bool,
        seconds: Duration,
        number: u64,
    ) -> Result<Self, Error> {
        let sides = [Some(kernel), Some(ours), control.then_some(kernel)];
        let mut got = [None; 3];
        for turn in 0..sides.len() as u64 {
            let at = ((number + turn) % sides.len() as u64) as usize;
            got[at] = sides[at].map(|side| run_side(side, seconds)).transpose()?;
        }
        let [Some(kernel), Some(ours), again] = got else {
            unreachable!("both sides ran, or there was an error");
        };
        Ok(Self { kernel, ours, again })
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
