//! Discounted UCB with the sliding decision space: the initial window of one group.
//!
//! Algorithm 1 and equations 1 to 3 (Garivier and Moulines, ALT 2011), and figure 3. At round t
//! the arm is played that has the largest
//!
//! ```text
//! X_t(gamma, i) + c_t(gamma, i)      c_t = 2 B sqrt(xi * ln n_t / N_t(gamma, i)),  B = 1
//! ```
//!
//! where X_t is the mean of the arm's rewards, N_t their number, both discounted by gamma a round,
//! and n_t the sum of N_t over the arms. An arm that has no reward yet goes first. If the best arm
//! (largest X_t and smallest c_t) is the largest or the smallest window of the list, the list moves
//! one step of `step_pkts` that way.

use super::record::STANDARD_PKTS;
use super::reward::{Mean, Outcomes, Scale};
use serde::{Deserialize, Serialize};

/// The most windows in a list.
pub const ARMS_MAX: usize = 64;

/// The parameters of equations 1 to 4, and the decision space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The weight of throughput in the reward.
    pub alpha: f64,
    /// The discount of one round.
    pub gamma: f64,
    pub xi: f64,
    /// The step of the list, in segments; 0: it does not move.
    pub step_pkts: u32,
    /// The smallest and the largest window.
    pub cwnd_pkts: (u32, u32),
}

/// One window and its discounted outcomes: N_t is their count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    pub cwnd_pkts: u32,
    pub outcomes: Outcomes,
}

/// What is known of one arm, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmRow {
    pub cwnd_pkts: u32,
    /// N_t, the discounted number of rounds.
    pub rounds: f64,
    /// X_t; `None` before the first round.
    pub reward: Option<f64>,
    /// c_t; `None` before the first round, where it has no bound.
    pub padding: Option<f64>,
}

/// The bandit of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlidingUcb {
    /// In ascending order of their windows.
    arms: Vec<Arm>,
    scale: Scale,
}

impl SlidingUcb {
    /// A bandit that has played no round, with these windows in ascending order.
    pub fn new(cwnds_pkts: &[u32]) -> Self {
        let arm = |pkts: &u32| Arm { cwnd_pkts: *pkts, outcomes: Outcomes::default() };
        Self { arms: cwnds_pkts.iter().map(arm).collect(), scale: Scale::default() }
    }

    /// The rule that it breaks, for a bandit that was read from a file.
    pub fn broken_rule(&self, rules: &Rules) -> Option<&'static str> {
        let (least, most) = rules.cwnd_pkts;
        let is_within = |arm: &Arm| (least..=most).contains(&arm.cwnd_pkts);
        if !(2..=ARMS_MAX).contains(&self.arms.len()) {
            Some("it must have 2 to 64 windows")
        } else if !self.arms.iter().all(is_within) {
            Some("each window must lie in iw.cwnd_pkts_min..=iw.cwnd_pkts_max")
        } else if self.arms.windows(2).any(|pair| pair[0].cwnd_pkts >= pair[1].cwnd_pkts) {
            Some("its windows must ascend")
        } else if !(self.scale.is_valid() && self.arms.iter().all(|arm| arm.outcomes.is_valid())) {
            Some("sums must be finite and not negative")
        } else {
            None
        }
    }

    /// Takes in the outcome of one round in which the window `cwnd_pkts` was played. Outcomes of a
    /// window that has left the list widen the scale alone.
    pub fn observe(&mut self, rules: &Rules, cwnd_pkts: u32, mean: Mean) {
        self.scale.widen(mean);
        for arm in &mut self.arms {
            arm.outcomes.discount(rules.gamma);
            if arm.cwnd_pkts == cwnd_pkts {
                arm.outcomes.add(mean);
            }
        }
    }

    /// Moves the list if the best arm is at one of its ends, and returns the window to play.
    pub fn next(&mut self, rules: &Rules) -> u32 {
        self.slide(rules);
        let mut best: Option<(u32, f64)> = None;
        for arm in &self.arms {
            let Some(mean) = arm.outcomes.mean() else { return arm.cwnd_pkts };
            let bound = self.scale.reward(rules.alpha, mean) + self.padding(rules, arm);
            if best.is_none_or(|(_, most)| bound > most) {
                best = Some((arm.cwnd_pkts, bound));
            }
        }
        best.map_or(STANDARD_PKTS, |(cwnd_pkts, _)| cwnd_pkts)
    }

    /// The window of the largest mean reward so far; `None` before the first round.
    pub fn best(&self, rules: &Rules) -> Option<u32> {
        let mut best: Option<(u32, f64)> = None;
        for arm in &self.arms {
            let Some(mean) = arm.outcomes.mean() else { continue };
            let reward = self.scale.reward(rules.alpha, mean);
            if best.is_none_or(|(_, most)| reward > most) {
                best = Some((arm.cwnd_pkts, reward));
            }
        }
        best.map(|(cwnd_pkts, _)| cwnd_pkts)
    }

    /// The reward of some responses on the scale of this group.
    pub fn reward(&self, rules: &Rules, mean: Mean) -> f64 {
        self.scale.reward(rules.alpha, mean)
    }

    pub fn rows(&self, rules: &Rules) -> Vec<ArmRow> {
        let row = |arm: &Arm| {
            let mean = arm.outcomes.mean();
            ArmRow {
                cwnd_pkts: arm.cwnd_pkts,
                rounds: arm.outcomes.count,
                reward: mean.map(|mean| self.scale.reward(rules.alpha, mean)),
                padding: mean.map(|_| self.padding(rules, arm)),
            }
        };
        self.arms.iter().map(row).collect()
    }

    /// Equation 3, of an arm that has been played.
    fn padding(&self, rules: &Rules, arm: &Arm) -> f64 {
        let rounds: f64 = self.arms.iter().map(|arm| arm.outcomes.count).sum();
        2.0 * (rules.xi * rounds.ln().max(0.0) / arm.outcomes.count).sqrt()
    }

    /// The place of the arm with the largest mean reward, if no other has been played more.
    fn settled(&self, rules: &Rules) -> Option<usize> {
        let best = self.best(rules)?;
        let at = self.arms.iter().position(|arm| arm.cwnd_pkts == best)?;
        let count = self.arms[at].outcomes.count;
        self.arms.iter().all(|arm| arm.outcomes.count <= count).then_some(at)
    }

    fn slide(&mut self, rules: &Rules) {
        let (least, most) = rules.cwnd_pkts;
        let is_played = self.arms.iter().all(|arm| arm.outcomes.count > 0.0);
        let (Some(small), Some(large), true) = (self.arms.first(), self.arms.last(), is_played)
        else {
            return;
        };
        let below = small.cwnd_pkts.saturating_sub(rules.step_pkts).max(least);
        let above = large.cwnd_pkts.saturating_add(rules.step_pkts).min(most);
        let outcomes = Outcomes::default();
        match self.settled(rules) {
            Some(at) if at + 1 == self.arms.len() && above > large.cwnd_pkts => {
                self.arms.push(Arm { cwnd_pkts: above, outcomes });
                self.arms.remove(0);
            }
            Some(0) if below < small.cwnd_pkts => {
                self.arms.insert(0, Arm { cwnd_pkts: below, outcomes });
                self.arms.pop();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
