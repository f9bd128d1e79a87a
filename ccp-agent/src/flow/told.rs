//! What a flow says of itself beside its figures: since when it has its arm, what the guard did.

use super::Flow;
use remuda_algorithms::units::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the guard, or an arm, did last against a policy or an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guarded {
    /// The arm or policy that was refused, or whose switch was undone.
    pub against: String,
    /// Whether a switch was undone; otherwise it was refused.
    pub undone: bool,
    pub reason: String,
    /// How long ago, in seconds.
    pub ago_s: f64,
}

/// The same, at its moment.
#[derive(Clone, Debug)]
pub(super) struct Intervened {
    pub at: Time,
    pub against: String,
    pub undone: bool,
    pub reason: String,
}

impl Flow {
    /// For how long its arm has it.
    pub fn arm_for(&self) -> Duration {
        self.now() - self.arm_since
    }

    /// What the guard did last.
    pub fn guarded(&self) -> Option<Guarded> {
        let Intervened { at, against, undone, reason } = self.intervened.clone()?;
        Some(Guarded { against, undone, reason, ago_s: (self.now() - at).as_secs_f64() })
    }
}
