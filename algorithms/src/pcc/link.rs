//! For tests: one rate-based sender on a fluid link, in steps of 10 ms, with the program's part of
//! the monitor intervals played.

use crate::arm::{Arm, Decision, Registers};
use crate::measurement::{Measurement, OWN_FIELDS_MAX, RttSamples};
use crate::path::PathState;
use crate::script::MSS;
use crate::units::{Bytes, Packets, Rate, Time};
use std::collections::VecDeque;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(10);

/// The link, and what the sender made of it.
pub struct Link {
    pub rate: Rate,
    /// What share is lost whatever the queue.
    pub loss: f64,
    base: Duration,
    buffer: f64,
    queue: f64,
    /// Dropped, and when the sender knows: with the ACKs of what was sent after it.
    lost: VecDeque<(Time, f64)>,
    /// Known to be lost, not yet a whole segment.
    known: f64,
    now_ms: u64,
    delivered: Vec<f64>,
    /// Queued, by step, in seconds.
    queued_s: Vec<f64>,
    dropped: Vec<f64>,
}

impl Link {
    pub fn new(mbit_per_sec: u64, rtt_ms: u64, buffer: u64) -> Self {
        Self {
            rate: Rate::from_bytes_per_sec(mbit_per_sec * 125_000),
            loss: 0.0,
            base: Duration::from_millis(rtt_ms),
            buffer: buffer as f64,
            queue: 0.0,
            lost: VecDeque::new(),
            known: 0.0,
            now_ms: 0,
            delivered: Vec::new(),
            queued_s: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// The moment it has come to.
    pub fn now(&self) -> Time {
        Time(Duration::from_millis(self.now_ms))
    }

    /// A path as an arm that filled this link would leave it.
    pub fn known_path(&self) -> PathState {
        let mut path = crate::script::path(100);
        let m = Measurement {
            delivery_rate: self.rate,
            rtt: Some(RttSamples::one(self.base)),
            ..Measurement::QUIET
        };
        path.observe(&m, Time::ZERO);
        path
    }

    /// What share of the link was used since `from_ms`.
    pub fn filled(&self, from_ms: u64) -> f64 {
        let steps = &self.delivered[from_ms as usize / 10..];
        steps.iter().sum::<f64>() / (self.rate * STEP).0 as f64 / steps.len() as f64
    }

    /// The mean queueing delay since `from_ms`, in milliseconds.
    pub fn queue_ms(&self, from_ms: u64) -> f64 {
        let steps = &self.queued_s[from_ms as usize / 10..];
        steps.iter().sum::<f64>() / steps.len() as f64 * 1e3
    }

    /// What share of what was sent since `from_ms` was dropped.
    pub fn dropped(&self, from_ms: u64) -> f64 {
        let sum = |steps: &[f64]| steps[from_ms as usize / 10..].iter().sum::<f64>();
        let dropped = sum(&self.dropped);
        dropped / (dropped + sum(&self.delivered))
    }

    /// Runs a new flow until `end_ms`.
    pub fn run(&mut self, controller: &mut dyn Arm, end_ms: u64) {
        let path = crate::script::path(10);
        let decision = controller.resume(&path, self.now());
        self.go_on(controller, decision, end_ms);
    }

    /// Runs a flow of which this was decided, until `end_ms`.
    pub fn go_on(&mut self, controller: &mut dyn Arm, mut decision: Decision, end_ms: u64) {
        let mut registers = registers_of(controller);
        let mut boundaries = VecDeque::new();
        // What was sent in each step, and when its ACKs come.
        let mut flight: VecDeque<(Time, Time)> = VecDeque::new();
        let mut rtt = self.base;
        while self.now_ms < end_ms {
            self.now_ms += 10;
            let now = self.now();
            let path = self.base + Duration::from_secs_f64(self.queue / self.bytes_per_sec());
            let window = decision.cwnd.0 as f64 / path.as_secs_f64();
            let rate = decision.rate.map_or(window, |rate| window.min(rate.bytes_per_sec() as f64));
            let mut own = [0; OWN_FIELDS_MAX];
            flight.push_back((now, now + path));
            while let Some(&(sent, acked)) = flight.front()
                && acked <= now
            {
                flight.pop_front();
                rtt = acked - sent;
                if boundaries.front().is_some_and(|at| *at <= sent) {
                    boundaries.pop_front();
                    own[0] = 1;
                }
            }
            let m = Measurement { own, ..self.step(rate, (path, rtt)) };
            decision = controller.on_measurement(&m, now);
            if registers_of(controller) != registers {
                registers = registers_of(controller);
                boundaries.push_back(now);
            }
        }
    }

    fn bytes_per_sec(&self) -> f64 {
        self.rate.bytes_per_sec() as f64
    }

    /// `path` is the round trip of what is sent now, `rtt` that of what is acknowledged now.
    fn step(&mut self, rate: f64, (path, rtt): (Duration, Duration)) -> Measurement {
        let span = STEP.as_secs_f64();
        let sent = rate * span;
        self.queue += sent * (1.0 - self.loss);
        let served = self.queue.min(self.bytes_per_sec() * span);
        self.queue -= served;
        let dropped = sent * self.loss + (self.queue - self.buffer).max(0.0);
        self.lost.push_back((self.now() + path, dropped));
        self.dropped.push(dropped);
        self.queue = self.queue.min(self.buffer);
        self.delivered.push(served);
        self.queued_s.push(self.queue / self.bytes_per_sec());
        while self.lost.front().is_some_and(|(at, _)| *at <= self.now()) {
            self.known += self.lost.pop_front().map_or(0.0, |(_, bytes)| bytes);
        }
        let lost = (self.known / MSS.0 as f64).floor();
        self.known -= lost * MSS.0 as f64;
        let bytes = Bytes(served as u64);
        let count = bytes.to_packets(MSS).0.max(1);
        let rtt_us = rtt.as_micros() as u64;
        Measurement {
            acked: bytes,
            delivered: bytes,
            lost: Packets(lost as u64),
            delivery_rate: bytes / STEP,
            in_flight: Bytes((rate * rtt.as_secs_f64()) as u64),
            rtt: Some(RttSamples {
                sum_us: count * rtt_us,
                sq_sum_us2: count * rtt_us * rtt_us,
                count,
                ..RttSamples::one(rtt)
            }),
            ..Measurement::QUIET
        }
    }
}

fn registers_of(arm: &dyn Arm) -> Registers {
    let mut registers = Registers::NONE;
    arm.registers(&mut registers);
    registers
}
