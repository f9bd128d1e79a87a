//! The tables and their columns.

use crate::column;
use crate::column::Column;
use remuda_scenarios::outcome::{
    Decided, FlowOutcome, FlowSample, LinkOutcome, LinkSample, Outcome,
};

/// The tables of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// A row for each flow.
    Flows,
    /// A row for each link.
    Links,
    /// A row for each change of a flow's arm.
    Switches,
    /// A row for each decision about a flow's arm.
    Decisions,
    /// A row for each sample of a flow.
    FlowSamples,
    /// A row for each sample of a link.
    LinkSamples,
}

impl Table {
    pub const ALL: [Self; 6] = [
        Self::Flows,
        Self::Links,
        Self::Switches,
        Self::Decisions,
        Self::FlowSamples,
        Self::LinkSamples,
    ];

    /// The table's name, which is the stem of its Parquet file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Links => "links",
            Self::Switches => "switches",
            Self::Decisions => "decisions",
            Self::FlowSamples => "flow_samples",
            Self::LinkSamples => "link_samples",
        }
    }
}

/// A change of arm, with its flow.
#[derive(Default)]
pub(crate) struct SwitchRow {
    pub flow: u32,
    pub t_s: f64,
    pub from: String,
    pub to: String,
    pub why: String,
}

/// The changes of all flows, ordered by flow and time.
pub(crate) fn switch_rows(outcome: &Outcome) -> Vec<SwitchRow> {
    let of_flow = |of: &FlowOutcome| {
        let flow = of.flow;
        let row = |it: &remuda_scenarios::outcome::Switch| SwitchRow {
            flow,
            t_s: it.t_s,
            from: it.from.clone(),
            to: it.to.clone(),
            why: it.why.clone(),
        };
        of.switches.iter().map(row).collect::<Vec<_>>()
    };
    outcome.flows.iter().flat_map(of_flow).collect()
}

/// A decision, with its flow; its features are a JSON object of texts.
#[derive(Default)]
pub(crate) struct DecisionRow {
    pub flow: u32,
    pub t_s: f64,
    pub became: String,
    pub arm: String,
    pub to: String,
    pub why: String,
    pub features: String,
}

/// The decisions of all flows, ordered by flow and time.
pub(crate) fn decision_rows(outcome: &Outcome) -> Vec<DecisionRow> {
    let of_flow = |of: &FlowOutcome| {
        let flow = of.flow;
        let row = |it: &Decided| DecisionRow {
            flow,
            t_s: it.t_s,
            became: it.became.name().to_owned(),
            arm: it.arm.clone(),
            to: it.to.clone(),
            why: it.why.clone(),
            features: serde_json::to_string(&it.features).expect("texts by name are JSON"),
        };
        of.decisions.iter().map(row).collect::<Vec<_>>()
    };
    outcome.flows.iter().flat_map(of_flow).collect()
}

pub(crate) const FLOWS: &[Column<FlowOutcome>] = &[
    column!(flow: U32, "index"),
    column!(name: Text),
    column!(driver: Text),
    column!(arm: Text),
    column!(start_s: F64, "s"),
    column!(end_s: Maybe, "s"),
    column!(delivered_bytes: U64, "bytes"),
    column!(goodput_mbit_per_sec: F64, "Mbit/s"),
    column!(sent_pkts: U64, "packets"),
    column!(retransmitted_pkts: U64, "packets"),
    column!(lost_pkts: U64, "packets"),
    column!(timeouts: U64, "count"),
    column!(ecn_marked_pkts: U64, "packets"),
    column!(rtt_min_ms: Maybe, "ms"),
    column!(rtt_mean_ms: Maybe, "ms"),
    column!(rtt_p50_ms: Maybe, "ms"),
    column!(rtt_p95_ms: Maybe, "ms"),
    column!(rtt_p99_ms: Maybe, "ms"),
    column!(one_way_mean_ms: Maybe, "ms"),
    column!(one_way_p50_ms: Maybe, "ms"),
    column!(one_way_p95_ms: Maybe, "ms"),
    column!(one_way_p99_ms: Maybe, "ms"),
    column!(reports: U64, "count"),
    column!(decisions_left_out: U64, "count"),
];

pub(crate) const LINKS: &[Column<LinkOutcome>] = &[
    column!(name: Text),
    column!(packets_in: U64, "packets"),
    column!(packets_out: U64, "packets"),
    column!(bytes_out: U64, "bytes"),
    column!(dropped_pkts: U64, "packets"),
    column!(marked_pkts: U64, "packets"),
    column!(queueing_mean_ms: F64, "ms"),
    column!(queueing_p50_ms: F64, "ms"),
    column!(queueing_p95_ms: F64, "ms"),
    column!(queueing_p99_ms: F64, "ms"),
    column!(queueing_max_ms: F64, "ms"),
    column!(queue_packets_max: U64, "packets"),
];

pub(crate) const SWITCHES: &[Column<SwitchRow>] = &[
    column!(flow: U32, "index"),
    column!(t_s: F64, "s"),
    column!(from: Text),
    column!(to: Text),
    column!(why: Text),
];

pub(crate) const DECISIONS: &[Column<DecisionRow>] = &[
    column!(flow: U32, "index"),
    column!(t_s: F64, "s"),
    column!(became: Text),
    column!(arm: Text),
    column!(to: Text),
    column!(why: Text),
    column!(features: Text),
];

pub(crate) const FLOW_SAMPLES: &[Column<FlowSample>] = &[
    column!(t_s: F64, "s"),
    column!(flow: U32, "index"),
    column!(arm: Text),
    column!(cwnd_pkts: F64, "packets"),
    column!(pacing_mbit_per_sec: Maybe, "Mbit/s"),
    column!(srtt_ms: Maybe, "ms"),
    column!(in_flight_pkts: U32, "packets"),
    column!(delivered_bytes: U64, "bytes"),
    column!(retransmitted_pkts: U64, "packets"),
];

pub(crate) const LINK_SAMPLES: &[Column<LinkSample>] = &[
    column!(t_s: F64, "s"),
    column!(link: U32, "index"),
    column!(queue_packets: U64, "packets"),
    column!(queue_bytes: U64, "bytes"),
];
