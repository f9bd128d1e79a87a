//! One direction of a path.
//!
//! ```text
//! push ─▶ loss ─▶ policer ─▶ queue ─▶ bottleneck ─▶ delay, jitter, detours ─▶ aggregation ─▶ pop
//! ```
//!
//! The order is that of the uplink of `mm-delay mm-loss mm-link`, with the loss moved to the front:
//!
//! - Loss comes first: a packet that the channel loses takes no room in the queue, so the loss rate
//!   does not depend on the load.
//! - A policer drops before the queue, as at the edge of a network.
//! - The queue is directly before the bottleneck, so queueing delay depends on the senders alone.
//! - Propagation comes after the bottleneck, so jitter neither fills nor starves it, and a delayed
//!   packet is never dropped.
//! - Aggregation happens on the last hop: it holds packets that have arrived.

use crate::aggregation::{Aggregation, Aggregator, Outlook};
use crate::books::{Books, Dropped};
use crate::bottleneck::{Bottleneck, ConstantRate, Pace, TraceClock};
use crate::delay::Delay;
use crate::log::LogEvent;
use crate::loss::Loss;
use crate::packet::Packet;
use crate::passage::Passage;
use crate::policer::Policer;
use crate::queue::{Discipline, DropReason, Held, Limit, Queue};
use crate::queued::Queued;
use crate::reordering::Reordering;
use crate::row::Row;
use crate::schedule::{Cursor, Schedule};
use crate::stats::{Level, LinkStats};
use crate::time::Nanos;
use crate::trace::{TUN_HEADER_BYTES, Trace};
use crate::varying::{Meter, SpeedClock, VaryingRate};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// How fast a bottleneck sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateModel {
    Unlimited,
    Constant {
        bits_per_sec: u64,
    },
    /// Sends at a rate that changes. A packet in transmission goes on at the new rate.
    Steps {
        bits_per_sec: Schedule<u64>,
    },
    /// Sends at the opportunities of a trace.
    Trace {
        trace: Arc<Trace>,
        /// Sends nothing after the trace's last line, instead of starting again.
        once: bool,
    },
}

/// The parts of a link.
#[derive(Clone, Debug)]
pub struct LinkModel {
    /// Which packets the channel loses.
    pub loss: Loss,
    /// Which packets exceed a rate and are dropped before the queue.
    pub policer: Option<Policer>,
    /// What the queue does when it is full, or its delay is long.
    pub discipline: Discipline,
    /// How much the queue holds.
    pub limit: Limit,
    /// The random stream of the queue discipline.
    pub queue_rng: ChaCha8Rng,
    /// How fast the bottleneck sends.
    pub rate: RateModel,
    /// When the bottleneck sends nothing: from each moment with `true` to the next with `false`.
    pub outages: Option<Schedule<bool>>,
    /// How long a packet travels after the bottleneck.
    pub delay: Delay,
    /// Which packets travel longer than others, and so may be overtaken.
    pub reordering: Option<Reordering>,
    /// When packets that have arrived are delivered.
    pub aggregation: Option<Aggregation>,
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It reached the other end.
    Delivered {
        /// When the packet came to the link.
        arrived: Nanos,
        /// When the packet left the bottleneck.
        departed: Nanos,
        /// When the packet reaches the other end.
        at: Nanos,
    },
    Dropped {
        reason: DropReason,
        at: Nanos,
    },
}

/// A packet that has left a link.
// The packet is a field beside `fate`, not inside the enum. Inside, it would be copied in pieces
// that do not match those in which it was written, and the processor would stall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<P> {
    pub packet: P,
    pub fate: Fate,
}

impl<P> Outcome<P> {
    /// The packet, if it reached the other end.
    #[inline]
    pub fn delivered(self) -> Option<P> {
        matches!(self.fate, Fate::Delivered { .. }).then_some(self.packet)
    }
}

/// The part of a link from the queue to the other end.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a link has one, and a row is looked at per packet")]
enum Core<P> {
    /// The common case: see [`Row`].
    Row(Row<P>),
    Queued(Box<Queued<P>>),
}

/// One direction of a path: a state machine without a clock of its own.
///
/// The moments passed to [`push`](Link::push) and [`pop`](Link::pop) must not decrease. An earlier
/// moment counts as the latest one seen.
#[derive(Clone, Debug)]
pub struct Link<P> {
    core: Core<P>,
    now: Nanos,
    overhead_bytes: u32,
    loss: Loss,
    policer: Option<Policer>,
    aggregator: Option<Box<Aggregator<P>>>,
    books: Books<P>,
    /// Measures the capacity that the log reports; `None` if the link has no rate.
    speed: Option<Box<SpeedClock>>,
}

impl<P: Packet> Link<P> {
    /// A link that starts at time zero.
    pub fn new(model: LinkModel) -> Self {
        let is_row = matches!(model.discipline, Discipline::DropTail { .. })
            && !matches!(model.rate, RateModel::Trace { .. })
            && model.delay.keeps_order()
            && model.reordering.is_none();
        Self::assemble(model, is_row)
    }

    fn assemble(model: LinkModel, is_row: bool) -> Self {
        let is_trace = matches!(model.rate, RateModel::Trace { .. });
        let speed = speed_of(&model);
        let bottleneck = match (model.rate, &model.outages) {
            (RateModel::Trace { trace, once }, _) => {
                Bottleneck::Trace(TraceClock::new(trace, once))
            }
            (RateModel::Unlimited, None) => Bottleneck::Paced(Pace::Unlimited),
            (RateModel::Constant { bits_per_sec }, None) => {
                Bottleneck::Paced(Pace::Constant(ConstantRate::new(bits_per_sec)))
            }
            _ => Bottleneck::Paced(Pace::Varying(Box::new(VaryingRate::new(speed.clone())))),
        };
        let has_rate = !is_trace && speed.is_limited();
        let core = match (bottleneck, model.discipline) {
            (Bottleneck::Paced(pace), Discipline::DropTail { mark_above_packets }) if is_row => {
                Core::Row(Row::new(model.limit, mark_above_packets, pace, model.delay))
            }
            (bottleneck, discipline) => {
                let queue = Queue::new(discipline, model.limit, model.queue_rng);
                let outage = model.outages.filter(|_| is_trace).map(Cursor::new);
                let sender = (bottleneck, outage);
                Core::Queued(Box::new(Queued::new(queue, sender, model.delay, model.reordering)))
            }
        };
        Self {
            core,
            now: Nanos::ZERO,
            overhead_bytes: if is_trace { TUN_HEADER_BYTES } else { 0 },
            loss: model.loss,
            policer: model.policer,
            aggregator: model.aggregation.map(|rule| Box::new(Aggregator::new(rule))),
            books: Books::new(),
            speed: has_rate.then(|| Box::new(speed)),
        }
    }

    /// Keeps no histogram of queueing delays. Quantiles become NaN; the mean and the maximum stay.
    /// Each packet then costs some nanoseconds less.
    pub fn without_delay_histogram(mut self) -> Self {
        self.books.counters.keep_no_histogram();
        self
    }

    /// Starts a log; [`drain_log`](Link::drain_log) takes its events.
    pub fn enable_log(&mut self) {
        let meter = self.speed.as_ref().map(|speed| Meter::new(SpeedClock::clone(speed), self.now));
        self.books.open_log(meter);
    }

    /// Ends the log and discards the events that were not taken.
    pub fn disable_log(&mut self) {
        self.books.close_log();
    }

    /// The events logged since the last call, in order.
    pub fn drain_log(&mut self) -> impl Iterator<Item = LogEvent> + '_ {
        self.books.drain_log()
    }

    /// The counters since the start, or since the last reset.
    pub fn stats(&self) -> LinkStats {
        self.books.counters.snapshot(self.level())
    }

    /// Sets the counters to zero. Packets under way stay, and count as out when they leave.
    pub fn reset_stats(&mut self) {
        self.books.counters.reset(self.level());
    }

    /// Packets under way: queued, being sent, being delayed, or held at the end.
    pub fn packets_held(&self) -> u64 {
        self.level().packets_held
    }

    /// Packets and bytes that wait in the queue, as of the last `push`, `pop` or `advance`.
    pub fn queue(&self) -> (u64, u64) {
        let level = self.core.level();
        (level.queue_packets, level.queue_bytes)
    }

    /// Whether a trace that plays once has ended: no more packets will leave.
    pub fn is_finished(&self) -> bool {
        matches!(&self.core, Core::Queued(queued) if queued.is_finished())
    }

    /// Sends a packet into the link at `now`.
    pub fn push(&mut self, packet: P, now: Nanos) {
        let now = self.advance(now);
        let packet_bytes = packet.bytes();
        let bytes = packet_bytes + self.overhead_bytes;
        self.books.arrival(now, &packet, bytes);
        let held = Held { packet, bytes, arrived: now };
        if self.loss.is_lost(now) {
            self.books.drop(now, held, DropReason::Loss);
        } else if self.policer.as_mut().is_some_and(|policer| !policer.admits(packet_bytes, now)) {
            self.books.drop(now, held, DropReason::Policer);
        } else {
            match &mut self.core {
                Core::Row(row) => row.push(held, &mut self.books),
                Core::Queued(queued) => queued.push(held, &mut self.books),
            }
        }
    }

    /// The next moment at which `pop` may return a packet, if no other packet is pushed before.
    ///
    /// `pop` may return nothing even then, if jitter or a drop in the queue makes the packet later;
    /// ask again. Whatever happens inside the link before that moment keeps its own time.
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        if let Some(dropped) = self.books.dropped.front() {
            return Some(dropped.at);
        }
        let Some(aggregator) = &self.aggregator else { return self.core.next_arrival() };
        let filling = aggregator.missing().and_then(|missing| self.core.arrival(missing - 1));
        let packets = self.core.level().packets_held as usize;
        aggregator.next_event(Outlook { next: self.core.next_arrival(), filling, packets })
    }

    /// Whether a pushed packet always leaves after all others. If so, a push while others are under
    /// way changes [`next_event`](Link::next_event) only if the pushed packet is dropped.
    #[inline]
    pub fn keeps_order(&self) -> bool {
        matches!(self.core, Core::Row(_)) && self.aggregator.is_none()
    }

    /// The next packet that was delivered or dropped by `now`. Call it until it returns `None`.
    #[inline]
    pub fn pop(&mut self, now: Nanos) -> Option<Outcome<P>> {
        let now = self.advance(now);
        if !self.books.dropped.is_empty() {
            return self.pop_dropped();
        }
        let passage = match &mut self.aggregator {
            None => self.core.pop(now)?,
            Some(aggregator) => pop_aggregated(&mut self.core, aggregator, now)?,
        };
        let Passage { packet, arrived, departed, at, .. } = passage;
        self.books.counters.totals.packets_out += 1;
        self.books.counters.totals.bytes_out += u64::from(packet.bytes());
        Some(Outcome { packet, fate: Fate::Delivered { arrived, departed, at } })
    }

    /// Runs the bottleneck up to `now`, so that the statistics are current. Returns the latest
    /// moment seen.
    pub fn advance(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        match &mut self.core {
            Core::Row(row) => row.advance(self.now, &mut self.books),
            Core::Queued(queued) => queued.advance(self.now, &mut self.books),
        }
        self.now
    }

    #[inline(never)]
    fn pop_dropped(&mut self) -> Option<Outcome<P>> {
        let Dropped { packet, reason, at } = self.books.dropped.pop_front()?;
        Some(Outcome { packet, fate: Fate::Dropped { reason, at } })
    }

    fn level(&self) -> Level {
        let mut level = self.core.level();
        level.packets_held += self.aggregator.as_ref().map_or(0, |held| held.len() as u64);
        level
    }
}

impl<P: Packet> Core<P> {
    fn level(&self) -> Level {
        match self {
            Self::Row(row) => row.level(),
            Self::Queued(queued) => queued.level(),
        }
    }

    #[inline]
    fn pop(&mut self, now: Nanos) -> Option<Passage<P>> {
        match self {
            Self::Row(row) => row.pop(now),
            Self::Queued(queued) => queued.pop(now),
        }
    }

    #[inline]
    fn next_arrival(&self) -> Option<Nanos> {
        match self {
            Self::Row(row) => row.arrival(0),
            Self::Queued(queued) => queued.next_arrival(),
        }
    }

    fn arrival(&self, index: usize) -> Option<Nanos> {
        match self {
            Self::Row(row) => row.arrival(index),
            Self::Queued(queued) => queued.arrival(index),
        }
    }
}

#[inline(never)]
fn pop_aggregated<P: Packet>(
    core: &mut Core<P>,
    aggregator: &mut Aggregator<P>,
    now: Nanos,
) -> Option<Passage<P>> {
    while let Some(passage) = core.pop(now) {
        aggregator.arrive(passage);
    }
    aggregator.pop(now)
}

fn speed_of(model: &LinkModel) -> SpeedClock {
    let bits_per_sec = match &model.rate {
        RateModel::Unlimited | RateModel::Trace { .. } => None,
        RateModel::Constant { bits_per_sec } => Some(Schedule::constant(*bits_per_sec)),
        RateModel::Steps { bits_per_sec } => Some(bits_per_sec.clone()),
    };
    SpeedClock::new(bits_per_sec, model.outages.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;

    fn rng(stream: u64) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        rng.set_stream(stream);
        rng
    }

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Numbered {
        number: usize,
        bytes: u32,
        ce: bool,
    }

    impl Packet for Numbered {
        fn bytes(&self) -> u32 {
            self.bytes
        }
        fn mark_ce(&mut self) -> bool {
            self.ce = true;
            true
        }
    }

    #[derive(Clone, Copy, Debug)]
    struct Settings {
        rate: Option<u64>,
        steps: bool,
        outages: bool,
        limit: Limit,
        mark_above_packets: Option<u64>,
        jitter_ms: u64,
        aggregation: Option<Aggregation>,
    }

    fn settings() -> impl Strategy<Value = Settings> {
        let limit = (proptest::option::of(1u64..20), proptest::option::of(1_500u64..30_000));
        let groups = proptest::option::of((1u64..30, proptest::option::of(1usize..9)));
        let flags = (any::<bool>(), any::<bool>());
        let rate = proptest::option::of(500_000u64..50_000_000);
        (rate, flags, limit, proptest::option::of(0u64..9), 0u64..4, groups).prop_map(
            |(rate, (steps, outages), limit, mark_above_packets, jitter_ms, groups)| Settings {
                rate,
                steps,
                outages,
                limit: Limit { packets: limit.0, bytes: limit.1 },
                mark_above_packets,
                jitter_ms,
                aggregation: groups.map(|(ms, packets_max)| Aggregation {
                    interval: Nanos::from_millis(ms),
                    packets_max,
                }),
            },
        )
    }

    fn model(settings: Settings) -> LinkModel {
        let ms = Nanos::from_millis;
        let rate = match settings.rate {
            None => RateModel::Unlimited,
            Some(bits_per_sec) if !settings.steps => RateModel::Constant { bits_per_sec },
            Some(rate) => {
                let steps = vec![(ms(20), rate * 3), (ms(45), rate / 2), (ms(46), rate)];
                RateModel::Steps { bits_per_sec: Schedule::new(rate, steps, Some(ms(90))) }
            }
        };
        let outages = vec![(ms(30), true), (ms(50), false), (ms(70), true), (ms(77), false)];
        LinkModel {
            loss: Loss::independent(5.0, rng(0)),
            policer: None,
            discipline: Discipline::DropTail { mark_above_packets: settings.mark_above_packets },
            limit: settings.limit,
            queue_rng: rng(2),
            rate,
            outages: settings.outages.then(|| Schedule::new(false, outages, Some(ms(80)))),
            delay: Delay::fixed(ms(10), rng(1)).with_jitter(ms(settings.jitter_ms), 0.3),
            reordering: None,
            aggregation: settings.aggregation,
        }
    }

    type Ran = (Vec<Outcome<Numbered>>, Vec<LogEvent>, LinkStats);

    /// Pushes all packets, popping between them, then lets the link run empty.
    fn run(mut link: Link<Numbered>, traffic: &[(u64, u32)]) -> Ran {
        link.enable_log();
        let mut now = Nanos::ZERO;
        let mut outcomes = Vec::new();
        for (number, (gap_us, bytes)) in traffic.iter().enumerate() {
            now = now + Nanos(gap_us * 1_000);
            outcomes.extend(std::iter::from_fn(|| link.pop(now)));
            link.push(Numbered { number, bytes: *bytes, ce: false }, now);
        }
        let stats = link.stats();
        while let Some(at) = link.next_event() {
            outcomes.extend(link.pop(at));
        }
        let log = link.drain_log().collect();
        (outcomes, log, stats)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn a_row_and_a_queue_do_the_same(
            settings in settings(),
            traffic in proptest::collection::vec((0u64..4_000, 40u32..=1500), 1..200),
        ) {
            let row = Link::new(model(settings));
            prop_assert!(matches!(row.core, Core::Row(_)));
            let queued = Link::assemble(model(settings), false);
            let (row, queued) = (run(row, &traffic), run(queued, &traffic));
            prop_assert_eq!(row.0, queued.0);
            prop_assert_eq!(row.1, queued.1);
            prop_assert_eq!(row.2, queued.2);
        }
    }

    #[test]
    fn a_policer_drops_before_the_queue() {
        let settings = Settings {
            rate: Some(12_000_000),
            steps: false,
            outages: false,
            limit: Limit::default(),
            mark_above_packets: None,
            jitter_ms: 0,
            aggregation: None,
        };
        let policer = Some(Policer::new(6_000_000, 3_000));
        let loss = Loss::independent(0.0, rng(0));
        let mut link = Link::new(LinkModel { policer, loss, ..model(settings) });
        for ms in 0..100 {
            link.push(1500u32, Nanos::from_millis(ms));
        }
        link.advance(Nanos::from_millis(200));
        let stats = link.stats();
        // Two packets at once, then every second one.
        assert_eq!((stats.dropped.policer, stats.dropped.total()), (49, 49));
        assert_eq!((stats.queueing_delay.packets, stats.queueing_delay.max_ms), (51, 1.0));
    }
}
