//! The queue before the bottleneck: infinite, drop-tail, drop-head or CoDel.

use crate::packet::Packet;
use crate::time::Nanos;
use std::collections::VecDeque;

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The channel lost it (loss model), before the queue.
    Loss,
    /// The queue was full when it came.
    QueueFull,
    /// The queue was full, and a drop-head queue gave up its oldest.
    HeadDrop,
    /// CoDel dropped it on the way out.
    CoDel,
}

/// How much a queue holds. Both bounds apply; none is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// At most this many packets.
    pub packets: Option<u64>,
    /// At most this many bytes.
    pub bytes: Option<u64>,
}

impl Limit {
    fn admits(self, packets: u64, bytes: u64) -> bool {
        self.packets.is_none_or(|limit| packets <= limit)
            && self.bytes.is_none_or(|limit| bytes <= limit)
    }
}

/// The settings of CoDel, RFC 8289.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelParams {
    /// The standing delay that is acceptable. RFC 8289 section 4.2: 5 ms.
    pub target: Nanos,
    /// The time a bad queue is given to drain. RFC 8289 section 4.1: 100 ms.
    pub interval: Nanos,
    /// Marks packets of ECN-capable senders instead of dropping them.
    pub ecn: bool,
}

impl Default for CoDelParams {
    fn default() -> Self {
        Self { target: Nanos::from_millis(5), interval: Nanos::from_millis(100), ecn: false }
    }
}

/// What the queue does when it is full, or slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Refuses what does not fit.
    DropTail,
    /// Takes it, and drops from the front until all fits.
    DropHead,
    /// Drops (or marks) at the front when packets have waited too long; drop-tail when full.
    CoDel(CoDelParams),
}

/// A packet in the queue.
#[derive(Clone, Debug)]
pub struct Held<P> {
    /// The packet.
    pub packet: P,
    /// What it counts for on this link, in bytes.
    pub bytes: u32,
    /// When it came to the queue.
    pub arrived: Nanos,
}

/// A queue and its discipline.
#[derive(Clone, Debug)]
pub struct Queue<P> {
    discipline: Discipline,
    limit: Limit,
    held: VecDeque<Held<P>>,
    bytes: u64,
    codel: CoDelState,
    marked: u64,
}

/// The variables of RFC 8289 section 5.
#[derive(Clone, Debug, Default)]
struct CoDelState {
    first_above: Option<Nanos>,
    drop_next: Nanos,
    count: u32,
    count_last: u32,
    dropping: bool,
}

impl<P: Packet> Queue<P> {
    /// An empty queue.
    pub fn new(discipline: Discipline, limit: Limit) -> Self {
        let codel = CoDelState::default();
        Self { discipline, limit, held: VecDeque::new(), bytes: 0, codel, marked: 0 }
    }

    /// How many packets wait.
    pub fn packets(&self) -> u64 {
        self.held.len() as u64
    }

    /// How many bytes wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How many packets CoDel marked "congestion experienced".
    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// Takes a packet in; what is dropped for it goes to `dropped`.
    pub fn enqueue(&mut self, held: Held<P>, dropped: &mut Vec<(Held<P>, DropReason)>) {
        let bytes = self.bytes + u64::from(held.bytes);
        if self.discipline != Discipline::DropHead && !self.limit.admits(self.packets() + 1, bytes)
        {
            dropped.push((held, DropReason::QueueFull));
            return;
        }
        self.bytes = bytes;
        self.held.push_back(held);
        while !self.limit.admits(self.packets(), self.bytes) {
            let Some(head) = self.pop() else { break };
            dropped.push((head, DropReason::HeadDrop));
        }
    }

    /// Takes the next packet to send out; what is dropped on the way goes to `dropped`.
    pub fn dequeue(
        &mut self,
        now: Nanos,
        dropped: &mut Vec<(Held<P>, DropReason)>,
    ) -> Option<Held<P>> {
        match self.discipline {
            Discipline::DropTail | Discipline::DropHead => self.pop(),
            Discipline::CoDel(params) => self.codel_dequeue(params, now, dropped),
        }
    }

    fn pop(&mut self) -> Option<Held<P>> {
        let head = self.held.pop_front()?;
        self.bytes -= u64::from(head.bytes);
        Some(head)
    }

    /// RFC 8289 section 5.5, `dequeue`.
    fn codel_dequeue(
        &mut self,
        params: CoDelParams,
        now: Nanos,
        dropped: &mut Vec<(Held<P>, DropReason)>,
    ) -> Option<Held<P>> {
        let (mut head, mut ok_to_drop) = self.codel_pop(params, now);
        if self.codel.dropping {
            if !ok_to_drop {
                self.codel.dropping = false;
            }
            while self.codel.dropping && now >= self.codel.drop_next {
                self.codel.count = self.codel.count.saturating_add(1);
                let (next, is_marked) = self.codel_punish(params, head?, dropped);
                head = next;
                if is_marked {
                    self.codel.drop_next = self.control_law(params, self.codel.drop_next);
                    break;
                }
                (head, ok_to_drop) = self.codel_pop(params, now);
                if ok_to_drop {
                    self.codel.drop_next = self.control_law(params, self.codel.drop_next);
                } else {
                    self.codel.dropping = false;
                }
            }
            return head;
        }
        if ok_to_drop {
            let (next, is_marked) = self.codel_punish(params, head?, dropped);
            head = if is_marked { next } else { self.codel_pop(params, now).0 };
            self.codel_enter(params, now);
        }
        head
    }

    /// RFC 8289 section 5.5: starts dropping, near the rate that held the queue last time.
    fn codel_enter(&mut self, params: CoDelParams, now: Nanos) {
        self.codel.dropping = true;
        let delta = self.codel.count.saturating_sub(self.codel.count_last);
        let is_recent = now - self.codel.drop_next < Nanos(params.interval.0.saturating_mul(16));
        self.codel.count = if delta > 1 && is_recent { delta } else { 1 };
        self.codel.drop_next = self.control_law(params, now);
        self.codel.count_last = self.codel.count;
    }

    /// Marks the head where it may, and gives it back; drops it otherwise.
    fn codel_punish(
        &mut self,
        params: CoDelParams,
        mut head: Held<P>,
        dropped: &mut Vec<(Held<P>, DropReason)>,
    ) -> (Option<Held<P>>, bool) {
        if params.ecn && head.packet.mark_ce() {
            self.marked += 1;
            return (Some(head), true);
        }
        dropped.push((head, DropReason::CoDel));
        (None, false)
    }

    /// RFC 8289 section 5.4, `dodequeue`: the head, and whether it has stood too long.
    fn codel_pop(&mut self, params: CoDelParams, now: Nanos) -> (Option<Held<P>>, bool) {
        let Some(head) = self.pop() else {
            self.codel.first_above = None;
            return (None, false);
        };
        // "the queue's size has fallen below one MTU": what is left after this packet.
        let is_short = self.bytes <= u64::from(crate::trace::OPPORTUNITY_BYTES);
        if now - head.arrived < params.target || is_short {
            self.codel.first_above = None;
            return (Some(head), false);
        }
        match self.codel.first_above {
            None => {
                self.codel.first_above = Some(now + params.interval);
                (Some(head), false)
            }
            Some(at) => (Some(head), now >= at),
        }
    }

    /// RFC 8289 section 5.6: t + interval / sqrt(count).
    fn control_law(&self, params: CoDelParams, at: Nanos) -> Nanos {
        let step = params.interval.0 as f64 / f64::from(self.codel.count.max(1)).sqrt();
        at + Nanos(step as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Drops<P> = Vec<(Held<P>, DropReason)>;

    /// A packet whose sender speaks ECN.
    #[derive(Clone, Debug, Default)]
    struct Ect {
        ce: bool,
    }

    impl Packet for Ect {
        fn bytes(&self) -> u32 {
            1500
        }
        fn mark_ce(&mut self) -> bool {
            self.ce = true;
            true
        }
    }

    fn held(packet: u32, at_ms: u64) -> Held<u32> {
        Held { packet, bytes: packet, arrived: Nanos::from_millis(at_ms) }
    }

    /// Enqueues these sizes; returns what waits and what was dropped.
    fn fill(discipline: Discipline, limit: Limit, sizes: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let mut queue = Queue::new(discipline, limit);
        let mut drops: Drops<u32> = Vec::new();
        for size in sizes {
            queue.enqueue(held(*size, 0), &mut drops);
        }
        let waiting: Vec<u32> = queue.held.iter().map(|held| held.packet).collect();
        assert_eq!(queue.bytes(), waiting.iter().map(|size| u64::from(*size)).sum::<u64>());
        (waiting, drops.into_iter().map(|(held, _)| held.packet).collect())
    }

    fn packets(packets: u64) -> Limit {
        Limit { packets: Some(packets), bytes: None }
    }

    fn bytes(bytes: u64) -> Limit {
        Limit { packets: None, bytes: Some(bytes) }
    }

    #[test]
    fn a_full_queue_drops_at_the_tail_or_at_the_head() {
        let tail = Discipline::DropTail;
        let head = Discipline::DropHead;
        assert_eq!(fill(tail, packets(2), &[1, 2, 3, 4]), (vec![1, 2], vec![3, 4]));
        assert_eq!(fill(head, packets(2), &[1, 2, 3, 4]), (vec![3, 4], vec![1, 2]));
        assert_eq!(fill(tail, bytes(10), &[6, 6, 4]), (vec![6, 4], vec![6]));
        assert_eq!(fill(head, bytes(10), &[4, 4, 9]), (vec![9], vec![4, 4]));
        assert_eq!(fill(head, bytes(10), &[4, 11]), (vec![], vec![4, 11]));
        assert_eq!(fill(tail, Limit::default(), &[1; 1000]).1, Vec::<u32>::new());
    }

    /// A link of one packet a millisecond that gets `per_ms` of them; counts drops by second.
    fn codel_run<P: Packet + Default>(ecn: bool, per_ms: u64) -> (Queue<P>, Vec<usize>) {
        let params = CoDelParams { ecn, ..CoDelParams::default() };
        let mut queue = Queue::new(Discipline::CoDel(params), packets(5_000));
        let mut counts = Vec::new();
        for second in 0..4 {
            let mut drops = Vec::new();
            for ms in 0..1_000 {
                let now = Nanos::from_millis(second * 1_000 + ms);
                for _ in 0..per_ms {
                    let packet = P::default();
                    queue.enqueue(Held { packet, bytes: 1500, arrived: now }, &mut drops);
                }
                queue.dequeue(now, &mut drops);
            }
            counts.push(drops.len());
        }
        (queue, counts)
    }

    #[test]
    fn codel_leaves_a_short_queue_alone() {
        assert_eq!(codel_run::<u32>(false, 1).1, [0, 0, 0, 0]);
    }

    #[test]
    fn codel_drops_ever_faster_while_the_queue_stands() {
        let (_, drops) = codel_run::<u32>(false, 2);
        // RFC 8289: n drops take the sum of interval / sqrt(k); about 25 in the first second.
        assert!((18..40).contains(&drops[0]), "{drops:?}");
        assert!(drops.is_sorted() && drops[3] > 2 * drops[0], "{drops:?}");
    }

    #[test]
    fn codel_with_ecn_marks_and_does_not_drop() {
        let (queue, drops) = codel_run::<Ect>(true, 2);
        assert_eq!(drops, [0, 0, 0, 0]);
        assert!(queue.marked() > 100, "{} marks", queue.marked());
    }

    #[test]
    fn codel_drops_what_cannot_be_marked() {
        let (queue, drops) = codel_run::<u32>(true, 2);
        assert_eq!(queue.marked(), 0);
        assert!(drops[0] > 0);
    }
}
