//! What a flow that has ended says about its arm.

use ccp_agent::rules::Group;
use serde::Deserialize;

/// A flow that has ended, of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The rule's name, with what it uses and what it matches: a rule that was changed is another.
    pub rule: String,
    pub group: Group,
    acked_bytes: u64,
    lost_pkts: u64,
    duration_s: f64,
    rtt_ms: Option<f64>,
    mss_bytes: u64,
}

/// One line of the event log.
#[derive(Deserialize)]
struct Line {
    event: String,
    #[serde(default)]
    rule: Option<String>,
    #[serde(default)]
    rule_use: String,
    #[serde(default)]
    rule_on: String,
    /// Another rule, or no rule, counted for the flow earlier.
    #[serde(default)]
    rule_changed: bool,
    #[serde(default)]
    group: Option<Group>,
    #[serde(default)]
    acked_bytes: u64,
    #[serde(default)]
    lost_pkts: u64,
    #[serde(default)]
    duration_ms: f64,
    #[serde(default)]
    rtt_ms: Option<f64>,
    #[serde(default)]
    mss_bytes: u64,
}

impl Flow {
    /// Reads a line of the event log. `None` for another event, and for a flow whose rule changed.
    pub fn parse(line: &str) -> Result<Option<Self>, serde_json::Error> {
        let line: Line = serde_json::from_str(line)?;
        let (Some(rule), Some(group), "closed") = (line.rule, line.group, &*line.event) else {
            return Ok(None);
        };
        if line.rule_changed {
            return Ok(None);
        }
        Ok(Some(Self {
            rule: format!("{rule}: {} ({})", line.rule_use, line.rule_on),
            group,
            acked_bytes: line.acked_bytes,
            lost_pkts: line.lost_pkts,
            duration_s: line.duration_ms / 1e3,
            rtt_ms: line.rtt_ms,
            mss_bytes: line.mss_bytes,
        }))
    }

    fn moves_data(&self) -> bool {
        self.acked_bytes > 0 && self.duration_s > 0.0
    }

    fn time_of(&self, from_bytes: u64, to_bytes: u64) -> Option<f64> {
        let is_of_size = (from_bytes..to_bytes).contains(&self.acked_bytes);
        (is_of_size && self.moves_data()).then(|| self.duration_s.ln())
    }
}

/// What one column of outcomes measures of a flow.
pub struct Measure {
    pub name: &'static str,
    pub of: fn(&Flow) -> Option<f64>,
    pub is_logarithm: bool,
    pub more_is_better: bool,
    /// A flow's outcome that lies outside this range counts as the nearer end.
    pub least: f64,
    pub most: f64,
}

/// 10 kB/s to 1 GB/s, as logarithms of bytes per second.
const GOODPUT: (f64, f64) = (9.2, 20.7);
/// 1 ms to 100 s, as logarithms of seconds.
const TIME: (f64, f64) = (-6.9, 4.6);
/// 0.1 ms to 10 s, as logarithms of milliseconds.
const ROUND_TRIP: (f64, f64) = (-2.3, 9.2);

const KB: u64 = 1_000;
const MB: u64 = 1_000 * KB;

/// Goodput, completion time by size, round trip, and loss.
pub const MEASURES: [Measure; 6] = [
    Measure {
        name: "goodput",
        of: |flow| flow.moves_data().then(|| (flow.acked_bytes as f64 / flow.duration_s).ln()),
        is_logarithm: true,
        more_is_better: true,
        least: GOODPUT.0,
        most: GOODPUT.1,
    },
    Measure {
        name: "time up to 100 kB",
        of: |flow| flow.time_of(0, 100 * KB),
        is_logarithm: true,
        more_is_better: false,
        least: TIME.0,
        most: TIME.1,
    },
    Measure {
        name: "time of 100 kB to 1 MB",
        of: |flow| flow.time_of(100 * KB, MB),
        is_logarithm: true,
        more_is_better: false,
        least: TIME.0,
        most: TIME.1,
    },
    Measure {
        name: "time of 1 to 10 MB",
        of: |flow| flow.time_of(MB, 10 * MB),
        is_logarithm: true,
        more_is_better: false,
        least: TIME.0,
        most: TIME.1,
    },
    Measure {
        name: "round trip",
        of: |flow| flow.rtt_ms.filter(|ms| *ms > 0.0).map(f64::ln),
        is_logarithm: true,
        more_is_better: false,
        least: ROUND_TRIP.0,
        most: ROUND_TRIP.1,
    },
    Measure {
        name: "loss",
        of: |flow| {
            let lost = flow.lost_pkts.saturating_mul(flow.mss_bytes) as f64;
            flow.moves_data().then(|| lost / (lost + flow.acked_bytes as f64))
        },
        is_logarithm: false,
        more_is_better: false,
        least: 0.0,
        most: 1.0,
    },
];
