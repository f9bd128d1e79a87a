//! FQ-CoDel, RFC 8290: a queue and a CoDel for each flow, served by deficit round robin.
//!
//! Section numbers are the RFC's. Flows are hashed into queues with a salt from the seed (section
//! 4.1.2), so two flows may share a queue. Where the RFC leaves a choice open, this code does what
//! Linux does: CoDel stops dropping when no more than a full packet waits in all queues together;
//! and when the queue is full, the longest flow queue loses half of its bytes, at most 64 packets,
//! from its head.

use crate::packet::Packet;
use crate::queue::codel::{CoDel, Source};
use crate::queue::fifo::Fifo;
use crate::queue::{CoDelParams, DropReason, Held, Limit, Penalties};
use crate::time::Nanos;
use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

/// Section 4.1.3: the most packets dropped at once when the queue is full.
const BATCH_PACKETS: usize = 64;

/// The settings of FQ-CoDel, RFC 8290.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCoDelParams {
    /// The settings of each queue's CoDel.
    pub codel: CoDelParams,
    /// The number of queues, above zero. Section 5.2.4: 1024.
    pub flows: u32,
    /// The bytes a queue may send before the next queue's turn, above zero. Section 5.2.3: 1514, a
    /// full Ethernet frame.
    pub quantum_bytes: u32,
}

impl Default for FqCoDelParams {
    fn default() -> Self {
        Self { codel: CoDelParams::default(), flows: 1024, quantum_bytes: 1514 }
    }
}

/// The queue of all flows with one hash value.
#[derive(Clone, Debug)]
struct FlowQueue<P> {
    fifo: Fifo<P>,
    codel: CoDel,
    /// Bytes the queue may still send in this turn. Section 3.
    credit_bytes: i64,
    /// Whether the queue is in `new` or `old`.
    is_active: bool,
}

/// All queues, and the two lists of section 4.
#[derive(Clone, Debug)]
pub(crate) struct FqCoDel<P> {
    params: FqCoDelParams,
    salt: u64,
    queues: Vec<FlowQueue<P>>,
    /// Queues that have just become active, in order.
    new: VecDeque<u32>,
    /// The other active queues, in order.
    old: VecDeque<u32>,
    packets: u64,
    bytes: u64,
}

impl<P: Packet> FqCoDel<P> {
    pub(crate) fn new(params: FqCoDelParams, mut rng: ChaCha8Rng) -> Self {
        let empty = || FlowQueue {
            fifo: Fifo::new(),
            codel: CoDel::default(),
            credit_bytes: 0,
            is_active: false,
        };
        Self {
            params,
            salt: rng.next_u64(),
            queues: std::iter::repeat_with(empty).take(params.flows as usize).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn enqueue(
        &mut self,
        held: Held<P>,
        limit: Limit,
        dropped: &mut Vec<(Held<P>, DropReason)>,
    ) {
        let index = self.index_of(held.packet.flow());
        self.packets += 1;
        self.bytes += u64::from(held.bytes);
        let queue = &mut self.queues[index as usize];
        queue.fifo.push(held);
        if !queue.is_active {
            queue.is_active = true;
            queue.credit_bytes = i64::from(self.params.quantum_bytes);
            self.new.push_back(index);
        }
        while self.packets > 0 && !limit.admits(self.packets, self.bytes) {
            self.shorten_longest(dropped);
        }
    }

    pub(crate) fn dequeue(
        &mut self,
        now: Nanos,
        penalties: &mut Penalties<'_, P>,
    ) -> Option<Held<P>> {
        loop {
            let (is_new, index) = match (self.new.front(), self.old.front()) {
                (Some(index), _) => (true, *index),
                (None, Some(index)) => (false, *index),
                (None, None) => return None,
            };
            let queue = &mut self.queues[index as usize];
            if queue.credit_bytes <= 0 {
                queue.credit_bytes += i64::from(self.params.quantum_bytes);
                self.take_front(is_new);
                self.old.push_back(index);
                continue;
            }
            let before = (queue.fifo.packets(), queue.fifo.bytes());
            let source = Source { fifo: &mut queue.fifo, others_bytes: self.bytes - before.1 };
            let head = queue.codel.dequeue(self.params.codel, source, now, penalties);
            self.packets -= before.0 - queue.fifo.packets();
            self.bytes -= before.1 - queue.fifo.bytes();
            if let Some(held) = head {
                queue.credit_bytes -= i64::from(held.bytes);
                return Some(held);
            }
            // An empty new queue joins the old ones once before it can count as new again.
            queue.is_active = is_new && !self.old.is_empty();
            let stays = queue.is_active;
            self.take_front(is_new);
            if stays {
                self.old.push_back(index);
            }
        }
    }

    fn take_front(&mut self, is_new: bool) {
        let list = if is_new { &mut self.new } else { &mut self.old };
        list.pop_front();
    }

    fn shorten_longest(&mut self, dropped: &mut Vec<(Held<P>, DropReason)>) {
        let active = self.new.iter().chain(&self.old);
        let Some(longest) = active.max_by_key(|index| self.queues[**index as usize].fifo.bytes())
        else {
            return;
        };
        let fifo = &mut self.queues[*longest as usize].fifo;
        let half = fifo.bytes() / 2;
        for _ in 0..BATCH_PACKETS {
            let Some(held) = fifo.pop() else { break };
            self.packets -= 1;
            self.bytes -= u64::from(held.bytes);
            dropped.push((held, DropReason::HeadDrop));
            if fifo.bytes() <= half {
                break;
            }
        }
    }

    fn index_of(&self, flow: u64) -> u32 {
        let scaled = u128::from(mix(flow ^ self.salt)) * u128::from(self.params.flows);
        (scaled >> 64) as u32
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): each input bit changes every output
/// bit with equal chance.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use std::collections::HashSet;

    #[derive(Clone, Copy, Debug)]
    struct Segment {
        flow: u64,
        bytes: u32,
    }

    impl Packet for Segment {
        fn bytes(&self) -> u32 {
            self.bytes
        }
        fn flow(&self) -> u64 {
            self.flow
        }
    }

    struct Bed {
        queue: FqCoDel<Segment>,
        dropped: Vec<(Held<Segment>, DropReason)>,
        marked: u64,
        now: Nanos,
    }

    fn bed() -> Bed {
        let rng = ChaCha8Rng::seed_from_u64(2);
        let queue = FqCoDel::new(FqCoDelParams::default(), rng);
        Bed { queue, dropped: Vec::new(), marked: 0, now: Nanos::ZERO }
    }

    impl Bed {
        fn put(&mut self, flow: u64, bytes: u32, limit_packets: u64) {
            let held = Held { packet: Segment { flow, bytes }, bytes, arrived: self.now };
            let limit = Limit { packets: Some(limit_packets), bytes: None };
            self.queue.enqueue(held, limit, &mut self.dropped);
        }

        fn take(&mut self) -> Option<u64> {
            let mut penalties = Penalties { dropped: &mut self.dropped, marked: &mut self.marked };
            self.queue.dequeue(self.now, &mut penalties).map(|held| held.packet.flow)
        }
    }

    #[test]
    fn flows_take_turns_by_bytes() {
        let mut bed = bed();
        for _ in 0..40 {
            bed.put(1, 1500, 1_000);
        }
        for _ in 0..200 {
            bed.put(2, 300, 1_000);
        }
        let sent: Vec<u64> = std::iter::from_fn(|| bed.take()).take(60).collect();
        let large = sent.iter().filter(|flow| **flow == 1).count() as i64;
        let small = sent.len() as i64 - large;
        // Equal bytes, within a quantum and a packet.
        assert!((large * 1500 - small * 300).abs() <= 1514 + 1500, "{large} and {small}");
    }

    #[test]
    fn a_new_flow_goes_before_old_ones_once() {
        let mut bed = bed();
        for _ in 0..20 {
            bed.put(1, 1500, 1_000);
            bed.put(2, 1500, 1_000);
        }
        for _ in 0..6 {
            bed.take();
        }
        bed.put(3, 100, 1_000);
        assert_eq!(bed.take(), Some(3));
        // Flow 3 has no more to send and goes to the end of the old list: it cannot go first again.
        assert_eq!(bed.take(), Some(1));
        bed.put(3, 100, 1_000);
        assert!(bed.queue.new.is_empty());
    }

    #[test]
    fn a_full_queue_takes_it_from_the_longest_flow() {
        let mut bed = bed();
        for flow in 1..=10 {
            bed.put(flow, 1500, 100);
        }
        for _ in 0..90 {
            bed.put(99, 1500, 100);
        }
        assert!(bed.dropped.is_empty());
        bed.put(1, 1500, 100);
        assert!(bed.dropped.iter().all(|(held, _)| held.packet.flow == 99));
        assert_eq!((bed.dropped.len(), bed.queue.packets()), (45, 56));
        assert_eq!(bed.queue.bytes(), 56 * 1500);
    }

    #[test]
    fn each_flow_has_a_codel_of_its_own() {
        let mut bed = bed();
        // One packet leaves each millisecond; flow 1 sends 2 a millisecond, flow 2 one in 10 ms.
        let mut sent = [0; 3];
        for ms in 0..4_000 {
            bed.now = Nanos::from_millis(ms);
            bed.put(1, 1500, 100_000);
            bed.put(1, 1500, 100_000);
            if ms % 10 == 0 {
                bed.put(2, 200, 100_000);
            }
            if let Some(flow) = bed.take() {
                sent[flow as usize] += 1;
            }
        }
        assert_eq!(sent[2], 400, "all of the sparse flow");
        assert!(!bed.dropped.is_empty());
        assert!(
            bed.dropped
                .iter()
                .all(|(held, why)| { (held.packet.flow, *why) == (1, DropReason::CoDel) })
        );
    }

    #[test]
    fn flows_spread_over_the_queues() {
        let queue = bed().queue;
        let used: HashSet<u32> = (0..1024).map(|flow| queue.index_of(flow)).collect();
        // 1024 balls in 1024 bins leave a share of 1/e empty.
        assert!((600..700).contains(&used.len()), "{}", used.len());
        assert!(used.iter().all(|index| *index < 1024));
    }
}
