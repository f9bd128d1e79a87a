//! What the guard, or an arm, did last against a policy or an operator.

use remuda_algorithms::units::Time;
use serde::{Deserialize, Serialize};

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
pub(super) struct Intervention {
    pub at: Time,
    pub against: String,
    pub undone: bool,
    pub reason: String,
}
