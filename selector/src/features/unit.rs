//! From reports to data units, and from a unit to its features.

use super::past::{Past, Pasts};
use super::{COUNT, Features};
use crate::span_totals::MSS_UNKNOWN;
use remuda_algorithms::filter::Windowed;
use remuda_algorithms::units::{Bytes, Rate, Time};
use remuda_algorithms::{Measurement, Queue, native};
use std::time::Duration;

/// Section IV-A of the paper: N, 20 by default.
const ACKS: u64 = 20;
/// A unit without round trips ends all the same.
const SPAN_MAX: Duration = Duration::from_secs(60);
const RTT_MIN_WINDOW: Duration = Duration::from_secs(300);
const RECENT: Duration = Duration::from_secs(10);
const NEWEST: Duration = Duration::from_secs(4);
/// Weight of the newest unit in [`Units`]' `loss_queue`.
const LOSS_QUEUE_WEIGHT: f64 = 0.25;

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

fn mbit(rate: Rate) -> f64 {
    rate.bytes_per_sec() as f64 * 8.0 / 1e6
}

/// The arm that has the flow.
#[derive(Clone, Copy, Debug)]
struct Had {
    arm: &'static str,
    since: Time,
    /// The queue that the arm leaves, as the schema counts queues.
    queue: Option<f64>,
}

fn queue_of(arm: &str) -> Option<f64> {
    Some(match native::queue(arm)? {
        Queue::Short => 0.0,
        Queue::Bounded => 1.0,
        Queue::Full => 2.0,
    })
}

/// A data unit that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    pub end: Time,
    /// How long it lasted.
    pub span: Duration,
    /// What a model is asked about.
    pub features: Features,
}

/// Of the unit under way.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    reports: u32,
    app_limited: u32,
    in_recovery: u32,
    delivered: u64,
    lost_pkts: u64,
    marked_pkts: u64,
    timed_out: bool,
    in_flight: u64,
    companions: u32,
    acks: u64,
    rtt_sum_ms: f64,
    rtt_sq_sum_ms2: f64,
    rtt_min_ms: f64,
    rtt_max_ms: f64,
    rtt_scatter_ms2: f64,
    rtt_reports: u32,
}

impl Open {
    fn add(&mut self, m: &Measurement) {
        self.reports += 1;
        self.app_limited += u32::from(m.app_limited);
        self.in_recovery += u32::from(m.in_recovery);
        self.delivered = self.delivered.saturating_add(m.delivered.0);
        self.lost_pkts = self.lost_pkts.saturating_add(m.lost.0);
        self.marked_pkts = self.marked_pkts.saturating_add(m.ecn_marked.0);
        self.timed_out |= m.timed_out;
        self.in_flight = self.in_flight.max(m.in_flight.0);
        self.companions = self.companions.max(m.companions);
        let Some(rtt) = m.rtt else { return };
        let (count, sum) = (rtt.count.max(1) as f64, rtt.sum_us as f64 / 1e3);
        let squares = rtt.sq_sum_us2 as f64 / 1e6;
        let (least, most) = (ms(rtt.min), ms(rtt.max));
        self.rtt_min_ms = if self.acks == 0 { least } else { self.rtt_min_ms.min(least) };
        self.rtt_max_ms = self.rtt_max_ms.max(most);
        self.acks = self.acks.saturating_add(rtt.count);
        self.rtt_reports += 1;
        self.rtt_sum_ms += sum;
        self.rtt_sq_sum_ms2 += squares;
        self.rtt_scatter_ms2 += (squares - sum * sum / count).max(0.0);
    }

    fn rtt_mean_ms(&self) -> Option<f64> {
        (self.acks > 0).then(|| self.rtt_sum_ms / self.acks as f64)
    }

    fn rtt_std_ms(&self) -> f64 {
        let mean = self.rtt_mean_ms().unwrap_or_default();
        let square = self.rtt_sq_sum_ms2 / self.acks.max(1) as f64;
        (square - mean * mean).max(0.0).sqrt()
    }

    fn past(&self, end_s: f64, span_s: f64, mss: f64) -> Past {
        let mean = self.rtt_mean_ms();
        let (at, std) = (mean.unwrap_or_default(), self.rtt_std_ms());
        Past {
            end_s,
            throughput_mbit_per_sec: self.delivered as f64 * 8.0 / 1e6 / span_s,
            rtt_mean_ms: mean,
            rtt_min_ms: self.rtt_min_ms,
            rtt_points_ms: [self.rtt_min_ms, at - std, at + std, self.rtt_max_ms],
            rtt_scatter_ms2: self.rtt_scatter_ms2,
            rtt_freedom: (self.acks as f64 - f64::from(self.rtt_reports)).max(0.0),
            lost_pkts: self.lost_pkts as f64,
            delivered_pkts: self.delivered as f64 / mss,
            timed_out: self.timed_out,
        }
    }
}

/// Cuts a flow's reports into data units.
#[derive(Clone, Debug)]
pub struct Units {
    began: Option<Time>,
    arm: Option<Had>,
    open: Open,
    open_since: Time,
    last_rtt: Duration,
    pasts: Pasts,
    mss: Bytes,
    cwnd: Bytes,
    rtt_min: Option<Windowed<Duration>>,
    rtt_floor: Option<Windowed<Duration>>,
    rtt_max: Option<Windowed<Duration>>,
    rate_max: Option<Windowed<Rate>>,
    rate_newest: Option<Windowed<Rate>>,
    rate_max_ever: Rate,
    loss_queue: Option<f64>,
    delivered_bytes: u64,
}

impl Default for Units {
    fn default() -> Self {
        Self {
            began: None,
            arm: None,
            open: Open::default(),
            open_since: Time::ZERO,
            last_rtt: Duration::ZERO,
            pasts: Pasts::default(),
            mss: MSS_UNKNOWN,
            cwnd: Bytes(0),
            rtt_min: None,
            rtt_floor: None,
            rtt_max: None,
            rate_max: None,
            rate_newest: None,
            rate_max_ever: Rate::default(),
            loss_queue: None,
            delivered_bytes: 0,
        }
    }
}

impl Units {
    /// Takes in a report of the flow, which `arm` has; the unit, if one ends with it.
    pub fn add(&mut self, m: &Measurement, arm: &'static str, now: Time) -> Option<Unit> {
        if self.began.is_none() {
            self.began = Some(now);
            self.open_since = now;
        }
        if self.arm.is_none_or(|it| it.arm != arm) {
            self.arm = Some(Had { arm, since: now, queue: queue_of(arm) });
        }
        self.note(m, now);
        self.open.add(m);
        let span = now - self.open_since;
        let whole = self.open.acks >= ACKS && span >= self.last_rtt && span > Duration::ZERO;
        if !whole && span < SPAN_MAX {
            return None;
        }
        Some(self.close(now, span))
    }

    /// The smallest round trip of 300 s.
    fn rtt_min(&self) -> Option<Duration> {
        self.rtt_min.map(|it| it.get())
    }

    fn note(&mut self, m: &Measurement, now: Time) {
        self.cwnd = m.cwnd;
        self.delivered_bytes = self.delivered_bytes.saturating_add(m.delivered.0);
        if m.mss > Bytes(0) {
            self.mss = m.mss;
        }
        let at_us = micros(now.0);
        if let Some(rtt) = m.rtt {
            self.last_rtt = rtt.last;
            let (long, short) = (micros(RTT_MIN_WINDOW), micros(RECENT));
            let least = self.rtt_min.get_or_insert(Windowed::min(long, at_us, rtt.min));
            least.update(at_us, rtt.min);
            let newest = micros(NEWEST);
            let floor = self.rtt_floor.get_or_insert(Windowed::min(newest, at_us, rtt.min));
            floor.update(at_us, rtt.min);
            let most = self.rtt_max.get_or_insert(Windowed::max(short, at_us, rtt.max));
            most.update(at_us, rtt.max);
        }
        let known = self.rate_max.map(|it| it.get()).unwrap_or_default();
        if m.delivery_rate > Rate::default() && (!m.app_limited || m.delivery_rate > known) {
            self.rate_max_ever = self.rate_max_ever.max(m.delivery_rate);
            for (filter, window) in [(&mut self.rate_max, RECENT), (&mut self.rate_newest, NEWEST)]
            {
                let first = Windowed::max(micros(window), at_us, m.delivery_rate);
                filter.get_or_insert(first).update(at_us, m.delivery_rate);
            }
        }
    }

    fn close(&mut self, now: Time, span: Duration) -> Unit {
        let before = self.pasts.last().copied();
        let trend_base = self.pasts.throughput_mean();
        let end_s = now.0.as_secs_f64();
        let past = self.open.past(end_s, span.as_secs_f64(), self.mss.0 as f64);
        self.pasts.push(past);
        self.note_loss(&past);
        let features = self.features(&past, before.as_ref(), trend_base, span);
        self.open = Open::default();
        self.open_since = now;
        Unit { end: now, span, features: Features::bounded(features) }
    }

    /// Where the queue was, of what it has been seen to hold, when segments were lost.
    fn note_loss(&mut self, past: &Past) {
        let (Some(rtt), Some(least), Some(most)) = (past.rtt_mean_ms, self.rtt_min, self.rtt_max)
        else {
            return;
        };
        let (least, most) = (ms(least.get()), ms(most.get()));
        if past.lost_pkts > 0.0 && most > least {
            let at = ((rtt - least) / (most - least)).clamp(0.0, 1.0);
            let known = self.loss_queue.unwrap_or(at);
            self.loss_queue = Some(known + (at - known) * LOSS_QUEUE_WEIGHT);
        }
    }

    /// In the schema's order.
    fn features(
        &self,
        past: &Past,
        before: Option<&Past>,
        trend_base: Option<f64>,
        span: Duration,
    ) -> [f32; COUNT] {
        let open = &self.open;
        let reports = f64::from(open.reports);
        let min_ms = self.rtt_min().map(ms);
        let over_min = |value: Option<f64>| Some(value? / min_ms?);
        let rate_max = Some(mbit(self.rate_max_ever)).filter(|rate| *rate > 0.0);
        let recent = self.rate_max.map(|it| it.get()).zip(self.rtt_min());
        let bdp = recent.map(|(rate, rtt)| (rate * rtt).0 as f64).filter(|bdp| *bdp > 0.0);
        let share =
            |part: f64, rest: f64| (part + rest > 0.0).then(|| part * 100.0 / (part + rest));
        let marked = open.marked_pkts as f64;
        let throughput = past.throughput_mbit_per_sec;
        let slope = before.and_then(|it| {
            let change_ms = past.rtt_mean_ms? - it.rtt_mean_ms?;
            Some(change_ms / 1e3 / (past.end_s - it.end_s))
        });
        let age_s = self.began.map_or(0.0, |began| past.end_s - began.0.as_secs_f64());
        let arm_s = self.arm.map(|it| past.end_s - it.since.0.as_secs_f64());
        let values: [Option<f64>; COUNT] = [
            past.rtt_mean_ms,
            Some(open.acks as f64),
            Some(past.lost_pkts),
            Some(ms(span)),
            rate_max,
            Some(throughput),
            min_ms,
            share(past.lost_pkts, past.delivered_pkts),
            self.pasts.lost_share().map(|share| share * 100.0),
            self.pasts.lossy_share(),
            self.loss_queue,
            share(marked, (past.delivered_pkts - marked).max(0.0)),
            Some(self.pasts.timeouts()),
            over_min(past.rtt_mean_ms),
            over_min(self.pasts.rtt_p95_ms()),
            over_min(self.rtt_max.map(|it| ms(it.get()))),
            over_min(self.pasts.rtt_min_ms()),
            self.pasts.rtt_cov_fast(),
            self.pasts.rtt_cov(),
            slope,
            rate_max.map(|most| throughput / most),
            trend_base.filter(|base| *base > 0.0).map(|base| throughput / base),
            self.pasts.throughput_cov(),
            bdp.map(|bdp| bdp / self.mss.0 as f64),
            bdp.map(|bdp| open.in_flight as f64 / bdp),
            bdp.map(|bdp| self.cwnd.0 as f64 / bdp),
            Some(f64::from(open.app_limited) / reports),
            Some(f64::from(open.in_recovery) / reports),
            Some(age_s),
            Some(self.delivered_bytes as f64 / 1e6),
            Some(f64::from(open.companions)),
            self.arm.and_then(|it| it.queue),
            arm_s,
            over_min(self.rtt_floor.map(|it| ms(it.get()))),
            rate_max.zip(self.rate_newest).map(|(most, newest)| mbit(newest.get()) / most),
        ];
        values.map(|value| value.map_or(f32::NAN, |value| value as f32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_algorithms::RttSamples;

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    /// A report of twenty ACKs: a unit of its own.
    fn report(rtt_ms: u64, mbit_per_sec: u64) -> Measurement {
        let one = RttSamples::one(Duration::from_millis(rtt_ms));
        let rtt = RttSamples { count: ACKS, sum_us: one.sum_us * ACKS, ..one };
        let delivery_rate = Rate::from_bytes_per_sec(mbit_per_sec * 125_000);
        Measurement { rtt: Some(rtt), delivery_rate, ..Measurement::QUIET }
    }

    /// The features after reports each 500 ms: (arm, round trip in ms, rate in Mbit/s).
    fn last(reports: &[(&'static str, u64, u64)]) -> Features {
        let mut units = Units::default();
        let mut last = None;
        for ((arm, rtt_ms, rate), at_ms) in reports.iter().zip((0..).step_by(500)) {
            last = units.add(&report(*rtt_ms, *rate), arm, at(at_ms)).or(last);
        }
        last.expect("a unit ended").features
    }

    #[test]
    fn the_newest_four_seconds_are_apart_from_what_was_before() {
        let slower = |count| {
            let slow = vec![("learned", 120, 6); count];
            last(&[vec![("learned", 40, 24); 8], slow].concat())
        };
        let features = slower(6);
        assert_eq!(features.get("rtt_floor_4s_over_min"), Some(1.0));
        assert_eq!(features.get("rate_4s_over_max"), Some(1.0));
        let features = slower(12);
        assert_eq!(features.get("rtt_floor_4s_over_min"), Some(3.0));
        assert_eq!(features.get("rate_4s_over_max"), Some(0.25));
    }

    #[test]
    fn a_unit_says_which_queue_its_arm_leaves_and_since_when_it_has_the_flow() {
        let features = last(&[vec![("cubic", 40, 24); 4], vec![("learned", 40, 24); 5]].concat());
        assert_eq!([features.get("arm_queue"), features.get("arm_s")], [Some(0.0), Some(2.0)]);
        let features = last(&[("native:cubic", 40, 24); 3]);
        assert_eq!([features.get("arm_queue"), features.get("arm_s")], [Some(2.0), Some(1.0)]);
        assert_eq!(last(&[("an_authors", 40, 24); 3]).get("arm_queue"), None);
    }
}
