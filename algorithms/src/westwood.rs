//! Westwood+: Reno, but after a loss the window is what the path delivered, not half of itself.
//!
//! S. Mascolo et al., "TCP Westwood: Bandwidth Estimation for Enhanced Transport over Wireless
//! Links", MobiCom 2001; L. Grieco, S. Mascolo, "Performance Evaluation and Comparison of
//! Westwood+, New Reno, and Vegas TCP Congestion Control", CCR 2004; as in Linux tcp_westwood.c.
//!
//! Differs from Linux:
//!   - the window is cut to bandwidth times minimum RTT when the loss is reported, not to a half
//!     first and to that when the recovery ends; and never raised by it;
//!   - a loss before the first bandwidth sample halves the window, where Linux leaves two segments;
//!   - on a known path the filters start from its delivery rate and minimum RTT.

use crate::arm::{ArmInfo, ProgramId, Queue};
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::reno::Additive;
use crate::units::{Bytes, Rate, Time};
use crate::window::{self, Rule, Window, WindowArm};
use std::time::Duration;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "westwood",
    summary: "Reno, but a loss leaves what the path delivered (Westwood+)",
    program: ProgramId("westwood/report"),
    make: Some(window::make::<Westwood>),
    queue: Some(Queue::Bounded),
    ..ArmInfo::DEFAULT
};

/// tcp_westwood.c `TCP_WESTWOOD_RTT_MIN`: the least time over which a sample is taken.
const SAMPLE_MIN: Duration = Duration::from_millis(50);
/// tcp_westwood.c `westwood_do_filter`: 7/8 of the old value, 1/8 of the new one.
const FILTER: u64 = 8;

/// Westwood+, for one flow.
#[derive(Clone, Debug)]
pub struct Westwood {
    window: Window,
    rule: Delivered,
}

/// The bandwidth filter, and Reno's growth.
#[derive(Clone, Copy, Debug, Default)]
struct Delivered {
    additive: Additive,
    /// After one pass of the filter, and after two. `None` before the first sample.
    bw: Option<(Rate, Rate)>,
    rtt_min: Option<Duration>,
    sample_start: Time,
    /// Bytes acknowledged since then.
    sample: Bytes,
}

impl WindowArm for Westwood {
    const INFO: &'static ArmInfo = &ARM;

    fn over(path: &PathState, now: Time) -> Self {
        Self { window: Window::resume(path, now), rule: Delivered::resume(path, now) }
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn step(&mut self, m: &Measurement, now: Time) {
        self.rule.observe(m, now);
        self.window.step(&mut self.rule, m, now);
    }
}

impl Rule for Delivered {
    fn grow(&mut self, path: &PathState, acked: Bytes, now: Time) -> Bytes {
        self.additive.grow(path, acked, now)
    }

    fn reduce(&mut self, path: &PathState) -> Bytes {
        let half = self.additive.reduce(path);
        self.delivered().map_or(half, |bytes| bytes.min(path.cwnd))
    }

    /// tcp_westwood.c `CA_EVENT_LOSS`: the route may be another one.
    fn timed_out(&mut self) {
        self.rtt_min = None;
    }
}

impl Delivered {
    fn resume(path: &PathState, now: Time) -> Self {
        Self {
            bw: path.delivery_rate().map(|rate| (rate, rate)),
            rtt_min: path.rtt_min_of_data(),
            sample_start: now,
            ..Self::default()
        }
    }

    /// What the path holds without a queue.
    fn delivered(&self) -> Option<Bytes> {
        let (_, bw) = self.bw?;
        Some(bw * self.rtt_min?)
    }

    /// tcp_westwood.c `westwood_update_window` and `update_rtt_min`.
    fn observe(&mut self, m: &Measurement, now: Time) {
        self.sample += m.delivered;
        let Some(rtt) = m.rtt else {
            return;
        };
        self.rtt_min = Some(self.rtt_min.map_or(rtt.min, |min| min.min(rtt.min)));
        let span = now - self.sample_start;
        if span > rtt.last.max(SAMPLE_MIN) {
            self.filter(self.sample / span);
            self.sample = Bytes(0);
            self.sample_start = now;
        }
    }

    fn filter(&mut self, sample: Rate) {
        let pass = |old: Rate, new: Rate| {
            let (old, new) = (old.bytes_per_sec(), new.bytes_per_sec());
            Rate::from_bytes_per_sec(old - old / FILTER + new / FILTER)
        };
        self.bw = Some(match self.bw {
            None => (sample, sample),
            Some((once, twice)) => {
                let once = pass(once, sample);
                (once, pass(twice, once))
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Arm;
    use crate::measurement::RttSamples;
    use crate::script::{MSS, RTT, path, windows};
    use crate::units::Packets;

    fn check(script: &str, want_pkts: &str) {
        assert_eq!(
            windows(&mut Westwood::new(), &path(10), script),
            want_pkts,
            "script {script:?}"
        );
    }

    #[test]
    fn grows_as_reno_does() {
        check("auaaa", "20 20 40 80 160");
    }

    #[test]
    fn a_loss_before_the_first_bandwidth_sample_halves_the_window() {
        check("l", "5");
    }

    #[test]
    fn a_loss_leaves_what_the_path_delivered() {
        let mut westwood = Westwood::new();
        let cwnd = westwood.resume(&path(100), Time::ZERO).cwnd;
        let mut now = Time::ZERO;
        // 60 segments in each round trip of 60 ms, of which 40 ms are not queue.
        for rtt_ms in std::iter::once(40).chain([60; 99]) {
            now = now + Duration::from_millis(60);
            let m = Measurement {
                acked: Packets(60).to_bytes(MSS),
                delivered: Packets(60).to_bytes(MSS),
                rtt: Some(RttSamples::one(Duration::from_millis(rtt_ms))),
                ..Measurement::QUIET
            };
            assert_eq!(westwood.on_measurement(&m, now).cwnd, cwnd);
        }
        let loss = Measurement { lost: Packets(1), ..Measurement::QUIET };
        let left = westwood.on_measurement(&loss, now + RTT).cwnd;
        assert_eq!(left.to_packets(MSS), Packets(40), "{left:?}");
    }

    #[test]
    fn a_loss_never_raises_the_window() {
        let mut path = path(20);
        path.observe(
            &Measurement {
                delivery_rate: Rate::from_bytes_per_sec(1_000_000_000),
                rtt: Some(RttSamples::one(RTT)),
                in_flight: path.cwnd,
                ..Measurement::QUIET
            },
            Time::ZERO,
        );
        let mut westwood = Westwood::new();
        assert_eq!(windows(&mut westwood, &path, "l"), "20");
    }

    #[test]
    fn the_filter_passes_an_eighth_twice() {
        let mut rule = Delivered::default();
        rule.filter(Rate::from_bytes_per_sec(8_000));
        rule.filter(Rate::from_bytes_per_sec(16_000));
        let rates = (Rate::from_bytes_per_sec(9_000), Rate::from_bytes_per_sec(8_125));
        assert_eq!(rule.bw, Some(rates));
    }
}
