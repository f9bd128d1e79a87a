//! Vivace's rate control: a utility is measured a little above and a little below the rate, and the
//! rate goes up its slope.
//!
//! M. Dong et al., "PCC Vivace: Online-Learning Congestion Control", NSDI 2018, section 4; Proteus
//! (SIGCOMM 2020, section 5) uses it with another utility and three pairs.
//!
//! ```text
//! starting   the rate doubles each interval, until u falls: back to half of it
//! probing    pairs of intervals at (1 + e) r and (1 - e) r, in random order, e = 0.05
//! moving     r += m(n) theta0 slope              slope = (u+ - u-) / (2 e r)
//!            m(n) = n up to 3, 2 n - 3 beyond    n decisions the same way in a row
//!            by (0.05 + 0.05 k) r at most        k decisions in a row that wanted more
//! ```
//!
//! Two differences keep the link full where the papers' control loses a tenth of it.
//!
//! The decision before may have left a queue. If it shrinks during both intervals of a pair,
//! neither is rewarded for that: otherwise the rate goes down until the queue is gone, and then is
//! far below the link's.
//!
//! A step down ends at 0.95 of the rate at which the pairs were delivered, or of the rate decided
//! about if that is less: what the link takes is known. A scavenger does without this floor: among
//! others, what it is delivered is what it is to give up.
//!
//! Differs from the papers:
//!   - starts with the window it is given a round trip;
//!   - the two above;
//!   - each decision is of fresh pairs, where Vivace's moves reuse the result of the last one;
//!   - the bound grows by 0.05, as the authors' code has it, where section 4.3 has 0.1;
//!   - an interval that the application limited is tried again, and a timeout halves the rate.

use super::Trials;
use super::monitor::{Interval, OWN_FIELDS};
use crate::arm::{Arm, ArmInfo, Decision, Queue, REPORTS_PER_ROUND_MANY, Registers};
use crate::measurement::Measurement;
use crate::monitor_intervals;
use crate::path::PathState;
use crate::units::{Bytes, Gain, Rate, Time};
use crate::window;

/// Vivace, section 4.1: epsilon, in thousandths.
const EPSILON: u64 = 50;
/// Vivace, section 4.2: theta0, Mbit/s of rate for one of slope.
const THETA: f64 = 1.0;
/// Vivace, section 4.3: omega0, and by how much the bound grows.
const BOUND: f64 = 0.05;
const BOUND_STEP: f64 = 0.05;
/// Vivace, section 4.2: the amplifier grows by one up to here, by two beyond.
const AMPLIFIER_KNEE: u32 = 3;
/// Vivace, section 4: an interval is a round trip.
const LENGTH: Gain = Gain::ONE;
/// A bound of a rate that only ever rises is no bound: five times.
const STREAK_MAX: u32 = 20;
pub const PAIRS_MAX: usize = 3;
/// A step down ends here, of the rate at which the link has just delivered.
pub const FLOOR: Gain = Gain(950);
const DOUBLE: Gain = Gain(2_000);
const HALF: Gain = Gain(500);

/// What makes an arm of this control.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// What it goes up.
    pub utility: Utility,
    /// It decides by so many pairs, [`PAIRS_MAX`] at most.
    pub pairs: usize,
    /// A step down ends at [`FLOOR`] of what is delivered.
    pub keeps_what_is_delivered: bool,
}

/// Of an interval whose RTTs had that slope, in seconds a second, with segments of that many
/// bytes; in Mbit/s.
pub type Utility = fn(&Interval<Tag>, f64, Bytes) -> f64;

/// What an interval is for: its place among the trials.
pub type Tag = usize;

const PROGRAM: &str = monitor_intervals!();

/// What arms of this control share.
pub const SHARED: ArmInfo = ArmInfo {
    program_text: PROGRAM,
    own_fields: OWN_FIELDS,
    reports_per_round: REPORTS_PER_ROUND_MANY,
    paces: true,
    queue: Some(Queue::Short),
    ..ArmInfo::DEFAULT
};

/// An arm that is this rate control with a utility of its own, for one flow.
#[derive(Clone, Debug)]
pub struct Climber {
    info: &'static ArmInfo,
    goal: Goal,
    gradient: Gradient,
}

impl Climber {
    /// One that has no flow yet.
    pub fn new(info: &'static ArmInfo, goal: Goal) -> Self {
        let goal = Goal { pairs: goal.pairs.clamp(1, PAIRS_MAX), ..goal };
        let gradient = Gradient::resume(&window::no_path(), goal, Time::ZERO);
        Self { info, goal, gradient }
    }

    /// Whether it still doubles its rate.
    pub fn is_starting(&self) -> bool {
        matches!(self.gradient.phase, Phase::Starting { .. })
    }
}

impl Arm for Climber {
    fn info(&self) -> &'static ArmInfo {
        self.info
    }

    fn registers(&self, registers: &mut Registers) {
        self.gradient.trials.registers(registers);
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        self.gradient = Gradient::resume(path, self.goal, now);
        self.gradient.trials.decision()
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.gradient.on_measurement(m, now)
    }

    /// Leaves the rate decided about.
    fn hand_off(&self, path: &mut PathState) {
        self.gradient.trials.hand_off(self.gradient.base, path);
    }
}

/// The rate control of one flow.
#[derive(Clone, Debug)]
struct Gradient {
    trials: Trials<Tag>,
    goal: Goal,
    phase: Phase,
    /// The rate decided about.
    base: Rate,
    /// Decisions in a row: which way, how many, and how many of them wanted more than the bound.
    up: bool,
    streak: u32,
    bounded: u32,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Doubling, once the first interval was `begun`; the best so far.
    Starting {
        begun: bool,
        best: Option<(Rate, f64)>,
    },
    Probing(Probe),
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    faster: [bool; 2 * PAIRS_MAX],
    begun: usize,
    worths: [Option<Worth>; 2 * PAIRS_MAX],
}

/// What an interval was worth.
#[derive(Clone, Copy, Debug)]
struct Worth {
    utility: f64,
    delivered: Rate,
    /// The queue shrank, and its utility if that earned nothing.
    shrank: bool,
    unrewarded: f64,
}

impl Gradient {
    fn resume(path: &PathState, goal: Goal, now: Time) -> Self {
        let mut trials = Trials::resume(path, now);
        let phase = match trials.known {
            true => Phase::Probing(Probe::new(&mut trials)),
            false => Phase::Starting { begun: false, best: None },
        };
        let base = trials.rate();
        Self { trials, goal, phase, base, up: true, streak: 0, bounded: 0 }
    }

    /// Takes in one report.
    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        let done = self.trials.observe(m, now);
        if let Phase::Starting { begun: false, .. } = self.phase {
            self.base = self.trials.rate();
        }
        if m.timed_out {
            self.probe(self.base * HALF, now);
        } else if let Some(done) = done {
            self.learn(&done, now);
        }
        if self.trials.is_due(LENGTH, now) {
            self.go_on(now);
        }
        self.trials.decision()
    }

    /// The next interval of the phase.
    fn go_on(&mut self, now: Time) {
        let wanted = 2 * self.goal.pairs;
        let (tag, rate) = match &mut self.phase {
            Phase::Starting { begun, .. } => {
                let gain = if std::mem::replace(begun, true) { DOUBLE } else { Gain::ONE };
                (Some(0), self.trials.rate() * gain)
            }
            Phase::Probing(probe) if probe.begun < wanted => {
                let at = probe.begun;
                probe.begun += 1;
                let gain = if probe.faster[at] { 1_000 + EPSILON } else { 1_000 - EPSILON };
                (Some(at), self.base * Gain(gain))
            }
            // Results are on their way.
            Phase::Probing(_) => (None, self.base),
        };
        self.trials.begin(tag, rate, now);
    }

    fn learn(&mut self, done: &Interval<Tag>, now: Time) {
        if done.spoilt {
            return self.probe(self.base, now);
        }
        let (slope, mss) = (done.rtt_slope_beyond_noise(), self.trials.path.mss);
        let got = (self.goal.utility)(done, slope, mss);
        match &mut self.phase {
            Phase::Starting { best, .. } => match *best {
                Some((rate, before)) if got < before => self.probe(rate, now),
                _ => {
                    *best = Some((done.rate, got));
                    self.base = done.rate;
                }
            },
            Phase::Probing(probe) => {
                if let Some(place) = done.tag.and_then(|at| probe.worths.get_mut(at)) {
                    let unrewarded = (self.goal.utility)(done, slope.max(0.0), mss);
                    *place = Some(Worth {
                        utility: got,
                        delivered: done.delivered_at().min(done.rate),
                        shrank: slope < 0.0,
                        unrewarded,
                    });
                }
                let probe = *probe;
                if let Some(slope) = self.slope(&probe) {
                    let delivered = probe.worths.iter().flatten().map(|worth| worth.delivered);
                    self.step(slope, mean(delivered), now);
                }
            }
        }
    }

    /// What is under way does not count any longer: probing, at `rate`.
    fn probe(&mut self, rate: Rate, now: Time) {
        self.base = self.trials.bound(rate);
        self.trials.forget();
        self.phase = Phase::Probing(Probe::new(&mut self.trials));
        if self.trials.is_due(Gain(0), now) {
            self.go_on(now);
        }
    }

    /// The slope of the utility, if all trials are in and, of three pairs, most agree.
    fn slope(&self, probe: &Probe) -> Option<f64> {
        let pairs = self.goal.pairs;
        let trials = probe.worths.chunks_exact(2).zip(probe.faster.chunks_exact(2));
        let span = 2.0 * EPSILON as f64 / 1e3 * mbit_per_sec(self.base);
        let mut slopes = [0.0; PAIRS_MAX];
        for (slope, (worths, faster)) in slopes[..pairs].iter_mut().zip(trials) {
            let &[Some(first), Some(second)] = worths else { return None };
            let both = first.shrank && second.shrank;
            let of = |worth: Worth| if both { worth.unrewarded } else { worth.utility };
            let gain = of(first) - of(second);
            let gain = if faster[0] { gain } else { -gain };
            *slope = gain / span.max(f64::MIN_POSITIVE);
        }
        let slopes = &slopes[..pairs];
        let ups = slopes.iter().filter(|slope| **slope > 0.0).count();
        let up = 2 * ups > pairs;
        let majority = slopes.iter().filter(|slope| (**slope > 0.0) == up);
        Some(majority.clone().sum::<f64>() / majority.count().max(1) as f64)
    }

    /// Vivace, sections 4.2 and 4.3.
    fn step(&mut self, slope: f64, delivered: Rate, now: Time) {
        let up = slope > 0.0;
        if up != self.up {
            (self.up, self.streak, self.bounded) = (up, 0, 0);
        }
        self.streak = (self.streak + 1).min(STREAK_MAX);
        let amplifier = match self.streak {
            n if n <= AMPLIFIER_KNEE => n,
            n => 2 * n - AMPLIFIER_KNEE,
        };
        let rate = mbit_per_sec(self.base);
        let wanted = f64::from(amplifier) * THETA * slope.abs() / rate.max(f64::MIN_POSITIVE);
        let bound = BOUND + BOUND_STEP * f64::from(self.bounded);
        let share = wanted.min(bound);
        // The least bound that this step would have kept to, and one more if it did not.
        self.bounded = if wanted > bound {
            (self.bounded + 1).min(STREAK_MAX)
        } else {
            (((wanted - BOUND) / BOUND_STEP).max(0.0) as u32).min(self.bounded)
        };
        let thousandths = (share * 1e3) as u64;
        let gain = if up { 1_000 + thousandths } else { 1_000u64.saturating_sub(thousandths) };
        let stepped = self.base * Gain(gain.max(100));
        let floor = self.base.min(delivered * FLOOR);
        let keeps = !up && self.goal.keeps_what_is_delivered;
        self.probe(if keeps { stepped.max(floor) } else { stepped }, now);
    }
}

impl Probe {
    fn new(trials: &mut Trials<Tag>) -> Self {
        let mut faster = [false; 2 * PAIRS_MAX];
        for pair in faster.chunks_exact_mut(2) {
            pair[0] = trials.toss();
            pair[1] = !pair[0];
        }
        Self { faster, begun: 0, worths: [None; 2 * PAIRS_MAX] }
    }
}

/// The mean rate of those that are known: the largest of a few is of ACKs that came in a burst.
fn mean(rates: impl Iterator<Item = Rate>) -> Rate {
    let known = rates.filter(|rate| *rate > Rate::default());
    let (sum, count) = known
        .fold((0, 0), |(sum, count), rate| (rate.bytes_per_sec().saturating_add(sum), count + 1));
    Rate::from_bytes_per_sec(sum / count.max(1))
}

fn mbit_per_sec(rate: Rate) -> f64 {
    rate.bytes_per_sec() as f64 * 8.0 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::path;

    fn flat(_: &Interval<Tag>, _: f64, _: Bytes) -> f64 {
        0.0
    }

    fn at_10_mbit_per_sec() -> Gradient {
        let goal = Goal { utility: flat, pairs: 1, keeps_what_is_delivered: true };
        let mut gradient = Gradient::resume(&path(10), goal, Time::ZERO);
        gradient.base = Rate::from_bytes_per_sec(1_250_000);
        gradient
    }

    fn worth(utility: f64) -> Worth {
        let delivered = Rate::default();
        Worth { utility, delivered, shrank: false, unrewarded: utility }
    }

    fn thousandths(gradient: &mut Gradient, slope: f64) -> i64 {
        let before = gradient.base.bytes_per_sec() as f64;
        gradient.step(slope, Rate::default(), Time::ZERO);
        (gradient.base.bytes_per_sec() as f64 / before * 1e3 - 1e3).round() as i64
    }

    #[test]
    fn steps_grow_while_the_slope_keeps_its_sign() {
        // theta0 * 0.1 of 10 Mbit/s, once, twice, three times, five times
        let mut gradient = at_10_mbit_per_sec();
        let got = [0.1; 4].map(|slope| thousandths(&mut gradient, slope));
        assert_eq!(got, [10, 19, 29, 47]);
        assert_eq!(thousandths(&mut gradient, -0.1), -9);
    }

    #[test]
    fn a_steep_slope_is_bounded_and_the_bound_grows() {
        let mut gradient = at_10_mbit_per_sec();
        let got = [50.0; 4].map(|slope| thousandths(&mut gradient, slope));
        assert_eq!(got, [50, 100, 150, 200]);
        assert_eq!(thousandths(&mut gradient, -50.0), -50);
    }

    #[test]
    fn the_slope_of_three_pairs_is_that_of_the_majority() {
        let mut gradient = at_10_mbit_per_sec();
        gradient.goal.pairs = 3;
        let probe = Probe {
            faster: [true, false, false, true, true, false],
            begun: 6,
            worths: [2.0, 1.0, 1.0, 4.0, 0.0, 9.0].map(|utility| Some(worth(utility))),
        };
        // 1 / 1, 3 / 1 and -9 / 1: the first two agree
        assert_eq!(gradient.slope(&probe), Some(2.0));
    }

    #[test]
    fn the_mean_is_of_the_rates_that_are_known() {
        let rates = [0, 1_000, 3_000].map(Rate::from_bytes_per_sec);
        assert_eq!(mean(rates.into_iter()), Rate::from_bytes_per_sec(2_000));
        assert_eq!(mean([].into_iter()), Rate::default());
    }

    #[test]
    fn a_queue_that_shrinks_under_both_rewards_neither() {
        let gradient = at_10_mbit_per_sec();
        let pair = |shrank: [bool; 2]| {
            // The slower one is paid more: it drains the queue faster.
            let worths = [(50.0, 2.0), (90.0, 1.0)];
            let mut probe = Probe {
                faster: [true, false, true, false, true, false],
                begun: 2,
                worths: [None; 2 * PAIRS_MAX],
            };
            for (at, ((utility, unrewarded), shrank)) in worths.into_iter().zip(shrank).enumerate()
            {
                probe.worths[at] = Some(Worth { unrewarded, shrank, ..worth(utility) });
            }
            gradient.slope(&probe).expect("both are in")
        };
        // over 2 * 0.05 * 10 Mbit/s
        assert_eq!(pair([false, true]), -40.0);
        assert_eq!(pair([true, true]), 1.0);
    }

    #[test]
    fn a_step_down_ends_where_the_link_delivers_but_not_for_a_scavenger() {
        let delivered = Rate::from_bytes_per_sec(1_250_000) * Gain(990);
        let mut gradient = at_10_mbit_per_sec();
        let mut steps = |keeps| {
            gradient = Gradient {
                goal: Goal { keeps_what_is_delivered: keeps, ..gradient.goal },
                ..at_10_mbit_per_sec()
            };
            gradient.step(-50.0, Rate::default(), Time::ZERO);
            gradient.step(-50.0, delivered, Time::ZERO);
            gradient.base
        };
        assert_eq!(steps(true), delivered * FLOOR);
        assert_eq!(steps(false), Rate::from_bytes_per_sec(1_250_000) * Gain(950) * Gain(900));
    }
}
