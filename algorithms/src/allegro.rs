//! PCC Allegro: tries a little faster and a little slower, and goes where the utility is larger.
//!
//! M. Dong et al., "PCC: Re-architecting Congestion Control for Consistent High Performance", NSDI
//! 2015. With x the rate an interval was sent at, T the rate it was delivered at and L the share of
//! it that was lost:
//!
//! ```text
//! u = T sigmoid(L - 0.05) - x L              sigmoid(y) = 1 / (1 + e^(100 y))   section 2.2
//!
//! starting   the rate doubles each interval, until that does not pay: back to the rate before
//! deciding   four intervals, two at (1 + e) r and two at (1 - e) r, in random pairs; if both
//!            pairs agree, moving that way; if not, e grows by 0.01 up to 0.05   section 3.2
//! moving     the nth step is n 0.01 of the rate, until that does not pay: back, and deciding
//! ```
//!
//! Differs from the paper:
//!   - starts with the window it is given a round trip, not with two segments;
//!   - an interval lasts two round trips and ten segments at least, where the paper draws 1.7 to
//!     2.2 round trips at random; the order within a pair is drawn, from the flow's own history;
//!   - a faster rate pays, and is the better one, if it earns half of what it would where there is
//!     room; the paper's is better if u does not fall, which it does not while a deep buffer takes
//!     what the link does not deliver. Among n flows that fill one queue each earns the more by it
//!     the smaller its share is, so that they still do;
//!   - an interval that the application limited is tried again;
//!   - a retransmission timeout halves the rate;
//!   - a known path is taken over at 0.99 of what it delivers, without doubling.

use crate::arm::{Arm, ArmInfo, Decision, ProgramId, Queue, REPORTS_PER_ROUND_MANY, Registers};
use crate::measurement::Measurement;
use crate::monitor_intervals;
use crate::path::PathState;
use crate::pcc::Trials;
use crate::pcc::monitor::{Interval, OWN_FIELDS};
use crate::units::{Bytes, Gain, Rate, Time};
use crate::window;

pub const PROGRAM: &str = monitor_intervals!();

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "allegro",
    summary: "rates by trial; losses below 5 % do not count (PCC Allegro)",
    program: ProgramId("allegro/intervals"),
    program_text: PROGRAM,
    own_fields: OWN_FIELDS,
    reports_per_round: REPORTS_PER_ROUND_MANY,
    paces: true,
    make: Some(|_| Box::new(Allegro::default())),
    queue: Some(Queue::Full),
    ..ArmInfo::DEFAULT
};

/// Section 2.2: losses below this hardly count, and much above it.
const LOSS_TOLERATED: f64 = 0.05;
/// Section 2.2: alpha, `max(2.2 (n - 1), 100)` of n senders.
const SIGMOID_SLOPE: f64 = 100.0;
/// Section 3.2: by how much a trial differs from the rate, in thousandths: first, and at most.
const EPSILON_MIN: u64 = 10;
const EPSILON_MAX: u64 = 50;
/// Section 3.1: the length of an interval, in round trips.
const LENGTH: Gain = Gain(2_000);
/// Section 3.2: two pairs.
const TRIALS: usize = 4;
/// What a faster rate must earn of what it would where there is room.
const PAYS_MIN: f64 = 0.5;
const DOUBLE: Gain = Gain(2_000);
/// What a timeout leaves.
const HALF: Gain = Gain(500);

/// PCC Allegro, for one flow.
#[derive(Clone, Debug)]
pub struct Allegro {
    trials: Trials<Tag>,
    phase: Phase,
    /// The rate decided about.
    base: Rate,
}

/// What an interval is for: a place among the trials, or one step more.
type Tag = usize;

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Doubling, once the first interval was `begun`; the best so far.
    Starting {
        begun: bool,
        best: Option<(Rate, f64)>,
    },
    Deciding(Decisive),
    /// Step by step `faster` or slower; the best so far.
    Moving {
        faster: bool,
        steps: u64,
        best: (Rate, f64),
    },
}

/// Two pairs of trials.
#[derive(Clone, Copy, Debug)]
struct Decisive {
    epsilon: u64,
    /// Which of the four are faster.
    faster: [bool; TRIALS],
    begun: usize,
    utilities: [Option<f64>; TRIALS],
}

/// Section 2.2, in Mbit/s.
fn utility(interval: &Interval<Tag>, mss: Bytes) -> f64 {
    let (sent, loss) = (interval.sent_mbit_per_sec(mss), interval.loss(mss));
    let delivered = interval.delivered_at().bytes_per_sec() as f64 * 8.0 / 1e6;
    let delivered = delivered.min(sent);
    let sigmoid = 1.0 / (1.0 + libm::exp(SIGMOID_SLOPE * (loss - LOSS_TOLERATED)));
    delivered * sigmoid - sent * loss
}

/// Whether going from the slower rate with its utility to the faster with its own pays: it earns
/// [`PAYS_MIN`] of what it would where there is room.
fn pays(slower: (Rate, f64), faster: (Rate, f64)) -> bool {
    let by = faster.0.bytes_per_sec() as f64 / slower.0.bytes_per_sec().max(1) as f64 - 1.0;
    faster.1 > slower.1 + PAYS_MIN * by * slower.1.max(0.0)
}

/// `rate`, so many thousandths faster or slower.
fn step(rate: Rate, faster: bool, thousandths: u64) -> Rate {
    let gain = if faster { 1_000 + thousandths } else { 1_000u64.saturating_sub(thousandths) };
    rate * Gain(gain)
}

impl Arm for Allegro {
    fn info(&self) -> &'static ArmInfo {
        &ARM
    }

    fn registers(&self, registers: &mut Registers) {
        self.trials.registers(registers);
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        *self = Self::over(path, now);
        self.trials.decision()
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        let done = self.trials.observe(m, now);
        if let Phase::Starting { begun: false, .. } = self.phase {
            self.base = self.trials.rate();
        }
        if m.timed_out {
            self.decide_about(self.base * HALF, now);
        } else if let Some(done) = done {
            self.learn(&done, now);
        }
        if self.trials.is_due(LENGTH, now) {
            self.go_on(now);
        }
        self.trials.decision()
    }

    fn hand_off(&self, path: &mut PathState) {
        let rate = match self.phase {
            Phase::Starting { best: Some((rate, _)), .. }
            | Phase::Moving { best: (rate, _), .. } => rate,
            _ => self.base,
        };
        self.trials.hand_off(rate, path);
    }
}

impl Default for Allegro {
    fn default() -> Self {
        Self::over(&window::no_path(), Time::ZERO)
    }
}

impl Allegro {
    fn over(path: &PathState, now: Time) -> Self {
        let mut trials = Trials::resume(path, now);
        let base = trials.rate();
        let phase = match trials.known {
            true => Phase::Deciding(Decisive::new(&mut trials, EPSILON_MIN)),
            false => Phase::Starting { begun: false, best: None },
        };
        Self { trials, phase, base }
    }

    /// The next interval of the phase.
    fn go_on(&mut self, now: Time) {
        let (tag, rate) = match &mut self.phase {
            Phase::Starting { begun, .. } => {
                let gain = if std::mem::replace(begun, true) { DOUBLE } else { Gain::ONE };
                (Some(0), self.trials.rate() * gain)
            }
            Phase::Deciding(trial) if trial.begun < TRIALS => {
                let at = trial.begun;
                trial.begun += 1;
                (Some(at), step(self.base, trial.faster[at], trial.epsilon))
            }
            // Results are on their way.
            Phase::Deciding(_) => (None, self.base),
            Phase::Moving { faster, steps, .. } => {
                *steps = steps.saturating_add(1);
                let thousandths = steps.saturating_mul(EPSILON_MIN).min(500);
                (Some(0), step(self.trials.rate(), *faster, thousandths))
            }
        };
        self.trials.begin(tag, rate, now);
    }

    fn learn(&mut self, done: &Interval<Tag>, now: Time) {
        if done.spoilt {
            return self.decide_about(self.base, now);
        }
        let got = utility(done, self.trials.path.mss);
        match &mut self.phase {
            Phase::Starting { best, .. } => match *best {
                Some(before) if !pays(before, (done.rate, got)) => {
                    self.decide_about(before.0, now);
                }
                _ => {
                    *best = Some((done.rate, got));
                    self.base = done.rate;
                }
            },
            Phase::Moving { faster, best, .. } => {
                let (before, here) = (*best, (done.rate, got));
                let better = if *faster { pays(before, here) } else { !pays(here, before) };
                // At the least rate a step down changes nothing, so it cannot be better.
                if better && here.0 != before.0 {
                    *best = here;
                    self.base = done.rate;
                } else {
                    self.decide_about(before.0, now);
                }
            }
            Phase::Deciding(trial) => {
                if let Some(place) = done.tag.and_then(|at| trial.utilities.get_mut(at)) {
                    *place = Some(got);
                }
                let trial = *trial;
                self.conclude(&trial, now);
            }
        }
    }

    /// Back to `rate`: what is under way does not count.
    fn decide_about(&mut self, rate: Rate, now: Time) {
        self.base = self.trials.bound(rate);
        self.decide(EPSILON_MIN, now);
    }

    fn decide(&mut self, epsilon: u64, now: Time) {
        self.trials.forget();
        self.phase = Phase::Deciding(Decisive::new(&mut self.trials, epsilon));
        if self.trials.is_due(Gain(0), now) {
            self.go_on(now);
        }
    }

    /// Section 3.2: both pairs must agree.
    fn conclude(&mut self, trial: &Decisive, now: Time) {
        let [Some(a), Some(b), Some(c), Some(d)] = trial.utilities else { return };
        let [first, _, second, _] = trial.faster;
        // As they were sent: at the least rate, the slower one is no slower.
        let rate = |faster| self.trials.bound(step(self.base, faster, trial.epsilon));
        let faster_pays = |first, (one, other)| {
            let (faster, slower) = if first { (one, other) } else { (other, one) };
            pays((rate(false), slower), (rate(true), faster))
        };
        let (one, other) = (faster_pays(first, (a, b)), faster_pays(second, (c, d)));
        if one != other {
            return self.decide((trial.epsilon + EPSILON_MIN).min(EPSILON_MAX), now);
        }
        let of = |pair: (f64, f64), first: bool| if first == one { pair.0 } else { pair.1 };
        let utility = (of((a, b), first) + of((c, d), second)) / 2.0;
        let rate = rate(one);
        self.base = rate;
        self.trials.forget();
        self.phase = Phase::Moving { faster: one, steps: 0, best: (rate, utility) };
        self.trials.begin(None, rate, now);
    }
}

impl Decisive {
    fn new(trials: &mut Trials<Tag>, epsilon: u64) -> Self {
        let (first, second) = (trials.toss(), trials.toss());
        let faster = [first, !first, second, !second];
        Self { epsilon, faster, begun: 0, utilities: [None; TRIALS] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcc::link::Link;

    /// In Mbit/s, of a rate of 10 Mbit/s and a share of loss.
    fn utility_at(loss: f64) -> f64 {
        let sigmoid = 1.0 / (1.0 + libm::exp(SIGMOID_SLOPE * (loss - LOSS_TOLERATED)));
        10.0 * (1.0 - loss) * sigmoid - 10.0 * loss
    }

    #[test]
    fn a_loss_below_the_tolerated_one_hardly_counts_and_above_it_much() {
        for (loss, want) in [(0.0, 9.933), (0.02, 9.135), (0.05, 4.25), (0.1, -0.940)] {
            assert!((utility_at(loss) - want).abs() < 0.001, "{loss}: {}", utility_at(loss));
        }
    }

    #[test]
    fn fills_a_link_and_keeps_to_it() {
        let mut link = Link::new(24, 40, 120_000);
        link.run(&mut Allegro::default(), 20_000);
        assert!(link.filled(10_000) > 0.93, "{}", link.filled(10_000));
    }

    #[test]
    fn a_deep_buffer_is_not_taken_for_room() {
        // Eight BDPs, 320 ms: what is sent beyond the link's rate comes back without a loss.
        let mut link = Link::new(24, 40, 960_000);
        let mut allegro = Allegro::default();
        link.run(&mut allegro, 30_000);
        assert!(link.filled(10_000) > 0.93, "{}", link.filled(10_000));
        assert!(link.dropped(10_000) < 0.02, "{}", link.dropped(10_000));
        assert!(allegro.base < link.rate * Gain(1_050), "{}", allegro.base);
    }

    #[test]
    fn it_leaves_the_least_rate() {
        let mut link = Link::new(3, 40, 60_000);
        let mut allegro = Allegro::default();
        allegro.resume(&link.known_path(), Time::ZERO);
        for _ in 0..8 {
            allegro.decide_about(allegro.base * HALF, Time::ZERO);
        }
        let least = allegro.base;
        assert_eq!(least, allegro.trials.bound(Rate::default()));
        let decision = allegro.trials.decision();
        link.go_on(&mut allegro, decision, 60_000);
        assert!(allegro.base > least * DOUBLE, "{}", allegro.base);
    }

    #[test]
    fn a_faster_rate_pays_if_it_earns_half_of_what_it_could() {
        let rate = Rate::from_bytes_per_sec;
        let slower = (rate(1_000_000), 8.0);
        assert!(pays(slower, (rate(1_100_000), 8.5)));
        assert!(!pays(slower, (rate(1_100_000), 8.3)));
        assert!(pays((rate(1_000_000), -8.0), (rate(1_100_000), -7.0)));
        assert!(!pays((rate(1_000_000), -8.0), (rate(1_100_000), -8.0)));
    }

    #[test]
    fn three_percent_of_random_loss_leave_it_three_quarters_of_the_link() {
        let mut link = Link::new(24, 40, 120_000);
        link.loss = 0.03;
        link.run(&mut Allegro::default(), 30_000);
        assert!(link.filled(15_000) > 0.75, "{}", link.filled(15_000));
    }

    #[test]
    fn a_known_path_is_taken_over_without_doubling() {
        let link = Link::new(24, 40, 120_000);
        let path = link.known_path();
        let mut allegro = Allegro::default();
        let first = allegro.resume(&path, Time::ZERO).rate.expect("a rate");
        assert_eq!(first, link.rate * Gain(990));
        assert!(matches!(allegro.phase, Phase::Deciding(_)));
    }

    #[test]
    fn a_timeout_halves_the_rate() {
        let mut link = Link::new(24, 40, 120_000);
        let mut allegro = Allegro::default();
        link.run(&mut allegro, 10_000);
        let before = allegro.base;
        let timeout = Measurement { timed_out: true, ..Measurement::QUIET };
        allegro.on_measurement(&timeout, link.now());
        assert_eq!(allegro.base, before * HALF);
    }
}
