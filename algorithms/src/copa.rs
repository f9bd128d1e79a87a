//! Copa: as many of its own packets in the queue as it says, by the delay itself.
//!
//! V. Arun, H. Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet",
//! NSDI 2018, sections 2 to 4. With W the window, v a velocity and delta 0.5:
//!
//! ```text
//! d_q    = RTTstanding - RTTmin         least RTT of half a round trip, less that of 10 s
//! target = 1 / (delta d_q) segments a second
//! W / RTTstanding <= target             W grows by v / delta segments a round trip
//!                  > target             it shrinks by as much
//! rate   = 2 W / RTTstanding
//! ```
//!
//! v doubles each round trip in which W moved the way it did for three, and is 1 when it turns.
//! Among buffer fillers the queue never empties: where it was not nearly empty (a tenth of the span
//! of RTTs) within five round trips, 1 / delta rises by one a round trip and halves with a loss.
//!
//! Differs from the paper:
//!   - by report, a sixteenth of a round trip, not by ACK;
//!   - v is bounded so that W at most doubles in a round trip, and turns to 1 as soon as the target
//!     is crossed (both as in mvfst);
//!   - a queue of 2.5 / delta segments, which is Copa's own at equilibrium (section 3), is nearly
//!     empty too, up to a quarter of the span: after an arm without a queue, a tenth of the span
//!     is less than a segment;
//!   - after a timeout the window starts from its floor;
//!   - a window that is not used does not grow (RFC 7661);
//!   - takes a known path over at its BDP and 1 / delta segments, with v = 1; in slow start if the
//!     arm before has left the path empty.

use crate::arm::{Arm, ArmInfo, Decision, ProgramId, Queue, REPORTS_PER_ROUND_MANY};
use crate::filter::Windowed;
use crate::measurement::{CwndUse, Measurement};
use crate::path::PathState;
use crate::recovery::{Recovery, congested, episode_rtt};
use crate::round::Round;
use crate::units::{Bytes, Packets, Rate, Time};
use crate::window;
use std::time::Duration;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "copa",
    summary: "two segments of its own in the queue, more among buffer fillers (Copa)",
    program: ProgramId("copa/report"),
    // So that the standing RTT is of half a round trip, and not of a whole one.
    reports_per_round: REPORTS_PER_ROUND_MANY,
    paces: true,
    answers_losses: false,
    make: Some(|_| Box::new(Copa::default())),
    queue: Some(Queue::Short),
    ..ArmInfo::DEFAULT
};

/// Section 2.1: delta is 0.5; this is 1 / delta.
const DEFAULT_INVERSE: u64 = 2;
/// Section 2.2: RTTmin is the minimum of the last ten seconds; here in microseconds.
const MIN_RTT_WINDOW_US: u64 = 10_000_000;
/// Section 2.2: v doubles once the direction has been the same for this many round trips.
const STEADY_ROUNDS: u32 = 3;
/// Section 2.3: the queue counts as nearly empty while its delay is below a tenth of the span from
/// RTTmin to the largest RTT.
const EMPTY_DIVISOR: u32 = 10;
/// The queue also counts as nearly empty if it is no longer than Copa's own queue (section 3), in
/// segments, and its delay is below a quarter of the span (`OWN_DIVISOR`). The quarter matters to a
/// flow with a small share of the link, for which five segments are a long delay.
const OWN_QUEUE: Packets = Packets(5 * DEFAULT_INVERSE / 2);
const OWN_DIVISOR: u32 = 4;
/// Section 2.3: the largest RTT of the last four round trips counts.
const LARGEST_ROUNDS: usize = 4;
/// Section 2.3: if the queue was not nearly empty in this many round trips in a row, Copa competes.
const FULL_ROUNDS: u32 = 5;
/// Section 2.1: the pacing rate is twice the window per round trip.
const PACING_FACTOR: u64 = 2;
/// A rate of 0 would stop the flow.
const RATE_MIN: Rate = Rate::from_bytes_per_sec(1);
/// Room for twice the reports of half a round trip, because a datapath may report more often.
const STANDING_MAX: usize = 16;

/// Copa, for one flow.
#[derive(Clone, Debug)]
pub struct Copa {
    path: PathState,
    rtt_min: Option<Windowed<Duration>>,
    standing: Standing,
    round: Round,
    in_slow_start: bool,
    velocity: Velocity,
    competition: Competition,
    recovery: Recovery,
}

/// The least RTTs of the last reports, the latest last.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    samples: [(Time, Duration); STANDING_MAX],
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Velocity {
    factor: u64,
    rising: bool,
    steady_rounds: u32,
    /// The window when this round started.
    from: Bytes,
}

/// Whether others fill the buffer, and what that does to 1 / delta.
#[derive(Clone, Copy, Debug)]
struct Competition {
    inverse: u64,
    largest: [Duration; LARGEST_ROUNDS],
    least_standing: Option<Duration>,
    lost: bool,
    full_rounds: u32,
}

impl Arm for Copa {
    fn info(&self) -> &'static ArmInfo {
        &ARM
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        let mut path = window::sane(path);
        let at_us = micros(now);
        // The queue of a predecessor drains at once: by steps, v would grow until far too little is
        // in flight.
        if let Some(fits) = path.delivery_rate().zip(path.rtt_min_long()).map(|(b, r)| b * r) {
            let own = Packets(DEFAULT_INVERSE).to_bytes(path.mss);
            path.cwnd = window::bound(&path, path.cwnd.min(fits + own));
        }
        *self = Self {
            // Of five minutes: that of ten seconds may be of a queue that stood for as long.
            rtt_min: path.rtt_min_long().map(|rtt| Windowed::min(MIN_RTT_WINDOW_US, at_us, rtt)),
            standing: Standing::default(),
            round: Round::default(),
            in_slow_start: path.bdp().is_none() && path.ssthresh.is_none() || path.is_left_empty(),
            velocity: Velocity::from(path.cwnd),
            competition: Competition::none(),
            recovery: Recovery::resume(&path, now),
            path,
        };
        let Decision { cwnd, rate } = self.decision();
        let most = self.path.rate.map(|rate| rate.max(RATE_MIN));
        Decision { cwnd, rate: rate.map(|rate| most.map_or(rate, |most| rate.min(most))) }
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.path.observe(m, now);
        if m.timed_out {
            self.path.cwnd = self.path.cwnd_floor();
            self.in_slow_start = true;
            self.velocity = Velocity::from(self.path.cwnd);
        }
        self.competition.lost |= m.has_loss();
        if m.timed_out || (congested(m) && !self.recovery.covers(m, now)) {
            self.recovery.enter(episode_rtt(&self.path, m), now);
        }
        self.recovery.observe(m, now);
        if let Some(rtt) = m.rtt {
            let at_us = micros(now);
            let filter =
                self.rtt_min.get_or_insert(Windowed::min(MIN_RTT_WINDOW_US, at_us, rtt.min));
            filter.update(at_us, rtt.min);
            self.standing.push(now, rtt.min);
            let standing = self.standing_rtt(now);
            self.competition.observe(rtt.max, standing);
        }
        if self.round.observe(m, self.path.mss) {
            self.end_round();
        }
        if let (Some(standing), Some(min)) = (self.standing_rtt(now), self.rtt_min) {
            self.adjust((standing, min.get()), m);
        }
        self.path.cwnd = window::bound(&self.path, self.path.cwnd);
        self.decision()
    }

    fn hand_off(&self, path: &mut PathState) {
        path.cwnd = self.path.cwnd;
        path.rate = None;
        path.ssthresh = path.ssthresh.or(path.bdp().map(|bdp| bdp.max(self.path.cwnd)));
        path.recovery_until = self.recovery.until();
    }
}

impl Default for Copa {
    fn default() -> Self {
        let path = window::no_path();
        Self {
            rtt_min: None,
            standing: Standing::default(),
            round: Round::default(),
            in_slow_start: true,
            velocity: Velocity::from(path.cwnd),
            competition: Competition::none(),
            recovery: Recovery::resume(&path, Time::ZERO),
            path,
        }
    }
}

impl Copa {
    fn decision(&self) -> Decision {
        let rtt = self.standing.least().or(self.path.srtt);
        let rate = rtt.filter(|rtt| !rtt.is_zero()).map(|rtt| {
            let rate = Bytes(self.path.cwnd.0.saturating_mul(PACING_FACTOR)) / rtt;
            rate.max(RATE_MIN)
        });
        Decision { cwnd: self.path.cwnd, rate }
    }

    fn standing_rtt(&mut self, now: Time) -> Option<Duration> {
        let half = self.path.srtt.unwrap_or_default() / 2;
        self.standing.within(now, half)
    }

    /// Section 2.1, for what a report delivers.
    fn adjust(&mut self, (standing, min): (Duration, Duration), m: &Measurement) {
        let Self { path, velocity, competition, .. } = self;
        let inverse = competition.inverse;
        // W / RTTstanding <= 1 / (delta d_q), without a division
        let queue = (standing - min.min(standing)).as_nanos();
        let have = u128::from(path.cwnd.0).saturating_mul(queue);
        let want =
            u128::from(path.mss.0.saturating_mul(inverse)).saturating_mul(standing.as_nanos());
        let rises = have <= want;
        let used = m.cwnd_use(path.cwnd, path.mss);
        if self.in_slow_start && rises {
            if used >= CwndUse::Half {
                path.cwnd += m.delivered.min(path.cwnd);
            }
            return;
        }
        self.in_slow_start = false;
        if rises != velocity.rising {
            *velocity = Velocity { rising: rises, ..Velocity::from(path.cwnd) };
        }
        let per_round = Bytes(path.mss.0.saturating_mul(velocity.factor).saturating_mul(inverse));
        let step = window::scale(per_round.min(path.cwnd), m.delivered.min(path.cwnd), path.cwnd);
        if !rises {
            path.cwnd = path.cwnd - step;
        } else if used == CwndUse::Full {
            path.cwnd += step;
        }
    }

    fn end_round(&mut self) {
        self.velocity.end_round(self.path.cwnd);
        let rate = self.path.delivery_rate().filter(|rate| *rate > Rate::default());
        let own = rate.map(|rate| OWN_QUEUE.to_bytes(self.path.mss) / rate);
        self.competition.end_round(self.rtt_min.map(|min| min.get()), own.unwrap_or_default());
    }
}

impl Standing {
    fn push(&mut self, at: Time, rtt: Duration) {
        self.samples.rotate_left(1);
        self.samples[STANDING_MAX - 1] = (at, rtt);
        self.count = (self.count + 1).min(STANDING_MAX);
    }

    /// The least RTT of the reports in the last `span`. Forgets older reports.
    fn within(&mut self, now: Time, span: Duration) -> Option<Duration> {
        let recent = self.samples[STANDING_MAX - self.count..].iter();
        let kept = recent.rev().take_while(|(at, _)| now - *at <= span).count();
        self.count = kept.max(usize::from(self.count > 0));
        self.least()
    }

    fn least(&self) -> Option<Duration> {
        self.samples[STANDING_MAX - self.count..].iter().map(|(_, rtt)| *rtt).min()
    }
}

impl Velocity {
    fn from(cwnd: Bytes) -> Self {
        Self { factor: 1, rising: true, steady_rounds: 0, from: cwnd }
    }

    fn end_round(&mut self, cwnd: Bytes) {
        if (cwnd > self.from) == self.rising {
            self.steady_rounds = self.steady_rounds.saturating_add(1);
        } else {
            (self.steady_rounds, self.factor) = (0, 1);
        }
        if self.steady_rounds >= STEADY_ROUNDS {
            self.factor = self.factor.saturating_mul(2);
        }
        self.from = cwnd;
    }
}

impl Competition {
    fn none() -> Self {
        Self {
            inverse: DEFAULT_INVERSE,
            largest: [Duration::ZERO; LARGEST_ROUNDS],
            least_standing: None,
            lost: false,
            full_rounds: 0,
        }
    }

    fn observe(&mut self, largest: Duration, standing: Option<Duration>) {
        let this = &mut self.largest[LARGEST_ROUNDS - 1];
        *this = largest.max(*this);
        let least = self.least_standing.into_iter().chain(standing).min();
        self.least_standing = least;
    }

    /// Section 2.3: chooses the mode; in competitive mode, 1 / delta grows by one a round trip and
    /// is halved after a loss.
    fn end_round(&mut self, min: Option<Duration>, own: Duration) {
        let largest = self.largest.into_iter().max().unwrap_or_default();
        if let (Some(min), Some(standing)) = (min, self.least_standing.take()) {
            let span = largest.saturating_sub(min);
            let nearly_empty = (span / EMPTY_DIVISOR).max(own.min(span / OWN_DIVISOR));
            let is_full = standing > min.saturating_add(nearly_empty);
            self.full_rounds = if is_full { self.full_rounds.saturating_add(1) } else { 0 };
        }
        let lost = std::mem::take(&mut self.lost);
        self.inverse = match (self.full_rounds >= FULL_ROUNDS, lost) {
            (false, _) => DEFAULT_INVERSE,
            (true, false) => self.inverse.saturating_add(1),
            (true, true) => (self.inverse / 2).max(DEFAULT_INVERSE),
        };
        self.largest.rotate_left(1);
        self.largest[LARGEST_ROUNDS - 1] = Duration::ZERO;
    }
}

fn micros(at: Time) -> u64 {
    u64::try_from(at.0.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcc::link::Link;
    use crate::script::{MSS, left_empty, path};

    #[test]
    fn fills_a_link_with_a_few_segments_queued() {
        let mut link = Link::new(24, 40, 480_000);
        link.run(&mut Copa::default(), 30_000);
        // This link works in steps of 10 ms, ten times what Copa queues; bench/arms has a real one.
        assert!(link.filled(10_000) > 0.7, "{}", link.filled(10_000));
        assert!(link.queue_ms(10_000) < 20.0, "{}", link.queue_ms(10_000));
    }

    #[test]
    fn the_velocity_doubles_after_three_rounds_the_same_way_and_turns_to_one() {
        let mut velocity = Velocity::from(Bytes(100));
        let mut got = Vec::new();
        for cwnd in [110, 120, 130, 140, 150, 140] {
            velocity.end_round(Bytes(cwnd));
            got.push(velocity.factor);
        }
        assert_eq!(got, [1, 1, 2, 4, 8, 1]);
    }

    #[test]
    fn a_queue_that_is_never_nearly_empty_is_competed_for() {
        let ms = Duration::from_millis;
        let mut competition = Competition::none();
        let mut got = Vec::new();
        for (standing, lost) in [(70, false); 7].into_iter().chain([(70, true), (42, false)]) {
            competition.observe(ms(100), Some(ms(standing)));
            competition.lost = lost;
            competition.end_round(Some(ms(40)), ms(1));
            got.push(competition.inverse);
        }
        // 1 / delta: five rounds to tell, one more a round, half after a loss, and back.
        assert_eq!(got, [2, 2, 2, 2, 3, 4, 5, 2, 2]);
    }

    #[test]
    fn its_own_queue_is_nobody_elses() {
        let ms = Duration::from_millis;
        let mut competition = Competition::none();
        for _ in 0..10 {
            // A fifth of the span stands.
            competition.observe(ms(45), Some(ms(41)));
            competition.end_round(Some(ms(40)), ms(2));
        }
        assert_eq!(competition.inverse, DEFAULT_INVERSE);
        for _ in 0..10 {
            // Of a small share of the link, its own is more than the whole queue.
            competition.observe(ms(100), Some(ms(80)));
            competition.end_round(Some(ms(40)), ms(150));
        }
        assert!(competition.inverse > DEFAULT_INVERSE);
    }

    #[test]
    fn a_known_path_is_taken_over_at_its_bdp_and_two_segments() {
        let link = Link::new(24, 40, 480_000);
        let mut known = link.known_path();
        known.cwnd = Packets(400).to_bytes(MSS);
        let first = Copa::default().resume(&known, Time::ZERO);
        assert_eq!(first.cwnd, link.rate * Duration::from_millis(40) + MSS + MSS);
        assert_eq!(Copa::default().resume(&path(10), Time::ZERO).cwnd, path(10).cwnd);
    }

    #[test]
    fn a_path_that_was_left_empty_is_taken_over_in_slow_start() {
        let link = Link::new(24, 40, 480_000);
        let slow_starts = |known: &PathState| {
            let mut copa = Copa::default();
            copa.resume(known, Time::ZERO);
            copa.in_slow_start
        };
        let rtt = Duration::from_millis(40);
        let (mut known, _) = left_empty(path(10), rtt, link.rate);
        assert!(slow_starts(&known));
        known.answered_losses = false;
        assert!(!slow_starts(&known), "the arm before ignored losses: the window is the path's");
        assert!(!slow_starts(&link.known_path()));
    }
}
