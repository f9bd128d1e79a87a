//! The settings of an environment.

use crate::error::Error;
use crate::set::Set;
use rand::RngCore;
use remuda_algorithms::Preference;
use remuda_algorithms::learned::observation::Features;
use remuda_scenarios::Scenario;
use std::fmt;
use std::sync::Arc;

/// A window of 1 to 170 packets fills these links. Observations are ratios, so a trained model also
/// works on faster links; and a step needs only about 20 packets. PCC-RL (Aurora) trains on 1.2 to
/// 6 Mbit/s and 100 to 1000 ms.
const BANDWIDTH: Range = Range { low: 1.0, high: 20.0 };
const RTT: Range = Range { low: 10.0, high: 100.0 };
const QUEUE: Range = Range { low: 0.2, high: 4.0 };
const LOSS: Range = Range { low: 0.0, high: 1.0 };
/// Aurora (Jay et al., ICML 2019, `network_sim.py`) starts between 0.3 and 1.5 times the link.
const START: Range = Range { low: 0.3, high: 1.5 };
/// As many as in Aurora.
const EPISODE_STEPS: u32 = 400;
const HISTORY: usize = 10;
const COMPANION: &str = "cubic";
/// Aurora's 0.025 needs 28 round trips to double the rate. This needs about three, and slow start
/// one.
const ACTION_SCALE: f64 = 0.25;

const HISTORY_MAX: usize = 1_000;
/// More flows of one simulation would each get less than a packet in a round trip.
const FLOWS_MAX: usize = 100;
/// A choice among more arms is a mistake.
const ARMS_MAX: usize = 64;
const EPISODE_STEPS_MAX: u32 = 10_000_000;
/// Half of the longest scenario, which leaves room for the warm-up.
const EPISODE_S_MAX: f64 = 500_000.0;

/// From `low` to `high`, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub low: f64,
    pub high: f64,
}

impl Range {
    pub const fn only(value: f64) -> Self {
        Self { low: value, high: value }
    }

    fn validate(self, key: &'static str, within: Self, rule: &'static str) -> Result<(), Error> {
        let Self { low, high } = self;
        let fits = within.low <= low && low <= high && high <= within.high;
        if fits { Ok(()) } else { Err(Error::invalid(key, self, rule)) }
    }

    /// Draws one value, uniformly.
    pub(crate) fn draw(self, rng: &mut impl RngCore) -> f64 {
        let drawn = self.low + (self.high - self.low) * share(rng);
        drawn.clamp(self.low, self.high)
    }

    /// Draws one value, with a uniform logarithm. Needs `low` above 0.
    pub(crate) fn draw_by_magnitude(self, rng: &mut impl RngCore) -> f64 {
        let drawn = self.low * (self.high / self.low).powf(share(rng));
        drawn.clamp(self.low, self.high)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.low, self.high)
    }
}

/// A number from 0 to below 1, in steps of 2^-53: the finest steps that doubles have in all of that
/// range.
fn share(rng: &mut impl RngCore) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The ranges from which the links of episodes are drawn. The logarithms of bandwidth, round trip
/// and queue are uniform; loss and start are uniform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranges {
    /// The bottleneck's rate, in IP bytes.
    pub bandwidth_mbit_per_sec: Range,
    /// The round trip without queueing.
    pub rtt_ms: Range,
    /// The bottleneck's drop-tail queue, in bandwidth-delay products.
    pub queue_bdp: Range,
    /// Loss without congestion, as a share of packets.
    pub loss_percent: Range,
    /// The first sending rate, as a multiple of the bandwidth.
    pub start_ratio: Range,
    /// The standard deviation of the delay. Nothing is drawn for a range that ends at 0.
    pub jitter_ms: Range,
    /// The correlation of one packet's jitter with the next one's.
    pub jitter_correlation: Range,
    /// The time between the starts of two driven flows, in seconds.
    pub stagger_s: Range,
}

impl Default for Ranges {
    fn default() -> Self {
        Self {
            bandwidth_mbit_per_sec: BANDWIDTH,
            rtt_ms: RTT,
            queue_bdp: QUEUE,
            loss_percent: LOSS,
            start_ratio: START,
            jitter_ms: Range::only(0.0),
            jitter_correlation: Range::only(0.0),
            stagger_s: Range::only(0.0),
        }
    }
}

impl Ranges {
    fn validate(&self) -> Result<(), Error> {
        let within = |low, high| Range { low, high };
        self.bandwidth_mbit_per_sec.validate(
            "bandwidth_mbit_per_sec",
            within(0.05, 10_000.0),
            "must be (low, high), from 0.05 to 10000, low first",
        )?;
        self.rtt_ms.validate(
            "rtt_ms",
            within(0.1, 10_000.0),
            "must be (low, high), from 0.1 to 10000, low first",
        )?;
        self.queue_bdp.validate(
            "queue_bdp",
            within(0.01, 1_000.0),
            "must be (low, high), from 0.01 to 1000, low first",
        )?;
        self.loss_percent.validate(
            "loss_percent",
            within(0.0, 90.0),
            "must be (low, high), from 0 to 90, low first",
        )?;
        self.start_ratio.validate(
            "start_ratio",
            within(0.001, 100.0),
            "must be (low, high), from 0.001 to 100, low first",
        )?;
        self.jitter_ms.validate(
            "jitter_ms",
            within(0.0, 10_000.0),
            "must be (low, high), from 0 to 10000, low first",
        )?;
        self.jitter_correlation.validate(
            "jitter_correlation",
            within(0.0, 0.9999),
            "must be (low, high), from 0 to 0.9999, low first",
        )?;
        self.stagger_s.validate(
            "stagger_s",
            within(0.0, 1_000.0),
            "must be (low, high), from 0 to 1000, low first",
        )
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Paths {
    /// Each episode on its own link, drawn at its start.
    Drawn(Ranges),
    /// All episodes in this scenario, which has `external` flows; each with its own seed.
    Given(Box<Scenario>),
    /// Each episode in one environment of a training set.
    Among(Arc<Set>),
}

/// What an action changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// The sending rate; the window is twice what the rate needs.
    #[default]
    Rate,
    /// The window; nothing is paced.
    Window,
    /// The arm that drives the flow: an action is its place in [`Config::arms`].
    Arm,
}

/// What a reward is computed from; see [`crate::Env`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RewardKind {
    /// A weighted sum of throughput, delay and loss.
    #[default]
    Linear,
    /// The logarithm of the merit of the step.
    Merit,
}

/// The weights of a reward; see [`crate::Env`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// The weight of the used share of the bottleneck.
    pub throughput: f64,
    /// The weight of the queueing delay, in base round trips.
    pub delay: f64,
    /// The weight of the share of lost packets.
    pub loss: f64,
}

impl Default for Weights {
    /// A full link with a full queue of one BDP gives three quarters of the reward of a full link
    /// without a queue; a sender at twice the link rate gets nothing.
    fn default() -> Self {
        Self { throughput: 1.0, delay: 0.25, loss: 1.5 }
    }
}

/// The settings of an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub paths: Paths,
    /// The length of a step, in base round trips.
    pub step_rtts: f64,
    /// The steps of an episode; `None`: until the scenario ends.
    pub episode_steps: Option<u32>,
    /// The number of steps in an observation.
    pub history: usize,
    /// The features that an observation has of each step.
    pub features: Features,
    pub control: Control,
    /// How much an action of 1 changes: the factor is 1 plus this.
    pub action_scale: f64,
    pub reward: RewardKind,
    /// What a reward is multiplied by.
    pub reward_scale: f64,
    /// The weights of a linear reward.
    pub weights: Weights,
    /// What the application wants, for a merit.
    pub preference: Preference,
    /// How many flows of one simulation are driven. Links that are drawn have as many external
    /// flows; scenarios have one to so many.
    pub flows: usize,
    /// Arms or policies of further flows on links that are drawn from ranges.
    pub neighbours: Vec<String>,
    /// The arm or policy of flows that an environment of a set would have driven as the flow under
    /// test is, beyond `flows`.
    pub companion: String,
    /// Leaves out the flows that environments of a set have beside the driven ones.
    pub is_alone: bool,
    /// The arms to choose from, with [`Control::Arm`]. A flow starts with the first.
    pub arms: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            paths: Paths::Drawn(Ranges::default()),
            step_rtts: 1.0,
            episode_steps: Some(EPISODE_STEPS),
            history: HISTORY,
            features: Features::Ratios,
            control: Control::Rate,
            action_scale: ACTION_SCALE,
            reward: RewardKind::default(),
            reward_scale: 1.0,
            weights: Weights::default(),
            preference: Preference::DEFAULT,
            flows: 1,
            neighbours: Vec::new(),
            companion: COMPANION.to_owned(),
            is_alone: false,
            arms: Vec::new(),
        }
    }
}

impl Config {
    /// Checks every value. The error names the first that breaks a rule.
    pub fn validate(&self) -> Result<(), Error> {
        if let Paths::Drawn(ranges) = &self.paths {
            ranges.validate()?;
            let rule = "must be set, unless a scenario sets how long an episode is";
            let Some(steps) = self.episode_steps else {
                return Err(Error::invalid("episode_steps", "not set", rule));
            };
            let longest_s = f64::from(steps) * ranges.rtt_ms.high / 1e3 * self.step_rtts;
            let rule = "times step_rtts and the longest rtt_ms is more than 500000 s";
            if longest_s > EPISODE_S_MAX {
                return Err(Error::invalid("episode_steps", steps, rule));
            }
        }
        let number = |key, value: f64, low: f64, high: f64, rule| {
            let fits = (low..=high).contains(&value);
            if fits { Ok(()) } else { Err(Error::invalid(key, value, rule)) }
        };
        number("step_rtts", self.step_rtts, 0.1, 100.0, "must be from 0.1 to 100")?;
        number("action_scale", self.action_scale, 1e-6, 10.0, "must be above 0, to 10")?;
        let weights = [
            ("throughput_weight", self.weights.throughput),
            ("delay_weight", self.weights.delay),
            ("loss_weight", self.weights.loss),
        ];
        for (key, weight) in weights {
            number(key, weight, 0.0, 1e6, "must be from 0 to 1e6")?;
        }
        if let Some(steps) = self.episode_steps {
            number(
                "episode_steps",
                steps.into(),
                1.0,
                EPISODE_STEPS_MAX.into(),
                "must be 1 to 1e7",
            )?;
        }
        if !(1..=HISTORY_MAX).contains(&self.history) {
            return Err(Error::invalid("history", self.history, "must be from 1 to 1000"));
        }
        number("reward_scale", self.reward_scale, 1e-6, 1e6, "must be from 1e-6 to 1e6")?;
        self.validate_flows()
    }

    fn validate_flows(&self) -> Result<(), Error> {
        if !(1..=FLOWS_MAX).contains(&self.flows) {
            return Err(Error::invalid("flows", self.flows, "must be from 1 to 100"));
        }
        if !self.preference.is_valid() {
            let Preference { throughput, delay } = self.preference;
            let rule = "must be (throughput, delay), each from 0 to 1 and not both 0";
            return Err(Error::invalid("preference", format!("({throughput}, {delay})"), rule));
        }
        if !self.neighbours.is_empty() && !matches!(self.paths, Paths::Drawn(_)) {
            let rule = "is for links drawn from ranges; a scenario names its flows itself";
            return Err(Error::invalid("neighbours", self.neighbours.join(", "), rule));
        }
        let chooses = self.control == Control::Arm;
        let rule = "must name 2 to 64 arms with control = \"arm\"";
        if chooses && !(2..=ARMS_MAX).contains(&self.arms.len()) {
            return Err(Error::invalid("arms", format!("[{}]", self.arms.join(", ")), rule));
        }
        let rule = "is for control = \"arm\"";
        if !chooses && !self.arms.is_empty() {
            return Err(Error::invalid("arms", format!("[{}]", self.arms.join(", ")), rule));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn refused(config: Config, want: &str) {
        let error = config.validate().unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
    }

    fn drawn(change: impl Fn(&mut Ranges)) -> Config {
        let mut ranges = Ranges::default();
        change(&mut ranges);
        Config { paths: Paths::Drawn(ranges), ..Config::default() }
    }

    #[test]
    fn a_refusal_names_key_value_and_rule() {
        Config::default().validate().unwrap();
        let range = |low, high| Range { low, high };
        let rtt = "`rtt_ms` is (40, 20): must be (low, high)";
        refused(drawn(|ranges| ranges.rtt_ms = range(40.0, 20.0)), rtt);
        refused(drawn(|ranges| ranges.rtt_ms = range(f64::NAN, 20.0)), "`rtt_ms` is (NaN, 20)");
        refused(drawn(|ranges| ranges.loss_percent.high = 91.0), "`loss_percent` is (0, 91)");
        refused(drawn(|ranges| ranges.queue_bdp.low = 0.0), "`queue_bdp` is (0, 4)");
        refused(drawn(|ranges| ranges.start_ratio.low = -1.0), "`start_ratio` is (-1, 1.5)");
        let zero = |ranges: &mut Ranges| ranges.bandwidth_mbit_per_sec.low = 0.0;
        refused(drawn(zero), "`bandwidth_mbit_per_sec` is (0, 20): must be");
        let config = Config::default;
        refused(Config { history: 0, ..config() }, "`history` is 0: must be from 1");
        refused(Config { step_rtts: f64::NAN, ..config() }, "`step_rtts` is NaN");
        refused(Config { action_scale: 0.0, ..config() }, "`action_scale` is 0");
        refused(Config { episode_steps: Some(0), ..config() }, "`episode_steps` is 0");
        refused(Config { episode_steps: None, ..config() }, "`episode_steps` is not set");
        let weights = Weights { loss: -1.0, ..Weights::default() };
        refused(Config { weights, ..config() }, "`loss_weight` is -1: must be from 0");
    }

    #[test]
    fn by_magnitude_half_lie_below_the_geometric_mean() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let range = Range { low: 1.0, high: 10_000.0 };
        let mut below = |at: f64, draw: fn(Range, &mut ChaCha8Rng) -> f64| {
            (0..1_000).filter(|_| draw(range, &mut rng) < at).count()
        };
        assert!((450..550).contains(&below(100.0, |range, rng| range.draw_by_magnitude(rng))));
        assert!((450..550).contains(&below(5_000.5, |range, rng| range.draw(rng))));
    }

    proptest! {
        #[test]
        fn what_is_drawn_lies_in_its_range(seed: u64, low in 1e-3..1e3_f64, more in 1.0..1e3_f64) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let range = Range { low, high: low * more };
            for drawn in [range.draw(&mut rng), range.draw_by_magnitude(&mut rng)] {
                prop_assert!((range.low..=range.high).contains(&drawn), "{drawn}");
            }
            prop_assert_eq!(Range::only(low).draw(&mut rng), low);
            prop_assert_eq!(Range::only(low).draw_by_magnitude(&mut rng), low);
        }
    }
}
