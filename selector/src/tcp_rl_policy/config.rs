//! The settings of the policy.

use crate::{ConfigError, check, check_dwell};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The value of [`TcpRlConfig::first`] that draws the first arm, as the paper does.
pub const RANDOM: &str = "random";

/// What tells that the path has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DetectorKind {
    /// The paper's: a network that compares the states of two steps.
    #[default]
    Learned,
    /// Cumulative sums of throughput, round trip and loss (Page, 1954).
    Cusum,
    /// An adaptive window over the same (Bifet and Gavaldà, 2007).
    Adwin,
    /// Nothing does: a flow keeps the first arm that it settles with.
    None,
}

/// The choice after a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnChange {
    /// The actor picks by the states of the path as it is now.
    #[default]
    Policy,
    /// The paper's: any arm, each as likely.
    Uniform,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TcpRlConfig {
    /// The file of the actor's weights, its card beside it; absent: those that come with the
    /// program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<PathBuf>,
    /// The file of the weights of the network that tells changes, its card beside it; absent: those
    /// that come with the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_weights: Option<PathBuf>,
    /// The arm of a flow to a destination of which nothing is known; `random` draws one, as the
    /// paper does.
    pub first: String,
    /// The arms that may be picked, of those that the actor knows; all if empty.
    pub arms: Vec<String>,
    /// How long a step is, in milliseconds; 20 round trips at least.
    pub step_ms: u64,
    /// How long a flow's first step is, in milliseconds: 100 to 3,600,000, and no longer than
    /// `step_ms`. The step lasts 5 round trips at least.
    pub first_step_ms: u64,
    /// A flow looks for an arm for so many steps at most; those in which a switch had to wait do
    /// not count.
    pub trials_max: u32,
    /// Whether an arm is drawn by the actor's probabilities; otherwise the most likely one is
    /// picked. Training draws.
    pub draws: bool,
    pub detector: DetectorKind,
    /// A step counts as changed if the network's probability is above this.
    pub changed_above: f64,
    /// Steps in a row that must count as changed.
    pub agreements: u32,
    pub on_change: OnChange,
    /// Decides, says what it would do, and changes nothing.
    pub dry_run: bool,
}

impl Default for TcpRlConfig {
    fn default() -> Self {
        Self {
            weights: None,
            change_weights: None,
            first: "learned".to_owned(),
            arms: Vec::new(),
            step_ms: 5_000,
            first_step_ms: 500,
            trials_max: 3,
            draws: false,
            detector: DetectorKind::Learned,
            changed_above: 0.5,
            agreements: 2,
            on_change: OnChange::Policy,
            dry_run: false,
        }
    }
}

impl TcpRlConfig {
    pub fn validate(&self) -> Result<(), ConfigError> {
        let is_arm = |name: &String| remuda_algorithms::arm(name).is_some();
        let first = &self.first;
        let holds = first == RANDOM || is_arm(first);
        check(holds, "tcp_rl.first", first, "must be an arm, or `random`")?;
        let other = self.arms.iter().find(|name| !is_arm(name));
        let named = other.map_or("", |name| name.as_str());
        check(other.is_none(), "tcp_rl.arms", named, "must be arms")?;
        check_dwell("tcp_rl.step_ms", self.step_ms)?;
        check_dwell("tcp_rl.first_step_ms", self.first_step_ms)?;
        let (trials, agree) = (self.trials_max, self.agreements);
        check((1..=1_000).contains(&trials), "tcp_rl.trials_max", trials, "must be 1 to 1000")?;
        check((1..=1_000).contains(&agree), "tcp_rl.agreements", agree, "must be 1 to 1000")?;
        let above = self.changed_above;
        let is_share = (0.0..=1.0).contains(&above);
        check(is_share, "tcp_rl.changed_above", above, "must be 0 to 1")
    }
}
