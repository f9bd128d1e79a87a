//! What an arm has achieved: equations 1 to 3 of the paper, and the project's form of them.
//!
//! Zhou et al., Antelope (ICNP 2021), section IV-A. Over a span after a decision, of throughput,
//! mean round trip and loss:
//!
//! ```text
//! equation 1   R  = (throughput' - eta * loss) / max(theta * delay', 1) / (rate_max / rtt_min)
//! equation 2   delay' = rtt_min if delay <= delta * rtt_min, else delay
//! equation 3   throughput' = zeta * throughput + (1 - zeta) * rate_max
//! ```
//!
//! Differs from the paper:
//!   - loss is a rate, as throughput is (the paper subtracts packets from kbit/s);
//!   - the normaliser is the flow's largest delivery rate over its smallest round trip, which does
//!     not depend on the arm as the paper's pacing rate does; so is MAX_RATE;
//!   - delta doubles with each unit from 2 on, up to a bound, without which delay would no longer
//!     count after nine units;
//!   - [`Form::Weighed`], the default: a weight of `theta` is the exponent of the delay and `zeta`
//!     that of the throughput. At 0 and 1 it ranks arms as the paper's form does; between, the
//!     paper's only scales all arms alike, and weighs nothing.

use remuda_algorithms::Preference;
use serde::{Deserialize, Serialize};

/// How the weights enter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    #[default]
    Weighed,
    /// As in equation 1.
    Paper,
}

/// What came of an arm over a span, and what the flow knew when it was picked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Achieved {
    /// Payload delivered over the span.
    pub throughput_mbit_per_sec: f64,
    /// Payload lost over the span.
    pub lost_mbit_per_sec: f64,
    /// Mean round trip of the span.
    pub rtt_mean_ms: f64,
    /// The flow's largest delivery rate.
    pub rate_max_mbit_per_sec: f64,
    /// The flow's smallest round trip.
    pub rtt_min_ms: f64,
}

/// The constants of the equations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RewardConfig {
    /// How the weights enter.
    pub form: Form,
    /// Weight of what is lost; the paper's eta.
    pub eta: f64,
    /// Of the first unit, how many smallest round trips of delay do not count; the paper's delta.
    pub delta_first: f64,
    /// The most that it grows to, doubling with each unit.
    pub delta_max: f64,
}

impl Default for RewardConfig {
    fn default() -> Self {
        Self { form: Form::Weighed, eta: 1.0, delta_first: 2.0, delta_max: 16.0 }
    }
}

impl RewardConfig {
    /// delta in the unit of that number, from 0.
    fn delta(&self, unit: u32) -> f64 {
        let doubled = self.delta_first * 2f64.powi(unit.min(64) as i32);
        doubled.min(self.delta_max.max(self.delta_first))
    }

    /// The reward, in the unit of that number (from 0) of the flow. `None` while the
    /// path is not known yet.
    pub fn reward(&self, got: &Achieved, wants: Preference, unit: u32) -> Option<f64> {
        let (most, least) = (got.rate_max_mbit_per_sec, got.rtt_min_ms);
        let known = most > 0.0 && least > 0.0 && got.rtt_mean_ms > 0.0;
        if !known {
            return None;
        }
        let tolerated = got.rtt_mean_ms <= self.delta(unit) * least;
        let delay_ms = if tolerated { least } else { got.rtt_mean_ms };
        let lost = self.eta * got.lost_mbit_per_sec;
        let reward = match self.form {
            Form::Paper => {
                let zeta = wants.throughput;
                let throughput = got.throughput_mbit_per_sec * zeta + most * (1.0 - zeta);
                let per_ms = (throughput - lost) / (wants.delay * delay_ms).max(1.0);
                per_ms / (most / least)
            }
            Form::Weighed => {
                let share = ((got.throughput_mbit_per_sec - lost) / most).max(0.0);
                share.powf(wants.throughput) * (least / delay_ms).powf(wants.delay)
            }
        };
        reward.is_finite().then_some(reward)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOT: Achieved = Achieved {
        throughput_mbit_per_sec: 10.0,
        lost_mbit_per_sec: 1.0,
        rtt_mean_ms: 200.0,
        rate_max_mbit_per_sec: 20.0,
        rtt_min_ms: 40.0,
    };

    fn check(form: Form, wants: Preference, unit: u32, want: f64) {
        let got = RewardConfig { form, ..RewardConfig::default() }.reward(&GOT, wants, unit);
        assert!((got.unwrap() - want).abs() < 1e-12, "{form:?} {wants:?} {unit}: {got:?}");
    }

    #[test]
    fn the_equations_by_hand() {
        // (10 - 1) / 200 / (20 / 40); then delta is 8 and 200 ms of 40 count as 40.
        check(Form::Paper, Preference::DEFAULT, 0, 0.09);
        check(Form::Paper, Preference::DEFAULT, 2, 0.45);
        // (20 - 1) / 200 / .5: a delay-sensitive flow is taken to have all the rate there is.
        check(Form::Paper, Preference::DELAY, 0, 0.19);
        // (10 - 1) / 1 / .5.
        check(Form::Paper, Preference::THROUGHPUT, 0, 18.0);
        check(Form::Weighed, Preference::DEFAULT, 0, 0.09);
        check(Form::Weighed, Preference::DEFAULT, 2, 0.45);
        check(Form::Weighed, Preference::DELAY, 0, 0.2);
        check(Form::Weighed, Preference::THROUGHPUT, 0, 0.45);
        let half = Preference { throughput: 1.0, delay: 0.5 };
        check(Form::Weighed, half, 0, 0.45 * 0.2f64.sqrt());
    }

    #[test]
    fn a_path_without_round_trips_has_no_reward() {
        let got = Achieved { rtt_mean_ms: 0.0, ..GOT };
        assert_eq!(RewardConfig::default().reward(&got, Preference::DEFAULT, 0), None);
    }

    proptest! {
        /// With weights of 0 and 1 both forms rank two arms of one flow alike, if nothing is lost:
        /// the paper's delay mode subtracts losses from the largest rate.
        #[test]
        fn both_forms_rank_alike(
            a in (0.1f64..20.0, 40.0f64..400.0),
            b in (0.1f64..20.0, 40.0f64..400.0),
            mode in 0usize..3,
            unit in 0u32..8,
        ) {
            let modes = [Preference::DEFAULT, Preference::DELAY, Preference::THROUGHPUT];
            let wants = modes[mode];
            let of = |form, (throughput_mbit_per_sec, rtt_mean_ms)| {
                let config = RewardConfig { form, ..RewardConfig::default() };
                let got = Achieved { throughput_mbit_per_sec, rtt_mean_ms, ..GOT };
                let got = Achieved { lost_mbit_per_sec: 0.0, ..got };
                config.reward(&got, wants, unit).unwrap()
            };
            let paper = of(Form::Paper, a) - of(Form::Paper, b);
            let ours = of(Form::Weighed, a) - of(Form::Weighed, b);
            prop_assert!(paper * ours >= 0.0 || paper.abs().min(ours.abs()) < 1e-12);
        }
    }
}
