//! The queue before the bottleneck, as a spec describes it.

use super::error::{SpecError, check};
use super::{DELAY_MS_MAX, FULL_PACKET_BYTES};
use crate::queue::{CoDelParams, Discipline, FqCoDelParams, Limit, PieParams, RedParams, RedUnit};
use crate::time::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A larger queue is practically infinite: use `infinite`.
const LIMIT_BDP_MAX: f64 = 100_000.0;
/// Far above the 1024 of RFC 8290, and still a table of moderate size.
const FLOWS_MAX: u32 = 1 << 20;
/// A microsecond. Shorter intervals of a queue discipline would take all of a processor.
const SPAN_MS_MIN: f64 = 0.001;
/// Below the smallest packet, turns would pass without a packet being sent.
const QUANTUM_BYTES_MIN: u32 = 40;
/// Above the largest IP packet, a longer turn has no use.
const QUANTUM_BYTES_MAX: u32 = 65_536;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueKind {
    #[default]
    Infinite,
    /// Drops arriving packets that do not fit.
    DropTail,
    /// Drops its oldest packets to make room for an arriving one.
    DropHead,
    CoDel,
    Pie,
    #[serde(rename = "fq-codel")]
    FqCoDel,
    /// Random early detection: Floyd and Jacobson 1993.
    Red,
}

impl QueueKind {
    /// The name in Mahimahi's logs, or in its style.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Infinite => "infinite",
            Self::DropTail => "droptail",
            Self::DropHead => "drophead",
            Self::CoDel => "codel",
            Self::Pie => "pie",
            Self::FqCoDel => "fq-codel",
            Self::Red => "red",
        }
    }
}

/// The queue before the bottleneck. Every kind except `infinite` needs a limit. If several limits
/// are set, all hold.
///
/// On a link with a rate, the packet in transmission has left the queue and is not counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSpec {
    pub kind: QueueKind,
    /// At most this many packets wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_packets: Option<u64>,
    /// At most this many bytes wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// At most this many bandwidth-delay products wait. The product is the link's (mean) rate times
    /// the round trip, which is the sum of `delay_ms` of both directions; at least one full packet.
    /// Rate and delay steps do not change it: the values at the start count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bdp: Option<f64>,
    /// CoDel, FQ-CoDel: the acceptable standing delay (5). PIE: the delay to hold (15).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ms: Option<f64>,
    /// CoDel, FQ-CoDel: how long the delay may stand above the target.
    pub interval_ms: f64,
    /// CoDel, FQ-CoDel, PIE, RED: mark packets of ECN-capable senders instead of dropping them.
    pub ecn: bool,
    /// Infinite, drop-tail: marks an arriving packet of an ECN-capable sender if more than this
    /// many packets wait (DCTCP's K).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn_threshold_packets: Option<u64>,
    /// PIE: the time between updates of the probability (15).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_ms: Option<f64>,
    /// PIE: how long a burst passes without drops (150).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_ms: Option<f64>,
    /// FQ-CoDel: how many queues flows are hashed into (1024).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// FQ-CoDel: how many bytes a queue may send in its turn (1514).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum_bytes: Option<u32>,
    /// RED: no packet is dropped while the average queue is shorter than this (5, or a third of the
    /// maximum).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_packets: Option<u64>,
    /// RED: the average queue at which the drop probability reaches `drop_percent_max` (three times
    /// the minimum).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_packets: Option<u64>,
    /// RED: like `min_packets`, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_bytes: Option<u64>,
    /// RED: like `max_packets`, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// RED: the probability of a drop or mark at the maximum (10).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop_percent_max: Option<f64>,
    /// RED: the weight of a new length in the average (0.002).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// RED: from the maximum to twice the maximum, the probability rises to 1 instead of jumping
    /// (true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gentle: Option<bool>,
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self {
            kind: QueueKind::Infinite,
            limit_packets: None,
            limit_bytes: None,
            limit_bdp: None,
            target_ms: None,
            interval_ms: 100.0,
            ecn: false,
            ecn_threshold_packets: None,
            update_ms: None,
            burst_ms: None,
            flows: None,
            quantum_bytes: None,
            min_packets: None,
            max_packets: None,
            min_bytes: None,
            max_bytes: None,
            drop_percent_max: None,
            weight: None,
            gentle: None,
        }
    }
}

impl QueueSpec {
    /// A drop-tail queue of this many packets.
    pub fn droptail_packets(packets: u64) -> Self {
        Self { kind: QueueKind::DropTail, limit_packets: Some(packets), ..Self::default() }
    }

    /// A drop-tail queue of this many bytes.
    pub fn droptail_bytes(bytes: u64) -> Self {
        Self { kind: QueueKind::DropTail, limit_bytes: Some(bytes), ..Self::default() }
    }

    /// A drop-tail queue of this many bandwidth-delay products.
    pub fn droptail_bdp(bdp: f64) -> Self {
        Self { kind: QueueKind::DropTail, limit_bdp: Some(bdp), ..Self::default() }
    }

    pub(super) fn validate(&self) -> Result<(), SpecError> {
        self.validate_limits()?;
        self.validate_use()?;
        let spans = [
            ("queue.target_ms", self.target_ms),
            ("queue.interval_ms", Some(self.interval_ms)),
            ("queue.update_ms", self.update_ms),
        ];
        for (key, span_ms) in spans.into_iter().filter_map(|(key, span)| Some((key, span?))) {
            let rule = "must be at least 0.001 and at most 60000";
            check((SPAN_MS_MIN..=DELAY_MS_MAX).contains(&span_ms), key, span_ms, rule)?;
        }
        if let Some(burst_ms) = self.burst_ms {
            super::check_span("queue.burst_ms", burst_ms)?;
        }
        if let Some(flows) = self.flows {
            let rule = "must be between 1 and 1048576";
            check((1..=FLOWS_MAX).contains(&flows), "queue.flows", flows, rule)?;
        }
        if let Some(quantum) = self.quantum_bytes {
            let fits = (QUANTUM_BYTES_MIN..=QUANTUM_BYTES_MAX).contains(&quantum);
            check(fits, "queue.quantum_bytes", quantum, "must be between 40 and 65536")?;
        }
        self.validate_red()
    }

    fn validate_limits(&self) -> Result<(), SpecError> {
        let limited =
            self.limit_packets.is_some() || self.limit_bytes.is_some() || self.limit_bdp.is_some();
        if limited == (self.kind == QueueKind::Infinite) {
            let rule = if limited {
                "an infinite queue takes no limit; choose droptail, or another kind"
            } else {
                "needs limit_packets, limit_bytes or limit_bdp"
            };
            return Err(SpecError::invalid("queue.kind", self.kind.name(), rule));
        }
        if let Some(packets) = self.limit_packets {
            let rule = "must be at least 1, or no packet passes";
            check(packets > 0, "queue.limit_packets", packets, rule)?;
        }
        if let Some(bytes) = self.limit_bytes {
            let rule = "must be at least 1500, or no full packet passes";
            check(bytes >= FULL_PACKET_BYTES, "queue.limit_bytes", bytes, rule)?;
        }
        if let Some(bdp) = self.limit_bdp {
            let rule = "must be above 0 and at most 100000";
            check(bdp > 0.0 && bdp <= LIMIT_BDP_MAX, "queue.limit_bdp", bdp, rule)?;
        }
        Ok(())
    }

    /// Refuses a setting that the discipline does not use.
    fn validate_use(&self) -> Result<(), SpecError> {
        let kind = self.kind;
        let is_tail = matches!(kind, QueueKind::DropTail | QueueKind::Infinite);
        if let Some(packets) = self.ecn_threshold_packets {
            let rule = "only droptail and infinite use it; the others mark with ecn = true";
            check(is_tail, "queue.ecn_threshold_packets", packets, rule)?;
        }
        for (key, value) in [("queue.update_ms", self.update_ms), ("queue.burst_ms", self.burst_ms)]
        {
            unused_but_by(kind == QueueKind::Pie, key, value, "only pie uses it")?;
        }
        for (key, value) in
            [("queue.flows", self.flows), ("queue.quantum_bytes", self.quantum_bytes)]
        {
            unused_but_by(kind == QueueKind::FqCoDel, key, value, "only fq-codel uses it")?;
        }
        let (is_red, rule) = (kind == QueueKind::Red, "only red uses it");
        for (key, value) in self.red_thresholds() {
            unused_but_by(is_red, key, value, rule)?;
        }
        unused_but_by(is_red, "queue.drop_percent_max", self.drop_percent_max, rule)?;
        unused_but_by(is_red, "queue.weight", self.weight, rule)?;
        unused_but_by(is_red, "queue.gentle", self.gentle, rule)
    }

    fn red_thresholds(&self) -> [(&'static str, Option<u64>); 4] {
        [
            ("queue.min_packets", self.min_packets),
            ("queue.max_packets", self.max_packets),
            ("queue.min_bytes", self.min_bytes),
            ("queue.max_bytes", self.max_bytes),
        ]
    }

    fn validate_red(&self) -> Result<(), SpecError> {
        let in_packets = self.min_packets.is_some() || self.max_packets.is_some();
        for (key, value) in &self.red_thresholds()[2..] {
            let rule = "is set beside a threshold in packets; red counts one or the other";
            unused_but_by(!in_packets, key, *value, rule)?;
        }
        let (_, min, max) = self.red_range();
        for (key, value) in self.red_thresholds() {
            let Some(value) = value else { continue };
            let rule = "the minimum must be below the maximum, and the maximum above 0";
            check(min < max && max > 0.0, key, value, rule)?;
        }
        if let Some(percent) = self.drop_percent_max {
            let rule = "must be above 0 and at most 100";
            check(percent > 0.0 && percent <= 100.0, "queue.drop_percent_max", percent, rule)?;
        }
        if let Some(weight) = self.weight {
            let rule = "must be above 0 and at most 1";
            check(weight > 0.0 && weight <= 1.0, "queue.weight", weight, rule)?;
        }
        Ok(())
    }

    /// RED's unit and its thresholds. A threshold that is not set follows from the other.
    fn red_range(&self) -> (RedUnit, f64, f64) {
        let default = RedParams::default();
        let (unit, min, max) = if self.min_bytes.is_some() || self.max_bytes.is_some() {
            (RedUnit::Bytes, self.min_bytes, self.max_bytes)
        } else {
            (RedUnit::Packets, self.min_packets, self.max_packets)
        };
        let factor = default.max / default.min;
        match (min.map(|min| min as f64), max.map(|max| max as f64)) {
            (None, None) => (unit, default.min, default.max),
            (Some(min), max) => (unit, min, max.unwrap_or(min * factor)),
            (None, Some(max)) => (unit, max / factor, max),
        }
    }

    pub(super) fn limit(&self, bdp_bytes: Option<f64>) -> Result<Limit, SpecError> {
        let mut bytes = self.limit_bytes;
        if let Some(factor) = self.limit_bdp {
            let rule = "needs a rate: set rate_mbit_per_sec or trace, or use limit_packets";
            let bdp =
                bdp_bytes.ok_or_else(|| SpecError::invalid("queue.limit_bdp", factor, rule))?;
            let wanted = ((factor * bdp).ceil() as u64).max(FULL_PACKET_BYTES);
            bytes = Some(bytes.map_or(wanted, |limit| limit.min(wanted)));
        }
        Ok(Limit { packets: self.limit_packets, bytes })
    }

    /// `packet_time` is how long a full packet takes at the (mean) rate; zero without a rate.
    pub(super) fn discipline(&self, packet_time: Nanos) -> Discipline {
        let span = |ms: Option<f64>, default| ms.map_or(default, Nanos::from_millis_f64);
        let codel = CoDelParams {
            target: span(self.target_ms, CoDelParams::default().target),
            interval: Nanos::from_millis_f64(self.interval_ms),
            ecn: self.ecn,
        };
        match self.kind {
            QueueKind::Infinite | QueueKind::DropTail => {
                Discipline::DropTail { mark_above_packets: self.ecn_threshold_packets }
            }
            QueueKind::DropHead => Discipline::DropHead,
            QueueKind::CoDel => Discipline::CoDel(codel),
            QueueKind::Pie => {
                let default = PieParams::default();
                Discipline::Pie(PieParams {
                    target: span(self.target_ms, default.target),
                    update: span(self.update_ms, default.update),
                    burst: span(self.burst_ms, default.burst),
                    ecn: self.ecn,
                })
            }
            QueueKind::FqCoDel => {
                let default = FqCoDelParams::default();
                Discipline::FqCoDel(FqCoDelParams {
                    codel,
                    flows: self.flows.unwrap_or(default.flows),
                    quantum_bytes: self.quantum_bytes.unwrap_or(default.quantum_bytes),
                })
            }
            QueueKind::Red => Discipline::Red(self.red(packet_time)),
        }
    }

    fn red(&self, packet_time: Nanos) -> RedParams {
        let (unit, min, max) = self.red_range();
        let default = RedParams::default();
        RedParams {
            unit,
            min,
            max,
            probability_max: self
                .drop_percent_max
                .map_or(default.probability_max, |percent| percent / 100.0),
            weight: self.weight.unwrap_or(default.weight),
            gentle: self.gentle.unwrap_or(default.gentle),
            ecn: self.ecn,
            packet_time,
        }
    }
}

fn unused_but_by<V: fmt::Display>(
    is_used: bool,
    key: &str,
    value: Option<V>,
    rule: &'static str,
) -> Result<(), SpecError> {
    value.map_or(Ok(()), |value| check(is_used, key, value, rule))
}

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut args = Vec::new();
        args.extend(self.limit_packets.map(|limit| format!("packets={limit}")));
        args.extend(self.limit_bytes.map(|limit| format!("bytes={limit}")));
        args.extend(self.limit_bdp.map(|limit| format!("bdp={limit}")));
        match self.discipline(Nanos::ZERO) {
            Discipline::DropTail { mark_above_packets } => {
                args.extend(mark_above_packets.map(|above| format!("ecn_threshold={above}")));
            }
            Discipline::DropHead => {}
            Discipline::CoDel(codel) => args.extend(codel_words(codel)),
            Discipline::FqCoDel(params) => {
                args.extend(codel_words(params.codel));
                args.push(format!("flows={}", params.flows));
                args.push(format!("quantum={}", params.quantum_bytes));
            }
            Discipline::Pie(pie) => {
                args.push(format!("target={}", pie.target.as_millis_f64()));
                args.push(format!("tupdate={}", pie.update.as_millis_f64()));
                args.push(format!("max_burst={}", pie.burst.as_millis_f64()));
                args.push(format!("ecn={}", pie.ecn));
            }
            Discipline::Red(red) => {
                let unit = if red.unit == RedUnit::Bytes { "bytes" } else { "packets" };
                args.push(format!("min_{unit}={}", red.min));
                args.push(format!("max_{unit}={}", red.max));
                args.push(format!("max_p={}", red.probability_max));
                args.push(format!("weight={}", red.weight));
                args.push(format!("gentle={}", red.gentle));
                args.push(format!("ecn={}", red.ecn));
            }
        }
        f.write_str(self.kind.name())?;
        if args.is_empty() { Ok(()) } else { write!(f, " [{}]", args.join(", ")) }
    }
}

fn codel_words(codel: CoDelParams) -> [String; 3] {
    [
        format!("target={}", codel.target.as_millis_f64()),
        format!("interval={}", codel.interval.as_millis_f64()),
        format!("ecn={}", codel.ecn),
    ]
}
