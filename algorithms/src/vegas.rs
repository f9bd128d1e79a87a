//! Vegas: keeps two to four segments of its own in the bottleneck's queue.
//!
//! L. Brakmo, L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE
//! JSAC 1995, section IV; as in Linux tcp_vegas.c. At the end of each round trip, with W the
//! window, R the least RTT of the round and B the least ever:
//!
//! ```text
//! diff = W (R - B) / B                what of the window stands in the queue
//! slow start     diff > gamma         the window is cut to what the path holds, and it is over
//! afterwards     diff < alpha         a segment more
//!                diff > beta          a segment less
//! ```
//!
//! Differs from the paper, as Linux does:
//!   - slow start doubles the window each round trip, not each second one;
//!   - no retransmission rules of its own (section III): those are the datapath's;
//!   - a round with fewer than three samples grows the window as Reno does, since delayed ACKs hide
//!     the path's RTT.
//!
//! Differs from Linux:
//!   - on a known path B is that of five minutes, not the next sample, which may be of a standing
//!     queue;
//!   - a window that is not used does not grow (RFC 7661).

use crate::arm::{ArmInfo, ProgramId, Queue};
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::reno::Additive;
use crate::units::{Bytes, Packets, Time};
use crate::window::{self, Rule, Window, WindowArm};
use std::time::Duration;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "vegas",
    summary: "two to four segments in the queue, by round trips (Vegas)",
    program: ProgramId("vegas/report"),
    make: Some(window::make::<Vegas>),
    queue: Some(Queue::Short),
    ..ArmInfo::DEFAULT
};

/// tcp_vegas.c `alpha`: with less in the queue, the window grows.
const ALPHA: Packets = Packets(2);
/// tcp_vegas.c `beta`: with more, it shrinks.
const BETA: Packets = Packets(4);
/// tcp_vegas.c `gamma`: with more, slow start is over.
const GAMMA: Packets = Packets(1);
/// tcp_vegas.c `tcp_vegas_cong_avoid`: with fewer samples a round says nothing.
const SAMPLES_MIN: u64 = 3;

/// Vegas, for one flow.
#[derive(Clone, Debug)]
pub struct Vegas {
    window: Window,
    rule: Still,
    /// The least RTT ever.
    base: Option<Duration>,
    /// The least of this round, of so many samples.
    round_min: Option<Duration>,
    samples: u64,
}

/// The window moves once a round trip, not with ACKs; but as Reno's after a round of few samples.
#[derive(Clone, Copy, Debug, Default)]
struct Still {
    few_samples: bool,
    additive: Additive,
}

impl WindowArm for Vegas {
    const INFO: &'static ArmInfo = &ARM;

    fn over(path: &PathState, now: Time) -> Self {
        Self {
            window: Window::resume(path, now),
            rule: Still::default(),
            base: path.rtt_min_long(),
            round_min: None,
            samples: 0,
        }
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn step(&mut self, m: &Measurement, now: Time) {
        self.window.step(&mut self.rule, m, now);
        if m.has_loss() || m.timed_out || m.in_recovery {
            self.start_round();
            return;
        }
        if let Some(rtt) = m.rtt {
            self.base = Some(self.base.map_or(rtt.min, |base| base.min(rtt.min)));
            self.round_min = Some(self.round_min.map_or(rtt.min, |min| min.min(rtt.min)));
            self.samples = self.samples.saturating_add(rtt.count);
        }
        if self.window.round_ended() {
            self.judge(m);
            self.start_round();
        }
    }
}

impl Rule for Still {
    fn grow(&mut self, path: &PathState, acked: Bytes, now: Time) -> Bytes {
        if self.few_samples { self.additive.grow(path, acked, now) } else { path.cwnd }
    }

    fn reduce(&mut self, path: &PathState) -> Bytes {
        self.additive.reduce(path)
    }
}

impl Vegas {
    fn start_round(&mut self) {
        self.round_min = None;
        self.samples = 0;
    }

    /// tcp_vegas.c `tcp_vegas_cong_avoid`, at the end of a round.
    fn judge(&mut self, m: &Measurement) {
        self.rule.few_samples = self.samples < SAMPLES_MIN;
        let (Some(rtt), Some(base)) = (self.round_min, self.base) else { return };
        if self.rule.few_samples {
            return;
        }
        let mss = self.window.path.mss;
        let cwnd = self.window.path.cwnd;
        let queued = scale_by(cwnd, rtt - base, base);
        if self.window.in_slow_start() {
            if queued > GAMMA.to_bytes(mss) {
                let fits = scale_by(cwnd, base, rtt) + mss;
                self.window.leave_slow_start(cwnd.min(fits));
            }
        } else if queued > BETA.to_bytes(mss) {
            self.window.shrink(cwnd - mss);
        } else if queued < ALPHA.to_bytes(mss) && self.window.limited(m) {
            self.window.path.cwnd = window::bound(&self.window.path, cwnd + mss);
        }
    }
}

/// `bytes * num / den`; a span of zero counts as a nanosecond.
fn scale_by(bytes: Bytes, num: Duration, den: Duration) -> Bytes {
    let wide = u128::from(bytes.0).saturating_mul(num.as_nanos()) / den.as_nanos().max(1);
    Bytes(u64::try_from(wide).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Arm;
    use crate::measurement::RttSamples;
    use crate::script::{MSS, RTT, path, windows};

    /// What was sent under the window `before` is delivered in one round trip of `rtt_us`, under
    /// the window `cwnd`.
    fn round(before: Bytes, cwnd: Bytes, rtt_us: u64, samples: u64) -> Measurement {
        let one = RttSamples::one(Duration::from_micros(rtt_us));
        Measurement {
            acked: before,
            delivered: before,
            in_flight: cwnd - MSS,
            cwnd,
            rtt: Some(RttSamples { count: samples, ..one }),
            ..Measurement::QUIET
        }
    }

    /// From a known path of 40 ms and a window of 100 segments: the window after each round.
    fn check(rtts_us: &[u64], samples: u64, want_pkts: &[u64]) {
        let mut known = path(100);
        known.ssthresh = Some(known.cwnd);
        known.observe(&round(known.cwnd, known.cwnd, 40_000, 8), Time::ZERO);
        let mut vegas = Vegas::new();
        let mut cwnd = vegas.resume(&known, Time::ZERO).cwnd;
        let mut flight = cwnd;
        let mut got = Vec::new();
        for (at, rtt_us) in (1u32..).zip(rtts_us) {
            let before = std::mem::replace(&mut flight, cwnd);
            let m = round(before, cwnd, *rtt_us, samples);
            cwnd = vegas.on_measurement(&m, Time(RTT * at)).cwnd;
            got.push(cwnd.to_packets(MSS).0);
        }
        assert_eq!(got, want_pkts, "{rtts_us:?}");
    }

    #[test]
    fn grows_below_two_segments_of_queue_shrinks_above_four_and_stays_between() {
        // diff = W (R - B) / B: 100 * 0.4 / 40 = 1, 100 * 2 / 40 = 5, 100 * 1.2 / 40 = 3.
        check(&[40_400, 40_400], 8, &[101, 102]);
        check(&[42_000, 42_000], 8, &[99, 98]);
        check(&[41_200, 41_200], 8, &[100, 100]);
    }

    #[test]
    fn a_round_of_few_samples_is_renos() {
        check(&[42_000; 4], 2, &[100, 101, 101, 102]);
    }

    #[test]
    fn slow_start_ends_when_a_segment_stands_in_the_queue() {
        let mut vegas = Vegas::new();
        let mut cwnd = vegas.resume(&path(10), Time::ZERO).cwnd;
        let mut got = Vec::new();
        for (at, rtt_us) in (1u32..).zip([40_000, 40_000, 40_000, 50_000, 40_000]) {
            cwnd = vegas.on_measurement(&round(cwnd, cwnd, rtt_us, 8), Time(RTT * at)).cwnd;
            got.push(cwnd.to_packets(MSS).0);
        }
        // 160 in the queue's round: 160 * 40 / 50 + 1; then one more a round.
        assert_eq!(got, [20, 40, 80, 129, 130]);
    }

    #[test]
    fn a_loss_halves() {
        let mut vegas = Vegas::new();
        assert_eq!(windows(&mut vegas, &path(10), "aaal"), "20 40 80 40");
    }
}
