//! Settings of initial windows. Where the paper has a value, it is the default.

use super::bandit::{ARMS_MAX, Rules};
use super::grouping::Requirement;
use super::record::{CWND_PKTS_MAX, STANDARD_PKTS};
use crate::{ConfigError, check};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Whether and how the initial window of each group of destinations is learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IwConfig {
    /// Learn initial windows, and begin flows with them.
    pub enabled: bool,
    /// A table of prefixes with ISP and region: CSV, or a MaxMind database if its name ends in
    /// `.mmdb`. Without it, groups are prefixes alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub geography: Option<PathBuf>,
    /// How often windows are chosen again, in seconds.
    pub interval_s: u64,
    /// How often groups are formed again from the stored records, in seconds.
    pub regroup_s: u64,
    /// The length of a time bin of a group's rewards, in seconds.
    pub bin_s: u64,
    /// The fewest records of a group in a time bin, and of a window in a round (S_min).
    pub samples_min: u64,
    /// The largest jitter of a group (T).
    pub jitter_max: f64,
    /// The weight of throughput in the reward; the rest is that of the round trip.
    pub alpha: f64,
    /// The discount of a reward by one round.
    pub gamma: f64,
    /// How much is explored (equation 3).
    pub xi: f64,
    /// The windows of a new group, in segments, ascending.
    pub arms_pkts: Vec<u32>,
    /// The step of the list of windows, in segments.
    pub step_pkts: u32,
    pub cwnd_pkts_min: u32,
    pub cwnd_pkts_max: u32,
    /// In this share of its rounds a group has the standard window of 10, to measure what is
    /// gained.
    pub control_share: f64,
    /// Longer flows are not recorded: their initial window matters little. In bytes.
    pub response_bytes_max: u64,
    /// Disk space for all files of records, in bytes; the oldest are deleted to stay below it.
    pub records_bytes_max: u64,
    /// How many records a minute are taken of one peer.
    pub peer_records_per_min_max: u32,
    /// How many records a minute are taken of the flows of one user; root's are not counted.
    pub user_records_per_min_max: u32,
    /// The most prefixes in the table of windows.
    pub table_entries_max: usize,
}

impl Default for IwConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            geography: None,
            interval_s: 300,
            regroup_s: 86_400,
            bin_s: 600,
            samples_min: 100,
            jitter_max: 0.1,
            alpha: 0.8,
            gamma: 0.98,
            xi: 0.1,
            arms_pkts: vec![5, 10, 15, 20],
            step_pkts: 5,
            cwnd_pkts_min: 2,
            cwnd_pkts_max: 200,
            control_share: 0.05,
            response_bytes_max: 1_000_000,
            records_bytes_max: 256 << 20,
            peer_records_per_min_max: 60,
            user_records_per_min_max: 6_000,
            table_entries_max: 10_000,
        }
    }
}

impl IwConfig {
    /// Checks every value. To be called once, after parsing.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let entries = u64::try_from(self.table_entries_max).unwrap_or(u64::MAX);
        for (key, value, least, most, rule) in [
            ("iw.interval_s", self.interval_s, 1, 86_400, "it must lie in 1..=86400"),
            ("iw.regroup_s", self.regroup_s, 10, 31_536_000, "it must lie in 10..=31536000"),
            ("iw.bin_s", self.bin_s, 1, 86_400, "it must lie in 1..=86400"),
            ("iw.samples_min", self.samples_min, 1, 1_000_000, "it must lie in 1..=1000000"),
            ("iw.step_pkts", self.step_pkts.into(), 1, 100, "it must lie in 1..=100"),
            (
                "iw.response_bytes_max",
                self.response_bytes_max,
                1,
                1 << 40,
                "it must lie in 1..=1099511627776",
            ),
            (
                "iw.records_bytes_max",
                self.records_bytes_max,
                1 << 20,
                1 << 40,
                "it must lie in 1048576..=1099511627776",
            ),
            (
                "iw.peer_records_per_min_max",
                self.peer_records_per_min_max.into(),
                1,
                1_000_000,
                "it must lie in 1..=1000000",
            ),
            (
                "iw.user_records_per_min_max",
                self.user_records_per_min_max.into(),
                1,
                10_000_000,
                "it must lie in 1..=10000000",
            ),
            ("iw.table_entries_max", entries, 1, 32_768, "it must lie in 1..=32768"),
        ] {
            check((least..=most).contains(&value), key, value, rule)?;
        }
        self.validate_shares()?;
        self.validate_windows()
    }

    fn validate_shares(&self) -> Result<(), ConfigError> {
        let shares = 0.0..=1.0;
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let rule = "it must lie in 0..=1";
        check(shares.contains(&self.alpha), "iw.alpha", self.alpha, rule)?;
        let key = "iw.control_share";
        check(shares.contains(&self.control_share), key, self.control_share, rule)?;
        let rule = "it must lie above 0 and be 1 at most";
        check(positive(self.gamma) && self.gamma <= 1.0, "iw.gamma", self.gamma, rule)?;
        let rule = "it must lie above 0 and be 100 at most";
        check(positive(self.xi) && self.xi <= 100.0, "iw.xi", self.xi, rule)?;
        check(positive(self.jitter_max), "iw.jitter_max", self.jitter_max, "it must lie above 0")
    }

    fn validate_windows(&self) -> Result<(), ConfigError> {
        let (least, most) = (self.cwnd_pkts_min, self.cwnd_pkts_max);
        let rule = "it must lie in 1..=10";
        check((1..=STANDARD_PKTS).contains(&least), "iw.cwnd_pkts_min", least, rule)?;
        let rule = "it must lie in 10..=1000";
        check((STANDARD_PKTS..=CWND_PKTS_MAX).contains(&most), "iw.cwnd_pkts_max", most, rule)?;
        let arms = &self.arms_pkts;
        let ascends = arms.windows(2).all(|pair| pair[0] < pair[1]);
        let is_within = arms.iter().all(|pkts| (least..=most).contains(pkts));
        check(
            (2..=ARMS_MAX).contains(&arms.len()) && ascends && is_within,
            "iw.arms_pkts",
            format!("{arms:?}"),
            "it must have 2 to 64 windows that ascend, within cwnd_pkts_min..=cwnd_pkts_max",
        )
    }

    pub(super) fn rules(&self) -> Rules {
        Rules {
            alpha: self.alpha,
            gamma: self.gamma,
            xi: self.xi,
            step_pkts: self.step_pkts,
            cwnd_pkts: (self.cwnd_pkts_min, self.cwnd_pkts_max),
        }
    }

    pub fn requirement(&self) -> Requirement {
        Requirement {
            samples_min: self.samples_min,
            jitter_max: self.jitter_max,
            alpha: self.alpha,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_value_is_refused_by_key() {
        IwConfig::default().validate().expect("defaults");
        for (text, part) in [
            ("interval_s = 0", "iw.interval_s = 0: it must lie in"),
            ("alpha = 1.5", "iw.alpha = 1.5: it must lie in 0..=1"),
            ("gamma = 0.0", "iw.gamma = 0: it must lie above 0"),
            ("xi = nan", "iw.xi = NaN"),
            ("jitter_max = inf", "iw.jitter_max = inf"),
            ("control_share = -0.1", "iw.control_share = -0.1"),
            ("arms_pkts = [10]", "iw.arms_pkts = [10]: it must have 2 to 64"),
            ("arms_pkts = [10, 5]", "iw.arms_pkts = [10, 5]"),
            ("arms_pkts = [5, 300]", "iw.arms_pkts = [5, 300]"),
            ("cwnd_pkts_max = 10000", "iw.cwnd_pkts_max = 10000: it must lie in 10..=1000"),
            ("cwnd_pkts_min = 0", "iw.cwnd_pkts_min = 0"),
            ("table_entries_max = 40000", "iw.table_entries_max = 40000"),
        ] {
            let config: IwConfig = toml::from_str(text).expect(text);
            let error = config.validate().expect_err(text).to_string();
            assert!(error.starts_with(part), "{error}");
        }
        toml::from_str::<IwConfig>("apha = 1.0").expect_err("an unknown key");
    }
}
