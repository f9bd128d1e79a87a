//! Sprout, as a sender alone can have it: a window that the link will deliver within 100 ms, with
//! 95 % certainty. **An approximation**: Sprout's forecast is made at the receiver.
//!
//! K. Winstein, A. Sivaraman, H. Balakrishnan, "Stochastic Forecasts Achieve High Throughput and
//! Low Delay over Cellular Networks", NSDI 2013. Each 20 ms, what was delivered moves what is
//! believed of the link's rate, and the belief gives a forecast (forecast.rs); the window is what
//! it says will be delivered in the least one-way delay and 100 ms.
//!
//! Differs from the paper:
//!   - deliveries are seen by ACKs, half a round trip late and with the ACKs' own jitter; the
//!     receiver's knowledge of what is still under way (section 3.4) is missing: a tick in which
//!     the link had no queue only says that it is no slower;
//!   - a forecast of several ticks adds up the cautious forecasts of each, where the paper has the
//!     percentile of the sum: a little more cautious;
//!   - beyond the BDP the window grows by an eighth of what is acknowledged, and it holds no more
//!     than the BDP or 0.85 of the delay at which a buffer has overflowed in the last ten seconds
//!     (overflow.rs): the paper's links have no end to their buffer, and it does not know loss;
//!   - the unit is a segment up to 11 Mbit/s, and 2, 4, 8 … segments on faster links, since the
//!     filter has 1,000 units a second.

mod forecast;

use crate::arm::{Arm, ArmInfo, Decision, ProgramId, Queue, REPORTS_PER_ROUND_MANY};
use crate::measurement::{CwndUse, Measurement};
use crate::overflow::{self, Overflow};
use crate::path::PathState;
use crate::recovery::{Recovery, congested, episode_rtt};
use crate::units::{Bytes, Packets, Rate, Time};
use crate::window;
use forecast::{Belief, HORIZON, TICK_S};
use std::time::Duration;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "sprout",
    summary: "what a varying link delivers in 100 ms (sender-side, ~Sprout)",
    program: ProgramId("sprout/report"),
    reports_per_round: REPORTS_PER_ROUND_MANY,
    answers_losses: false,
    make: Some(|_| Box::new(Sprout::default())),
    queue: Some(Queue::Full),
    ..ArmInfo::DEFAULT
};

/// The delay that is tolerated, in ticks: 100 ms (section 3.4).
const TOLERATED_TICKS: f64 = 5.0;
/// Units a second that the filter is to see at most on a link whose rate is known: half its range.
const UNITS_PER_SEC: f64 = 500.0;
/// A silence of more ticks than this is an outage, and is not counted tick by tick.
const SILENCE_TICKS: u32 = 10;
/// A queueing delay below this counts as an empty queue.
const QUEUE_MIN: Duration = Duration::from_millis(2);
/// Sprout probes with a few packets when it sends nothing else.
const WINDOW_MIN: Packets = Packets(4);

/// Sprout, for one flow.
#[derive(Clone, Debug)]
pub struct Sprout {
    path: PathState,
    belief: Belief,
    recovery: Recovery,
    overflow: Overflow,
    /// Bytes that one unit of the filter stands for.
    unit: Bytes,
    tick_start: Time,
    /// Delivered in this tick.
    delivered: Bytes,
    /// The link had nothing to do in part of it.
    idle: bool,
    cwnd: Bytes,
}

impl Arm for Sprout {
    fn info(&self) -> &'static ArmInfo {
        &ARM
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        *self = Self::over(path, now);
        self.decision()
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.path.observe(m, now);
        if m.timed_out || (congested(m) && !self.recovery.covers(m, now)) {
            self.recovery.enter(episode_rtt(&self.path, m), now);
            self.overflow.lose(&self.path, m, now);
        }
        self.recovery.observe(m, now);
        self.delivered += m.delivered;
        self.idle |= m.app_limited || self.link_was_idle(m);
        let ticks = ((now - self.tick_start).as_secs_f64() / TICK_S) as u32;
        if ticks > 0 {
            self.tick(ticks, now);
        }
        self.decision()
    }

    fn hand_off(&self, path: &mut PathState) {
        path.cwnd = self.cwnd;
        path.rate = None;
        path.ssthresh = path.bdp().or(path.ssthresh).or(self.path.ssthresh);
        path.recovery_until = self.recovery.until();
    }
}

impl Default for Sprout {
    fn default() -> Self {
        Self::over(&window::no_path(), Time::ZERO)
    }
}

impl Sprout {
    fn over(path: &PathState, now: Time) -> Self {
        let path = window::sane(path);
        let unit = unit(path.delivery_rate(), path.mss);
        let belief = match path.delivery_rate() {
            Some(rate) => Belief::around(rate.bytes_per_sec() as f64 / unit.0 as f64),
            None => Belief::new(),
        };
        Self {
            belief,
            recovery: Recovery::resume(&path, now),
            overflow: Overflow::resume(&path),
            unit,
            tick_start: now,
            delivered: Bytes(0),
            idle: false,
            cwnd: path.cwnd,
            path,
        }
    }

    fn decision(&self) -> Decision {
        Decision { cwnd: self.cwnd, rate: None }
    }

    fn tick(&mut self, ticks: u32, now: Time) {
        self.tick_start = now;
        let delivered = std::mem::take(&mut self.delivered);
        let idle = std::mem::take(&mut self.idle);
        let larger = unit(self.path.delivery_rate(), self.path.mss);
        if larger > self.unit {
            self.unit = larger;
            let rate = self.path.delivery_rate().map_or(0, |rate| rate.bytes_per_sec());
            self.belief = Belief::around(rate as f64 / larger.0 as f64);
        }
        let ticks = ticks.min(SILENCE_TICKS);
        let units = delivered.0 as f64 / self.unit.0 as f64 / f64::from(ticks);
        for _ in 0..ticks {
            self.belief.evolve();
            if idle {
                self.belief.observe_at_least(units);
            } else {
                self.belief.observe(units);
            }
        }
        self.set_window(delivered, now);
    }

    /// No queue shows in the round trips: the window was all that the link had to send.
    fn link_was_idle(&self, m: &Measurement) -> bool {
        let min = self.path.rtt_min_long().unwrap_or_default();
        let full = m.cwnd_use(self.cwnd, self.path.mss) == CwndUse::Full;
        full && m.rtt.is_some_and(|rtt| rtt.min < min.saturating_add(QUEUE_MIN))
    }

    /// Section 3.4: what will be delivered in the least one-way delay and 100 ms.
    fn set_window(&mut self, acked: Bytes, now: Time) {
        let forecast = self.belief.forecast();
        let way = self.path.rtt_min_long().unwrap_or_default() / 2;
        let ticks = TOLERATED_TICKS + way.min(Duration::from_secs(1)).as_secs_f64() / TICK_S;
        let last = forecast[HORIZON - 1];
        let units = match forecast.get(ticks as usize) {
            Some(units) => *units,
            // Beyond the horizon, at its mean rate.
            None => last * ticks / HORIZON as f64,
        };
        let bytes = Bytes((units * self.unit.0 as f64) as u64);
        let held = self.overflow.aim_max(now).zip(self.path.delivery_rate());
        let least = self.path.bdp().unwrap_or_default();
        let bytes = held.map_or(bytes, |(delay, rate)| bytes.min((rate * delay).max(least)));
        let grown = overflow::approach(&self.path, (self.cwnd, bytes), acked);
        let least = WINDOW_MIN.to_bytes(self.path.mss);
        self.cwnd = window::bound(&self.path, grown.min(self.cwnd + self.cwnd).max(least));
    }
}

/// A segment, or as many as the filter's range needs on a link of that rate.
fn unit(rate: Option<Rate>, mss: Bytes) -> Bytes {
    let rate = rate.map_or(0, |rate| rate.bytes_per_sec()).min(u64::from(u32::MAX)) as f64;
    let mut unit = mss.max(Bytes(1));
    while rate / unit.0 as f64 > UNITS_PER_SEC {
        unit = unit + unit;
    }
    unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::RttSamples;
    use crate::pcc::link::Link;
    use crate::script::{MSS, path};

    /// The window in segments at each tick of 20 ms, on a path with a round trip of 40 ms. `link`
    /// is how many segments the path delivers in a tick.
    fn windows(ticks: usize, link: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut sprout = Sprout::default();
        let mut cwnd = sprout.resume(&path(10), Time::ZERO).cwnd;
        (1..=ticks)
            .map(|tick| {
                let window = cwnd.to_packets(MSS).0;
                let holds = 2 * link(tick);
                let pkts = link(tick).min(window / 2);
                let queue_ms = 20 * window.saturating_sub(holds) / link(tick);
                let m = Measurement {
                    acked: Packets(pkts).to_bytes(MSS),
                    delivered: Packets(pkts).to_bytes(MSS),
                    delivery_rate: Packets(pkts).to_bytes(MSS) / Duration::from_millis(20),
                    rtt: Some(RttSamples::one(Duration::from_millis(40 + queue_ms))),
                    in_flight: cwnd,
                    ..Measurement::QUIET
                };
                cwnd =
                    sprout.on_measurement(&m, Time(Duration::from_millis(20 * tick as u64))).cwnd;
                cwnd.to_packets(MSS).0
            })
            .collect()
    }

    #[test]
    fn the_window_is_what_a_steady_link_delivers_in_120_ms_less_the_caution() {
        let last = *windows(200, |_| 8).last().expect("windows");
        assert!((20..=48).contains(&last), "{last}");
    }

    #[test]
    fn the_window_shrinks_when_the_link_slows_down() {
        let got = windows(400, |tick| if tick < 200 { 8 } else { 1 });
        assert!(got[399] < got[199] / 2, "{} {}", got[199], got[399]);
    }

    #[test]
    fn a_buffer_that_overflowed_is_not_filled_again_for_ten_seconds() {
        let rate = Rate::from_bytes_per_sec(3_000_000);
        let delivered = rate * Duration::from_millis(20);
        let mut sprout = Sprout::default();
        let windows: Vec<Bytes> = (1..=600)
            .map(|tick| {
                let delay = Duration::from_millis(if tick == 1 { 40 } else { 80 });
                let m = Measurement {
                    acked: delivered,
                    delivered,
                    delivery_rate: rate,
                    lost: Packets(u64::from(tick == 50)),
                    rtt: Some(RttSamples::one(delay)),
                    ..Measurement::QUIET
                };
                sprout.on_measurement(&m, Time(Duration::from_millis(20 * tick))).cwnd
            })
            .collect();
        let held = rate * Duration::from_millis(68);
        let most = |ticks: &[Bytes]| *ticks.iter().max().expect("windows");
        assert!(most(&windows[..49]) > held, "before the loss");
        // After ten seconds of nothing but a queue, that is the least delay, and the BDP its own.
        assert_eq!(most(&windows[50..450]), held, "0.85 of 80 ms");
        assert!(most(&windows[560..]) > held, "forgotten");
    }

    #[test]
    fn a_shallow_buffer_is_not_filled_for_good() {
        let mut link = Link::new(24, 40, 120_000);
        link.run(&mut Sprout::default(), 60_000);
        assert!(link.filled(10_000) > 0.95, "{}", link.filled(10_000));
        assert!(link.dropped(10_000) < 0.002, "{}", link.dropped(10_000));
    }

    #[test]
    fn a_fast_link_has_a_larger_unit() {
        let rate = |mbit: u64| Some(Rate::from_bytes_per_sec(mbit * 125_000));
        assert_eq!(unit(rate(5), MSS), MSS);
        assert_eq!(unit(rate(24), MSS), Packets(8).to_bytes(MSS));
        assert_eq!(unit(None, MSS), MSS);
    }
}
