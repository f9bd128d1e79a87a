//! The configuration of online models.

use super::drift::DriftRule;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

const FLOWS: RangeInclusive<u64> = 3..=100_000;
const TOLERANCE: RangeInclusive<f64> = 0.1..=10.0;
const THRESHOLD: RangeInclusive<f64> = 1.0..=1_000.0;

/// Whether models are compared on live flows and may replace each other, and when.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct OnlineConfig {
    /// True: compare models wherever samples are stored. False: the configured or shipped model
    /// drives all flows.
    pub enabled: bool,
    /// A candidate is judged after each flow, but not before this many.
    pub flows_min: u64,
    /// A candidate that is not better after this many flows is rejected.
    pub flows_max: u64,
    /// How far an error may deviate from the mean error, in standard deviations, before the excess
    /// adds up to a drift.
    pub drift_tolerance: f64,
    /// The sum of excess deviations that counts as a drift, in standard deviations.
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
    /// Checks each value; the message names key, value and allowed range.
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

    /// The rule by which a drift is detected.
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
