//! What a link is to be, as a scenario file or a command line says it.
//!
//! ```toml
//! rate_mbit_per_sec = 12        # or: trace = "cell.trace"; neither: no limit
//! delay_ms = 20                 # one way
//! jitter_std_ms = 1.5
//! jitter_correlation = 0.5
//! loss_percent = 0.1
//! queue = { kind = "droptail", limit_bdp = 2 }
//! seed = 7
//! ```

use crate::delay::Delay;
use crate::link::{Link, LinkModel};
use crate::loss::{GilbertElliott, Loss};
use crate::packet::Packet;
use crate::queue::{CoDelParams, Discipline, Limit, Queue};
use crate::time::Nanos;
use crate::trace::{Trace, TraceError};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A full packet, from the IP header on: what a queue of a fraction of a BDP always holds.
pub const FULL_PACKET_BYTES: u64 = 1500;

/// 100 Gbit/s: a nanosecond is then 12 bytes, and exact arithmetic still fits 64 bits.
const RATE_MBIT_PER_SEC_MAX: f64 = 100_000.0;
/// 1 kbit/s: a full packet then takes 12 s.
const RATE_MBIT_PER_SEC_MIN: f64 = 0.001;
/// A minute: no path on earth, or to the moon, is longer.
const DELAY_MS_MAX: f64 = 60_000.0;
/// More would be a queue without end: say `infinite`.
const LIMIT_BDP_MAX: f64 = 100_000.0;

/// Which way a link runs. The two draw from different random streams of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

impl Direction {
    /// As Mahimahi's logs name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "uplink",
            Self::Down => "downlink",
        }
    }

    fn rng(self, seed: u64, use_: RandomUse) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(self as u64 * 2 + use_ as u64);
        rng
    }
}

/// What a random stream is for: a change of one model must not move the draws of another.
#[derive(Clone, Copy)]
enum RandomUse {
    Loss,
    Jitter,
}

/// A value that a spec must not have.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// One value breaks a rule.
    #[error("`{key}` is {value}: {rule}")]
    Invalid {
        /// The key, with its table.
        key: String,
        /// What it was set to.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// The trace is not one.
    #[error("`{key}`: {source}")]
    Trace {
        /// The key, with its table.
        key: String,
        /// What is wrong with it.
        source: TraceError,
    },
}

impl SpecError {
    fn invalid(key: &str, value: impl fmt::Display, rule: &'static str) -> Self {
        Self::Invalid { key: key.to_owned(), value: value.to_string(), rule }
    }

    fn within(mut self, table: &str) -> Self {
        let (Self::Invalid { key, .. } | Self::Trace { key, .. }) = &mut self;
        *key = format!("{table}.{key}");
        self
    }
}

/// The discipline of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueKind {
    /// Never drops.
    #[default]
    Infinite,
    /// Refuses what does not fit.
    DropTail,
    /// Drops its oldest for what does not fit.
    DropHead,
    /// RFC 8289.
    CoDel,
}

impl QueueKind {
    /// As Mahimahi names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Infinite => "infinite",
            Self::DropTail => "droptail",
            Self::DropHead => "drophead",
            Self::CoDel => "codel",
        }
    }
}

/// The queue before the bottleneck. All but `infinite` need a limit; of several, each holds.
///
/// The packet being sent on a link of constant rate is out of the queue and not counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSpec {
    /// Its discipline.
    pub kind: QueueKind,
    /// At most this many packets wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_packets: Option<u64>,
    /// At most this many bytes wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// At most this many bandwidth-delay products wait: (mean) rate of this link times the round
    /// trip, which is the sum of both directions' `delay_ms`. Never less than one full packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bdp: Option<f64>,
    /// CoDel: the standing delay that is acceptable.
    pub target_ms: f64,
    /// CoDel: how long the delay may stand above the target.
    pub interval_ms: f64,
    /// CoDel: mark packets of ECN-capable senders instead of dropping them.
    pub ecn: bool,
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self {
            kind: QueueKind::Infinite,
            limit_packets: None,
            limit_bytes: None,
            limit_bdp: None,
            target_ms: 5.0,
            interval_ms: 100.0,
            ecn: false,
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

    fn validate(&self) -> Result<(), SpecError> {
        let limited =
            self.limit_packets.is_some() || self.limit_bytes.is_some() || self.limit_bdp.is_some();
        if limited == (self.kind == QueueKind::Infinite) {
            let rule = if limited {
                "an infinite queue takes no limit; choose droptail, drophead or codel"
            } else {
                "needs limit_packets, limit_bytes or limit_bdp"
            };
            return Err(SpecError::invalid("queue.kind", self.kind.name(), rule));
        }
        for (key, limit) in
            [("queue.limit_packets", self.limit_packets), ("queue.limit_bytes", self.limit_bytes)]
        {
            if limit == Some(0) {
                return Err(SpecError::invalid(key, 0, "must be at least 1, or no packet passes"));
            }
        }
        if let Some(bdp) = self.limit_bdp {
            let rule = "must be above 0 and at most 100000";
            check(bdp > 0.0 && bdp <= LIMIT_BDP_MAX, "queue.limit_bdp", bdp, rule)?;
        }
        for (key, span_ms) in
            [("queue.target_ms", self.target_ms), ("queue.interval_ms", self.interval_ms)]
        {
            let rule = "must be above 0 and at most 60000";
            check(span_ms > 0.0 && span_ms <= DELAY_MS_MAX, key, span_ms, rule)?;
        }
        Ok(())
    }

    fn limit(&self, bdp_bytes: Option<f64>) -> Result<Limit, SpecError> {
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

    fn discipline(&self) -> Discipline {
        match self.kind {
            QueueKind::Infinite | QueueKind::DropTail => Discipline::DropTail,
            QueueKind::DropHead => Discipline::DropHead,
            QueueKind::CoDel => Discipline::CoDel(CoDelParams {
                target: Nanos::from_millis_f64(self.target_ms),
                interval: Nanos::from_millis_f64(self.interval_ms),
                ecn: self.ecn,
            }),
        }
    }
}

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut args = Vec::new();
        args.extend(self.limit_packets.map(|limit| format!("packets={limit}")));
        args.extend(self.limit_bytes.map(|limit| format!("bytes={limit}")));
        args.extend(self.limit_bdp.map(|limit| format!("bdp={limit}")));
        if self.kind == QueueKind::CoDel {
            args.push(format!("target={}", self.target_ms));
            args.push(format!("interval={}", self.interval_ms));
            args.push(format!("ecn={}", self.ecn));
        }
        f.write_str(self.kind.name())?;
        if args.is_empty() { Ok(()) } else { write!(f, " [{}]", args.join(", ")) }
    }
}

/// Bursty loss; see [`GilbertElliott`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliottSpec {
    /// Probability, per packet, to leave the good state.
    pub good_to_bad_percent: f64,
    /// Probability, per packet, to leave the bad state.
    pub bad_to_good_percent: f64,
    /// Loss while good.
    #[serde(default)]
    pub loss_good_percent: f64,
    /// Loss while bad.
    #[serde(default = "all")]
    pub loss_bad_percent: f64,
}

fn all() -> f64 {
    100.0
}

impl GilbertElliottSpec {
    fn validate(&self) -> Result<(), SpecError> {
        percent("gilbert_elliott.good_to_bad_percent", self.good_to_bad_percent)?;
        percent("gilbert_elliott.bad_to_good_percent", self.bad_to_good_percent)?;
        percent("gilbert_elliott.loss_good_percent", self.loss_good_percent)?;
        percent("gilbert_elliott.loss_bad_percent", self.loss_bad_percent)
    }
}

/// One direction of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkSpec {
    /// A constant rate of IP bytes: at 12, 1500 bytes a millisecond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbit_per_sec: Option<f64>,
    /// A Mahimahi trace instead. With neither, the link sends at once and no queue builds up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// Plays the trace once, not over and over; nothing leaves after its last opportunity.
    pub trace_once: bool,
    /// Propagation, one way.
    pub delay_ms: f64,
    /// Standard deviation of the delay.
    pub jitter_std_ms: f64,
    /// Correlation of one packet's jitter with the next one's, from 0 to below 1.
    pub jitter_correlation: f64,
    /// Lets jitter change the order of packets.
    pub jitter_reorders: bool,
    /// Independent loss.
    pub loss_percent: f64,
    /// Bursty loss instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliottSpec>,
    /// The queue before the bottleneck.
    pub queue: QueueSpec,
    /// Decides every random draw.
    pub seed: u64,
}

/// How fast a bottleneck sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateModel {
    /// At once.
    Unlimited,
    /// Bit by bit.
    Constant {
        /// Above zero.
        bits_per_sec: u64,
    },
    /// When a trace says.
    Trace {
        /// The trace.
        trace: Arc<Trace>,
        /// Ends with the trace's last line.
        once: bool,
    },
}

impl RateModel {
    fn mean_bits_per_sec(&self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::Constant { bits_per_sec } => Some(*bits_per_sec),
            Self::Trace { trace, .. } => Some(trace.mean_bits_per_sec()),
        }
    }
}

impl LinkSpec {
    /// Checks every value but the trace's content. The first that breaks a rule is named.
    pub fn validate(&self) -> Result<(), SpecError> {
        if let Some(rate) = self.rate_mbit_per_sec {
            let fits = (RATE_MBIT_PER_SEC_MIN..=RATE_MBIT_PER_SEC_MAX).contains(&rate);
            check(fits, "rate_mbit_per_sec", rate, "must be between 0.001 and 100000")?;
            let rule = "is set beside rate_mbit_per_sec; a link has one or the other";
            let trace = self.trace.as_ref().map(|path| path.display());
            trace.map_or(Ok(()), |trace| Err(SpecError::invalid("trace", trace, rule)))?;
        }
        let rule = "needs a trace";
        check(!self.trace_once || self.trace.is_some(), "trace_once", true, rule)?;
        for (key, span_ms) in [("delay_ms", self.delay_ms), ("jitter_std_ms", self.jitter_std_ms)] {
            let fits = (0.0..=DELAY_MS_MAX).contains(&span_ms);
            check(fits, key, span_ms, "must be between 0 and 60000")?;
        }
        let correlation = self.jitter_correlation;
        let rule = "must be at least 0 and below 1";
        check((0.0..1.0).contains(&correlation), "jitter_correlation", correlation, rule)?;
        percent("loss_percent", self.loss_percent)?;
        if let Some(channel) = &self.gilbert_elliott {
            let rule = "is set beside gilbert_elliott; a link has one or the other";
            check(self.loss_percent == 0.0, "loss_percent", self.loss_percent, rule)?;
            channel.validate()?;
        }
        self.queue.validate()
    }

    /// Makes the link. `rtt` is the path's, both ways; only `queue.limit_bdp` uses it.
    ///
    /// Reads the trace, if there is one: the only I/O of this crate.
    pub fn build<P: Packet>(&self, rtt: Nanos, direction: Direction) -> Result<Link<P>, SpecError> {
        self.validate()?;
        let rate = self.rate_model()?;
        let bdp_bytes = rate.mean_bits_per_sec().map(|bits| bits as f64 / 8.0 * rtt.0 as f64 / 1e9);
        let limit = self.queue.limit(bdp_bytes)?;
        let rng = direction.rng(self.seed, RandomUse::Loss);
        let loss = match &self.gilbert_elliott {
            None => Loss::independent(self.loss_percent, rng),
            Some(spec) => Loss::gilbert_elliott(
                GilbertElliott {
                    good_to_bad_percent: spec.good_to_bad_percent,
                    bad_to_good_percent: spec.bad_to_good_percent,
                    loss_good_percent: spec.loss_good_percent,
                    loss_bad_percent: spec.loss_bad_percent,
                },
                rng,
            ),
        };
        let rng = direction.rng(self.seed, RandomUse::Jitter);
        let delay = Delay::fixed(self.delay(), rng)
            .with_jitter(Nanos::from_millis_f64(self.jitter_std_ms), self.jitter_correlation)
            .with_reordering(self.jitter_reorders);
        let queue = Queue::new(self.queue.discipline(), limit);
        Ok(Link::new(LinkModel { loss, queue, rate, delay }))
    }

    /// The propagation delay, one way.
    pub fn delay(&self) -> Nanos {
        Nanos::from_millis_f64(self.delay_ms)
    }

    /// The rate in words, as a log's first line gives it.
    pub fn rate_text(&self) -> String {
        match (&self.trace, self.rate_mbit_per_sec) {
            (Some(trace), _) => trace.display().to_string(),
            (None, Some(rate)) => format!("{rate} Mbit/s"),
            (None, None) => "no rate limit".to_owned(),
        }
    }

    fn rate_model(&self) -> Result<RateModel, SpecError> {
        if let Some(path) = &self.trace {
            let trace = Trace::load(path)
                .map_err(|source| SpecError::Trace { key: "trace".to_owned(), source })?;
            return Ok(RateModel::Trace { trace: Arc::new(trace), once: self.trace_once });
        }
        Ok(self.rate_mbit_per_sec.map_or(RateModel::Unlimited, |rate| RateModel::Constant {
            bits_per_sec: (rate * 1e6).round() as u64,
        }))
    }
}

/// Both directions of a path, and where to log them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathSpec {
    /// From the client to the server.
    pub up: LinkSpec,
    /// From the server to the client.
    pub down: LinkSpec,
    /// Where to log the uplink, in Mahimahi's format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_log: Option<PathBuf>,
    /// Where to log the downlink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down_log: Option<PathBuf>,
}

impl PathSpec {
    /// The same link both ways.
    pub fn symmetric(link: LinkSpec) -> Self {
        Self { up: link.clone(), down: link, ..Self::default() }
    }

    /// The round trip of an idle path, without the time to send a packet.
    pub fn rtt(&self) -> Nanos {
        self.up.delay() + self.down.delay()
    }

    /// Makes both links. Errors name the table: `up.delay_ms`.
    pub fn build<P: Packet>(&self) -> Result<(Link<P>, Link<P>), SpecError> {
        let up = self.up.build(self.rtt(), Direction::Up).map_err(|error| error.within("up"))?;
        let down =
            self.down.build(self.rtt(), Direction::Down).map_err(|error| error.within("down"))?;
        Ok((up, down))
    }
}

fn check(
    holds: bool,
    key: &str,
    value: impl fmt::Display,
    rule: &'static str,
) -> Result<(), SpecError> {
    if holds { Ok(()) } else { Err(SpecError::invalid(key, value, rule)) }
}

fn percent(key: &str, value: f64) -> Result<(), SpecError> {
    check((0.0..=100.0).contains(&value), key, value, "must be between 0 and 100")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(text: &str) -> Result<Link<u32>, String> {
        let spec: LinkSpec = toml::from_str(text).map_err(|error| error.to_string())?;
        spec.build(Nanos::from_millis(40), Direction::Up).map_err(|error| error.to_string())
    }

    fn refused(text: &str, message: &str) {
        let error = build(text).unwrap_err();
        assert!(error.contains(message), "{text}: {error:?} lacks {message:?}");
    }

    #[test]
    fn errors_name_key_value_and_rule() {
        refused("rate_mbit_per_sec = 0", "`rate_mbit_per_sec` is 0: must be between 0.001");
        refused("rate_mbit_per_sec = nan", "`rate_mbit_per_sec` is NaN: must be");
        refused("rate_mbit_per_sec = 1\ntrace = 'x'", "`trace` is x: is set beside");
        refused("trace_once = true", "`trace_once` is true: needs a trace");
        refused("trace = '/no/such'", "`trace`: /no/such: cannot read the trace");
        refused("delay_ms = -1", "`delay_ms` is -1: must be between 0 and 60000");
        refused("jitter_std_ms = inf", "`jitter_std_ms` is inf: must be between");
        refused("jitter_correlation = 1", "`jitter_correlation` is 1: must be at least 0");
        refused("loss_percent = 101", "`loss_percent` is 101: must be between 0 and 100");
        refused("queue = { kind = 'droptail' }", "`queue.kind` is droptail: needs limit_packets");
        refused("queue = { limit_packets = 1 }", "`queue.kind` is infinite: an infinite queue");
        refused("queue = { kind = 'codel', limit_bytes = 0 }", "`queue.limit_bytes` is 0: must be");
        refused("queue = { kind = 'droptail', limit_bdp = 1 }", "`queue.limit_bdp` is 1: needs a");
        refused("queue = { kind = 'red' }", "unknown variant `red`");
        refused("delay = 5", "unknown field `delay`");
        let both = "loss_percent = 1\n[gilbert_elliott]\ngood_to_bad_percent = 1\n\
                    bad_to_good_percent = 50";
        refused(both, "`loss_percent` is 1: is set beside gilbert_elliott");
    }

    #[test]
    fn a_path_names_the_direction() {
        let down = LinkSpec { delay_ms: -2.0, ..LinkSpec::default() };
        let path = PathSpec { down, ..PathSpec::default() };
        let error = path.build::<u32>().unwrap_err().to_string();
        assert!(error.starts_with("`down.delay_ms` is -2"), "{error}");
    }

    #[test]
    fn bdp_is_rate_times_round_trip_and_at_least_a_packet() {
        let limit = |bdp: f64, rate: f64| {
            let queue = QueueSpec::droptail_bdp(bdp);
            queue.limit(Some(rate * 1e6 / 8.0 * 0.04)).unwrap().bytes
        };
        assert_eq!(limit(1.0, 12.0), Some(60_000));
        assert_eq!(limit(0.5, 12.0), Some(30_000));
        assert_eq!(limit(0.1, 0.1), Some(1_500));
    }

    #[test]
    fn a_spec_survives_toml_and_describes_its_queue() {
        let spec = LinkSpec {
            rate_mbit_per_sec: Some(12.0),
            queue: QueueSpec { kind: QueueKind::CoDel, ..QueueSpec::droptail_packets(80) },
            ..LinkSpec::default()
        };
        let text = toml::to_string(&spec).unwrap();
        assert_eq!(toml::from_str::<LinkSpec>(&text).unwrap(), spec);
        assert_eq!(spec.queue.to_string(), "codel [packets=80, target=5, interval=100, ecn=false]");
        assert_eq!(QueueSpec::default().to_string(), "infinite");
    }
}
