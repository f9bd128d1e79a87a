//! One direction of a path.
//!
//! ```text
//! push ─▶ loss ─▶ queue ─▶ bottleneck ─▶ delay and jitter ─▶ pop
//! ```
//!
//! The order is that of `mm-delay mm-loss mm-link`'s uplink with the loss moved to the front: a
//! packet the channel loses never takes room in the queue, so the loss rate does not depend on
//! the load; the queue lies directly before the bottleneck, so its delay is the sender's doing
//! alone; and propagation comes last, so jitter can neither fill nor starve the bottleneck, and a
//! packet delayed is never dropped.

use crate::bottleneck::{Bottleneck, ConstantRate, TraceClock};
use crate::delay::Delay;
use crate::log::{LogEvent, LogKind};
use crate::loss::Loss;
use crate::packet::Packet;
use crate::queue::{DropReason, Held, Queue};
use crate::spec::RateModel;
use crate::stats::{Counters, LinkStats};
use crate::time::Nanos;
use crate::trace::{OPPORTUNITY_BYTES, TUN_HEADER_BYTES};
use std::collections::VecDeque;

/// The parts of a link.
#[derive(Debug)]
pub struct LinkModel<P> {
    /// Which packets the channel loses.
    pub loss: Loss,
    /// What waits for the bottleneck.
    pub queue: Queue<P>,
    /// How fast the bottleneck sends.
    pub rate: RateModel,
    /// How long a packet then travels.
    pub delay: Delay,
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<P> {
    /// It reached the other end.
    Delivered {
        /// The packet.
        packet: P,
        /// When it came to the link.
        arrived: Nanos,
        /// When it left the bottleneck.
        departed: Nanos,
        /// When it reaches the other end.
        at: Nanos,
    },
    /// It was dropped.
    Dropped {
        /// The packet.
        packet: P,
        /// Why.
        reason: DropReason,
        /// When.
        at: Nanos,
    },
}

#[derive(Debug)]
struct Sending<P> {
    held: Held<P>,
    /// On a constant rate: when its last bit is out.
    done: Nanos,
    /// On a trace: what is still to be sent.
    bytes_left: u32,
}

#[derive(Debug)]
struct Travelling<P> {
    packet: P,
    arrived: Nanos,
    departed: Nanos,
    at: Nanos,
}

/// One direction of a path: a state machine that is told the time.
///
/// Moments passed to [`push`](Link::push) and [`pop`](Link::pop) must not go back; one that does
/// counts as the latest seen.
#[derive(Debug)]
pub struct Link<P> {
    loss: Loss,
    queue: Queue<P>,
    bottleneck: Bottleneck,
    delay: Delay,
    overhead_bytes: u32,
    now: Nanos,
    sending: Option<Sending<P>>,
    travelling: VecDeque<Travelling<P>>,
    dropped: VecDeque<(P, DropReason, Nanos)>,
    /// Kept between calls so that a drop allocates nothing.
    drops: Vec<(Held<P>, DropReason)>,
    counters: Counters,
    log: Option<Log>,
}

#[derive(Debug, Default)]
struct Log {
    events: Vec<LogEvent>,
    /// Constant rates: the millisecond up to which capacity is logged.
    capacity_ms: u64,
}

impl<P: Packet> Link<P> {
    /// A link that starts at time zero.
    pub fn new(model: LinkModel<P>) -> Self {
        let overhead_bytes =
            if matches!(model.rate, RateModel::Trace { .. }) { TUN_HEADER_BYTES } else { 0 };
        let bottleneck = match model.rate {
            RateModel::Unlimited => Bottleneck::Unlimited,
            RateModel::Constant { bits_per_sec } => {
                Bottleneck::Constant(ConstantRate::new(bits_per_sec))
            }
            RateModel::Trace { trace, once } => Bottleneck::Trace(TraceClock::new(trace, once)),
        };
        Self {
            loss: model.loss,
            queue: model.queue,
            bottleneck,
            delay: model.delay,
            overhead_bytes,
            now: Nanos::ZERO,
            sending: None,
            travelling: VecDeque::new(),
            dropped: VecDeque::new(),
            drops: Vec::new(),
            counters: Counters::new(),
            log: None,
        }
    }

    /// Keeps a log from now on, to be taken with [`drain_log`](Link::drain_log).
    pub fn enable_log(&mut self) {
        self.log = Some(Log { capacity_ms: self.now.as_millis(), ..Log::default() });
    }

    /// Keeps no log from now on, and forgets what was not taken.
    pub fn disable_log(&mut self) {
        self.log = None;
    }

    /// The events logged since the last call, in order.
    pub fn drain_log(&mut self) -> impl Iterator<Item = LogEvent> + '_ {
        self.log.iter_mut().flat_map(|log| log.events.drain(..))
    }

    /// What the link has done.
    pub fn stats(&self) -> LinkStats {
        let mut stats = self.counters.snapshot();
        stats.packets_held = self.packets_held();
        stats
    }

    /// Counts from zero again. What is under way stays, and will count as out.
    pub fn reset_stats(&mut self) {
        self.counters.reset();
    }

    /// Packets under way: queued, being sent, or being delayed.
    pub fn packets_held(&self) -> u64 {
        let rest = self.travelling.len() + usize::from(self.sending.is_some());
        self.queue.packets() + rest as u64
    }

    /// Whether the trace was to be played once and is over: nothing more will leave.
    pub fn is_finished(&self) -> bool {
        matches!(&self.bottleneck, Bottleneck::Trace(clock) if clock.is_finished())
    }

    /// A packet comes to the link.
    pub fn push(&mut self, packet: P, now: Nanos) {
        let now = self.advance(now);
        let bytes = packet.bytes() + self.overhead_bytes;
        self.counters.totals.packets_in += 1;
        self.counters.totals.bytes_in += u64::from(packet.bytes());
        self.record(now, LogKind::Arrival { bytes });
        let held = Held { packet, bytes, arrived: now };
        if self.loss.is_lost() {
            self.drops.push((held, DropReason::Loss));
        } else {
            self.queue.enqueue(held, &mut self.drops);
            self.start_sending(now);
        }
        self.settle(now);
    }

    /// The next moment at which `pop` may return something, if nothing else comes.
    ///
    /// It may return nothing even then, where jitter or a queue's drop decided otherwise; ask
    /// again. What happens before that moment inside the link is worked off then, at its own time.
    pub fn next_event(&self) -> Option<Nanos> {
        if let Some((_, _, at)) = self.dropped.front() {
            return Some(*at);
        }
        let arrives = self.travelling.front().map(|travelling| travelling.at);
        if arrives.is_some() && self.delay.keeps_order() {
            return arrives;
        }
        let sent = match &self.bottleneck {
            Bottleneck::Trace(clock) if self.sending.is_some() || !self.queue.is_empty() => {
                clock.next_opportunity()
            }
            Bottleneck::Trace(_) => None,
            _ => self.sending.as_ref().map(|sending| sending.done),
        };
        let earliest = sent.map(|at| at + self.delay.at_least());
        [earliest, arrives].into_iter().flatten().min()
    }

    /// What has become of the next packet by `now`. Call it until it returns none.
    pub fn pop(&mut self, now: Nanos) -> Option<Outcome<P>> {
        let now = self.advance(now);
        if let Some((packet, reason, at)) = self.dropped.pop_front() {
            return Some(Outcome::Dropped { packet, reason, at });
        }
        if self.travelling.front()?.at > now {
            return None;
        }
        let Travelling { packet, arrived, departed, at } = self.travelling.pop_front()?;
        self.counters.totals.packets_out += 1;
        self.counters.totals.bytes_out += u64::from(packet.bytes());
        Some(Outcome::Delivered { packet, arrived, departed, at })
    }

    /// Lets the bottleneck work up to `now`, so that the statistics are of `now`; returns the
    /// latest moment seen.
    pub fn advance(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        match self.bottleneck {
            Bottleneck::Unlimited => {}
            Bottleneck::Constant(_) => self.advance_constant(self.now),
            Bottleneck::Trace(_) => self.advance_trace(self.now),
        }
        self.now
    }

    fn advance_constant(&mut self, now: Nanos) {
        while let Some(sending) = self.sending.take_if(|sending| sending.done <= now) {
            let done = sending.done;
            self.log_capacity(done);
            self.depart(sending.held, done);
            self.start_sending(done);
            self.settle(done);
        }
        self.log_capacity(now);
    }

    /// A free bottleneck of constant (or no) rate takes the next packet. A trace's waits.
    fn start_sending(&mut self, now: Nanos) {
        if matches!(self.bottleneck, Bottleneck::Trace(_)) {
            return;
        }
        while self.sending.is_none() {
            let Some(held) = self.queue.dequeue(now, &mut self.drops) else { break };
            match &mut self.bottleneck {
                Bottleneck::Constant(rate) => {
                    let done = rate.send(held.bytes, now);
                    self.sending = Some(Sending { held, done, bytes_left: 0 });
                }
                _ => self.depart(held, now),
            }
        }
    }

    fn advance_trace(&mut self, now: Nanos) {
        while let Bottleneck::Trace(clock) = &mut self.bottleneck {
            if self.sending.is_none() && self.queue.is_empty() && self.log.is_none() {
                clock.skip_past(now);
            }
            let Some(at) = clock.next_opportunity().filter(|at| *at <= now) else { break };
            clock.step();
            self.record(at, LogKind::Opportunity { bytes: u64::from(OPPORTUNITY_BYTES) });
            self.use_opportunity(at);
            self.settle(at);
        }
    }

    /// Sends up to [`OPPORTUNITY_BYTES`]: several small packets, or a part of a large one.
    fn use_opportunity(&mut self, at: Nanos) {
        let mut budget = OPPORTUNITY_BYTES;
        while budget > 0 {
            let next = self.sending.take().or_else(|| {
                let held = self.queue.dequeue(at, &mut self.drops)?;
                Some(Sending { bytes_left: held.bytes, held, done: at })
            });
            let Some(mut sending) = next else { break };
            let sent = budget.min(sending.bytes_left);
            budget -= sent;
            sending.bytes_left -= sent;
            if sending.bytes_left == 0 {
                self.depart(sending.held, at);
            } else {
                self.sending = Some(sending);
            }
        }
    }

    /// A packet has left the bottleneck and begins to travel.
    fn depart(&mut self, held: Held<P>, departed: Nanos) {
        let waited = departed - held.arrived;
        self.counters.waited(waited);
        self.record(departed, LogKind::Departure { bytes: held.bytes, delay: waited });
        let at = self.delay.deliver_at(departed);
        let travelling = Travelling { packet: held.packet, arrived: held.arrived, departed, at };
        // Only jitter that reorders ever looks beyond the last one.
        let mut place = self.travelling.len();
        while place > 0 && self.travelling[place - 1].at > at {
            place -= 1;
        }
        self.travelling.insert(place, travelling);
    }

    /// Books what was dropped at `at`, and how full the queue is.
    fn settle(&mut self, at: Nanos) {
        for (held, reason) in self.drops.drain(..) {
            self.counters.totals.dropped.count(reason);
            self.counters.totals.bytes_dropped += u64::from(held.packet.bytes());
            if let Some(log) = &mut self.log {
                log.events.push(LogEvent { at, kind: LogKind::Drop { bytes: held.bytes } });
            }
            self.dropped.push_back((held.packet, reason, at));
        }
        self.counters.queue_is(self.queue.packets(), self.queue.bytes());
        self.counters.marked_is(self.queue.marked());
    }

    fn record(&mut self, at: Nanos, kind: LogKind) {
        if let Some(log) = &mut self.log {
            log.events.push(LogEvent { at, kind });
        }
    }

    /// Logs, for each millisecond past, what a constant rate could have sent in it.
    fn log_capacity(&mut self, now: Nanos) {
        let (Some(log), Bottleneck::Constant(rate)) = (&mut self.log, &self.bottleneck) else {
            return;
        };
        let sent_by = |ms: u64| u128::from(ms) * u128::from(rate.bits_per_sec()) / 8_000;
        while log.capacity_ms < now.as_millis() {
            let bytes = sent_by(log.capacity_ms + 1) - sent_by(log.capacity_ms);
            log.capacity_ms += 1;
            if bytes > 0 {
                let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                let at = Nanos::from_millis(log.capacity_ms);
                log.events.push(LogEvent { at, kind: LogKind::Opportunity { bytes } });
            }
        }
    }
}
