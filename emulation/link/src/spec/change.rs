//! Changes at given moments: rate steps, outages, path changes, loss.
//!
//! Moments count from the start of the link. With a period, the changes repeat; each round begins
//! with the values at the start.

use super::error::{SpecError, check};
use crate::schedule::Schedule;
use crate::time::Nanos;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const TIME_S_MAX: f64 = 1e8;
const PERIOD_S_MIN: f64 = 1e-3;
/// The largest share of a period that outages may take, so that the link can still send.
const OUT_SHARE_MAX: f64 = 0.99;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// In seconds since the start of the link, or of the period if there is one.
    pub at_s: f64,
    pub rate_mbit_per_sec: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayStep {
    /// In seconds since the start of the link, or of the period if there is one.
    pub at_s: f64,
    /// The one-way propagation delay of packets that leave the bottleneck from then on.
    pub delay_ms: f64,
}

/// Recorded delays, replayed from the start of the link and again after their end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayTraceSpec {
    /// What `ping -D` printed, or a CSV of seconds and milliseconds.
    pub file: PathBuf,
    pub of: DelayOf,
}

/// What a recorded delay is a delay of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayOf {
    /// The round trip: this link takes what the other direction's `delay_ms` leaves of it.
    Rtt,
    /// A series of delays of this direction alone.
    OneWay,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossStep {
    /// In seconds since the start of the link, or of the period if there is one.
    pub at_s: f64,
    /// The share of packets lost independently from then on.
    pub loss_percent: f64,
}

/// A time in which no packet leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageSpec {
    /// In seconds since the start of the link, or of the period if there is one.
    pub at_s: f64,
    pub duration_s: f64,
}

/// A list of changes, with its key and its period.
#[derive(Debug)]
pub(super) struct Changes<'a, T> {
    pub(super) key: &'static str,
    pub(super) list: &'a [T],
    pub(super) period_s: Option<f64>,
}

impl<T> Changes<'_, T> {
    /// Checks the period, and that the moments (start and end of each change, in seconds) rise.
    fn check_moments(&self, span: impl Fn(&T) -> (f64, f64)) -> Result<(), SpecError> {
        if let Some(period_s) = self.period_s {
            let key = format!("{}_period_s", self.key);
            check(!self.list.is_empty(), &key, period_s, "needs the list that it repeats")?;
            let fits = (PERIOD_S_MIN..=TIME_S_MAX).contains(&period_s);
            check(fits, &key, period_s, "must be between 0.001 and 100000000")?;
        }
        let mut before = f64::NEG_INFINITY;
        for (index, item) in self.list.iter().enumerate() {
            let (at_s, end_s) = span(item);
            let key = self.item(index, "at_s");
            let fits = (0.0..=TIME_S_MAX).contains(&at_s);
            check(fits, &key, at_s, "must be between 0 and 100000000")?;
            check(at_s >= before, &key, at_s, "must come after the one before it, and its end")?;
            let fits = self.period_s.is_none_or(|period_s| end_s <= period_s && at_s < period_s);
            check(fits, &key, at_s, "must lie within the period, to its end")?;
            before = if end_s > at_s { end_s } else { at_s.next_up() };
        }
        Ok(())
    }

    fn item(&self, index: usize, key: &str) -> String {
        format!("{}[{index}].{key}", self.key)
    }

    fn schedule<V: Copy>(&self, first: V, steps: Vec<(Nanos, V)>) -> Option<Schedule<V>> {
        let period = self.period_s.map(seconds);
        (!self.list.is_empty()).then(|| Schedule::new(first, steps, period))
    }
}

impl Changes<'_, RateStep> {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        self.check_moments(|step| (step.at_s, step.at_s))?;
        for (index, step) in self.list.iter().enumerate() {
            let key = self.item(index, "rate_mbit_per_sec");
            super::check_rate(&key, step.rate_mbit_per_sec)?;
        }
        Ok(())
    }

    pub(super) fn rates(&self, first: u64) -> Option<Schedule<u64>> {
        let rate = |step: &RateStep| super::bits_per_sec(step.rate_mbit_per_sec);
        self.schedule(first, self.list.iter().map(|it| (seconds(it.at_s), rate(it))).collect())
    }
}

impl Changes<'_, DelayStep> {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        self.check_moments(|step| (step.at_s, step.at_s))?;
        for (index, step) in self.list.iter().enumerate() {
            super::check_span(&self.item(index, "delay_ms"), step.delay_ms)?;
        }
        Ok(())
    }

    pub(super) fn delays(&self, first: Nanos) -> Option<Schedule<Nanos>> {
        let delay = |step: &DelayStep| Nanos::from_millis_f64(step.delay_ms);
        self.schedule(first, self.list.iter().map(|it| (seconds(it.at_s), delay(it))).collect())
    }
}

impl Changes<'_, LossStep> {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        self.check_moments(|step| (step.at_s, step.at_s))?;
        for (index, step) in self.list.iter().enumerate() {
            super::percent(&self.item(index, "loss_percent"), step.loss_percent)?;
        }
        Ok(())
    }

    pub(super) fn losses(&self, first: f64) -> Option<Schedule<f64>> {
        let loss = |step: &LossStep| (seconds(step.at_s), step.loss_percent);
        self.schedule(first, self.list.iter().map(loss).collect())
    }
}

impl Changes<'_, OutageSpec> {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        for (index, outage) in self.list.iter().enumerate() {
            let fits = outage.duration_s > 0.0 && outage.duration_s <= TIME_S_MAX;
            let rule = "must be above 0 and at most 100000000";
            check(fits, &self.item(index, "duration_s"), outage.duration_s, rule)?;
        }
        self.check_moments(|outage| (outage.at_s, outage.at_s + outage.duration_s))?;
        let out_s: f64 = self.list.iter().map(|outage| outage.duration_s).sum();
        if let Some(period_s) = self.period_s {
            let key = format!("{}_period_s", self.key);
            let rule = "must leave a hundredth of it without an outage";
            check(out_s <= OUT_SHARE_MAX * period_s, &key, period_s, rule)?;
        }
        Ok(())
    }

    /// A schedule that is true during each outage.
    pub(super) fn outages(&self) -> Option<Schedule<bool>> {
        let steps = self.list.iter().flat_map(|outage| {
            let end_s = outage.at_s + outage.duration_s;
            [(seconds(outage.at_s), true), (seconds(end_s), false)]
        });
        self.schedule(false, steps.collect())
    }
}

fn seconds(seconds: f64) -> Nanos {
    Nanos::from_millis_f64(seconds * 1e3)
}
