//! The queue before the bottleneck, and its discipline.

mod codel;
mod fifo;
mod fq_codel;
mod pie;
mod red;

pub use codel::CoDelParams;
pub use fq_codel::FqCoDelParams;
pub use pie::PieParams;
pub use red::{RedParams, RedUnit};

use crate::packet::Packet;
use crate::time::Nanos;
use codel::{CoDel, Source};
use fifo::Fifo;
use fq_codel::FqCoDel;
use pie::Pie;
use rand_chacha::ChaCha8Rng;
use red::Red;

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The loss model lost the packet, before the queue.
    Loss,
    /// The packet exceeded the policer's rate and burst, before the queue.
    Policer,
    /// The packet arrived at a full queue.
    QueueFull,
    /// The queue was full and dropped its oldest packet (drop-head), or the oldest of its longest
    /// flow (FQ-CoDel).
    HeadDrop,
    /// CoDel (or FQ-CoDel) dropped the packet at dequeue.
    CoDel,
    /// PIE dropped the packet on arrival.
    Pie,
    /// RED dropped the packet on arrival.
    Red,
}

/// The size of a queue. Both bounds apply; `None` is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// At most this many packets.
    pub packets: Option<u64>,
    /// At most this many bytes.
    pub bytes: Option<u64>,
}

impl Limit {
    #[inline]
    pub(crate) fn admits(self, packets: u64, bytes: u64) -> bool {
        self.packets.is_none_or(|limit| packets <= limit)
            && self.bytes.is_none_or(|limit| bytes <= limit)
    }
}

/// What the queue does when it is full, or its delay is long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Discipline {
    /// Drops an arriving packet that does not fit.
    DropTail {
        /// Marks an arriving packet of an ECN-capable sender if more than this many packets wait:
        /// the K that DCTCP sets in a switch (RFC 8257 section 3.1).
        mark_above_packets: Option<u64>,
    },
    /// Accepts an arriving packet, and drops from the front until all packets fit.
    DropHead,
    /// Drops (or marks) at the front when packets have waited too long; drop-tail when full.
    CoDel(CoDelParams),
    /// Drops (or marks) arrivals with a probability that follows the queueing delay; drop-tail when
    /// full.
    Pie(PieParams),
    /// Keeps a queue and a CoDel for each flow, served in turns; drops from the longest queue when
    /// full.
    FqCoDel(FqCoDelParams),
    /// Drops (or marks) arrivals with a probability that follows the average queue length;
    /// drop-tail when full.
    Red(RedParams),
}

#[derive(Clone, Debug)]
pub struct Held<P> {
    pub packet: P,
    /// Its length on this link, in bytes.
    pub bytes: u32,
    /// When the packet came to the queue.
    pub arrived: Nanos,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// What happens to an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// Mark the packet if its sender uses ECN; otherwise let it pass.
    Mark,
    /// Mark the packet if its sender uses ECN; otherwise drop it.
    MarkOrDrop(DropReason),
    Drop(DropReason),
}

/// Collects what a discipline drops and marks at dequeue.
#[derive(Debug)]
pub(crate) struct Penalties<'a, P> {
    pub(crate) dropped: &'a mut Vec<(Held<P>, DropReason)>,
    pub(crate) marked: &'a mut u64,
}

/// The state of a discipline.
#[derive(Clone, Debug)]
enum State<P> {
    DropTail { mark_above_packets: Option<u64> },
    DropHead,
    CoDel(CoDelParams, CoDel),
    Pie(Box<Pie>),
    FqCoDel(Box<FqCoDel<P>>),
    Red(Box<Red>),
}

#[derive(Clone, Debug)]
pub struct Queue<P> {
    state: State<P>,
    limit: Limit,
    /// The waiting packets. FQ-CoDel keeps its own queues instead.
    fifo: Fifo<P>,
    marked: u64,
}

impl<P: Packet> Queue<P> {
    /// An empty queue. PIE and RED draw from `rng`; FQ-CoDel takes its salt from it.
    pub fn new(discipline: Discipline, limit: Limit, rng: ChaCha8Rng) -> Self {
        let state = match discipline {
            Discipline::DropTail { mark_above_packets } => State::DropTail { mark_above_packets },
            Discipline::DropHead => State::DropHead,
            Discipline::CoDel(params) => State::CoDel(params, CoDel::default()),
            Discipline::Pie(params) => State::Pie(Box::new(Pie::new(params, rng))),
            Discipline::FqCoDel(params) => State::FqCoDel(Box::new(FqCoDel::new(params, rng))),
            Discipline::Red(params) => State::Red(Box::new(Red::new(params, rng))),
        };
        Self { state, limit, fifo: Fifo::new(), marked: 0 }
    }

    pub fn packets(&self) -> u64 {
        match &self.state {
            State::FqCoDel(queues) => queues.packets(),
            _ => self.fifo.packets(),
        }
    }

    pub fn bytes(&self) -> u64 {
        match &self.state {
            State::FqCoDel(queues) => queues.bytes(),
            _ => self.fifo.bytes(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.packets() == 0
    }

    /// Packets this queue has marked "congestion experienced".
    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// Adds an arriving packet. Packets dropped because of it, or the packet itself, go to
    /// `dropped`.
    pub fn enqueue(&mut self, mut held: Held<P>, dropped: &mut Vec<(Held<P>, DropReason)>) {
        if let State::FqCoDel(queues) = &mut self.state {
            queues.enqueue(held, self.limit, dropped);
            return;
        }
        let (verdict, now) = (self.judge(&held), held.arrived);
        match verdict {
            Verdict::Drop(reason) => return dropped.push((held, reason)),
            Verdict::Mark | Verdict::MarkOrDrop(_) if held.packet.mark_ce() => self.marked += 1,
            Verdict::MarkOrDrop(reason) => return dropped.push((held, reason)),
            Verdict::Mark | Verdict::Pass => {}
        }
        self.fifo.push(held);
        if let State::Pie(pie) = &mut self.state {
            pie.enqueued(length(&self.fifo), self.limit, now);
        }
        while !self.limit.admits(self.fifo.packets(), self.fifo.bytes()) {
            let Some(head) = self.fifo.pop() else { break };
            dropped.push((head, DropReason::HeadDrop));
        }
    }

    /// Takes the next packet to send. Packets dropped at dequeue go to `dropped`.
    pub fn dequeue(
        &mut self,
        now: Nanos,
        dropped: &mut Vec<(Held<P>, DropReason)>,
    ) -> Option<Held<P>> {
        let mut penalties = Penalties { dropped, marked: &mut self.marked };
        match &mut self.state {
            State::DropTail { .. } | State::DropHead => self.fifo.pop(),
            State::CoDel(params, codel) => {
                let source = Source { fifo: &mut self.fifo, others_bytes: 0 };
                codel.dequeue(*params, source, now, &mut penalties)
            }
            State::FqCoDel(queues) => queues.dequeue(now, &mut penalties),
            State::Pie(pie) => {
                let head = self.fifo.pop()?;
                pie.dequeued(now - head.arrived, self.fifo.is_empty(), now);
                Some(head)
            }
            State::Red(red) => {
                let head = self.fifo.pop()?;
                if self.fifo.is_empty() {
                    red.emptied(now);
                }
                Some(head)
            }
        }
    }

    /// Decides about a packet that arrives at the single queue.
    fn judge(&mut self, held: &Held<P>) -> Verdict {
        let waiting = length(&self.fifo);
        let fits = self.limit.admits(waiting.packets + 1, waiting.bytes + u64::from(held.bytes));
        let full = Verdict::Drop(DropReason::QueueFull);
        match &mut self.state {
            State::DropHead => Verdict::Pass,
            // RED's average counts every arrival, also at a full queue.
            State::Red(red) => {
                let verdict = red.judge(waiting, held.arrived);
                if fits { verdict } else { full }
            }
            State::Pie(pie) if fits => pie.judge(waiting, held.arrived),
            State::Pie(pie) => {
                pie.overflowed();
                full
            }
            _ if !fits => full,
            State::DropTail { mark_above_packets: Some(above) } if waiting.packets > *above => {
                Verdict::Mark
            }
            _ => Verdict::Pass,
        }
    }
}

fn length<P>(fifo: &Fifo<P>) -> Length {
    Length { packets: fifo.packets(), bytes: fifo.bytes() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rand::SeedableRng;

    const TAIL: Discipline = Discipline::DropTail { mark_above_packets: None };

    /// A packet whose sender uses ECN.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Ect {
        pub(crate) ce: bool,
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

    pub(crate) struct Overload<P> {
        pub(crate) queue: Queue<P>,
        /// Packets dropped in each second.
        pub(crate) drops: Vec<usize>,
    }

    fn queue<P: Packet>(discipline: Discipline, limit: Limit) -> Queue<P> {
        Queue::new(discipline, limit, ChaCha8Rng::seed_from_u64(1))
    }

    /// Offers `per_ms` packets a millisecond to a link that sends one a millisecond.
    pub(crate) fn overload<P: Packet + Default>(
        discipline: Discipline,
        limit: Limit,
        per_ms: u64,
        seconds: u64,
    ) -> Overload<P> {
        let mut queue = queue(discipline, limit);
        let mut counts = Vec::new();
        for second in 0..seconds {
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
        Overload { queue, drops: counts }
    }

    /// Enqueues packets of these sizes. Returns the sizes that wait and those that were dropped.
    fn fill(discipline: Discipline, limit: Limit, sizes: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let mut queue = queue(discipline, limit);
        let mut drops: Vec<(Held<u32>, DropReason)> = Vec::new();
        for size in sizes {
            let held = Held { packet: *size, bytes: *size, arrived: Nanos::ZERO };
            queue.enqueue(held, &mut drops);
        }
        let bytes = queue.bytes();
        let dequeue = || queue.dequeue(Nanos::ZERO, &mut Vec::new());
        let waiting: Vec<u32> = std::iter::from_fn(dequeue).map(|held| held.packet).collect();
        assert_eq!(bytes, waiting.iter().map(|size| u64::from(*size)).sum::<u64>());
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
        let head = Discipline::DropHead;
        assert_eq!(fill(TAIL, packets(2), &[1, 2, 3, 4]), (vec![1, 2], vec![3, 4]));
        assert_eq!(fill(head, packets(2), &[1, 2, 3, 4]), (vec![3, 4], vec![1, 2]));
        assert_eq!(fill(TAIL, bytes(10), &[6, 6, 4]), (vec![6, 4], vec![6]));
        assert_eq!(fill(head, bytes(10), &[4, 4, 9]), (vec![9], vec![4, 4]));
        assert_eq!(fill(head, bytes(10), &[4, 11]), (vec![], vec![4, 11]));
        assert_eq!(fill(TAIL, Limit::default(), &[1; 1000]).1, Vec::<u32>::new());
    }

    #[test]
    fn every_other_discipline_drops_at_the_tail_when_full() {
        for discipline in [
            Discipline::CoDel(CoDelParams::default()),
            Discipline::Pie(PieParams::default()),
            Discipline::Red(RedParams { weight: 0.001, ..RedParams::default() }),
        ] {
            assert_eq!(fill(discipline, packets(2), &[1, 2, 3]), (vec![1, 2], vec![3]));
        }
    }

    #[test]
    fn a_step_marks_what_comes_to_more_than_k_packets() {
        let discipline = Discipline::DropTail { mark_above_packets: Some(2) };
        let mut queue: Queue<Ect> = queue(discipline, packets(5));
        let mut drops = Vec::new();
        for _ in 0..7 {
            let held = Held { packet: Ect::default(), bytes: 1500, arrived: Nanos::ZERO };
            queue.enqueue(held, &mut drops);
        }
        let out = std::iter::from_fn(|| queue.dequeue(Nanos::ZERO, &mut drops));
        let marks: Vec<bool> = out.map(|held| held.packet.ce).collect();
        assert_eq!(marks, [false, false, false, true, true]);
        assert_eq!((queue.marked(), drops.len()), (2, 2));
        // A packet without ECN is neither marked nor dropped.
        assert_eq!(fill(discipline, packets(5), &[1; 5]).0.len(), 5);
    }
}
