//! Copa on portus, for tests: Arun and Balakrishnan, "Copa: Practical Delay-Based Congestion
//! Control for the Internet" (NSDI 2018), sections 2.1 and 2.2.
//!
//! Differs from the paper: there is no competitive mode, and a report each half round trip stands
//! for its ACKs.

use super::{field, word};
use portus::ipc::Ipc;
use portus::lang::Scope;
use portus::{CongAlg, Datapath, DatapathInfo, DatapathTrait, Flow, Report};
use std::collections::{HashMap, VecDeque};

/// Section 2.1: the flow aims at 1/δ packets in the queue.
const DELTA: f64 = 0.5;
/// Section 2.2: RTTmin is the least RTT of ten seconds.
const RTT_MIN_SPAN_US: u64 = 10_000_000;
/// Section 2.2: the velocity doubles once the window has moved one way for three round trips.
const TURNS_TO_DOUBLE: u32 = 3;
/// A program's `+infinity`, and more: there was no sample.
const NO_SAMPLE_US: u64 = 0x3fff_ffff;

const PROGRAM: &str = "
    (def (Report
        (volatile acked 0) (volatile standing +infinity) (volatile expired false) (now 0))
        (half_us 10000))
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (:= Report.standing (min Report.standing Flow.rtt_sample_us))
        (:= Report.expired (|| Report.expired Flow.was_timeout))
        (:= Report.now Ack.now)
        (fallthrough))
    (when (> Micros half_us) (report) (:= Micros 0))";

#[derive(Clone, Copy, Debug, Default)]
pub struct Copa;

pub struct CopaFlow<I: Ipc> {
    control: Datapath<I>,
    scope: Scope,
    mss: f64,
    cwnd: f64,
    /// Times and RTTs, both rising: the first is the least of the span.
    rtts: VecDeque<(u64, u64)>,
    is_slow_start: bool,
    velocity: f64,
    /// The direction of the window, and for how many round trips it has been so.
    is_rising: bool,
    turns: u32,
    /// The start of this round trip, and the window then.
    turn_began: (u64, f64),
}

impl<I: Ipc> CongAlg<I> for Copa {
    type Flow = CopaFlow<I>;

    fn name() -> &'static str {
        "copa"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        HashMap::from([("copa", PROGRAM.to_owned())])
    }

    fn new_flow(&self, mut control: Datapath<I>, info: DatapathInfo) -> Self::Flow {
        let set = [("Cwnd", info.init_cwnd)];
        let scope = control.set_program("copa", Some(&set)).expect("it is installed");
        let (mss, cwnd) = (info.mss.into(), info.init_cwnd.into());
        CopaFlow {
            control,
            scope,
            mss,
            cwnd,
            rtts: VecDeque::new(),
            is_slow_start: true,
            velocity: 1.0,
            is_rising: true,
            turns: 0,
            turn_began: (0, cwnd),
        }
    }
}

impl<I: Ipc> CopaFlow<I> {
    fn rtt_min(&mut self, rtt_us: u64, now_us: u64) -> u64 {
        self.rtts.retain(|(at, rtt)| at + RTT_MIN_SPAN_US > now_us && *rtt < rtt_us);
        self.rtts.push_back((now_us, rtt_us));
        self.rtts[0].1
    }

    /// Once a round trip: does the window still move the same way?
    fn judge_velocity(&mut self, rtt_us: u64, now_us: u64) {
        let (began_us, cwnd) = self.turn_began;
        if now_us.saturating_sub(began_us) < rtt_us {
            return;
        }
        self.turn_began = (now_us, self.cwnd);
        let is_rising = self.cwnd > cwnd;
        self.turns = if is_rising == self.is_rising { self.turns + 1 } else { 0 };
        self.velocity = match self.turns {
            0 => 1.0,
            turns if turns >= TURNS_TO_DOUBLE => self.velocity * 2.0,
            _ => self.velocity,
        };
        self.is_rising = is_rising;
    }
}

impl<I: Ipc> Flow for CopaFlow<I> {
    fn on_report(&mut self, _: u32, report: Report) {
        let get = |name| field(&report, name, &self.scope);
        let (acked, standing_us) = (get("Report.acked") as f64, get("Report.standing"));
        let (expired, now_us) = (get("Report.expired") != 0, get("Report.now"));
        if standing_us == 0 || standing_us >= NO_SAMPLE_US {
            return;
        }
        let queue_us = (standing_us - self.rtt_min(standing_us, now_us).min(standing_us)) as f64;
        // λ = cwnd/RTTstanding is at most the target 1/(δ·dq).
        let is_below = self.cwnd * DELTA * queue_us <= self.mss * standing_us as f64;
        self.is_slow_start &= is_below;
        if expired {
            (self.cwnd, self.velocity) = (self.cwnd / 2.0, 1.0);
        } else if self.is_slow_start {
            self.cwnd += acked;
        } else {
            let step = self.velocity * self.mss * acked / (DELTA * self.cwnd);
            self.cwnd += if is_below { step } else { -step };
            self.judge_velocity(standing_us, now_us);
        }
        self.cwnd = self.cwnd.max(2.0 * self.mss);
        let rate = 2.0 * self.cwnd * 1e6 / standing_us as f64; // section 2.2
        let half_us = word(standing_us as f64 / 2.0);
        let set = [("Cwnd", word(self.cwnd)), ("Rate", word(rate)), ("half_us", half_us)];
        self.control.update_field(&self.scope, &set).expect("the datapath listens");
    }
}
