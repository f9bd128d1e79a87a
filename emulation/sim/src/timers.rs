//! What is to happen when, beside what links do by themselves.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    Start,
    /// A packet of a handshake may have been lost.
    Handshake,
    /// A flow sends nothing new from now on.
    Stop,
    /// A sender's retransmission timeout, tail loss probe or reordering timer.
    Loss,
    /// A paced sender may send again.
    Pace,
    /// The timer of a flow's arm.
    Wake,
    /// An application has written more.
    App,
    /// A receiver's delayed ACK.
    Ack,
    /// A packet has crossed a flow's own further delay.
    Access,
    /// A sender that does not listen sends.
    Unresponsive,
    Sample,
}

/// A queue of timers, in the order of their time; those of one moment in the order they were set.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64, Event, u32)>>,
    order: u64,
}

impl Timers {
    /// Sets one for flow `flow` at `at_ns`.
    pub fn set(&mut self, at_ns: u64, event: Event, flow: u32) {
        self.order += 1;
        self.heap.push(Reverse((at_ns, self.order, event, flow)));
    }

    /// When the next one is due, in nanoseconds.
    pub fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((at_ns, ..))| *at_ns)
    }

    /// Takes the next one.
    pub fn take(&mut self) -> Option<(Event, u32)> {
        self.heap.pop().map(|Reverse((_, _, event, flow))| (event, flow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_order_of_time_and_then_of_setting() {
        let mut timers = Timers::default();
        for (at_ns, flow) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            timers.set(at_ns, Event::Loss, flow);
        }
        assert_eq!(timers.next_ns(), 3);
        let order: Vec<u32> = std::iter::from_fn(|| timers.take()).map(|(_, flow)| flow).collect();
        assert_eq!(order, [1, 3, 0, 2]);
        assert_eq!(timers.next_ns(), u64::MAX);
    }
}
