//! The description of a link, as a scenario file or a command line gives it.
//!
//! ```toml
//! rate_mbit_per_sec = 12        # or a trace, or a generator; without any: no limit
//! rate_steps = [{ at_s = 10, rate_mbit_per_sec = 24 }, { at_s = 20, rate_mbit_per_sec = 6 }]
//! rate_steps_period_s = 30      # repeats: 12 from 30 s on, 24 from 40 s on
//! # trace = "cell.trace"        # Mahimahi's; a .csv of rates; Pantheon's or Genet's .json
//! # generator = { kind = "poisson", mean_mbit_per_sec = 2.64 } # markov, sawtooth, wifi, cell, leo
//! outages = [{ at_s = 5, duration_s = 0.5 }]        # outages_period_s: as above
//! delay_ms = 20                 # one way
//! delay_steps = [{ at_s = 15, delay_ms = 60 }]      # delay_steps_period_s: as above
//! # delay_trace = { file = "wifi.ping", of = "rtt" } # recorded delays, instead of delay_steps
//! jitter_std_ms = 1.5
//! jitter_correlation = 0.5
//! reordering = { percent = 1, extra_ms = 5 }        # these packets may be overtaken
//! loss_steps = [{ at_s = 20, loss_percent = 2 }]    # loss_steps_period_s: as above
//! loss_percent = 0.1            # or: gilbert_elliott = { good_to_bad_percent = 1, ... }
//! policer = { rate_mbit_per_sec = 10, burst_bytes = 30_000 }
//! queue = { kind = "droptail", limit_bdp = 2 }      # or drophead, codel, pie, fq-codel, red
//! aggregation = { interval_ms = 100, packets_max = 10 }
//! seed = 7
//! ```

mod change;
mod direction;
mod error;
mod generator;
mod parts;
mod path;
mod queue;
#[cfg(test)]
mod tests;

pub use change::{DelayOf, DelayStep, DelayTraceSpec, LossStep, OutageSpec, RateStep};
pub use direction::Direction;
pub use error::SpecError;
pub use generator::GeneratorSpec;
pub use parts::{AggregationSpec, GilbertElliottSpec, PolicerSpec, ReorderingSpec};
pub use path::PathSpec;
pub use queue::{QueueKind, QueueSpec};

use crate::capacity::{Capacity, CapacityLimit};
use crate::delay::Delay;
use crate::generator::Generated;
use crate::link::{Link, LinkModel, RateModel};
use crate::loss::Loss;
use crate::packet::Packet;
use crate::rtt_series::RttSeries;
use crate::schedule::Schedule;
use crate::time::Nanos;
use crate::trace::Trace;
use change::Changes;
use direction::RandomUse;
use error::{check, percent};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// A full packet, counted from the IP header on. A queue limit in BDPs is never below it.
pub const FULL_PACKET_BYTES: u64 = 1500;

/// 100 Gbit/s: a nanosecond is then 12 bytes, and exact arithmetic still fits 64 bits.
const RATE_MBIT_PER_SEC_MAX: f64 = 100_000.0;
/// 1 kbit/s: a full packet then takes 12 s.
const RATE_MBIT_PER_SEC_MIN: f64 = 0.001;
/// A minute: longer than any path on earth, or to the moon.
const DELAY_MS_MAX: f64 = 60_000.0;

/// One direction of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkSpec {
    /// A constant rate of IP bytes: 12 is 1500 bytes a millisecond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbit_per_sec: Option<f64>,
    /// Other rates, each from its moment on. A packet in transmission goes on at the new rate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rate_steps: Vec<RateStep>,
    /// After this time `rate_mbit_per_sec` holds again, and the steps repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_steps_period_s: Option<f64>,
    /// A trace instead of a rate: Mahimahi's, or a series of rates. A link without rate, trace or
    /// generator sends at once, and no queue builds up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// Plays the trace once instead of repeating it; no packet leaves after its last opportunity.
    pub trace_once: bool,
    /// A trace made from the seed, instead of a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator: Option<GeneratorSpec>,
    /// Times in which no packet leaves. The queue holds packets that arrive; packets past the
    /// bottleneck arrive at the other end. A trace plays on, and its opportunities are lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<OutageSpec>,
    /// After this time the outages repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outages_period_s: Option<f64>,
    pub delay_ms: f64,
    /// Other delays, each from its moment on. When the path gets shorter, packets wait for those
    /// sent before, unless `jitter_reorders` is set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delay_steps: Vec<DelayStep>,
    /// After this time `delay_ms` holds again, and the steps repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_steps_period_s: Option<f64>,
    /// Recorded delays. `delay_ms` is then only what `limit_bdp` counts with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_trace: Option<DelayTraceSpec>,
    /// Standard deviation of the delay.
    pub jitter_std_ms: f64,
    /// Correlation of one packet's jitter with the next one's, from 0 to below 1.
    pub jitter_correlation: f64,
    /// Allows jitter, and a change to a shorter path, to reorder packets.
    pub jitter_reorders: bool,
    /// A share of the packets that travels longer, and may be overtaken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordering: Option<ReorderingSpec>,
    pub loss_percent: f64,
    /// Other loss shares, each from its moment on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loss_steps: Vec<LossStep>,
    /// After this time `loss_percent` holds again, and the steps repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_steps_period_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliottSpec>,
    /// Drops packets beyond a rate and a burst, before the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<PolicerSpec>,
    pub queue: QueueSpec,
    /// Holds arrived packets and delivers them together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<AggregationSpec>,
    /// The seed of every random draw.
    pub seed: u64,
}

impl LinkSpec {
    /// Checks every value, but not the content of the trace. The error names the first value that
    /// breaks a rule.
    pub fn validate(&self) -> Result<(), SpecError> {
        self.validate_rate()?;
        self.outages().validate()?;
        check_span("delay_ms", self.delay_ms)?;
        self.delay_steps().validate()?;
        if let Some(trace) = &self.delay_trace {
            let sets = self.generator.as_ref().is_some_and(GeneratorSpec::sets_delays);
            let rule = "stands beside delay_steps or a generator of delays; a link has one of them";
            let alone = self.delay_steps.is_empty() && !sets;
            check(alone, "delay_trace", trace.file.display(), rule)?;
        }
        check_span("jitter_std_ms", self.jitter_std_ms)?;
        let correlation = self.jitter_correlation;
        let rule = "must be at least 0 and below 1";
        check((0.0..1.0).contains(&correlation), "jitter_correlation", correlation, rule)?;
        self.reordering.as_ref().map_or(Ok(()), ReorderingSpec::validate)?;
        percent("loss_percent", self.loss_percent)?;
        if let Some(channel) = &self.gilbert_elliott {
            let rule = "is set beside gilbert_elliott; a link has one or the other";
            check(self.loss_percent == 0.0, "loss_percent", self.loss_percent, rule)?;
            let steps = self.loss_steps.len();
            check(steps == 0, "loss_steps", format!("{steps} steps"), rule)?;
            channel.validate()?;
        }
        self.loss_steps().validate()?;
        self.policer.as_ref().map_or(Ok(()), PolicerSpec::validate)?;
        self.aggregation.as_ref().map_or(Ok(()), AggregationSpec::validate)?;
        self.queue.validate()
    }

    fn validate_rate(&self) -> Result<(), SpecError> {
        if let Some(rate) = self.rate_mbit_per_sec {
            check_rate("rate_mbit_per_sec", rate)?;
            let rule = "is set beside rate_mbit_per_sec; a link has one or the other";
            let trace = self.trace.as_ref().map(|path| path.display());
            trace.map_or(Ok(()), |trace| Err(SpecError::invalid("trace", trace, rule)))?;
        }
        self.validate_generator()?;
        let rule = "needs a trace";
        check(!self.trace_once || self.trace.is_some(), "trace_once", true, rule)?;
        if let Some(step) = self.rate_steps.first() {
            let rule = "needs rate_mbit_per_sec, the rate before the first step";
            let holds = self.rate_mbit_per_sec.is_some();
            check(holds, "rate_steps[0].rate_mbit_per_sec", step.rate_mbit_per_sec, rule)?;
        }
        self.rate_steps().validate()
    }

    fn validate_generator(&self) -> Result<(), SpecError> {
        let Some(generator) = &self.generator else { return Ok(()) };
        let alone = self.rate_mbit_per_sec.is_none() && self.trace.is_none();
        let rule = "stands beside rate_mbit_per_sec or trace; a link has one of them";
        check(alone, "generator", generator.text(), rule)?;
        let fits = self.delay_steps.is_empty() || !generator.sets_delays();
        let rule = "sets the delay itself; take delay_steps out";
        check(fits, "generator", generator.text(), rule)?;
        generator.validate()
    }

    /// Builds the link. `rtt` is the path's round trip; only `queue.limit_bdp` uses it.
    ///
    /// Reads the trace file, if the spec names one. This crate does no other I/O.
    pub fn build<P: Packet>(&self, rtt: Nanos, direction: Direction) -> Result<Link<P>, SpecError> {
        self.validate()?;
        let made = self.generated(direction);
        let mut delay = self.delay_model(direction, made.as_ref());
        if let Some(steps) = self.recorded_delays(rtt)? {
            delay = delay.with_steps(steps);
        }
        let rate = self.rate_model(made)?;
        let mean = self.mean_bits_per_sec(&rate);
        let bdp_bytes = mean.map(|bits| bdp_bytes(bits, rtt));
        let packet_time = mean.map_or(Nanos::ZERO, |bits| {
            Nanos(FULL_PACKET_BYTES * crate::bottleneck::BIT_NANOS / bits.max(1))
        });
        let rng = |use_| direction.rng(self.seed, use_);
        let reordering = self.reordering.as_ref();
        Ok(Link::new(LinkModel {
            loss: self.loss_model(rng(RandomUse::Loss)),
            policer: self.policer.as_ref().map(PolicerSpec::build),
            discipline: self.queue.discipline(packet_time),
            limit: self.queue.limit(bdp_bytes)?,
            queue_rng: rng(RandomUse::Queue),
            rate,
            outages: self.outages().outages(),
            delay,
            reordering: reordering.map(|spec| spec.build(rng(RandomUse::Reordering))),
            aggregation: self.aggregation.as_ref().map(AggregationSpec::build),
        }))
    }

    /// How much the link can carry over time. Reads the trace file, or makes the trace.
    pub fn capacity(&self, direction: Direction) -> Result<Capacity, SpecError> {
        self.validate()?;
        let limit = match self.rate_model(self.generated(direction))? {
            RateModel::Unlimited => CapacityLimit::Unlimited,
            RateModel::Constant { bits_per_sec } => {
                CapacityLimit::Rate(Schedule::constant(bits_per_sec))
            }
            RateModel::Steps { bits_per_sec } => CapacityLimit::Rate(bits_per_sec),
            RateModel::Trace { trace, once } => CapacityLimit::Trace { trace, once },
        };
        let policer = self.policer.as_ref();
        Ok(Capacity {
            limit,
            outages: self.outages().outages(),
            policer_bits_per_sec: policer.map(|it| bits_per_sec(it.rate_mbit_per_sec)),
        })
    }

    /// The size of the link's queue in bytes of full packets; `None` if it has no limit. `rtt` is
    /// the path's round trip, as for [`build`](Self::build).
    pub fn queue_bytes(&self, rtt: Nanos, direction: Direction) -> Result<Option<f64>, SpecError> {
        let mean = self.mean_bits_per_sec(&self.rate_model(self.generated(direction))?);
        let limit = self.queue.limit(mean.map(|bits| bdp_bytes(bits, rtt)))?;
        let of_packets = limit.packets.map(|packets| (packets * FULL_PACKET_BYTES) as f64);
        let of_bytes = limit.bytes.map(|bytes| bytes as f64);
        Ok(of_packets.into_iter().chain(of_bytes).reduce(f64::min))
    }

    fn generated(&self, direction: Direction) -> Option<Generated> {
        let generator = self.generator.as_ref()?;
        Some(generator.make(&mut direction.rng(self.seed, RandomUse::Generator)))
    }

    /// The largest packet that the queue and the policer let through, in bytes; `None` if neither
    /// has such a limit. `rtt` is the path's round trip, as for [`build`](Self::build). The trace
    /// file is not read.
    pub fn packet_bytes_max(&self, rtt: Nanos) -> Option<u64> {
        let bdp_bytes = self.rate_mbit_per_sec.map(|rate| bdp_bytes(bits_per_sec(rate), rtt));
        let queued = self.queue.limit(bdp_bytes).ok().and_then(|limit| limit.bytes);
        let policed = self.policer.as_ref().map(|policer| policer.burst_bytes);
        queued.into_iter().chain(policed).min()
    }

    /// The one-way propagation delay at the start.
    pub fn delay(&self) -> Nanos {
        Nanos::from_millis_f64(self.delay_ms)
    }

    /// Whether the link has a rate, a trace or a generator.
    pub fn is_limited(&self) -> bool {
        self.rate_mbit_per_sec.is_some() || self.trace.is_some() || self.generator.is_some()
    }

    /// A description of the rate, for a log's first line.
    pub fn rate_text(&self) -> String {
        let mut text = match (&self.trace, self.rate_mbit_per_sec, &self.generator) {
            (Some(trace), ..) => trace.display().to_string(),
            (None, Some(rate), _) => format!("{rate} Mbit/s"),
            (None, None, Some(generator)) => generator.text(),
            (None, None, None) => "no rate limit".to_owned(),
        };
        if !self.rate_steps.is_empty() {
            text.push_str(", steps");
        }
        if !self.outages.is_empty() {
            text.push_str(", outages");
        }
        text
    }

    fn rate_model(&self, made: Option<Generated>) -> Result<RateModel, SpecError> {
        if let Some(made) = made {
            return Ok(RateModel::Trace { trace: Arc::new(made.trace), once: false });
        }
        if let Some(path) = &self.trace {
            let trace = Trace::load(path)
                .map_err(|source| SpecError::Trace { key: "trace".to_owned(), source })?;
            return Ok(RateModel::Trace { trace: Arc::new(trace), once: self.trace_once });
        }
        let Some(rate) = self.rate_mbit_per_sec else { return Ok(RateModel::Unlimited) };
        let bits_per_sec = bits_per_sec(rate);
        Ok(match self.rate_steps().rates(bits_per_sec) {
            None => RateModel::Constant { bits_per_sec },
            Some(bits_per_sec) => RateModel::Steps { bits_per_sec },
        })
    }

    /// The mean rate of a trace, otherwise the rate at the start.
    fn mean_bits_per_sec(&self, rate: &RateModel) -> Option<u64> {
        match rate {
            RateModel::Trace { trace, .. } => Some(trace.mean_bits_per_sec()),
            _ => self.rate_mbit_per_sec.map(bits_per_sec),
        }
    }

    /// The share of packets lost at random: the long-run share of a Gilbert–Elliott channel,
    /// otherwise the share at the start.
    pub fn mean_loss_percent(&self) -> f64 {
        self.gilbert_elliott.as_ref().map_or(self.loss_percent, |it| it.mean_loss_percent())
    }

    fn loss_model(&self, rng: ChaCha8Rng) -> Loss {
        if let Some(spec) = &self.gilbert_elliott {
            return Loss::gilbert_elliott(spec.channel(), rng);
        }
        match self.loss_steps().losses(self.loss_percent) {
            None => Loss::independent(self.loss_percent, rng),
            Some(percent) => Loss::changing(percent, rng),
        }
    }

    fn delay_model(&self, direction: Direction, made: Option<&Generated>) -> Delay {
        let delay = Delay::fixed(self.delay(), direction.rng(self.seed, RandomUse::Jitter))
            .with_jitter(Nanos::from_millis_f64(self.jitter_std_ms), self.jitter_correlation)
            .with_reordering(self.jitter_reorders);
        let base = self.delay();
        let steps = match made.filter(|made| !made.delays.is_empty()) {
            None => self.delay_steps().delays(base),
            Some(made) => {
                let steps = made.delays.iter().map(|(at, more)| (*at, base + *more)).collect();
                Some(Schedule::new(base, steps, Some(made.trace.period())))
            }
        };
        match steps {
            None => delay,
            Some(steps) => delay.with_steps(steps),
        }
    }

    /// The delays of `delay_trace`. `rtt` is the path's round trip by `delay_ms`. Reads the file.
    fn recorded_delays(&self, rtt: Nanos) -> Result<Option<Schedule<Nanos>>, SpecError> {
        let Some(spec) = &self.delay_trace else { return Ok(None) };
        let series = RttSeries::load(&spec.file)
            .map_err(|source| SpecError::Trace { key: "delay_trace".to_owned(), source })?;
        let other = match spec.of {
            DelayOf::Rtt => rtt - self.delay(),
            DelayOf::OneWay => Nanos::ZERO,
        };
        let delay = |ms: f64| Nanos::from_millis_f64(ms) - other;
        let steps = series.samples().iter();
        let steps = steps.map(|(at_s, ms)| (Nanos::from_millis_f64(at_s * 1e3), delay(*ms)));
        let period = Nanos::from_millis_f64(series.period_s() * 1e3);
        Ok(Some(Schedule::new(delay(series.samples()[0].1), steps.collect(), Some(period))))
    }

    fn rate_steps(&self) -> Changes<'_, RateStep> {
        let period_s = self.rate_steps_period_s;
        Changes { key: "rate_steps", list: &self.rate_steps, period_s }
    }

    fn delay_steps(&self) -> Changes<'_, DelayStep> {
        let period_s = self.delay_steps_period_s;
        Changes { key: "delay_steps", list: &self.delay_steps, period_s }
    }

    fn loss_steps(&self) -> Changes<'_, LossStep> {
        let period_s = self.loss_steps_period_s;
        Changes { key: "loss_steps", list: &self.loss_steps, period_s }
    }

    fn outages(&self) -> Changes<'_, OutageSpec> {
        Changes { key: "outages", list: &self.outages, period_s: self.outages_period_s }
    }
}

fn bdp_bytes(bits_per_sec: u64, rtt: Nanos) -> f64 {
    bits_per_sec as f64 / 8.0 * rtt.0 as f64 / 1e9
}

fn check_rate(key: &str, mbit_per_sec: f64) -> Result<(), SpecError> {
    let fits = (RATE_MBIT_PER_SEC_MIN..=RATE_MBIT_PER_SEC_MAX).contains(&mbit_per_sec);
    check(fits, key, mbit_per_sec, "must be between 0.001 and 100000")
}

fn check_span(key: &str, ms: f64) -> Result<(), SpecError> {
    check((0.0..=DELAY_MS_MAX).contains(&ms), key, ms, "must be between 0 and 60000")
}

fn bits_per_sec(mbit_per_sec: f64) -> u64 {
    (mbit_per_sec * 1e6).round() as u64
}
