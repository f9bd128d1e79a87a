//! A model whose predictions are compared with those of the model in force, but not used.

use super::paired::Paired;
use super::scores::{Miss, Scores};
use super::spans::{Outcome, is_after};
use crate::interval::Interval;
use remuda_selector::antelope::model::Model;
use std::sync::Arc;

/// The judgement of a shadow model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Judged {
    /// The interval of the difference includes 0, or too few flows count.
    NotYet,
    /// The interval of the difference lies above 0.
    Better(Interval),
    /// The interval does not lie above 0 after the most flows allowed.
    NotBetter(Interval),
}

#[derive(Clone, Debug)]
pub struct Shadow {
    pub model: Arc<Model>,
    /// Only flows that began after this one count.
    after: u32,
    pub scores: Scores,
    pub paired: Paired,
    /// After the final judgement nothing is scored any more.
    pub is_judged: bool,
}

impl Shadow {
    pub fn new(model: Arc<Model>, after: u32) -> Self {
        let (scores, paired) = (Scores::default(), Paired::default());
        Self { model, after, scores, paired, is_judged: false }
    }

    /// Takes in one outcome; `in_force` is the error of the model in force.
    pub fn add(&mut self, outcome: &Outcome, in_force: Miss) {
        if self.is_judged || !is_after(outcome.flow, self.after) {
            return;
        }
        let predicted = self.model.value(&outcome.features, outcome.arm);
        let Some(miss) = predicted.map(|predicted| Miss::of(&predicted, &outcome.actual)) else {
            return;
        };
        let difference = in_force.bounded() - miss.bounded();
        let is_first = self.paired.add(outcome.flow, difference);
        self.scores.add(outcome.arm, miss, is_first);
    }

    /// Judges the model on the flows that count; call this after each.
    pub fn judged(&mut self, flows_min: u64, flows_max: u64) -> Judged {
        let flows = self.paired.flows();
        let Some(gain) = self.paired.interval() else { return Judged::NotYet };
        if self.is_judged || flows < flows_min {
            return Judged::NotYet;
        }
        if gain.least > 0.0 {
            return Judged::Better(gain);
        }
        if flows < flows_max {
            return Judged::NotYet;
        }
        self.is_judged = true;
        Judged::NotBetter(gain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shadow of `flows` flows, each with this difference.
    fn of(flows: u32, difference: f64) -> Shadow {
        let mut shadow = Shadow::new(Model::shipped(), 0);
        for flow in 1..=flows {
            shadow.paired.add(flow, difference);
            shadow.paired.ended(flow);
        }
        shadow
    }

    #[test]
    fn it_is_better_if_the_whole_interval_says_so_and_enough_flows_count() {
        assert_eq!(of(3, 0.9).judged(3, 100), Judged::NotYet, "three flows prove nothing");
        let judged = of(30, 0.9).judged(30, 100);
        assert!(matches!(judged, Judged::Better(gain) if gain.least > 0.0), "{judged:?}");
        assert_eq!(of(30, 0.9).judged(31, 100), Judged::NotYet);
        assert_eq!(of(30, -0.9).judged(30, 100), Judged::NotYet);
    }

    #[test]
    fn it_is_judged_at_the_last_flow_and_then_no_more() {
        let mut shadow = of(10, 0.0);
        let last = shadow.judged(3, 10);
        assert!(matches!(last, Judged::NotBetter(gain) if gain.mean == 0.0), "{last:?}");
        assert_eq!(shadow.judged(3, 10), Judged::NotYet);
    }
}
