//! Monitor intervals: what came of each rate, by the segments that were sent at it.
//!
//! PCC (NSDI 2015, section 3) tries rates one after the other and compares what came of them. What
//! is acknowledged during an interval was sent before it, so an ACK belongs to the interval in
//! which the newest segment it acknowledges was sent: at `Ack.now - Flow.rtt_sample_us`.
//!
//! ```text
//! agent      Rate = r1, interval = 1     Rate = r2, interval = 2
//! sent       ───────[ 1 1 1 1 1 1 1 1 1 1 1 ][ 2 2 2 2 2 2 2 …
//! acked      ──────────────[ 1 1 1 1 1 1 1 1 1 1 1 ][ 2 2 2 2 …
//! reports                  ▲crossed                ▲crossed
//! ```
//!
//! The program notes the moment at which it first sees another value of its control register
//! `interval` ([`INTERVAL`]), with which the new rate comes, and reports at the first ACK of a
//! segment sent after it. That report's field `crossed_bytes` is one more than what that ACK
//! acknowledged: the report's last RTT sample, and these bytes, are already of the next interval.
//!
//! Differs from the papers:
//!   - an ACK that acknowledges segments of two intervals counts for the later one;
//!   - what an ACK delivers is counted by report, as the datapath's SIGNALS do: while a loss is
//!     repaired, the crossing ACK's segment or two count for the interval before;
//!   - a loss is found by ACKs of what was sent after it: one of an interval's last three segments
//!     counts for the next interval;
//!   - the slope of the RTT is that of the reports' means, each weighted by its samples.

use crate::arm::Registers;
use crate::measurement::Measurement;
use crate::units::{Bytes, Gain, Packets, Rate, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// The control register that numbers the intervals.
const INTERVAL: &str = "interval";

/// The program's own report field.
pub const OWN_FIELDS: &[&str] = &["Report.crossed_bytes"];

/// The program of the whole family: the shared signals, the interval of each ACK, and reports by
/// round trip.
///
/// Two boundaries can be on their way: `next_us` and, behind it, `later_us`.
#[macro_export]
macro_rules! monitor_intervals {
    () => {
        concat!(
            $crate::signals!(
                report: "(volatile crossed_bytes 0)",
                control: "(interval 0)
    (seen 0)
    (next_us 0)
    (later_us 0)"
            ),
            "(when (&& (|| (> interval seen) (< interval seen)) (> next_us 0))
    (:= later_us Ack.now)
    (:= seen interval)
    (fallthrough)
)
(when (|| (> interval seen) (< interval seen))
    (:= next_us Ack.now)
    (:= seen interval)
    (fallthrough)
)
(when (&& (&& (> next_us 0) (< Flow.rtt_sample_us 2000000000))
        (> (+ Ack.now 1) (+ next_us Flow.rtt_sample_us)))
    (:= Report.crossed_bytes (+ Ack.bytes_acked 1))
    (:= next_us later_us)
    (:= later_us 0)
    (:= Micros 0)
    (report)
)
",
            $crate::report_each_round!()
        )
    };
}

/// Being acknowledged, and two boundaries behind it: as many as the family's program holds.
pub const OPEN_MAX: usize = 3;
/// A rate of which less was sent was not tried: the window or the application held it back.
const SENT_MIN: Gain = Gain(900);
/// Smaller slopes of the RTTs, in seconds a second, are noise: the value of Vivace's authors' code.
const SLOPE_MIN: f64 = 0.01;

/// What came of one rate; `tag` is what its owner wants to know of it.
#[derive(Clone, Debug)]
pub struct Interval<T> {
    /// What it was for.
    pub tag: Option<T>,
    /// The rate it was to be sent at.
    pub rate: Rate,
    /// The application limited it, or a timeout stopped it.
    pub spoilt: bool,
    began: Time,
    ended: Option<Time>,
    /// When its first ACK came, and when the next interval's did.
    acked: (Option<Time>, Option<Time>),
    delivered: Bytes,
    lost: Packets,
    reports: u32,
    rtts: Rtts,
}

/// Round trips of an interval, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Rtts {
    count: f64,
    sum_us: f64,
    sq_sum_us2: f64,
    /// For the slope: times since the interval's first ACK, weighted by samples.
    first: Option<Time>,
    time_us: f64,
    time_sq_us2: f64,
    product_us2: f64,
}

/// The intervals under way: the front one is being acknowledged, the last one is being sent.
#[derive(Clone, Debug)]
pub struct Monitor<T> {
    number: u32,
    open: VecDeque<Interval<T>>,
    open_max: usize,
}

impl<T> Monitor<T> {
    /// What is in flight now belongs to no interval. At most `open_max` intervals are open: one
    /// more than the boundaries that the program holds.
    pub fn new(open_max: usize, rate: Rate, now: Time) -> Self {
        let mut open = VecDeque::with_capacity(open_max);
        open.push_back(Interval::new(None, rate, now));
        Self { number: 0, open, open_max }
    }

    /// What the program must hold.
    pub fn registers(&self, registers: &mut Registers) {
        registers.push(INTERVAL, self.number);
    }

    /// When the interval that is being sent began.
    pub fn began(&self) -> Time {
        self.open.back().map_or(Time::ZERO, |last| last.began)
    }

    /// Whether another may begin.
    pub fn can_begin(&self) -> bool {
        self.open.len() < self.open_max
    }

    /// When the boundary began that has been on its way for longest.
    pub fn waiting_since(&self) -> Option<Time> {
        self.open.get(1).map(|next| next.began)
    }

    /// From now on, segments are sent at `rate`.
    pub fn begin(&mut self, tag: Option<T>, rate: Rate, now: Time) {
        if let Some(last) = self.open.back_mut() {
            last.ended = Some(now);
        }
        self.number = self.number.wrapping_add(1);
        self.open.push_back(Interval::new(tag, rate, now));
    }

    /// Nothing of what is under way counts any longer.
    pub fn forget(&mut self) {
        for interval in &mut self.open {
            interval.tag = None;
        }
    }

    /// Gives up the boundaries that were never crossed.
    pub fn reset(&mut self) {
        while self.open.len() > 1 {
            self.open.pop_front();
        }
        self.forget();
    }

    /// Takes in a report. What it gives is complete.
    pub fn observe(&mut self, m: &Measurement, now: Time) -> Option<Interval<T>> {
        let [crossed, ..] = m.own;
        let crosses = crossed > 0 && self.open.len() > 1;
        // A cumulative ACK that ends a repair acknowledges what was delivered long before.
        let repaired = m.in_recovery || m.acked > m.delivered;
        let after = if crosses && !repaired { crossed - 1 } else { 0 };
        let after = Bytes(after.min(m.delivered.0));
        let front = self.open.front_mut()?;
        front.delivered += m.delivered - after;
        front.lost += m.lost;
        front.reports = front.reports.saturating_add(1);
        front.spoilt |= m.app_limited || m.timed_out;
        let last_us = m.rtt.map_or(0.0, |rtt| micros(rtt.last));
        if let Some(rtt) = m.rtt {
            let of = (rtt.count as f64, rtt.sum_us as f64, rtt.sq_sum_us2 as f64);
            let one = if crosses { (1.0, last_us, last_us * last_us) } else { (0.0, 0.0, 0.0) };
            front.rtts.add((of.0 - one.0, of.1 - one.1, of.2 - one.2), now);
        }
        if !crosses {
            return None;
        }
        front.acked.1 = Some(now);
        let done = self.open.pop_front();
        if let Some(front) = self.open.front_mut() {
            front.acked.0 = Some(now);
            front.delivered += after;
            front.rtts.add((1.0, last_us, last_us * last_us), now);
        }
        done.filter(|done| done.tag.is_some())
    }
}

impl<T> Interval<T> {
    fn new(tag: Option<T>, rate: Rate, began: Time) -> Self {
        Self {
            tag,
            rate,
            spoilt: false,
            began,
            ended: None,
            acked: (None, None),
            delivered: Bytes(0),
            lost: Packets(0),
            reports: 0,
            rtts: Rtts::default(),
        }
    }

    /// The rate it was sent at, in Mbit/s: the one that was asked for, unless less was sent.
    pub fn sent_mbit_per_sec(&self, mss: Bytes) -> f64 {
        let length = self.ended.map_or(Duration::ZERO, |ended| ended - self.began);
        let sent = (self.delivered + self.lost.to_bytes(mss)) / length;
        let rate = if sent < self.rate * SENT_MIN { sent } else { self.rate };
        rate.bytes_per_sec() as f64 * 8.0 / 1e6
    }

    /// The rate at which it was delivered: over the time that its ACKs took.
    pub fn delivered_at(&self) -> Rate {
        let (Some(first), Some(next)) = self.acked else { return Rate::default() };
        self.delivered / (next - first)
    }

    /// What share of its segments was lost, 0 to 1.
    pub fn loss(&self, mss: Bytes) -> f64 {
        let lost = self.lost.to_bytes(mss).0 as f64;
        let all = self.delivered.0 as f64 + lost;
        if all > 0.0 { lost / all } else { 0.0 }
    }

    /// How many reports it had, the one of the crossing included.
    pub fn reports(&self) -> u32 {
        self.reports
    }

    /// How many ACKs of it had an RTT sample.
    pub fn acks(&self) -> f64 {
        self.rtts.count
    }

    /// The mean of its RTTs, in seconds; `None` without a sample.
    pub fn rtt_mean_s(&self) -> Option<f64> {
        (self.rtts.count > 0.0).then(|| self.rtts.sum_us / self.rtts.count / 1e6)
    }

    /// The slope of its RTTs, in seconds a second.
    pub fn rtt_slope(&self) -> f64 {
        self.rtts.slope()
    }

    /// [`Self::rtt_slope`], if it is more than noise.
    pub fn rtt_slope_beyond_noise(&self) -> f64 {
        self.rtt_slope_beyond(1.0, SLOPE_MIN)
    }

    /// [`Self::rtt_slope`], if it is at least `least` and more than so many standard errors.
    pub fn rtt_slope_beyond(&self, errors: f64, least: f64) -> f64 {
        let slope = self.rtt_slope();
        let noise = slope.abs() < least || slope.abs() < errors * self.rtts.slope_error();
        if noise { 0.0 } else { slope }
    }

    /// How long its ACKs took, in seconds.
    pub fn acked_for_s(&self) -> f64 {
        let (Some(first), Some(next)) = self.acked else { return 0.0 };
        (next - first).as_secs_f64()
    }

    /// Standard deviation of its RTTs, in seconds.
    pub fn rtt_deviation_s(&self) -> f64 {
        libm::sqrt(self.rtts.variance_us2()) / 1e6
    }
}

impl Rtts {
    fn add(&mut self, (count, sum_us, sq_sum_us2): (f64, f64, f64), now: Time) {
        if count <= 0.0 {
            return;
        }
        let at_us = micros(now - *self.first.get_or_insert(now));
        self.count += count;
        self.sum_us += sum_us;
        self.sq_sum_us2 += sq_sum_us2.max(0.0);
        self.time_us += at_us * count;
        self.time_sq_us2 += at_us * at_us * count;
        self.product_us2 += at_us * sum_us;
    }

    fn variance_us2(&self) -> f64 {
        if self.count < 2.0 {
            return 0.0;
        }
        let mean = self.sum_us / self.count;
        (self.sq_sum_us2 / self.count - mean * mean).max(0.0)
    }

    /// The sum of the squares of the times' distances from their mean.
    fn time_spread_us2(&self) -> f64 {
        if self.count < 2.0 {
            return 0.0;
        }
        (self.time_sq_us2 - self.time_us * self.time_us / self.count).max(0.0)
    }

    fn slope(&self) -> f64 {
        let spread = self.time_spread_us2();
        if spread <= 0.0 {
            return 0.0;
        }
        (self.product_us2 - self.time_us * self.sum_us / self.count) / spread
    }

    fn slope_error(&self) -> f64 {
        let spread = self.time_spread_us2();
        if spread <= 0.0 {
            return f64::MAX;
        }
        let explained = self.slope() * self.slope() * spread / self.count;
        let left = (self.variance_us2() - explained).max(0.0);
        libm::sqrt(left / spread)
    }
}

fn micros(span: Duration) -> f64 {
    span.as_micros() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{OWN_FIELDS_MAX, RttSamples};

    const MSS: Bytes = Bytes(1_000);
    const RATE: Rate = Rate::from_bytes_per_sec(1_000_000);

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    /// Ten segments, one RTT sample each; `crossed` of the program.
    fn report(rtt_ms: u64, crossed: u64, lost: u64) -> Measurement {
        let rtt = Duration::from_millis(rtt_ms);
        let us = rtt_ms * 1_000;
        let mut own = [0; OWN_FIELDS_MAX];
        own[0] = crossed;
        Measurement {
            acked: Bytes(10_000),
            delivered: Bytes(10_000),
            lost: Packets(lost),
            rtt: Some(RttSamples {
                sum_us: 10 * us,
                sq_sum_us2: 10 * us * us,
                count: 10,
                ..RttSamples::one(rtt)
            }),
            own,
            ..Measurement::QUIET
        }
    }

    fn begun() -> Monitor<char> {
        let mut monitor = Monitor::new(OPEN_MAX, RATE, at(0));
        monitor.begin(Some('a'), RATE, at(100));
        monitor.begin(Some('b'), RATE * Gain(2_000), at(140));
        monitor
    }

    #[test]
    fn what_was_in_flight_before_the_first_interval_is_of_none() {
        let mut monitor = begun();
        assert!(monitor.observe(&report(40, 0, 1), at(130)).is_none());
        assert!(monitor.observe(&report(40, 1_001, 0), at(141)).is_none());
        let a = monitor.observe(&report(40, 1_001, 0), at(181)).expect("a");
        assert_eq!((a.tag, a.delivered, a.lost), (Some('a'), Bytes(10_000), Packets(0)));
    }

    #[test]
    fn the_crossing_ack_is_of_the_next_interval() {
        let mut monitor = begun();
        monitor.observe(&report(40, 2_001, 0), at(141));
        monitor.observe(&report(40, 0, 3), at(160));
        let a = monitor.observe(&report(40, 1_001, 0), at(181)).expect("a");
        assert_eq!(a.delivered, Bytes(2_000 + 10_000 + 9_000));
        assert_eq!(a.rtts.count, 1.0 + 10.0 + 9.0);
        assert_eq!(a.loss(MSS), 3.0 / 24.0);
        assert!(monitor.can_begin());
    }

    #[test]
    fn the_slope_is_that_of_the_rtts_over_time() {
        let mut monitor = begun();
        monitor.observe(&report(40, 1, 0), at(141));
        for (ms, rtt_ms) in [(150, 41), (160, 42), (170, 43)] {
            monitor.observe(&report(rtt_ms, 0, 0), at(ms));
        }
        let a = monitor.observe(&report(44, 1, 0), at(180)).expect("a");
        assert!((a.rtt_slope() - 0.1).abs() < 0.003, "{}", a.rtt_slope());
        assert!(a.rtts.slope_error() < 0.01, "{}", a.rtts.slope_error());
        assert!(a.rtt_deviation_s() > 0.001, "{}", a.rtt_deviation_s());
    }

    #[test]
    fn a_rate_that_was_not_sent_is_not_the_rate() {
        let mut monitor = begun();
        monitor.observe(&report(40, 1, 0), at(141));
        let a = monitor.observe(&report(40, 1, 0), at(181)).expect("a");
        // ten segments in 40 ms are a quarter of what was asked for
        assert_eq!(a.sent_mbit_per_sec(MSS), 2.0);
    }

    #[test]
    fn three_are_open_at_most_and_a_reset_leaves_the_last() {
        let mut monitor = begun();
        assert!(!monitor.can_begin());
        assert_eq!(monitor.waiting_since(), Some(at(100)));
        monitor.reset();
        assert_eq!(monitor.waiting_since(), None);
        assert!(monitor.observe(&report(40, 1, 0), at(181)).is_none());
    }
}
