//! Aggregation: the link holds arrived packets and releases them together, as a radio link or a
//! cable modem does with acknowledgements.
//!
//! Packets are held until the next multiple of the interval since the link's start, or until
//! `packets_max` of them are held, whichever comes first. Then all held packets are delivered at
//! once, in order. A packet that arrives exactly at a multiple of the interval is delivered then.

use crate::passage::Passage;
use crate::time::Nanos;
use std::collections::VecDeque;

/// When packets that have arrived are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregation {
    pub interval: Nanos,
    /// Above zero. `None`: only the interval releases packets.
    pub packets_max: Option<usize>,
}

/// Holds the packets that have arrived. Arrivals must come in the order of their time.
#[derive(Clone, Debug)]
pub(crate) struct Aggregator<P> {
    rule: Aggregation,
    held: VecDeque<Passage<P>>,
    /// When the held packets are released, unless `packets_max` is reached before.
    due: Nanos,
    released: VecDeque<Passage<P>>,
}

/// What a link knows of future arrivals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook {
    /// No packet arrives before this moment. `None`: no packet is on its way.
    pub(crate) next: Option<Nanos>,
    /// When the packet arrives that fills the group to `packets_max`, if that moment is certain.
    pub(crate) filling: Option<Nanos>,
    /// How many packets are on their way.
    pub(crate) packets: usize,
}

impl<P> Aggregator<P> {
    pub(crate) fn new(rule: Aggregation) -> Self {
        Self { rule, held: VecDeque::new(), due: Nanos::ZERO, released: VecDeque::new() }
    }

    /// Packets held or released, and not yet popped.
    pub(crate) fn len(&self) -> usize {
        self.held.len() + self.released.len()
    }

    /// How many more arrivals fill the group to `packets_max`.
    pub(crate) fn missing(&self) -> Option<usize> {
        self.rule.packets_max.map(|max| max.saturating_sub(self.held.len()).max(1))
    }

    pub(crate) fn arrive(&mut self, passage: Passage<P>) {
        let now = passage.at;
        if self.due < now {
            self.release(self.due);
        }
        if self.held.is_empty() {
            self.due = self.release_after(now);
        }
        self.held.push_back(passage);
        if self.rule.packets_max.is_some_and(|max| self.held.len() >= max) {
            self.release(now);
        }
    }

    /// Takes the next packet that is released by `now`. Every arrival up to `now` must have been
    /// passed to `arrive` before.
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<Passage<P>> {
        if self.due <= now {
            self.release(self.due);
        }
        self.released.pop_front()
    }

    /// When the next packet may be released.
    pub(crate) fn next_event(&self, outlook: Outlook) -> Option<Nanos> {
        if let Some(passage) = self.released.front() {
            return Some(passage.at);
        }
        let tick = if self.held.is_empty() {
            outlook.next.map(|at| self.release_after(at))
        } else {
            Some(self.due)
        };
        let can_fill = self.missing().is_some_and(|missing| missing <= outlook.packets);
        let full = outlook.filling.or(outlook.next).filter(|_| can_fill);
        [tick, full].into_iter().flatten().min()
    }

    fn release_after(&self, at: Nanos) -> Nanos {
        Nanos(at.0.div_ceil(self.rule.interval.0).saturating_mul(self.rule.interval.0))
    }

    fn release(&mut self, at: Nanos) {
        self.released.extend(self.held.drain(..).map(|passage| Passage { at, ..passage }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The release times of packets that arrive at `arrivals_ms`.
    fn delivered(packets_max: Option<usize>, arrivals_ms: &[u64]) -> Vec<u64> {
        let rule = Aggregation { interval: Nanos::from_millis(100), packets_max };
        let mut aggregator = Aggregator::new(rule);
        for ms in arrivals_ms {
            let at = Nanos::from_millis(*ms);
            let passage = Passage { packet: (), bytes: 40, arrived: at, departed: at, at };
            aggregator.arrive(passage);
        }
        std::iter::from_fn(|| aggregator.pop(Nanos::MAX)).map(|it| it.at.as_millis()).collect()
    }

    #[test]
    fn all_of_an_interval_are_delivered_at_its_end() {
        assert_eq!(delivered(None, &[0, 1, 50, 100, 101, 250]), [0, 100, 100, 100, 200, 300]);
    }

    #[test]
    fn a_full_group_is_delivered_at_once() {
        assert_eq!(delivered(Some(3), &[1, 2, 3, 4, 5]), [3, 3, 3, 100, 100]);
        assert_eq!(delivered(Some(1), &[1, 70]), [1, 70]);
    }
}
