//! Nimbus: CUBIC among buffer fillers, a short queue otherwise, by pulses that tell the two apart.
//!
//! P. Goyal et al., "Elasticity Detection: A Building Block for Internet Congestion Control",
//! arXiv 1802.08730, and its implementation for CCP. With mu the link's rate, S what is sent, R
//! what is delivered:
//!
//! ```text
//! z       = mu S / R - S                                     the cross traffic's rate, section 3.1
//! pulses  a quarter of mu, up for a quarter of the period and down, less, for the rest:
//!         5 Hz in the competitive mode, 6 Hz in the delay mode                        section 3.4
//! delay   r = S + 0.8 (mu - z - S) - 0.5 mu / RTT (RTT - 1.25 RTTmin)                 section 4.1
//! loss    CUBIC's window a round trip
//! ```
//!
//! mu is the largest delivery rate seen. Into the competitive mode it goes with the rate of five
//! seconds ago, before it was squeezed; back into the delay mode five seconds later at the
//! earliest, with a threshold that starts from the RTT of then. The verdict is detector.rs's.
//!
//! Differs from the paper:
//!   - of many flows of Nimbus on a link, each pulses: no masters and slaves (section 6);
//!   - CUBIC is cubic.rs.

mod detector;

use crate::arm::{Arm, ArmInfo, Decision, ProgramId, Queue, REPORTS_PER_ROUND_MANY};
use crate::cubic::Cubic;
use crate::measurement::{CwndUse, Measurement};
use crate::path::PathState;
use crate::units::{Bytes, Packets, Rate, Time};
use crate::window::{self, WindowArm};
use crate::{report_each_round, signals};
use detector::{Detector, Sample, Verdict};
use std::f64::consts::TAU;
use std::time::Duration;

/// The shared signals, and the last rates, by round trip. CCP's language has one field left for
/// both: what is sent above 2^32, what is delivered below, in bytes a second.
pub const PROGRAM: &str = concat!(
    signals!(report: "(volatile rates 0)", control: "(sent 0)"),
    "(when true
    (:= sent (min Flow.rate_outgoing 2000000000))
    (:= sent (* (* sent 65536) 65536))
    (:= Report.rates (+ sent (min Flow.rate_incoming 2000000000)))
    (fallthrough)
)
",
    report_each_round!()
);

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "nimbus",
    summary: "a short queue, or CUBIC if others fill the buffer (Nimbus)",
    program: ProgramId("nimbus/rates"),
    program_text: PROGRAM,
    own_fields: OWN_FIELDS,
    // A pulse is up for 50 ms.
    reports_per_round: REPORTS_PER_ROUND_MANY,
    paces: true,
    make: Some(|_| Box::new(Nimbus::default())),
    queue: Some(Queue::Bounded),
    ..ArmInfo::DEFAULT
};

const OWN_FIELDS: &[&str] = &["Report.rates"];
/// The pulses, in Hz.
const LOSS_HZ: f64 = 5.0;
const DELAY_HZ: f64 = 6.0;
/// How large a pulse is, as a share of the link, and for what share of the period it is up.
const PULSE: f64 = 0.25;
const UP: f64 = 0.25;
/// Section 4.1: alpha and beta of the delay mode.
const ALPHA: f64 = 0.8;
const BETA: f64 = 0.5;
/// The queue it keeps: a quarter of the least RTT; a larger one shrinks by half a least RTT a
/// second.
const THRESHOLD: f64 = 1.25;
const THRESHOLD_FALL_PER_SEC: f64 = 0.5;
/// The rate is never below this share of the link.
const RATE_MIN_SHARE: f64 = 0.05;
/// Weight of a new delivery rate in the one whose maximum is the link's.
const LINK_WEIGHT: f64 = 0.2;
/// Before a switch to loss, this long ago, nobody squeezed it; and how long a mode lasts at least.
const BEFORE: Duration = Duration::from_secs(5);
/// The first RTT, before one is known.
const RTT_UNKNOWN: Duration = Duration::from_millis(100);

/// Nimbus, for one flow.
#[derive(Clone, Debug)]
pub struct Nimbus {
    path: PathState,
    mode: Mode,
    cubic: Cubic,
    detector: Detector,
    started: Time,
    last_at: Time,
    switched_at: Time,
    /// Bytes a second: what is delivered, smoothed, and its maximum.
    delivered: f64,
    link: f64,
    /// Of the delay mode, in least RTTs.
    threshold: f64,
    /// Bytes a second, without the pulse.
    rate: f64,
    decision: Decision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Loss,
    Delay,
}

impl Arm for Nimbus {
    fn info(&self) -> &'static ArmInfo {
        &ARM
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        *self = Self::over(path, now);
        self.decision
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.path.observe(m, now);
        self.observe(m, now);
        // The flow is paced by CUBIC's rate, and the window in force is larger than CUBIC's. So
        // unless the application limits the flow, CUBIC counts as limited by its window, and may
        // grow.
        let used = if m.app_limited { m.cwnd_use } else { Some(CwndUse::Full) };
        let cubic = self.cubic.on_measurement(&Measurement { cwnd_use: used, ..*m }, now);
        match self.mode {
            Mode::Loss => self.rate = cubic.cwnd.0 as f64 / self.rtt_s(),
            Mode::Delay if m.rtt.is_some() => self.keep_the_queue_short(m, now),
            Mode::Delay => {}
        }
        let frequency = if self.mode == Mode::Loss { LOSS_HZ } else { DELAY_HZ };
        if let Some(verdict) = self.detector.verdict(frequency, self.link, now) {
            self.change_mode(verdict, now);
        }
        self.last_at = now;
        self.decision = self.decide(frequency, now);
        self.decision
    }

    fn hand_off(&self, path: &mut PathState) {
        self.cubic.hand_off(path);
        // The delay mode's rate swings about what is delivered; CUBIC's is its window.
        let rate = match self.mode {
            Mode::Delay => self.rate.max(self.delivered),
            Mode::Loss => self.rate,
        };
        let rate = Rate::from_bytes_per_sec(rate as u64);
        path.cwnd = window::bound(&self.path, (rate * self.rtt()).min(self.decision.cwnd));
        path.rate = Some(rate.max(Rate::from_bytes_per_sec(1)));
    }
}

impl Default for Nimbus {
    fn default() -> Self {
        Self::over(&window::no_path(), Time::ZERO)
    }
}

impl Nimbus {
    /// A known path is taken over in the competitive mode: it is the one that cannot be starved.
    fn over(path: &PathState, now: Time) -> Self {
        let path = window::sane(path);
        let mut cubic = Cubic::new();
        let first = cubic.resume(&path, now);
        let link = path.delivery_rate().map_or(0.0, |rate| rate.bytes_per_sec() as f64);
        Self {
            mode: Mode::Loss,
            cubic,
            detector: Detector::new(now),
            started: now,
            last_at: now,
            switched_at: now,
            delivered: link,
            link,
            threshold: THRESHOLD,
            rate: first.cwnd.0 as f64 / path.srtt.unwrap_or(RTT_UNKNOWN).as_secs_f64().max(1e-6),
            decision: first,
            path,
        }
    }

    fn rtt(&self) -> Duration {
        self.path.srtt.unwrap_or(RTT_UNKNOWN).clamp(Duration::from_micros(1), BEFORE)
    }

    fn rtt_s(&self) -> f64 {
        self.rtt().as_secs_f64()
    }

    fn min_rtt_s(&self) -> f64 {
        self.path.rtt_min_long().map_or(self.rtt_s(), |rtt| rtt.as_secs_f64().max(1e-6))
    }

    fn observe(&mut self, m: &Measurement, now: Time) {
        let (sent, delivered) = rates(m);
        if delivered <= 0.0 {
            return;
        }
        self.delivered += LINK_WEIGHT * (delivered - self.delivered);
        self.link = self.link.max(self.delivered);
        let sample = Sample {
            cross: self.cross(sent, delivered),
            others: self.link - delivered,
            rtt_s: self.rtt_s(),
            delivered,
        };
        self.detector.push(sample, now);
    }

    fn cross(&self, sent: f64, delivered: f64) -> f64 {
        self.link * (sent / delivered) - sent
    }

    fn keep_the_queue_short(&mut self, m: &Measurement, now: Time) {
        let (sent, delivered) = rates(m);
        if delivered <= 0.0 {
            return;
        }
        let spare = self.link - self.cross(sent, delivered) - sent;
        let rtt_s = m.rtt.map_or(self.rtt_s(), |rtt| rtt.last.as_secs_f64().max(1e-6));
        let late_s = rtt_s - self.threshold * self.min_rtt_s();
        self.rate = sent + ALPHA * spare - BETA * self.link / rtt_s * late_s;
        let fall = THRESHOLD_FALL_PER_SEC * (now - self.last_at).as_secs_f64();
        self.threshold = (self.threshold - fall).max(THRESHOLD);
    }

    fn change_mode(&mut self, verdict: Verdict, now: Time) {
        match (verdict, self.mode) {
            (Verdict::Elastic, Mode::Delay) => {
                let before = self.detector.delivered_before(BEFORE).unwrap_or(self.rate);
                let mut path = self.path.clone();
                path.cwnd = window::bound(&path, Bytes((before * self.rtt_s()) as u64));
                path.ssthresh = Some(path.cwnd);
                path.w_max = None;
                self.cubic.resume(&path, now);
                self.mode = Mode::Loss;
            }
            (Verdict::Inelastic, Mode::Loss) if now - self.switched_at >= BEFORE => {
                self.threshold = THRESHOLD.max(self.rtt_s() / self.min_rtt_s());
                self.mode = Mode::Delay;
            }
            _ => return,
        }
        self.switched_at = now;
    }

    /// The rate with its pulse, and twice what it holds in a round trip.
    fn decide(&mut self, frequency: f64, now: Time) -> Decision {
        let least = Packets(2).to_bytes(self.path.mss).0 as f64 / self.rtt_s();
        let most = f64::from(u32::MAX);
        self.rate = self.rate.max(RATE_MIN_SHARE * self.link).max(least).min(most);
        let rate = (self.rate + self.pulse(frequency, now)).max(least).min(most);
        let rate = Rate::from_bytes_per_sec((rate as u64).max(1));
        let holds = rate * self.rtt();
        Decision { cwnd: window::bound(&self.path, holds + holds), rate: Some(rate) }
    }

    /// Section 3.4: half a sine up, and a longer and lower half down.
    fn pulse(&self, frequency: f64, now: Time) -> f64 {
        let phase = (now - self.started).as_secs_f64() * frequency;
        let phase = phase - phase.floor();
        let size = PULSE * self.link;
        if phase < UP {
            size * libm::sin(TAU * phase * 0.5 / UP)
        } else {
            let down = 0.5 + (phase - UP) * 0.5 / (1.0 - UP);
            UP / (1.0 - UP) * size * libm::sin(TAU * down)
        }
    }
}

/// What is sent and what is delivered, in bytes a second.
fn rates(m: &Measurement) -> (f64, f64) {
    let [rates, ..] = m.own;
    ((rates >> 32) as f64, (rates & u64::from(u32::MAX)) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{OWN_FIELDS_MAX, RttSamples};
    use crate::script::path;

    fn report(sent: u64, delivered: u64, rtt_ms: u64) -> Measurement {
        let mut own = [0; OWN_FIELDS_MAX];
        own[0] = sent << 32 | delivered;
        Measurement {
            acked: Bytes(delivered / 100),
            delivered: Bytes(delivered / 100),
            rtt: Some(RttSamples::one(Duration::from_millis(rtt_ms))),
            own,
            ..Measurement::QUIET
        }
    }

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    #[test]
    fn the_cross_traffic_is_what_the_link_does_not_deliver_to_us() {
        let nimbus = Nimbus { link: 3_000_000.0, ..Nimbus::default() };
        // Sent 1.5, delivered 1.0 of 3.0: others had 3.0 in the ratio of what was queued.
        assert_eq!(nimbus.cross(1_500_000.0, 1_000_000.0), 3_000_000.0);
        assert_eq!(nimbus.cross(3_000_000.0, 3_000_000.0), 0.0);
    }

    #[test]
    fn a_pulse_is_up_for_a_quarter_and_adds_nothing_in_all() {
        let nimbus = Nimbus { link: 1_000_000.0, ..Nimbus::default() };
        let pulses: Vec<f64> = (0..200).map(|ms| nimbus.pulse(5.0, at(ms))).collect();
        assert!((pulses[25] - 250_000.0).abs() < 1.0, "{}", pulses[25]);
        assert_eq!(pulses.iter().filter(|pulse| **pulse > 1.0).count(), 49);
        let sum: f64 = pulses.iter().sum();
        assert!(sum.abs() < 1_000.0 * pulses.len() as f64, "{sum}");
    }

    #[test]
    fn alone_it_comes_to_the_delay_mode_and_among_elastic_flows_back() {
        let mut nimbus = Nimbus::default();
        nimbus.resume(&path(10), at(0));
        let mut now = 0;
        while now < 20_000 {
            now += 10;
            nimbus.on_measurement(&report(3_000_000, 3_000_000, 45), at(now));
        }
        assert_eq!(nimbus.mode, Mode::Delay);
        nimbus.change_mode(Verdict::Elastic, at(now));
        assert_eq!(nimbus.mode, Mode::Loss);
        let window = nimbus.cubic.on_measurement(&Measurement::QUIET, at(now)).cwnd.0 as f64;
        assert!((window / (3_000_000.0 * nimbus.rtt_s()) - 1.0).abs() < 0.05, "{window}");
        nimbus.change_mode(Verdict::Inelastic, at(now + 4_999));
        assert_eq!(nimbus.mode, Mode::Loss);
        nimbus.change_mode(Verdict::Inelastic, at(now + 5_000));
        assert_eq!(nimbus.mode, Mode::Delay);
    }

    #[test]
    fn the_delay_mode_slows_down_when_the_queue_is_long() {
        let mut nimbus = Nimbus::default();
        let mut known = path(100);
        known.observe(&report(3_000_000, 3_000_000, 40), at(0));
        nimbus.resume(&known, at(0));
        (nimbus.mode, nimbus.link, nimbus.delivered) = (Mode::Delay, 3_000_000.0, 3_000_000.0);
        nimbus.on_measurement(&report(3_000_000, 3_000_000, 50), at(10));
        assert!((nimbus.rate - 3_000_000.0).abs() < 1.0, "{}", nimbus.rate);
        nimbus.on_measurement(&report(3_000_000, 3_000_000, 100), at(20));
        let want = 3_000_000.0 - 0.5 * 3_000_000.0 / 0.1 * 0.05;
        assert!((nimbus.rate - want).abs() < 1.0, "{}", nimbus.rate);
    }
}
