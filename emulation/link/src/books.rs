//! What a link records: counters, its log, and dropped packets that no one has popped yet.

use crate::log::{LogEvent, LogKind};
use crate::packet::Packet;
use crate::queue::{DropReason, Held};
use crate::stats::Counters;
use crate::time::Nanos;
use crate::varying::Meter;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Dropped<P> {
    pub(crate) packet: P,
    pub(crate) reason: DropReason,
    pub(crate) at: Nanos,
}

#[derive(Clone, Debug)]
pub(crate) struct Books<P> {
    pub(crate) counters: Counters,
    pub(crate) dropped: VecDeque<Dropped<P>>,
    log: Option<Box<Log>>,
}

#[derive(Clone, Debug)]
struct Log {
    events: Vec<LogEvent>,
    /// Set on a link with a rate. A trace logs each opportunity itself.
    capacity: Option<Meter>,
}

impl<P: Packet> Books<P> {
    pub(crate) fn new() -> Self {
        Self { counters: Counters::new(), dropped: VecDeque::new(), log: None }
    }

    pub(crate) fn open_log(&mut self, capacity: Option<Meter>) {
        self.log = Some(Box::new(Log { events: Vec::new(), capacity }));
    }

    pub(crate) fn close_log(&mut self) {
        self.log = None;
    }

    pub(crate) fn is_logging(&self) -> bool {
        self.log.is_some()
    }

    pub(crate) fn drain_log(&mut self) -> impl Iterator<Item = LogEvent> + '_ {
        self.log.iter_mut().flat_map(|log| log.events.drain(..))
    }

    /// Records that a packet comes to the link; `bytes` is its length there.
    pub(crate) fn arrival(&mut self, at: Nanos, packet: &P, bytes: u32) {
        self.counters.totals.packets_in += 1;
        self.counters.totals.bytes_in += u64::from(packet.bytes());
        self.record_of(at, LogKind::Arrival { bytes }, packet);
    }

    /// Records that a packet left the bottleneck at `at`, having arrived at `arrived`.
    pub(crate) fn departure(&mut self, at: Nanos, packet: &P, bytes: u32, arrived: Nanos) {
        let delay = at - arrived;
        self.counters.waited(delay);
        self.record_of(at, LogKind::Departure { bytes, delay }, packet);
    }

    pub(crate) fn drop(&mut self, at: Nanos, held: Held<P>, reason: DropReason) {
        self.counters.totals.dropped.count(reason);
        self.counters.totals.bytes_dropped += u64::from(held.packet.bytes());
        self.record_of(at, LogKind::Drop { bytes: held.bytes }, &held.packet);
        self.dropped.push_back(Dropped { packet: held.packet, reason, at });
    }

    /// Logs that the bottleneck could have sent `bytes` at `at`.
    pub(crate) fn opportunity(&mut self, at: Nanos, bytes: u64) {
        if let Some(log) = &mut self.log {
            let kind = LogKind::Opportunity { bytes };
            log.events.push(LogEvent { at, kind, flow: 0 });
        }
    }

    /// Asks the packet for its flow only if there is a log.
    #[inline]
    fn record_of(&mut self, at: Nanos, kind: LogKind, packet: &P) {
        if let Some(log) = &mut self.log {
            log.events.push(LogEvent { at, kind, flow: packet.flow() });
        }
    }

    /// Logs, for each millisecond that has ended by `now`, how much the link's rate could have sent
    /// in it.
    pub(crate) fn capacity_until(&mut self, now: Nanos) {
        let Some(log) = &mut self.log else { return };
        let Some(meter) = &mut log.capacity else { return };
        while let Some((at, bytes)) = meter.next_by(now) {
            if bytes > 0 {
                let kind = LogKind::Opportunity { bytes };
                log.events.push(LogEvent { at, kind, flow: 0 });
            }
        }
    }
}
