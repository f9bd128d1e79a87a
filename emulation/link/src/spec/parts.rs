//! The smaller parts of a link: bursty loss, a policer, detours, aggregation.

use super::error::{SpecError, check, percent};
use super::{FULL_PACKET_BYTES, bits_per_sec, check_rate, check_span};
use crate::aggregation::Aggregation;
use crate::loss::GilbertElliott;
use crate::policer::Policer;
use crate::reordering::Reordering;
use crate::time::Nanos;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// A gigabyte: its tokens still fit 64 bits.
const BURST_BYTES_MAX: u64 = 1_000_000_000;

/// Bursty loss; see [`GilbertElliott`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliottSpec {
    /// Probability, per packet, to leave the good state.
    pub good_to_bad_percent: f64,
    /// Probability, per packet, to leave the bad state.
    pub bad_to_good_percent: f64,
    #[serde(default)]
    pub loss_good_percent: f64,
    #[serde(default = "all")]
    pub loss_bad_percent: f64,
}

fn all() -> f64 {
    100.0
}

impl GilbertElliottSpec {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        percent("gilbert_elliott.good_to_bad_percent", self.good_to_bad_percent)?;
        percent("gilbert_elliott.bad_to_good_percent", self.bad_to_good_percent)?;
        percent("gilbert_elliott.loss_good_percent", self.loss_good_percent)?;
        percent("gilbert_elliott.loss_bad_percent", self.loss_bad_percent)
    }

    /// The share of packets lost in the long run: p / (p + r) of them meet the bad state.
    pub fn mean_loss_percent(&self) -> f64 {
        let (p, r) = (self.good_to_bad_percent, self.bad_to_good_percent);
        if p == 0.0 {
            return self.loss_good_percent;
        }
        let bad = p / (p + r);
        (1.0 - bad) * self.loss_good_percent + bad * self.loss_bad_percent
    }

    pub(super) fn channel(&self) -> GilbertElliott {
        GilbertElliott {
            good_to_bad_percent: self.good_to_bad_percent,
            bad_to_good_percent: self.bad_to_good_percent,
            loss_good_percent: self.loss_good_percent,
            loss_bad_percent: self.loss_bad_percent,
        }
    }
}

/// A token bucket that drops packets beyond its rate and burst, before the queue; see [`Policer`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicerSpec {
    /// The rate of IP bytes.
    pub rate_mbit_per_sec: f64,
    /// The most bytes that pass at once after an idle time.
    pub burst_bytes: u64,
}

impl PolicerSpec {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        check_rate("policer.rate_mbit_per_sec", self.rate_mbit_per_sec)?;
        let fits = (FULL_PACKET_BYTES..=BURST_BYTES_MAX).contains(&self.burst_bytes);
        let rule = "must be between 1500, or no full packet passes, and 1000000000";
        check(fits, "policer.burst_bytes", self.burst_bytes, rule)
    }

    pub(super) fn build(&self) -> Policer {
        Policer::new(bits_per_sec(self.rate_mbit_per_sec), self.burst_bytes)
    }
}

/// A share of the packets that travels longer, and may be overtaken; see [`Reordering`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReorderingSpec {
    pub percent: f64,
    /// How much longer these packets travel than the others.
    pub extra_ms: f64,
}

impl ReorderingSpec {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        percent("reordering.percent", self.percent)?;
        check_span("reordering.extra_ms", self.extra_ms)
    }

    pub(super) fn build(&self, rng: ChaCha8Rng) -> Reordering {
        Reordering::new(self.percent, Nanos::from_millis_f64(self.extra_ms), rng)
    }
}

/// Arrived packets that are released together; see [`Aggregation`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregationSpec {
    /// Held packets are released at every multiple of this since the start,
    pub interval_ms: f64,
    /// and as soon as this many are held. `None`: only at the multiples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_max: Option<u64>,
}

impl AggregationSpec {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        // A microsecond; a shorter interval could round to zero.
        let fits = (0.001..=super::DELAY_MS_MAX).contains(&self.interval_ms);
        let rule = "must be between 0.001 and 60000";
        check(fits, "aggregation.interval_ms", self.interval_ms, rule)?;
        let rule = "must be at least 1, or no packet arrives";
        check(self.packets_max != Some(0), "aggregation.packets_max", 0, rule)
    }

    pub(super) fn build(&self) -> Aggregation {
        Aggregation {
            interval: Nanos::from_millis_f64(self.interval_ms),
            packets_max: self.packets_max.map(|max| usize::try_from(max).unwrap_or(usize::MAX)),
        }
    }
}
