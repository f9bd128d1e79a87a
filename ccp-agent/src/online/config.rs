//! What can be set of it.

use super::drift::DriftRule;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

const FLOWS: RangeInclusive<u64> = 3..=100_000;
const TOLERANCE: RangeInclusive<f64> = 0.1..=10.0;
const THRESHOLD: RangeInclusive<f64> = 1.0..=1_000.0;

/// Whether models are scored and may take over, and when.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct OnlineConfig {
    /// They are, wherever samples are kept; else the configured or shipped model has all flows.
    pub enabled: bool,
    /// A candidate is judged for the first time when so many flows have scored it, and again
    /// whenever they have doubled.
    pub flows_min: u64,
    /// One that is not better after so many is refused.
    pub flows_max: u64,
    /// How far what comes may wander from what usually comes, in standard deviations, before it
    /// adds up to a drift.
    pub drift_tolerance: f64,
    /// What is beyond that adds up to so many standard deviations: a drift.
    pub drift_threshold: f64,
}

impl Default for OnlineConfig {
    fn default() -> Self {
        let DriftRule { tolerance, threshold } = DriftRule::DEFAULT;
        Self {
            enabled: true,
            flows_min: 30,
            flows_max: 1_000,
            drift_tolerance: tolerance,
            drift_threshold: threshold,
        }
    }
}

fn within<T>(key: &str, value: T, range: &RangeInclusive<T>) -> Result<(), String>
where
    T: PartialOrd + std::fmt::Display,
{
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    Err(format!("online.{key} = {value}: it must lie in {least}..={most}"))
}

impl OnlineConfig {
    /// Checks every rule; the message names key, value and rule.
    pub fn check(&self) -> Result<(), String> {
        within("flows_min", self.flows_min, &FLOWS)?;
        within("flows_max", self.flows_max, &FLOWS)?;
        within("drift_tolerance", self.drift_tolerance, &TOLERANCE)?;
        within("drift_threshold", self.drift_threshold, &THRESHOLD)?;
        if self.flows_max < self.flows_min {
            let (most, least) = (self.flows_max, self.flows_min);
            let rule = format!("it must be at least online.flows_min, {least}");
            return Err(format!("online.flows_max = {most}: {rule}"));
        }
        Ok(())
    }

    /// When a drift is one.
    pub fn drift(&self) -> DriftRule {
        DriftRule { tolerance: self.drift_tolerance, threshold: self.drift_threshold }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_setting_is_named_with_its_value_and_the_rule() {
        let good = OnlineConfig::default;
        assert_eq!(good().check(), Ok(()));
        for (config, want) in [
            (OnlineConfig { flows_min: 2, ..good() }, "online.flows_min = 2: it must lie in 3..="),
            (OnlineConfig { flows_max: 7, ..good() }, "online.flows_max = 7: it must be at least"),
            (OnlineConfig { drift_tolerance: f64::NAN, ..good() }, "online.drift_tolerance = NaN"),
            (OnlineConfig { drift_threshold: 0.0, ..good() }, "online.drift_threshold = 0"),
        ] {
            let error = config.check().expect_err(want);
            assert!(error.starts_with(want), "{error}");
        }
    }
}
