//! The common link: a drop-tail queue, a rate known in advance, and a delay that keeps order.
//!
//! When a packet arrives at such a link, its departure and its arrival at the other end are already
//! known. So the packet goes into one row with these times, and does not move again:
//!
//! ```text
//! pop ◀── [ left the bottleneck: `departed` of them | being sent | waiting ... ] ◀── push
//! ```
//!
//! [`Queued`](crate::queued::Queued) uses three containers for any discipline and delay; a `Row`
//! uses one. A test holds that both give the same results for the same link.

use crate::books::Books;
use crate::bottleneck::Pace;
use crate::delay::Delay;
use crate::packet::Packet;
use crate::passage::Passage;
use crate::queue::{DropReason, Held, Limit};
use crate::stats::Level;
use crate::time::Nanos;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Row<P> {
    limit: Limit,
    mark_above_packets: Option<u64>,
    pace: Pace,
    delay: Delay,
    row: VecDeque<Passage<P>>,
    departed: usize,
    /// When the packet in transmission leaves; no packet leaves earlier.
    next_departure: Nanos,
    waiting_bytes: u64,
    marked: u64,
}

impl<P: Packet> Row<P> {
    /// `delay` must keep the order of packets.
    pub(crate) fn new(
        limit: Limit,
        mark_above_packets: Option<u64>,
        pace: Pace,
        delay: Delay,
    ) -> Self {
        Self {
            limit,
            mark_above_packets,
            pace,
            delay,
            row: VecDeque::new(),
            departed: 0,
            next_departure: Nanos::MAX,
            waiting_bytes: 0,
            marked: 0,
        }
    }

    pub(crate) fn level(&self) -> Level {
        Level {
            packets_held: self.row.len() as u64,
            queue_packets: self.waiting_packets(),
            queue_bytes: self.waiting_bytes,
            marked: self.marked,
        }
    }

    /// Adds a packet. The caller has advanced the link to its arrival.
    pub(crate) fn push(&mut self, mut held: Held<P>, books: &mut Books<P>) {
        let now = held.arrived;
        let waiting = self.waiting_packets();
        let bytes = self.waiting_bytes + u64::from(held.bytes);
        if !self.limit.admits(waiting + 1, bytes) {
            books.drop(now, held, DropReason::QueueFull);
            return;
        }
        let is_long = self.mark_above_packets.is_some_and(|above| waiting > above);
        if is_long && held.packet.mark_ce() {
            self.marked += 1;
        }
        let departed = self.pace.send(held.bytes, now);
        let at = self.delay.deliver_at(departed);
        let is_busy = self.departed < self.row.len();
        let Held { packet, bytes: packet_bytes, arrived } = held;
        self.row.push_back(Passage { packet, bytes: packet_bytes, arrived, departed, at });
        if is_busy {
            self.waiting_bytes = bytes;
            books.counters.queue_is(waiting + 1, bytes);
        } else if departed > now || books.is_logging() {
            self.next_departure = departed;
            self.advance(now, books);
        } else {
            // The packet leaves as it comes, and no log records it.
            books.counters.waited(departed - arrived);
            self.departed += 1;
        }
    }

    /// Processes what happens up to `now`.
    #[inline]
    pub(crate) fn advance(&mut self, now: Nanos, books: &mut Books<P>) {
        if self.next_departure <= now || books.is_logging() {
            self.work_off(now, books);
        }
    }

    #[inline(never)]
    fn work_off(&mut self, now: Nanos, books: &mut Books<P>) {
        while self.next_departure <= now {
            let Some(passage) = self.row.get(self.departed) else { break };
            books.capacity_until(passage.departed);
            let Passage { packet, bytes, arrived, departed, .. } = passage;
            books.departure(*departed, packet, *bytes, *arrived);
            self.departed += 1;
            self.next_departure = Nanos::MAX;
            if let Some(next) = self.row.get(self.departed) {
                self.next_departure = next.departed;
                self.waiting_bytes -= u64::from(next.bytes);
            }
        }
        books.capacity_until(now);
    }

    /// Takes the next packet that has arrived by `now`. The caller has advanced the link to `now`.
    #[inline]
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<Passage<P>> {
        if self.row.front()?.at > now {
            return None;
        }
        // A packet that arrives has left the bottleneck, so `departed` counts it.
        self.departed -= 1;
        self.row.pop_front()
    }

    /// When the packet behind `index` others arrives.
    pub(crate) fn arrival(&self, index: usize) -> Option<Nanos> {
        self.row.get(index).map(|passage| passage.at)
    }

    fn waiting_packets(&self) -> u64 {
        (self.row.len() - self.departed).saturating_sub(1) as u64
    }
}
