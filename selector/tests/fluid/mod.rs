//! A small deterministic network for tests: senders behind one link of fixed rate with a droptail
//! buffer, in steps of a millisecond. It is the emulation's poor relation: whole segments, no
//! retransmission queue (a lost segment is sent again like any other), ACKs are never lost.

use remuda_algorithms::units::{Bytes, Packets, Rate, Time};
use remuda_algorithms::{Arm, Decision, Measurement, PathState, RttSamples};
use remuda_selector::ArmRunner;
use std::collections::VecDeque;
use std::time::Duration;

pub const MSS: Bytes = Bytes(1_448);

/// The link all flows share.
pub struct Link {
    pub rate: Rate,
    /// Round trip of an empty link.
    pub rtt_ms: u64,
    pub buffer: Bytes,
    /// Further delay of what leaves the link, by millisecond, over and over; none if empty.
    /// Segments do not overtake each other.
    pub jitter_ms: Vec<u64>,
}

impl Link {
    /// A wired link with a buffer of `bdp_tenths` tenths of a bandwidth-delay product.
    pub fn wired(mbit_per_sec: u64, rtt_ms: u64, bdp_tenths: u64) -> Self {
        let rate = Rate::from_bytes_per_sec(mbit_per_sec * 125_000);
        let bdp = rate * Duration::from_millis(rtt_ms);
        Self { rate, rtt_ms, buffer: Bytes(bdp.0 * bdp_tenths / 10), jitter_ms: Vec::new() }
    }
}

#[derive(Clone, Copy)]
struct Segment {
    flow: usize,
    sent_ms: u64,
    /// What the flow had delivered when this was sent.
    delivered: Bytes,
    lost: bool,
}

/// What drives a sender.
#[allow(dead_code, reason = "each test uses a part")]
pub enum Driver {
    Arm(Box<dyn Arm>),
    Policy(Box<ArmRunner>),
}

impl Driver {
    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        match self {
            Self::Arm(arm) => arm.resume(path, now),
            Self::Policy(runner) => runner.resume(path, now),
        }
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        match self {
            Self::Arm(arm) => arm.on_measurement(m, now),
            Self::Policy(runner) => runner.on_measurement(m, now),
        }
    }
}

/// One sender. `start_ms` is when it starts.
pub struct Flow {
    pub driver: Driver,
    pub path: PathState,
    pub start_ms: u64,
    pub delivered: Bytes,
    pub lost: Packets,
    /// Round trips sampled, in milliseconds.
    pub rtts_ms: Vec<u64>,
    in_flight: Bytes,
    cwnd: Bytes,
    rate: Option<Rate>,
    tokens: Bytes,
    report: Measurement,
    report_ms: u64,
    rtt_ms: u64,
    /// Until a segment sent after this is acknowledged, losses are being repaired.
    recovery_ms: Option<u64>,
}

impl Flow {
    pub fn new(driver: Driver, start_ms: u64) -> Self {
        Self {
            driver,
            path: PathState::new(MSS, Packets(10).to_bytes(MSS)),
            start_ms,
            delivered: Bytes(0),
            lost: Packets(0),
            rtts_ms: Vec::new(),
            in_flight: Bytes(0),
            cwnd: Bytes(0),
            rate: None,
            tokens: Bytes(0),
            report: Measurement::QUIET,
            report_ms: start_ms,
            rtt_ms: 10,
            recovery_ms: None,
        }
    }

    fn resume(&mut self, now_ms: u64) {
        let decision = self.driver.resume(&self.path, at_ms(now_ms));
        self.obey(decision);
    }

    pub fn obey(&mut self, decision: Decision) {
        (self.cwnd, self.rate) = (decision.cwnd, decision.rate);
    }

    fn receive(&mut self, segment: Segment, now_ms: u64) {
        self.in_flight = self.in_flight - MSS;
        if segment.lost {
            self.lost += Packets(1);
            self.report.lost += Packets(1);
            self.recovery_ms.get_or_insert(now_ms);
            return;
        }
        if self.recovery_ms.is_some_and(|since| segment.sent_ms > since) {
            self.recovery_ms = None;
        }
        self.delivered += MSS;
        self.rtt_ms = now_ms - segment.sent_ms;
        self.rtts_ms.push(self.rtt_ms);
        let rtt = Duration::from_millis(self.rtt_ms);
        let sample = RttSamples::one(rtt);
        let m = &mut self.report;
        m.acked += MSS;
        m.delivered += MSS;
        m.delivery_rate = m.delivery_rate.max((self.delivered - segment.delivered) / rtt);
        m.send_rate = m.delivery_rate;
        m.rtt = Some(m.rtt.map_or(sample, |so_far| RttSamples {
            last: rtt,
            min: so_far.min.min(rtt),
            max: so_far.max.max(rtt),
            sum_us: so_far.sum_us + sample.sum_us,
            sq_sum_us2: so_far.sq_sum_us2 + sample.sq_sum_us2,
            count: so_far.count + 1,
        }));
    }

    /// What `report_each_round!` does.
    fn report_if_due(&mut self, now_ms: u64) -> bool {
        let since = now_ms - self.report_ms;
        let due = since * 4 > self.rtt_ms && since > 10;
        if !due && (self.report.lost == Packets(0) || since <= 1) {
            return false;
        }
        let m = Measurement {
            cwnd: self.cwnd,
            in_recovery: self.recovery_ms.is_some(),
            in_flight: self.report.in_flight.max(self.in_flight),
            ..self.report
        };
        self.report = Measurement::QUIET;
        self.report_ms = now_ms;
        self.path.observe(&m, at_ms(now_ms));
        let decision = self.driver.on_measurement(&m, at_ms(now_ms));
        self.obey(decision);
        true
    }

    /// How many segments may leave in this millisecond.
    fn allowed(&mut self) -> u64 {
        let room = (self.cwnd - self.in_flight).to_packets(MSS);
        let Some(rate) = self.rate else {
            return room.0;
        };
        self.tokens += rate * Duration::from_millis(1);
        let segments = room.0.min(self.tokens.to_packets(MSS).0);
        self.tokens = (self.tokens - Packets(segments).to_bytes(MSS)).min(MSS + MSS);
        segments
    }
}

/// A link, its flows, and what is under way.
pub struct Net {
    pub link: Link,
    pub flows: Vec<Flow>,
    pub now_ms: u64,
    buffered: VecDeque<Segment>,
    credit: Bytes,
    /// Acknowledgements and news of losses, by when they arrive.
    returning: VecDeque<(u64, Segment)>,
}

impl Net {
    pub fn new(link: Link, flows: Vec<Flow>) -> Self {
        Self {
            link,
            flows,
            now_ms: 0,
            buffered: VecDeque::new(),
            credit: Bytes(0),
            returning: VecDeque::new(),
        }
    }

    /// Runs until `end_ms`; `each` sees each report's flow right after it.
    pub fn run_with(&mut self, end_ms: u64, mut each: impl FnMut(&mut Flow, u64)) {
        while self.now_ms < end_ms {
            self.serve();
            let now_ms = self.now_ms;
            while self.returning.front().is_some_and(|(at, _)| *at <= now_ms) {
                let Some((_, segment)) = self.returning.pop_front() else { break };
                self.flows[segment.flow].receive(segment, now_ms);
            }
            for flow in 0..self.flows.len() {
                if self.now_ms < self.flows[flow].start_ms {
                    continue;
                }
                if self.now_ms == self.flows[flow].start_ms {
                    self.flows[flow].resume(now_ms);
                }
                if self.flows[flow].report_if_due(now_ms) {
                    each(&mut self.flows[flow], now_ms);
                }
                self.send(flow);
            }
            self.now_ms += 1;
        }
    }

    fn queued(&self) -> Bytes {
        Packets(self.buffered.len() as u64).to_bytes(MSS)
    }

    fn serve(&mut self) {
        self.credit += self.link.rate * Duration::from_millis(1);
        while self.credit >= MSS {
            let Some(segment) = self.buffered.pop_front() else {
                self.credit = Bytes(0);
                return;
            };
            self.credit = self.credit - MSS;
            self.send_back(segment, 0);
        }
    }

    fn send_back(&mut self, segment: Segment, queue_ms: u64) {
        let jitter = &self.link.jitter_ms;
        let extra_ms = match jitter.len() {
            0 => 0,
            len => jitter[self.now_ms as usize % len],
        };
        let mut at = self.now_ms + queue_ms + self.link.rtt_ms + extra_ms;
        if queue_ms == 0 {
            let last = self.returning.iter().rev().find(|(_, last)| !last.lost);
            at = at.max(last.map_or(0, |(last, _)| *last));
        }
        let index = self.returning.partition_point(|(other, _)| *other <= at);
        self.returning.insert(index, (at, segment));
    }

    fn send(&mut self, flow: usize) {
        for _ in 0..self.flows[flow].allowed() {
            let sender = &mut self.flows[flow];
            sender.in_flight += MSS;
            sender.report.in_flight = sender.report.in_flight.max(sender.in_flight);
            let delivered = sender.delivered;
            let segment = Segment { flow, sent_ms: self.now_ms, delivered, lost: false };
            if self.queued() + MSS <= self.link.buffer {
                self.buffered.push_back(segment);
            } else {
                let queue_ms = self.queued().0 * 1_000 / self.link.rate.bytes_per_sec();
                self.send_back(Segment { lost: true, ..segment }, queue_ms.max(1));
            }
        }
    }
}

pub fn at_ms(ms: u64) -> Time {
    Time(Duration::from_millis(ms))
}
