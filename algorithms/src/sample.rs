//! What a policy saw of an arm: a row to learn from.

use crate::units::Time;

/// What was seen over a span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    pub span_s: f64,
    /// Payload delivered over it.
    pub throughput_mbit_per_sec: f64,
    /// Payload lost over it.
    pub lost_mbit_per_sec: f64,
    pub rtt_mean_ms: f64,
}

/// An arm had a flow for a span. The spans of a flow's samples follow each other without a gap, but
/// for those in which nothing was delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The arm that had it.
    pub arm: &'static str,
    /// When the span began.
    pub from: Time,
    pub until: Time,
    /// What was seen over it.
    pub seen: Seen,
    /// What the policy knew of the path at its end, in the order of the policy's schema; a NaN is
    /// not known.
    pub features: Box<[f32]>,
}

/// The arm that suits a path best, as far as it has been seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    pub arm: &'static str,
    /// How well: 1 is as well as can be, 0 not at all.
    pub score: f64,
}
