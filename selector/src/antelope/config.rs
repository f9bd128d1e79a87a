//! Settings of Antelope's decisions.

use crate::{ConfigError, check};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AntelopeConfig {
    /// The file of the model; absent: the one that comes with the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// The arm of a flow to a destination of which nothing is known; absent: the model's home arm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Decisions in a row that must agree, the paper's M.
    pub agreements: u32,
    /// The least time between two decisions, in milliseconds.
    pub decide_ms: u64,
    /// Data units of an arm before the first decision about it.
    pub units_min: u32,
    /// How much better the next arm must be, in hundredths of the best arm's reward.
    pub margin_percent: f64,
    /// An arm's gain over the home arm counts less by this many standard deviations of the error
    /// that the model expects of the gain.
    pub caution: f64,
    /// Where more is lost, in per cent of what is sent, and more than 20 flows go along, arms that
    /// do not answer losses get no flow; 100: they always may.
    pub lost_percent_max: f64,
    /// A flow older than this, in seconds, tries another arm now and then.
    pub explore_after_s: u64,
    /// So many seconds lie between two such tries; 0: none.
    pub explore_every_s: u64,
    /// Decides, says what it would do, and changes nothing.
    pub dry_run: bool,
}

impl Default for AntelopeConfig {
    fn default() -> Self {
        Self {
            model: None,
            first: None,
            agreements: 4,
            decide_ms: 250,
            units_min: 1,
            margin_percent: 3.0,
            caution: 0.5,
            lost_percent_max: 10.0,
            explore_after_s: 10,
            explore_every_s: 0,
            dry_run: false,
        }
    }
}

impl AntelopeConfig {
    pub fn validate(&self) -> Result<(), ConfigError> {
        if let Some(first) = &self.first {
            let is_arm = remuda_algorithms::arm(first).is_some();
            check(is_arm, "antelope.first", first, "must be an arm")?;
        }
        let (m, units) = (self.agreements, self.units_min);
        check((1..=1_000).contains(&m), "antelope.agreements", m, "must be 1 to 1000")?;
        check((1..=1_000).contains(&units), "antelope.units_min", units, "must be 1 to 1000")?;
        let ms = self.decide_ms;
        check((1..=60_000).contains(&ms), "antelope.decide_ms", ms, "must be 1 to 60000")?;
        let margin = self.margin_percent;
        let is_share = (0.0..=100.0).contains(&margin);
        check(is_share, "antelope.margin_percent", margin, "must be 0 to 100")?;
        let caution = self.caution;
        check((0.0..=10.0).contains(&caution), "antelope.caution", caution, "must be 0 to 10")?;
        let lost = self.lost_percent_max;
        let is_share = (0.0..=100.0).contains(&lost);
        check(is_share, "antelope.lost_percent_max", lost, "must be 0 to 100")?;
        let (after, every) = (self.explore_after_s, self.explore_every_s);
        check(after >= 10, "antelope.explore_after_s", after, "must be at least 10")?;
        let rare = every == 0 || every >= 10;
        check(rare, "antelope.explore_every_s", every, "must be 0 or at least 10")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_setting_is_named_with_its_value_and_the_rule() {
        for (config, want) in [
            (
                AntelopeConfig { first: Some("x".to_owned()), ..Default::default() },
                "antelope.first = x",
            ),
            (AntelopeConfig { agreements: 0, ..Default::default() }, "antelope.agreements = 0"),
            (AntelopeConfig { decide_ms: 0, ..Default::default() }, "antelope.decide_ms = 0"),
            (AntelopeConfig { units_min: 0, ..Default::default() }, "antelope.units_min = 0"),
            (
                AntelopeConfig { margin_percent: f64::NAN, ..Default::default() },
                "antelope.margin_percent = NaN",
            ),
            (AntelopeConfig { caution: -1.0, ..Default::default() }, "antelope.caution = -1"),
            (
                AntelopeConfig { lost_percent_max: 101.0, ..Default::default() },
                "antelope.lost_percent_max = 101",
            ),
            (
                AntelopeConfig { explore_after_s: 1, ..Default::default() },
                "antelope.explore_after_s = 1",
            ),
        ] {
            let error = config.validate().expect_err(want).to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }
}
