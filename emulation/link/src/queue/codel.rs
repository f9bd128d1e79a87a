//! CoDel, RFC 8289: drops or marks at the front when packets have waited too long for too long.

use crate::packet::Packet;
use crate::queue::fifo::Fifo;
use crate::queue::{DropReason, Held, Penalties};
use crate::time::Nanos;

/// The settings of CoDel, RFC 8289.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelParams {
    /// The acceptable standing delay. RFC 8289 section 4.2: 5 ms.
    pub target: Nanos,
    /// How long the delay may stand above the target before CoDel drops. RFC 8289 section 4.1: 100
    /// ms.
    pub interval: Nanos,
    /// Marks packets of ECN-capable senders instead of dropping them.
    pub ecn: bool,
}

impl Default for CoDelParams {
    fn default() -> Self {
        Self { target: Nanos::from_millis(5), interval: Nanos::from_millis(100), ecn: false }
    }
}

/// The queue from which CoDel takes packets.
#[derive(Debug)]
pub(crate) struct Source<'a, P> {
    pub(crate) fifo: &'a mut Fifo<P>,
    /// Bytes that wait for the same bottleneck in other queues.
    pub(crate) others_bytes: u64,
}

/// The variables of RFC 8289 section 5.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoDel {
    first_above: Option<Nanos>,
    drop_next: Nanos,
    count: u32,
    count_last: u32,
    dropping: bool,
}

impl CoDel {
    /// RFC 8289 section 5.5, `dequeue`.
    pub(crate) fn dequeue<P: Packet>(
        &mut self,
        params: CoDelParams,
        mut source: Source<'_, P>,
        now: Nanos,
        penalties: &mut Penalties<'_, P>,
    ) -> Option<Held<P>> {
        let (mut head, mut ok_to_drop) = self.pop(params, &mut source, now);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                let (next, is_marked) = punish(params, head?, penalties);
                head = next;
                if is_marked {
                    self.drop_next = self.control_law(params, self.drop_next);
                    break;
                }
                (head, ok_to_drop) = self.pop(params, &mut source, now);
                if ok_to_drop {
                    self.drop_next = self.control_law(params, self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
            return head;
        }
        if ok_to_drop {
            let (next, is_marked) = punish(params, head?, penalties);
            head = if is_marked { next } else { self.pop(params, &mut source, now).0 };
            self.enter(params, now);
        }
        head
    }

    /// RFC 8289 section 5.5: starts dropping, near the rate that controlled the queue last time.
    fn enter(&mut self, params: CoDelParams, now: Nanos) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.count_last);
        let is_recent = now - self.drop_next < Nanos(params.interval.0.saturating_mul(16));
        self.count = if delta > 1 && is_recent { delta } else { 1 };
        self.drop_next = self.control_law(params, now);
        self.count_last = self.count;
    }

    /// RFC 8289 section 5.4, `dodequeue`: the head, and whether the delay has been above the target
    /// for an interval.
    fn pop<P>(
        &mut self,
        params: CoDelParams,
        source: &mut Source<'_, P>,
        now: Nanos,
    ) -> (Option<Held<P>>, bool) {
        let Some(head) = source.fifo.pop() else {
            self.first_above = None;
            return (None, false);
        };
        // "the queue's size has fallen below one MTU": this counts the packets that remain after
        // the head.
        let left_bytes = source.fifo.bytes() + source.others_bytes;
        let is_short = left_bytes <= u64::from(crate::trace::OPPORTUNITY_BYTES);
        if now - head.arrived < params.target || is_short {
            self.first_above = None;
            return (Some(head), false);
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + params.interval);
                (Some(head), false)
            }
            Some(at) => (Some(head), now >= at),
        }
    }

    /// RFC 8289 section 5.6: t + interval / sqrt(count).
    fn control_law(&self, params: CoDelParams, at: Nanos) -> Nanos {
        let step = params.interval.0 as f64 / f64::from(self.count.max(1)).sqrt();
        at + Nanos(step as u64)
    }
}

/// Marks the head and returns it if its sender uses ECN; drops it otherwise.
fn punish<P: Packet>(
    params: CoDelParams,
    mut head: Held<P>,
    penalties: &mut Penalties<'_, P>,
) -> (Option<Held<P>>, bool) {
    if params.ecn && head.packet.mark_ce() {
        *penalties.marked += 1;
        return (Some(head), true);
    }
    penalties.dropped.push((head, DropReason::CoDel));
    (None, false)
}

#[cfg(test)]
mod tests {
    use crate::queue::tests::{Ect, overload};
    use crate::queue::{CoDelParams, Discipline, Limit};

    const LIMIT: Limit = Limit { packets: Some(5_000), bytes: None };

    fn codel(ecn: bool) -> Discipline {
        Discipline::CoDel(CoDelParams { ecn, ..CoDelParams::default() })
    }

    #[test]
    fn codel_leaves_a_short_queue_alone() {
        assert_eq!(overload::<u32>(codel(false), LIMIT, 1, 4).drops, [0, 0, 0, 0]);
    }

    #[test]
    fn codel_drops_ever_faster_while_the_queue_stands() {
        let drops = overload::<u32>(codel(false), LIMIT, 2, 4).drops;
        // RFC 8289: n drops take the sum of interval / sqrt(k); about 25 in the first second.
        assert!((18..40).contains(&drops[0]), "{drops:?}");
        assert!(drops.is_sorted() && drops[3] > 2 * drops[0], "{drops:?}");
    }

    #[test]
    fn codel_with_ecn_marks_and_does_not_drop() {
        let run = overload::<Ect>(codel(true), LIMIT, 2, 4);
        assert_eq!(run.drops, [0, 0, 0, 0]);
        assert!(run.queue.marked() > 100, "{} marks", run.queue.marked());
    }

    #[test]
    fn codel_drops_what_cannot_be_marked() {
        let run = overload::<u32>(codel(true), LIMIT, 2, 4);
        assert_eq!(run.queue.marked(), 0);
        assert!(run.drops[0] > 0);
    }
}
