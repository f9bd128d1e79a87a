//! Nimbus on portus, for tests: Goyal et al., "Elasticity Detection: A Building Block for Internet
//! Congestion Control" (SIGCOMM 2022). The flow pulses its rate, finds by the cross traffic's
//! answer whether that traffic is elastic, and competes with it only if it is.
//!
//! Differs from the paper: the bottleneck's rate is the highest delivery rate seen, the competitive
//! mode is Reno's, and the flow is alone in pulsing. It competes until it has 5 s of samples.

use super::{field, word};
use portus::ipc::Ipc;
use portus::lang::Scope;
use portus::{CongAlg, Datapath, DatapathInfo, DatapathTrait, Flow, Report};
use std::collections::{HashMap, VecDeque};
use std::f64::consts::{PI, TAU};

/// Pulses of 5 Hz, found in 5 s of samples each 10 ms: the frequency n/5 Hz is the bin n.
const PULSE_US: u64 = 200_000;
const SAMPLE_US: u64 = 10_000;
const SAMPLES: usize = 500;
const PULSE_BIN: usize = 25;
/// Cross traffic is elastic if it answers the pulses twice as strongly as anything up to 10 Hz.
const ELASTICITY: f64 = 2.0;
/// The delay rule: the weights of idle rate and of delay, and the delay aimed at, of the least RTT.
const ALPHA: f64 = 0.8;
const BETA: f64 = 0.5;
const DELAY_AIM: f64 = 1.25;

const PROGRAM: &str = "
    (def (Report (volatile acked 0) (volatile lost 0) (sent 0) (got 0) (rtt 0) (now 0)))
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
        (:= Report.sent Flow.rate_outgoing)
        (:= Report.got Flow.rate_incoming)
        (:= Report.rtt Flow.rtt_sample_us)
        (:= Report.now Ack.now)
        (fallthrough))
    (when (> Micros 10000) (report) (:= Micros 0))";

#[derive(Clone, Copy, Debug, Default)]
pub struct Nimbus;

pub struct NimbusFlow<I: Ipc> {
    control: Datapath<I>,
    scope: Scope,
    mss: f64,
    /// The window of the competitive mode and of the start.
    cwnd: f64,
    /// The bottleneck's rate, in bytes per second, and the least RTT, in seconds.
    link: f64,
    rtt_min_s: f64,
    /// The rate of the cross traffic, each 10 ms, and the number of the last 10 ms.
    cross: VecDeque<f64>,
    slot: u64,
    reports: usize,
    is_starting: bool,
    is_elastic: bool,
    halved_us: u64,
}

impl<I: Ipc> CongAlg<I> for Nimbus {
    type Flow = NimbusFlow<I>;

    fn name() -> &'static str {
        "nimbus"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        HashMap::from([("nimbus", PROGRAM.to_owned())])
    }

    fn new_flow(&self, mut control: Datapath<I>, info: DatapathInfo) -> Self::Flow {
        let set = [("Cwnd", info.init_cwnd)];
        let scope = control.set_program("nimbus", Some(&set)).expect("it is installed");
        NimbusFlow {
            control,
            scope,
            mss: info.mss.into(),
            cwnd: info.init_cwnd.into(),
            link: 0.0,
            rtt_min_s: f64::INFINITY,
            cross: VecDeque::new(),
            slot: 0,
            reports: 0,
            is_starting: true,
            is_elastic: true,
            halved_us: 0,
        }
    }
}

/// How strong a frequency is among the samples.
fn strength(samples: &VecDeque<f64>, bin: usize) -> f64 {
    let turn = TAU * bin as f64 / samples.len() as f64;
    let sum = samples.iter().enumerate().fold((0.0, 0.0), |(re, im), (at, sample)| {
        let (sin, cos) = (turn * at as f64).sin_cos();
        (re + sample * cos, im + sample * sin)
    });
    f64::hypot(sum.0, sum.1)
}

/// Whether cross traffic answers the pulses.
pub fn is_elastic(samples: &VecDeque<f64>) -> bool {
    let others = PULSE_BIN + 1..2 * PULSE_BIN;
    let most = others.map(|bin| strength(samples, bin)).fold(f64::MIN_POSITIVE, f64::max);
    strength(samples, PULSE_BIN) >= ELASTICITY * most
}

/// A quarter of a period up by a quarter of the link's rate, then down for as many bytes.
fn pulse(now_us: u64, link: f64) -> f64 {
    let phase = (now_us % PULSE_US) as f64 / PULSE_US as f64;
    if phase < 0.25 {
        link / 4.0 * (PI * phase / 0.25).sin()
    } else {
        -link / 12.0 * (PI * (phase - 0.25) / 0.75).sin()
    }
}

impl<I: Ipc> NimbusFlow<I> {
    /// The competitive mode: Reno's window, halved at most once a round trip.
    fn compete(&mut self, acked: f64, lost: u64, rtt_s: f64, now_us: u64) {
        let is_new = now_us.saturating_sub(self.halved_us) as f64 > rtt_s * 1e6;
        if lost > 0 && is_new {
            (self.cwnd, self.halved_us) = ((self.cwnd / 2.0).max(2.0 * self.mss), now_us);
        } else {
            self.cwnd += self.mss * acked / self.cwnd;
        }
    }

    /// Between two reports the cross traffic is taken to stay as it is.
    fn look_for_elasticity(&mut self, cross: f64, now_us: u64) {
        let slot = now_us / SAMPLE_US;
        let passed = if self.cross.is_empty() { 1 } else { slot.saturating_sub(self.slot) };
        self.slot = slot;
        for _ in 0..passed.min(SAMPLES as u64) {
            self.cross.push_back(cross);
        }
        while self.cross.len() > SAMPLES {
            self.cross.pop_front();
        }
        self.reports += 1;
        if self.cross.len() == SAMPLES && self.reports.is_multiple_of(10) {
            self.is_elastic = is_elastic(&self.cross);
        }
    }
}

impl<I: Ipc> Flow for NimbusFlow<I> {
    fn on_report(&mut self, _: u32, report: Report) {
        let get = |name| field(&report, name, &self.scope);
        let (sent, got) = (get("Report.sent") as f64, get("Report.got") as f64);
        let (acked, rtt_s) = (get("Report.acked") as f64, get("Report.rtt") as f64 / 1e6);
        let (lost, now_us) = (get("Report.lost"), get("Report.now"));
        if sent <= 0.0 || got <= 0.0 || !(1e-6..100.0).contains(&rtt_s) {
            return;
        }
        self.link = self.link.max(got);
        self.rtt_min_s = self.rtt_min_s.min(rtt_s);
        let aim_s = self.rtt_min_s * DELAY_AIM;
        self.is_starting &= lost == 0 && rtt_s < aim_s;
        let cross = (self.link * sent / got - sent).clamp(0.0, self.link);
        let base = if self.is_starting {
            self.cwnd += acked;
            self.cwnd / rtt_s
        } else if self.is_elastic {
            self.compete(acked, lost, rtt_s, now_us);
            self.cwnd / rtt_s
        } else {
            let idle = self.link - sent - cross;
            let rate = sent + ALPHA * idle + BETA * self.link / rtt_s * (aim_s - rtt_s);
            self.cwnd = (rate * rtt_s).max(2.0 * self.mss);
            rate
        };
        if !self.is_starting {
            self.look_for_elasticity(cross, now_us);
        }
        let pulse = if self.is_starting { 0.0 } else { pulse(now_us, self.link) };
        let rate = (base + pulse).clamp(self.link / 20.0, 2.0 * self.link);
        let window = (2.0 * rate * rtt_s).max(4.0 * self.mss);
        let set = [("Cwnd", word(window)), ("Rate", word(rate))];
        self.control.update_field(&self.scope, &set).expect("the datapath listens");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_traffic_that_answers_at_the_pulses_frequency_is_elastic() {
        let wave = |at: usize, hz: f64| 1e6 * (TAU * hz * at as f64 / 100.0).sin();
        let samples = |hz: f64| (0..SAMPLES).map(move |at| wave(at, hz));
        assert!(is_elastic(&samples(5.0).collect()));
        assert!(!is_elastic(&samples(7.0).collect()));
        assert!(!is_elastic(&std::iter::repeat_n(1e6, SAMPLES).collect()));
    }

    #[test]
    fn a_pulse_takes_back_what_it_has_added() {
        let sum: f64 = (0..PULSE_US).map(|now_us| pulse(now_us, 1e6)).sum();
        assert!(sum.abs() / (PULSE_US as f64) < 10.0, "{sum}");
    }
}
