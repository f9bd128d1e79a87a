//! The reward of a step.

use crate::config::{Config, RewardKind};
use crate::path::Truth;
use remuda_algorithms::learned::observation::Seen;
use remuda_algorithms::merit::{Observed, merit};
use remuda_scenarios::Nanos;

/// Queueing above this, in base round trips, costs no more of a linear reward.
const DELAY_MAX: f64 = 10.0;

/// What a flow got of the path in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shared {
    /// The payload that arrived over an equal share; `None` if nothing could arrive.
    pub of_equal: Option<f64>,
    /// What the neighbours lack of an equal share.
    pub harm: f64,
}

pub fn reward(seen: &Seen, shared: &Shared, truth: &Truth, config: &Config) -> f64 {
    let value = match config.reward {
        RewardKind::Linear => linear(seen, truth, config),
        RewardKind::Merit => of_merit(seen, shared, truth, config),
    };
    config.reward_scale * value
}

fn linear(seen: &Seen, truth: &Truth, config: &Config) -> f64 {
    let base_rtt_s = seconds(truth.base_rtt);
    let share = seen.bytes_per_sec / truth.payload_bytes_per_sec;
    let waited_s = seen.rtt_s.map_or(0.0, |rtt_s| (rtt_s - base_rtt_s).max(0.0));
    let delay = if base_rtt_s > 0.0 { (waited_s / base_rtt_s).min(DELAY_MAX) } else { 0.0 };
    let weights = &config.weights;
    weights.throughput * share - weights.delay * delay - weights.loss * seen.loss_rate
}

fn of_merit(seen: &Seen, shared: &Shared, truth: &Truth, config: &Config) -> f64 {
    let base_rtt_s = seconds(truth.base_rtt);
    let delay = seen.rtt_s.filter(|_| base_rtt_s > 0.0).map(|rtt_s| rtt_s / base_rtt_s);
    let observed = Observed {
        goodput: shared.of_equal,
        delay,
        loss: Some(seen.loss_rate),
        harm: Some(shared.harm),
        transfers: None,
    };
    merit(&observed, config.preference).ln()
}

fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e9
}
