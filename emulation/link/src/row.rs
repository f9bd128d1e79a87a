//! The common link: a drop-tail queue, a rate known ahead, and a wire that keeps order.
//!
//! All that will become of a packet is known as it comes: when it will have been sent, and when it
//! arrives. So it is put into one row with its moments, and not moved again until it arrives:
//!
//! ```text
//! pop ◀── [ left the bottleneck: `departed` of them | being sent | waiting ... ] ◀── push
//! ```
//!
//! What [`Queued`](crate::queued::Queued) does with three containers, for any discipline and any
//! wire, this does with one; both give the same for the same link, which a test holds.

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
    /// When the one being sent leaves; none is before that.
    next_departure: Nanos,
    waiting_bytes: u64,
    marked: u64,
}

impl<P: Packet> Row<P> {
    /// `delay` must keep order.
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

    /// A packet comes; all before it has been worked off.
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
            // nothing to wait for: it has left as it came, and there is no log to tell
            books.counters.waited(departed - arrived);
            self.departed += 1;
        }
    }

    /// Works off what happens up to `now`.
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

    /// Takes the next packet that has arrived by `now`, up to which all was worked off.
    #[inline]
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<Passage<P>> {
        if self.row.front()?.at > now {
            return None;
        }
        // It has left the bottleneck before it arrived.
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
