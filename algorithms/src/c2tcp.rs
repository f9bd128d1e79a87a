//! C2TCP: CUBIC, with a bound on delay: round trips that stay above twice the least for as long
//! restart slow start.
//!
//! S. Abbasloo, Y. Xu, H. J. Chao, "C2TCP: A Flexible Cellular TCP to Meet Stringent Delay
//! Requirements", IEEE JSAC 2019, section III; the authors' kernel patch for the constants. With R
//! the least round trip, `setpoint = alpha R`, and on each round trip sampled:
//!
//! ```text
//! RTT <= setpoint                    good: W grows by setpoint / RTT segments a window more
//! above it for less than setpoint    normal: CUBIC alone
//! above it for longer                bad: ssthresh as after a loss, W back to its floor; again
//!                                    after setpoint / sqrt(n), n the times so far (CoDel's law)
//! ```
//!
//! Differs from the patch:
//!   - judges reports, a quarter or a sixteenth of a round trip, by their least RTT, and in
//!     microseconds; also in the second after a loss, in which the patch does not look;
//!   - the growth of good round trips is by segments acknowledged, not by ACKs;
//!   - the window's floor is two segments, a datapath's, not one;
//!   - on a known path R is that of five minutes;
//!   - alpha is fixed at the patch's default, not moved by an application's target.

use crate::arm::{ArmInfo, ProgramId, Queue};
use crate::cubic::Curve;
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::units::{Bytes, Time};
use crate::window::{self, Window, WindowArm};
use std::time::Duration;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "c2tcp",
    summary: "CUBIC that backs off when round trips stay long (C2TCP)",
    program: ProgramId("c2tcp/report"),
    make: Some(window::make::<C2tcp>),
    queue: Some(Queue::Bounded),
    ..ArmInfo::DEFAULT
};

/// The patch's `TCP_C2TCP_ALPHA_INIT`, 200 of 100: the setpoint and the interval in least RTTs.
const ALPHA: u32 = 2;

/// C2TCP, for one flow.
#[derive(Clone, Debug)]
pub struct C2tcp {
    window: Window,
    rule: Curve,
    rtt_min: Option<Duration>,
    /// `None` while round trips are short.
    above: Option<Above>,
    /// Bytes towards the next segment of growth.
    credit: Bytes,
}

/// Round trips are long.
#[derive(Clone, Copy, Debug)]
struct Above {
    /// When that is bad.
    bad_at: Time,
    /// Which time it will be.
    count: u32,
}

impl WindowArm for C2tcp {
    const INFO: &'static ArmInfo = &ARM;

    fn over(path: &PathState, now: Time) -> Self {
        let window = Window::resume(path, now).with_hystart();
        let rule = Curve::resume(&window.path, now);
        Self { window, rule, rtt_min: path.rtt_min_long(), above: None, credit: Bytes(0) }
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn step(&mut self, m: &Measurement, now: Time) {
        self.window.step(&mut self.rule, m, now);
        if let Some(rtt) = m.rtt.filter(|_| !m.in_recovery && !m.timed_out) {
            let least = self.rtt_min.map_or(rtt.min, |min| min.min(rtt.min));
            self.rtt_min = Some(least);
            self.judge(rtt.min, least.saturating_mul(ALPHA), (m, now));
        }
    }
}

impl C2tcp {
    fn judge(&mut self, rtt: Duration, setpoint: Duration, (m, now): (&Measurement, Time)) {
        if rtt <= setpoint {
            self.above = None;
            if self.window.limited(m) {
                self.grow(setpoint.as_nanos() / rtt.as_nanos().max(1), m);
            }
            return;
        }
        let above = self.above.get_or_insert(Above { bad_at: now + setpoint, count: 1 });
        if now > above.bad_at {
            above.bad_at = now + over_root(setpoint, above.count);
            above.count = above.count.saturating_add(1);
            self.credit = Bytes(0);
            self.window.restart(&mut self.rule, now);
        }
    }

    /// `times` segments a window of ACKs.
    fn grow(&mut self, times: u128, m: &Measurement) {
        let path = &mut self.window.path;
        let times = u64::try_from(times).unwrap_or(1).min(u64::from(ALPHA));
        self.credit += Bytes(m.acked.0.saturating_mul(times));
        let whole = Bytes(self.credit.0 / path.cwnd.0.max(1));
        self.credit = Bytes(self.credit.0 % path.cwnd.0.max(1));
        path.cwnd = window::bound(path, path.cwnd + Bytes(whole.0.saturating_mul(path.mss.0)));
    }
}

/// `span / sqrt(count)`, in integers.
fn over_root(span: Duration, count: u32) -> Duration {
    let nanos = span.as_nanos();
    let square = nanos.saturating_mul(nanos) / u128::from(count.max(1));
    Duration::from_nanos(u64::try_from(square.isqrt()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Arm;
    use crate::measurement::RttSamples;
    use crate::script::{MSS, path, windows};

    /// A report each 10 ms of a full window, with these round trips: the window after each, in
    /// segments, from a known path of 40 ms and a window of 100.
    fn after(rtts_ms: &[u64]) -> Vec<u64> {
        let report = |cwnd: Bytes, ms: u64| Measurement {
            acked: Bytes(cwnd.0 / 4),
            delivered: Bytes(cwnd.0 / 4),
            in_flight: cwnd,
            cwnd,
            rtt: Some(RttSamples { count: 8, ..RttSamples::one(Duration::from_millis(ms)) }),
            ..Measurement::QUIET
        };
        let mut known = path(100);
        known.ssthresh = Some(known.cwnd);
        known.observe(&report(known.cwnd, 40), Time::ZERO);
        let mut c2tcp = C2tcp::new();
        let mut cwnd = c2tcp.resume(&known, Time::ZERO).cwnd;
        let mut got = Vec::new();
        for (at, ms) in (1u64..).zip(rtts_ms) {
            let now = Time(Duration::from_millis(10 * at));
            cwnd = c2tcp.on_measurement(&report(cwnd, *ms), now).cwnd;
            got.push(cwnd.to_packets(MSS).0);
        }
        got
    }

    #[test]
    fn long_round_trips_restart_slow_start_after_two_least_ones() {
        // above the setpoint of 80 ms from 10 ms on: bad after 90 ms, at the report of 100 ms
        let got = after(&[90; 10]);
        assert!(got[..9].iter().all(|cwnd| *cwnd >= 100), "{got:?}");
        assert_eq!(got[9], 2);
    }

    #[test]
    fn a_short_round_trip_makes_it_good_again() {
        let mut rtts = vec![90; 8];
        rtts.push(70);
        rtts.extend([90; 8]);
        assert!(after(&rtts).iter().all(|cwnd| *cwnd >= 100));
    }

    #[test]
    fn good_round_trips_add_a_segment_or_two_a_window() {
        // 80 / 40 = 2 a window, 80 / 60 = 1, beside CUBIC's own.
        assert_eq!(after(&[40; 4])[3] - after(&[60; 4])[3], 1);
    }

    #[test]
    fn it_is_bad_again_ever_sooner() {
        let ms = Duration::from_millis;
        assert_eq!([1, 4, 16].map(|n| over_root(ms(80), n)), [ms(80), ms(40), ms(20)]);
    }

    #[test]
    fn a_loss_is_cubics() {
        assert_eq!(windows(&mut C2tcp::new(), &path(10), "l"), "7");
    }
}
