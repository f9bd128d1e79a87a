//! What a policy measured under an arm: a row of training data.

use crate::units::Time;

/// The measurements of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    pub span_s: f64,
    /// Payload delivered in the span.
    pub throughput_mbit_per_sec: f64,
    /// Payload lost in the span.
    pub lost_mbit_per_sec: f64,
    pub rtt_mean_ms: f64,
}

/// A span of a flow under one arm. The spans of a flow's samples follow each other without a gap,
/// except that a span without a delivery has no sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub arm: &'static str,
    pub from: Time,
    pub until: Time,
    pub seen: Seen,
    /// The features of the path at the end of the span, in the order of the policy's schema; NaN
    /// means unknown.
    pub features: Box<[f32]>,
}

/// The arm that was best for a path, by the measurements so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    pub arm: &'static str,
    /// From 0 (worst) to 1 (best possible).
    pub score: f64,
}
