//! The record of a download.

use ccp_agent::flow::Row;
use std::time::Duration;

/// The state of a download at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Since the download's first byte.
    pub at: Duration,
    pub received_bytes: u64,
    /// The arm that drives the download.
    pub arm: String,
    pub srtt_ms: Option<f64>,
    pub cwnd_pkts: u64,
}

/// A decision of a policy, with its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Since the download's first byte.
    pub at: Duration,
    /// The arm from then on.
    pub arm: String,
    pub why: String,
    pub features: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Index into [`super::paths::PATHS`].
    pub path: usize,
    pub driver: String,
    pub round: u32,
    /// Whether the whole file arrived. If not, `elapsed` is a lower bound.
    pub completed: bool,
    /// From the first byte sent to the last one received.
    pub elapsed: Duration,
    /// Bytes that arrived; each was compared with the byte sent.
    pub received_bytes: u64,
    pub retransmitted_pkts: u32,
    /// Bytes that had arrived, by time, about every 50 ms.
    pub progress: Vec<(Duration, u64)>,
    /// Samples of the flow, about every 100 ms; empty without an agent.
    pub samples: Vec<Sample>,
    /// In order of time.
    pub choices: Vec<Choice>,
}

impl Run {
    /// The arm that drove the flow at its end.
    pub fn last_arm(&self) -> &str {
        self.samples.last().map_or(&self.driver, |sample| &sample.arm)
    }
}

/// What is recorded while a download runs.
#[derive(Debug, Default)]
pub struct Notes {
    pub samples: Vec<Sample>,
    pub choices: Vec<Choice>,
}

impl Notes {
    pub fn take(&mut self, at: Duration, received_bytes: u64, row: &Row) {
        // Only a decision of a policy has features.
        let last = self.choices.last().map(|choice| (&choice.why, &choice.features));
        if !row.features.is_empty() && last != Some((&row.why, &row.features)) {
            let (why, features) = (row.why.clone(), row.features.clone());
            self.choices.push(Choice { at, arm: row.arm.clone(), why, features });
        }
        self.samples.push(Sample {
            at,
            received_bytes,
            arm: row.arm.clone(),
            srtt_ms: row.srtt_ms,
            cwnd_pkts: row.cwnd_pkts,
        });
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A download of 1 MB that `arms` drove one after the other.
    pub fn run(path: usize, driver: &str, elapsed_s: f64, arms: &[&str]) -> Run {
        let tenth =
            |n: usize| Duration::from_secs_f64(elapsed_s * n as f64 / arms.len().max(1) as f64);
        let sample = |(n, arm): (usize, &&str)| Sample {
            at: tenth(n),
            received_bytes: 100_000 * n as u64,
            arm: (*arm).to_owned(),
            srtt_ms: Some(40.0 + n as f64),
            cwnd_pkts: 10,
        };
        Run {
            path,
            driver: driver.to_owned(),
            round: 0,
            completed: true,
            elapsed: Duration::from_secs_f64(elapsed_s),
            received_bytes: 1_000_000,
            retransmitted_pkts: 3,
            progress: (1..=10).map(|n| (tenth(1) * n / 10, u64::from(n) * 100_000)).collect(),
            samples: arms.iter().enumerate().map(sample).collect(),
            choices: Vec::new(),
        }
    }

    fn row(arm: &str, why: &str, features: &[(&str, &str)]) -> Row {
        let features: Vec<_> = features.iter().map(|(name, value)| [*name, *value]).collect();
        let row = serde_json::json!({
            "id": 1, "datapath": "bpf", "local": "10.0.0.1:1", "remote": "10.0.0.2:2",
            "driver": "rein", "arm": arm, "program": "p", "cwnd_pkts": 10,
            "rate_mbit_per_sec": null, "delivery_mbit_per_sec": null, "srtt_ms": 40.0,
            "rtt_min_ms": 40.0, "lost_pkts": 0, "acked_bytes": 0, "reports": 1, "switches": 0,
            "state": "driven", "why": why, "features": features,
            "arm_for_s": 1.0, "guarded": null,
        });
        serde_json::from_value(row).expect("a row")
    }

    #[test]
    fn a_choice_is_noted_once_and_a_default_is_none() {
        let mut notes = Notes::default();
        let at = Duration::from_millis;
        notes.take(at(0), 0, &row("cubic", "the agent's default", &[]));
        for ms in [100, 200] {
            notes.take(at(ms), 1, &row("bbr", "small buffer", &[("queue_bdps", "0.9")]));
        }
        notes.take(at(300), 2, &row("bbr", "small buffer", &[("queue_bdps", "0.8")]));
        assert_eq!(notes.samples.len(), 4);
        let made: Vec<_> = notes.choices.iter().map(|choice| choice.at.as_millis()).collect();
        assert_eq!(made, [100, 300]);
    }

    #[test]
    fn the_last_arm_is_the_drivers_own_without_an_agent() {
        assert_eq!(run(0, "rein", 2.0, &["cubic", "bbr"]).last_arm(), "bbr");
        assert_eq!(run(0, "reno", 2.0, &[]).last_arm(), "reno");
    }
}
