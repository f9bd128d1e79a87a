//! The life of a flow, for `remuda explain`: what held it back and for how long, what its losses
//! look like, and how fast it was.
//!
//! The kernel says at each report what held the sender back: its peer's receive window, its send
//! buffer, an application without data, or the congestion window. The time since the report before
//! counts for that. An application that waited for its send buffer within the last round trip has
//! data. Until it runs and writes, the buffer is still the limit: a larger one would have lasted.

use remuda_algorithms::units::Bytes;
use remuda_algorithms::{Measurement, RttSamples};
use remuda_wire::to_agent::Signals;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What holds a flow back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The application had nothing to send.
    Application,
    /// The peer's receive window was full.
    ReceiveWindow,
    /// The application could not write, because its send buffer was full.
    SendBuffer,
    /// Losses were being repaired.
    Loss,
    /// The window that the arm has chosen.
    Window,
    /// The rate that the arm has chosen.
    Pacing,
    /// The guard had lowered the arm's window or rate.
    Guard,
}

/// The order in which a life lists them.
pub const LIMITS: [Limit; 7] = [
    Limit::Application,
    Limit::ReceiveWindow,
    Limit::SendBuffer,
    Limit::Loss,
    Limit::Window,
    Limit::Pacing,
    Limit::Guard,
];

/// Periods that a history has at most; then two of them become one.
const PERIODS_MAX: usize = 60;
const PERIOD_MIN: Duration = Duration::from_millis(100);

/// What losses look like: the moments at which the sender began to repair some. The first is left
/// out, because slow start overshoots.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    episodes: u64,
    /// The mean delivery rate just before, in bytes a second, and the sum of squared differences
    /// from it (Welford).
    rate: f64,
    squares: f64,
    /// The sum of round trips over the least one.
    rtt_over_min: f64,
    /// How many of the episodes had both figures.
    measured: u64,
}

impl Losses {
    fn add(&mut self, rate: f64, rtt_over_min: f64) {
        self.measured += 1;
        let from = rate - self.rate;
        self.rate += from / self.measured as f64;
        self.squares += from * (rate - self.rate);
        self.rtt_over_min += rtt_over_min;
    }

    fn seen(&self) -> Option<Lossy> {
        let Self { rate, squares, rtt_over_min, measured, .. } = *self;
        let count = measured as f64;
        (measured > 1).then(|| Lossy {
            episodes: measured,
            rate_mbit_per_sec: rate * 8.0 / 1e6,
            rate_spread: (squares / (count - 1.0)).sqrt() / rate.max(1.0),
            rtt_over_min: rtt_over_min / count,
        })
    }
}

/// How much the round trips of a flow differ.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTrips {
    count: f64,
    sum_us: f64,
    sq_sum_us2: f64,
    /// The sum of squared differences from the mean of the same report.
    within_us2: f64,
}

impl RoundTrips {
    fn add(&mut self, rtt: &RttSamples) {
        let (count, sum, squares) = (rtt.count as f64, rtt.sum_us as f64, rtt.sq_sum_us2 as f64);
        self.count += count;
        self.sum_us += sum;
        self.sq_sum_us2 += squares;
        self.within_us2 += (squares - sum * sum / count.max(1.0)).max(0.0);
    }

    /// The standard deviation of all, and that within a report; in milliseconds.
    fn deviations_ms(&self) -> Option<(f64, f64)> {
        let deviation = |squares: f64| (squares.max(0.0) / self.count).sqrt() / 1e3;
        let squares = self.sq_sum_us2 - self.sum_us * self.sum_us / self.count.max(1.0);
        (self.count > 0.0).then(|| (deviation(squares), deviation(self.within_us2)))
    }
}

/// Bytes acknowledged in each period of a life, in the order of time.
#[derive(Clone, Debug)]
struct History {
    period: Duration,
    acked: Vec<u64>,
}

impl History {
    fn add(&mut self, at: Duration, acked: Bytes) {
        while at.as_nanos() / self.period.as_nanos() >= PERIODS_MAX as u128 {
            for index in 0..self.acked.len().div_ceil(2) {
                let pair = &self.acked[2 * index..self.acked.len().min(2 * index + 2)];
                self.acked[index] = pair.iter().sum();
            }
            self.acked.truncate(self.acked.len().div_ceil(2));
            self.period *= 2;
        }
        let index = (at.as_nanos() / self.period.as_nanos()) as usize;
        if self.acked.len() <= index {
            self.acked.resize(index + 1, 0);
        }
        self.acked[index] += acked.0;
    }
}

/// What a flow notes of its life.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    held: [Duration; LIMITS.len()],
    losses: Losses,
    round_trips: RoundTrips,
    history: History,
    /// The largest delivery rate, in bytes a second.
    rate_max: u64,
    /// The guard has lowered the decision in force.
    pub(super) is_guarded: bool,
    was_in_recovery: bool,
    /// When the application last waited for its send buffer.
    waited_at: Option<Duration>,
}

impl Noted {
    pub(super) fn new() -> Self {
        Self {
            held: [Duration::ZERO; LIMITS.len()],
            losses: Losses::default(),
            round_trips: RoundTrips::default(),
            // Room for all, as a report takes no memory.
            history: History { period: PERIOD_MIN, acked: Vec::with_capacity(PERIODS_MAX) },
            rate_max: 0,
            is_guarded: false,
            was_in_recovery: false,
            waited_at: None,
        }
    }

    /// Takes in a report that came at `at` of the flow's life, `since` after the one before.
    pub(super) fn report(
        &mut self,
        (m, signals): (&Measurement, Option<&Signals>),
        (at, since): (Duration, Duration),
        (rtt_min, is_paced): (Option<Duration>, bool),
    ) {
        if let Some(rtt) = &m.rtt {
            self.round_trips.add(rtt);
        }
        if signals.is_some_and(|it| it.sndbuf_limited) {
            self.waited_at = Some(at);
        }
        let has_just_waited = self
            .waited_at
            .is_some_and(|waited_at| rtt_min.is_some_and(|rtt| at.saturating_sub(waited_at) < rtt));
        let limit = self.limit(m, signals, (is_paced, has_just_waited));
        self.held[limit as usize] += since;
        self.history.add(at, m.acked);
        if !m.app_limited {
            self.rate_max = self.rate_max.max(m.delivery_rate.bytes_per_sec());
        }
        let is_in_recovery = m.in_recovery || m.timed_out;
        if is_in_recovery && !self.was_in_recovery {
            self.losses.episodes += 1;
            let rtt = m.rtt.map(|rtt| rtt.mean());
            if let (Some(rtt), Some(min), true) = (rtt, rtt_min, self.losses.episodes > 1) {
                let ratio = rtt.as_secs_f64() / min.as_secs_f64().max(1e-6);
                self.losses.add(m.delivery_rate.bytes_per_sec() as f64, ratio);
            }
        }
        self.was_in_recovery = is_in_recovery;
    }

    fn limit(
        &self,
        m: &Measurement,
        signals: Option<&Signals>,
        (is_paced, has_just_waited): (bool, bool),
    ) -> Limit {
        let is = |of: fn(&Signals) -> bool| signals.is_some_and(of);
        let is_full = is(|it| it.cwnd_full);
        if is(|it| it.rwnd_limited) && !is_full {
            Limit::ReceiveWindow
        } else if is(|it| it.sndbuf_limited) && !is_full {
            Limit::SendBuffer
        } else if m.app_limited {
            if has_just_waited { Limit::SendBuffer } else { Limit::Application }
        } else if self.is_guarded {
            Limit::Guard
        } else if m.in_recovery || m.timed_out {
            Limit::Loss
        } else if is_paced && !is_full {
            Limit::Pacing
        } else {
            Limit::Window
        }
    }

    /// What was seen of the path, whose least round trip is `rtt_min`.
    pub(super) fn path(&self, rtt_min: Option<Duration>) -> PathSeen {
        let deviations = self.round_trips.deviations_ms();
        let held_by = |limit: Limit| self.held[limit as usize];
        let by_ends = [Limit::Application, Limit::ReceiveWindow, Limit::SendBuffer].map(held_by);
        PathSeen {
            rtt_ms_min: rtt_min.map(|it| it.as_secs_f64() * 1e3),
            rtt_ms_sd: deviations.map(|it| it.0),
            jitter_ms: deviations.map(|it| it.1),
            delivery_bytes_per_sec_max: self.rate_max,
            loss_episodes: self.losses.episodes,
            loss_rtt_over_min: self.losses.seen().map(|it| it.rtt_over_min),
            held_by_ends_ms: by_ends.iter().sum::<Duration>().as_secs_f64() * 1e3,
        }
    }

    /// The life until `age`, after the last report of `reported_at`.
    pub(super) fn life(&self, age: Duration, reported_at: Duration) -> Life {
        let mut history = self.history.clone();
        history.add(age, Bytes(0));
        let held = LIMITS.iter().zip(&self.held);
        let seconds = |(limit, held): (&Limit, &Duration)| (*limit, held.as_secs_f64());
        let period_s = history.period.as_secs_f64();
        // The last period is not over.
        let span_s = |index: usize| (age.as_secs_f64() - index as f64 * period_s).min(period_s);
        let rate = |(index, bytes): (usize, &u64)| {
            *bytes as f64 * 8.0 / 1e6 / span_s(index).max(period_s / 8.0)
        };
        Life {
            held: held.map(seconds).collect(),
            silent_s: age.saturating_sub(reported_at).as_secs_f64(),
            loss_episodes: self.losses.episodes,
            losses: self.losses.seen(),
            most_mbit_per_sec: self.rate_max as f64 * 8.0 / 1e6,
            period_s,
            mbit_per_sec: history.acked.iter().enumerate().map(rate).collect(),
        }
    }
}

/// What the reports of a flow show of its path: for the event of its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathSeen {
    /// The least round trip of the flow's last minutes, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ms_min: Option<f64>,
    /// The standard deviation of all round trips.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ms_sd: Option<f64>,
    /// The standard deviation of round trips within a report, which no slow change explains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<f64>,
    /// The largest delivery rate while the application had data.
    pub delivery_bytes_per_sec_max: u64,
    /// How often the sender began to repair losses.
    pub loss_episodes: u64,
    /// The mean round trip at those episodes but the first, over the least round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_rtt_over_min: Option<f64>,
    /// For how long the application, or a buffer of either end, held the flow back, in
    /// milliseconds.
    pub held_by_ends_ms: f64,
}

/// The life of a flow so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// Each limit, and for how many seconds it held the flow back.
    pub held: Vec<(Limit, f64)>,
    /// The time since the last report, which counts for no limit.
    pub silent_s: f64,
    /// How often the sender began to repair losses.
    pub loss_episodes: u64,
    /// Rate and round trip at the episodes after the first; `None` below two measured ones.
    pub losses: Option<Lossy>,
    /// The largest delivery rate of its life.
    pub most_mbit_per_sec: f64,
    /// The length of a period of `mbit_per_sec`.
    pub period_s: f64,
    /// Goodput by period, from the flow's start.
    pub mbit_per_sec: Vec<f64>,
}

/// The moments at which a sender began to repair losses, but the first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lossy {
    pub episodes: u64,
    /// The mean delivery rate just before.
    pub rate_mbit_per_sec: f64,
    /// The standard deviation of that rate, over its mean.
    pub rate_spread: f64,
    /// The mean round trip then, over the least round trip.
    pub rtt_over_min: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_algorithms::units::Rate;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_history_keeps_every_byte_in_at_most_sixty_periods() {
        let mut history = History { period: PERIOD_MIN, acked: Vec::new() };
        for ms in (0..100_000).step_by(37) {
            history.add(Duration::from_millis(ms), Bytes(1_000));
        }
        assert!(history.acked.len() <= PERIODS_MAX && history.acked.len() > PERIODS_MAX / 2 - 1);
        assert_eq!(history.acked.iter().sum::<u64>(), 2_703_000);
        assert_eq!(history.period, Duration::from_millis(3_200));
        let [most, least] = [history.acked.iter().max(), history.acked.iter().min()];
        assert!(most.is_some() && least.is_some_and(|least| *least > 0), "no period is empty");
        // After a long silence, what was before is in one period.
        history.add(Duration::from_secs(1_000_000), Bytes(1));
        assert_eq!(history.acked[0], 2_703_000);
        assert_eq!(history.acked.iter().sum::<u64>(), 2_703_001);
    }

    #[test]
    fn time_counts_for_what_held_the_flow_back() {
        let mut noted = Noted::new();
        let quiet = Measurement::QUIET;
        let signals = Signals::default();
        let mut at = Duration::ZERO;
        let mut report = |noted: &mut Noted, m: Measurement, signals: Signals, is_paced| {
            at += SECOND;
            noted.report((&m, Some(&signals)), (at, SECOND), (Some(SECOND), is_paced));
        };
        let full = Signals { cwnd_full: true, ..signals };
        report(&mut noted, quiet, full, false);
        report(&mut noted, quiet, Signals { rwnd_limited: true, ..signals }, false);
        report(&mut noted, quiet, Signals { sndbuf_limited: true, ..signals }, false);
        // A window that is full holds back what the buffer has.
        report(&mut noted, quiet, Signals { sndbuf_limited: true, ..full }, false);
        report(&mut noted, Measurement { app_limited: true, ..quiet }, signals, true);
        report(&mut noted, Measurement { in_recovery: true, ..quiet }, full, false);
        report(&mut noted, quiet, signals, true);
        noted.is_guarded = true;
        report(&mut noted, quiet, full, true);
        let life = noted.life(10 * SECOND, 8 * SECOND);
        let held = &life.held;
        let seconds = |limit| held.iter().find(|it| it.0 == limit).map_or(0.0, |it| it.1);
        assert_eq!(LIMITS.map(seconds), [1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!((life.loss_episodes, life.silent_s), (1, 2.0));
        assert_eq!((life.period_s, life.mbit_per_sec.len()), (0.2, 51));
        assert_eq!(noted.path(None).held_by_ends_ms, 3_000.0);
    }

    #[test]
    fn an_application_that_has_just_waited_for_its_buffer_has_data() {
        let mut noted = Noted::new();
        let (quiet, signals) = (Measurement::QUIET, Signals::default());
        let mut report = |ms, m: Measurement, signals: Signals| {
            let since = Duration::from_millis(40);
            let at = Duration::from_millis(ms);
            noted.report((&m, Some(&signals)), (at, since), (Some(SECOND / 10), false));
        };
        let idle = Measurement { app_limited: true, ..quiet };
        report(40, idle, signals);
        report(80, quiet, Signals { sndbuf_limited: true, ..signals });
        // Two reports within the round trip of 100 ms, and one after it.
        report(120, idle, signals);
        report(160, idle, signals);
        report(200, idle, signals);
        let held = noted.life(SECOND, SECOND).held;
        let seconds = |limit| held.iter().find(|it| it.0 == limit).map_or(0.0, |it| it.1);
        let [application, _, buffer, ..] = LIMITS.map(seconds);
        assert_eq!((application, buffer), (0.08, 0.12));
    }

    #[test]
    fn jitter_is_told_from_a_round_trip_that_changes_slowly() {
        let report = |ms: [u64; 2]| {
            let [a, b] = ms.map(|ms| RttSamples::one(Duration::from_millis(ms)));
            let rtt = Measurement { rtt: Some(a), ..Measurement::QUIET }
                .and(&Measurement { rtt: Some(b), ..Measurement::QUIET });
            Measurement { delivery_rate: Rate::from_bytes_per_sec(1_000 * ms[0]), ..rtt }
        };
        let seen = |reports: [[u64; 2]; 2]| {
            let mut noted = Noted::new();
            for m in reports.map(report) {
                noted.report((&m, None), (SECOND, SECOND), (Some(SECOND), false));
            }
            noted.path(Some(Duration::from_millis(20)))
        };
        let [slow, quick] = [seen([[20, 20], [60, 60]]), seen([[20, 60], [20, 60]])];
        assert_eq!((slow.rtt_ms_sd, slow.jitter_ms), (Some(20.0), Some(0.0)));
        assert_eq!((quick.rtt_ms_sd, quick.jitter_ms), (Some(20.0), Some(20.0)));
        assert_eq!((slow.rtt_ms_min, slow.delivery_bytes_per_sec_max), (Some(20.0), 60_000));
        assert_eq!(Noted::new().path(None), PathSeen::default());
    }
}
