//! A link with any discipline, any rate or trace, and any kind of delay.

use crate::books::Books;
use crate::bottleneck::Bottleneck;
use crate::delay::Delay;
use crate::packet::Packet;
use crate::passage::{Passage, Travelling};
use crate::queue::{DropReason, Held, Queue};
use crate::reordering::Reordering;
use crate::schedule::Cursor;
use crate::stats::Level;
use crate::time::Nanos;
use crate::trace::OPPORTUNITY_BYTES;

#[derive(Clone, Debug)]
struct Sending<P> {
    held: Held<P>,
    /// At a rate: when its last bit is sent.
    done: Nanos,
    /// On a trace: the bytes that are not sent yet.
    bytes_left: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Queued<P> {
    queue: Queue<P>,
    bottleneck: Bottleneck,
    /// On a trace: when its opportunities are lost. A `Pace` handles outages itself.
    outage: Option<Cursor<bool>>,
    delay: Delay,
    reordering: Option<Reordering>,
    sending: Option<Sending<P>>,
    travelling: Travelling<P>,
    /// Kept between calls, so that a drop allocates no memory.
    drops: Vec<(Held<P>, DropReason)>,
}

impl<P: Packet> Queued<P> {
    pub(crate) fn new(
        queue: Queue<P>,
        (bottleneck, outage): (Bottleneck, Option<Cursor<bool>>),
        delay: Delay,
        reordering: Option<Reordering>,
    ) -> Self {
        let travelling = Travelling::new();
        let (sending, drops) = (None, Vec::new());
        Self { queue, bottleneck, outage, delay, reordering, sending, travelling, drops }
    }

    pub(crate) fn level(&self) -> Level {
        let rest = self.travelling.len() + usize::from(self.sending.is_some());
        Level {
            packets_held: self.queue.packets() + rest as u64,
            queue_packets: self.queue.packets(),
            queue_bytes: self.queue.bytes(),
            marked: self.queue.marked(),
        }
    }

    /// Whether a trace that plays once has ended.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(&self.bottleneck, Bottleneck::Trace(clock) if clock.is_finished())
    }

    /// Adds a packet. The caller has advanced the link to its arrival.
    pub(crate) fn push(&mut self, held: Held<P>, books: &mut Books<P>) {
        let now = held.arrived;
        self.queue.enqueue(held, &mut self.drops);
        self.start_sending(now, books);
        self.settle(now, books);
        books.counters.queue_is(self.queue.packets(), self.queue.bytes());
    }

    /// Processes what happens up to `now`.
    #[inline]
    pub(crate) fn advance(&mut self, now: Nanos, books: &mut Books<P>) {
        let next = match &self.bottleneck {
            Bottleneck::Paced(_) => self.sending.as_ref().map(|sending| sending.done),
            Bottleneck::Trace(clock) => clock.next_opportunity(),
        };
        if next.is_some_and(|at| at <= now) || books.is_logging() {
            self.work_off(now, books);
        }
    }

    #[inline(never)]
    fn work_off(&mut self, now: Nanos, books: &mut Books<P>) {
        match self.bottleneck {
            Bottleneck::Paced(_) => self.advance_pace(now, books),
            Bottleneck::Trace(_) => self.advance_trace(now, books),
        }
    }

    /// Takes the next packet that has arrived by `now`. The caller has advanced the link to `now`.
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<Passage<P>> {
        self.travelling.pop(now)
    }

    /// No packet arrives before this moment, unless another is pushed. Jitter and drops may make it
    /// later.
    pub(crate) fn next_arrival(&self) -> Option<Nanos> {
        let arrives = self.travelling.next_at();
        if !self.travelling.may_be_overtaken() && self.delay.keeps_order() {
            return arrives;
        }
        let departs = match &self.bottleneck {
            Bottleneck::Trace(clock) if self.sending.is_some() || !self.queue.is_empty() => {
                clock.next_opportunity().map(|at| self.after_outage(at))
            }
            Bottleneck::Trace(_) => None,
            Bottleneck::Paced(_) => self.sending.as_ref().map(|sending| sending.done),
        };
        let earliest = departs.map(|at| at + self.delay.at_least());
        [earliest, arrives].into_iter().flatten().min()
    }

    /// When the packet behind `index` others arrives, if that moment is certain.
    pub(crate) fn arrival(&self, index: usize) -> Option<Nanos> {
        if self.delay.keeps_order() { self.travelling.nth_at(index) } else { None }
    }

    fn advance_pace(&mut self, now: Nanos, books: &mut Books<P>) {
        while let Some(sending) = self.sending.take_if(|sending| sending.done <= now) {
            let done = sending.done;
            books.capacity_until(done);
            self.depart(sending.held, done, books);
            self.start_sending(done, books);
            self.settle(done, books);
        }
        books.capacity_until(now);
    }

    /// Starts sending if the bottleneck is free. On a trace, packets wait for the next opportunity.
    fn start_sending(&mut self, now: Nanos, books: &mut Books<P>) {
        while self.sending.is_none() {
            let Bottleneck::Paced(pace) = &mut self.bottleneck else { return };
            let Some(held) = self.queue.dequeue(now, &mut self.drops) else { return };
            let done = pace.send(held.bytes, now);
            if done <= now {
                self.depart(held, now, books);
            } else {
                self.sending = Some(Sending { held, done, bytes_left: 0 });
            }
        }
    }

    fn advance_trace(&mut self, now: Nanos, books: &mut Books<P>) {
        while let Bottleneck::Trace(clock) = &mut self.bottleneck {
            if self.sending.is_none() && self.queue.is_empty() && !books.is_logging() {
                clock.skip_past(now);
            }
            let Some(at) = clock.next_opportunity().filter(|at| *at <= now) else { break };
            clock.step();
            if self.outage.as_mut().is_some_and(|outage| outage.at(at)) {
                continue;
            }
            books.opportunity(at, u64::from(OPPORTUNITY_BYTES));
            self.use_opportunity(at, books);
            self.settle(at, books);
        }
    }

    /// Sends up to [`OPPORTUNITY_BYTES`]: several small packets, or a part of a large one.
    fn use_opportunity(&mut self, at: Nanos, books: &mut Books<P>) {
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
                self.depart(sending.held, at, books);
            } else {
                self.sending = Some(sending);
            }
        }
    }

    /// If the trace is in an outage, the next packet cannot leave before the outage ends.
    fn after_outage(&self, at: Nanos) -> Nanos {
        let ends = self.outage.as_ref().filter(|outage| outage.value()).map(Cursor::until);
        ends.map_or(at, |until| at.max(until))
    }

    /// Moves a packet from the bottleneck to the packets that travel.
    fn depart(&mut self, held: Held<P>, departed: Nanos, books: &mut Books<P>) {
        books.departure(departed, &held.packet, held.bytes, held.arrived);
        let detour = self.reordering.as_mut().and_then(Reordering::detour);
        let at = self.delay.deliver_at(departed) + detour.unwrap_or_default();
        let Held { packet, bytes, arrived } = held;
        self.travelling.push(Passage { packet, bytes, arrived, departed, at }, detour.is_some());
    }

    /// Records the packets that were dropped at `at`.
    fn settle(&mut self, at: Nanos, books: &mut Books<P>) {
        for (held, reason) in self.drops.drain(..) {
            books.drop(at, held, reason);
        }
    }
}
