//! The cost of a switch in mid-flow: one flow over one bottleneck, driven by one arm and then by
//! another.
//!
//! The path has 24 Mbit/s, 40 ms and a droptail queue. Retransmissions are counted at the sender,
//! goodput at the receiver, and round trips are computed from the bottleneck's queue.

pub mod live;
pub mod matrix;
pub mod report;

use crate::stats::{percentile, sorted};
use ccp_agent::Config;
use ccp_agent::guard::HandOff;
use remuda_scenarios::outcome::Outcome;
use remuda_scenarios::{Nanos, Scenario};
use remuda_sim::Simulation;
use std::sync::Arc;

pub const RATE_MBIT_PER_SEC: f64 = 24.0;
/// Round trip without a queue.
pub const RTT_MS: f64 = 40.0;
/// Time after the switch that counts.
const AFTER_S: f64 = 2.0;
/// Times before the switch that count: a second for goodput, and some seconds for round trips,
/// which covers a sawtooth.
const GOODPUT_BEFORE_S: f64 = 1.0;
const RTT_BEFORE_S: f64 = 4.0;
/// Span in which an arm by itself is in its steady state.
const STEADY_FROM_S: f64 = 10.0;
const STEADY_UNTIL_S: f64 = 40.0;
/// Interval and duration of the switches in [`flap`].
const FLAP_EVERY_S: f64 = 2.0;
const FLAP_FOR_S: f64 = 20.0;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] remuda_scenarios::Error),
    /// The simulator refuses the scenario.
    #[error(transparent)]
    Sim(#[from] remuda_sim::Error),
    /// The emulated link, or the flow over it, failed.
    #[error(transparent)]
    Live(#[from] remuda_live::Error),
    #[error(transparent)]
    Agent(#[from] ccp_agent::Error),
    /// A file of the agent, or a socket option, failed.
    #[error("the live switch: {0}")]
    Folder(std::io::Error),
}

/// A flow's first arm and its path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path<'a> {
    /// The arm that starts the flow.
    pub arm: &'a str,
    /// Size of the bottleneck's buffer.
    pub buffer_bdp: f64,
    pub seed: u64,
}

/// The measurements around a switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Segments sent again in the two seconds after.
    pub retransmitted_pkts: f64,
    /// Goodput in the second before, in Mbit/s.
    pub goodput_before: f64,
    /// Goodput in the two seconds after, in Mbit/s.
    pub goodput_after: f64,
    /// The 95th percentile of the round trips in the seconds before.
    pub rtt_p95_before_ms: f64,
    /// The 95th percentile of the round trips in the two seconds after.
    pub rtt_p95_after_ms: f64,
}

/// The measurements of an arm that runs without a switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Mean number of segments sent again in two seconds.
    pub retransmitted_pkts: f64,
    /// The 95th percentile of the round trips.
    pub rtt_p95_ms: f64,
}

/// The scenario of a path with these switches, made from TOML, so that the scenario that runs can
/// be shown.
fn scenario(
    path: &Path<'_>,
    switches: &[(f64, &str)],
    duration_s: f64,
) -> Result<Scenario, remuda_scenarios::Error> {
    let orders: Vec<String> =
        switches.iter().map(|(at_s, to)| format!("{{ at_s = {at_s}, to = \"{to}\" }}")).collect();
    let text = format!(
        "duration_s = {duration_s}\nseed = {}\nsample_ms = 5\n\
         [links.down]\nrate_mbit_per_sec = {RATE_MBIT_PER_SEC}\ndelay_ms = {}\n\
         queue = {{ kind = \"droptail\", limit_bdp = {:.3} }}\n\
         [links.up]\ndelay_ms = {}\njitter_std_ms = 0.001\n\
         [[flows]]\ndriver = \"{}\"\necn = true\nswitches = [{}]\n",
        path.seed,
        RTT_MS / 2.0,
        path.buffer_bdp,
        RTT_MS / 2.0,
        path.arm,
        orders.join(", ")
    );
    Scenario::parse(&text, "switches")
}

fn run(scenario: &Scenario, hand_off: HandOff) -> Result<Outcome, Error> {
    let mut config = Config::default();
    config.guard.hand_off = hand_off;
    let mut simulation = Simulation::with_setup(scenario, &Arc::new(config.into()))?;
    while !simulation.is_over() {
        let next = simulation.now() + Nanos::from_millis(1_000);
        simulation.run_until(next);
    }
    Ok(simulation.outcome())
}

/// Bytes delivered and segments sent again until `at_s`, taken at the last sample before.
fn by(outcome: &Outcome, at_s: f64) -> (f64, f64) {
    let looks = &outcome.flow_samples;
    let after = looks.partition_point(|look| look.t_s <= at_s);
    looks[..after]
        .last()
        .map_or((0.0, 0.0), |look| (look.delivered_bytes as f64, look.retransmitted_pkts as f64))
}

fn goodput(outcome: &Outcome, from_s: f64, until_s: f64) -> f64 {
    let bytes = by(outcome, until_s).0 - by(outcome, from_s).0;
    bytes * 8.0 / 1e6 / (until_s - from_s)
}

/// The 95th percentile of the round trips that a packet would have had.
fn rtt_p95_ms(outcome: &Outcome, from_s: f64, until_s: f64) -> f64 {
    let down = outcome.links.iter().position(|link| link.name == "down").unwrap_or(0);
    let looks = outcome
        .link_samples
        .iter()
        .filter(|look| look.link as usize == down && look.t_s > from_s && look.t_s <= until_s);
    let queues = looks.map(|look| look.queue_bytes as f64 * 8.0 / (RATE_MBIT_PER_SEC * 1e3));
    RTT_MS + percentile(&sorted(queues), 95.0)
}

/// Measures one switch at `at_s`.
pub fn switch(path: &Path<'_>, to: &str, at_s: f64, hand_off: HandOff) -> Result<Seen, Error> {
    let end_s = at_s + AFTER_S;
    let outcome = run(&scenario(path, &[(at_s, to)], end_s + 0.5)?, hand_off)?;
    Ok(Seen {
        retransmitted_pkts: by(&outcome, end_s).1 - by(&outcome, at_s).1,
        goodput_before: goodput(&outcome, at_s - GOODPUT_BEFORE_S, at_s),
        goodput_after: goodput(&outcome, at_s, end_s),
        rtt_p95_before_ms: rtt_p95_ms(&outcome, at_s - RTT_BEFORE_S, at_s),
        rtt_p95_after_ms: rtt_p95_ms(&outcome, at_s, end_s),
    })
}

/// Measures an arm without a switch.
pub fn steady(path: &Path<'_>) -> Result<Steady, Error> {
    let outcome = run(&scenario(path, &[], STEADY_UNTIL_S)?, HandOff::Warm)?;
    let resent = by(&outcome, STEADY_UNTIL_S).1 - by(&outcome, STEADY_FROM_S).1;
    Ok(Steady {
        retransmitted_pkts: resent * AFTER_S / (STEADY_UNTIL_S - STEADY_FROM_S),
        rtt_p95_ms: rtt_p95_ms(&outcome, STEADY_FROM_S, STEADY_UNTIL_S),
    })
}

/// Segments sent again while two arms alternate every two seconds, and the segments that the first
/// arm sends again by itself in as much time.
pub fn flap(path: &Path<'_>, other: &str, hand_off: HandOff) -> Result<(f64, f64), Error> {
    let turns = (FLAP_FOR_S / FLAP_EVERY_S) as u32;
    let orders: Vec<(f64, &str)> = (0..turns)
        .map(|turn| {
            let to = if turn % 2 == 0 { other } else { path.arm };
            (STEADY_FROM_S + FLAP_EVERY_S * f64::from(turn), to)
        })
        .collect();
    let end_s = STEADY_FROM_S + FLAP_FOR_S;
    let resent = |outcome: &Outcome| by(outcome, end_s).1 - by(outcome, STEADY_FROM_S).1;
    let flapping = run(&scenario(path, &orders, end_s + 0.5)?, hand_off)?;
    let alone = run(&scenario(path, &[], end_s + 0.5)?, HandOff::Warm)?;
    Ok((resent(&flapping), resent(&alone)))
}
