//! Packets that have left the bottleneck and not yet arrived, in the order of their arrival.

use crate::time::Nanos;
use std::collections::VecDeque;

/// A packet after the bottleneck, and its times.
#[derive(Clone, Debug)]
pub(crate) struct Passage<P> {
    pub(crate) packet: P,
    /// Its length on this link, in bytes.
    pub(crate) bytes: u32,
    /// When the packet came to the link.
    pub(crate) arrived: Nanos,
    /// When the packet leaves the bottleneck.
    pub(crate) departed: Nanos,
    /// When the packet reaches the other end.
    pub(crate) at: Nanos,
}

/// The packets between the bottleneck and the other end. Packets on a detour have their own row, so
/// that both rows are (nearly) sorted and an insertion costs the same however many packets travel.
#[derive(Clone, Debug)]
pub(crate) struct Travelling<P> {
    direct: VecDeque<Passage<P>>,
    detour: VecDeque<Passage<P>>,
}

impl<P> Travelling<P> {
    pub(crate) fn new() -> Self {
        Self { direct: VecDeque::new(), detour: VecDeque::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.direct.len() + self.detour.len()
    }

    /// Whether all travelling packets are on a detour: a packet that leaves later may then overtake
    /// them.
    pub(crate) fn may_be_overtaken(&self) -> bool {
        self.direct.is_empty()
    }

    pub(crate) fn push(&mut self, passage: Passage<P>, is_detour: bool) {
        let row = if is_detour { &mut self.detour } else { &mut self.direct };
        // The loop runs more than once only if jitter may reorder packets.
        let mut place = row.len();
        while place > 0 && row[place - 1].at > passage.at {
            place -= 1;
        }
        if place == row.len() {
            row.push_back(passage);
        } else {
            row.insert(place, passage);
        }
    }

    /// When the next one arrives.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        let fronts = [self.direct.front(), self.detour.front()];
        fronts.into_iter().flatten().map(|passage| passage.at).min()
    }

    /// When the packet behind `index` others arrives, if that moment is certain.
    pub(crate) fn nth_at(&self, index: usize) -> Option<Nanos> {
        if !self.detour.is_empty() {
            return None;
        }
        self.direct.get(index).map(|passage| passage.at)
    }

    /// Takes the next packet that has arrived by `now`. If two arrive together, takes the one that
    /// left first.
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<Passage<P>> {
        let key = |row: &VecDeque<Passage<P>>| row.front().map(|it| (it.at, it.departed));
        let row = match (key(&self.direct), key(&self.detour)) {
            (Some(direct), Some(detour)) if detour < direct => &mut self.detour,
            (None, Some(_)) => &mut self.detour,
            _ => &mut self.direct,
        };
        if row.front()?.at > now {
            return None;
        }
        row.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_in_order_whichever_way_they_took() {
        let mut travelling = Travelling::new();
        let ways = [(10, false), (15, true), (11, false), (16, true), (15, false), (12, false)];
        for (departed, (at, is_detour)) in (0..).zip(ways) {
            let (departed, at) = (Nanos(departed), Nanos(at));
            let passage = Passage { packet: departed.0, bytes: 1, arrived: departed, departed, at };
            travelling.push(passage, is_detour);
        }
        assert_eq!((travelling.len(), travelling.next_at()), (6, Some(Nanos(10))));
        assert!(travelling.pop(Nanos(9)).is_none());
        let order: Vec<u64> =
            std::iter::from_fn(|| travelling.pop(Nanos(20))).map(|it| it.packet).collect();
        assert_eq!(order, [0, 2, 5, 1, 4, 3]);
    }
}
