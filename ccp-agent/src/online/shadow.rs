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
    /// Too few flows since the last judgement.
    NotYet,
    /// The interval of the paired difference lies above 0.
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
    /// The number of flows at which the model is judged next; `None` after the final judgement.
    pub look_at: Option<u64>,
}

impl Shadow {
    pub fn new(model: Arc<Model>, after: u32, flows_min: u64) -> Self {
        let (scores, paired) = (Scores::default(), Paired::default());
        Self { model, after, scores, paired, look_at: Some(flows_min) }
    }

    /// The number of flows that have scored this model.
    pub fn flows(&self) -> u64 {
        self.paired.flows() as u64
    }

    /// Takes in one outcome; `in_force` is the error of the model in force.
    pub fn add(&mut self, outcome: &Outcome, in_force: Miss) {
        if self.look_at.is_none() || !is_after(outcome.flow, self.after) {
            return;
        }
        let predicted = self.model.value(&outcome.features, outcome.arm);
        let Some(miss) = predicted.map(|predicted| Miss::of(&predicted, &outcome.actual)) else {
            return;
        };
        let before = self.flows();
        self.paired.add(outcome.flow, in_force.square() - miss.square());
        self.scores.add(outcome.arm, miss, self.flows() > before);
    }

    /// Judges the model, if the number of flows has doubled since the last judgement.
    pub fn judged(&mut self, flows_max: u64) -> Judged {
        let flows = self.flows();
        let is_due = self.look_at.is_some_and(|at| flows >= at);
        let Some(gain) = self.paired.interval().filter(|_| is_due) else { return Judged::NotYet };
        if gain.least > 0.0 {
            return Judged::Better(gain);
        }
        if flows >= flows_max {
            self.look_at = None;
            return Judged::NotBetter(gain);
        }
        self.look_at = Some(flows.saturating_mul(2).min(flows_max));
        Judged::NotYet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_judged_when_flows_have_doubled_and_at_the_last_one() {
        let mut shadow = Shadow::new(Model::shipped(), 0, 3);
        let mut flow = 0;
        let mut judged = |difference: f64| {
            flow += 1;
            shadow.paired.add(flow, difference);
            (shadow.judged(10), shadow.look_at)
        };
        for (difference, want) in [
            (-9.0, Some(3)),
            (1.0, Some(3)),
            // Not better at three flows: judged again at six, however good the next ones are.
            (1.0, Some(6)),
            (99.0, Some(6)),
            (99.0, Some(6)),
            // Not better at six either: twelve are more than the most allowed.
            (-99.0, Some(10)),
            (1.0, Some(10)),
            (1.0, Some(10)),
            (1.0, Some(10)),
        ] {
            assert_eq!(judged(difference), (Judged::NotYet, want));
        }
        let (last, look_at) = judged(1.0);
        assert!(matches!(last, Judged::NotBetter(_)) && look_at.is_none(), "{last:?}");
        assert_eq!(judged(1.0), (Judged::NotYet, None), "it has been for good");
    }

    #[test]
    fn it_is_better_if_the_whole_interval_says_so() {
        let mut shadow = Shadow::new(Model::shipped(), 0, 3);
        [1.0, 1.1, 0.9].into_iter().zip(1..).for_each(|(it, flow)| shadow.paired.add(flow, it));
        let judged = shadow.judged(10);
        assert!(matches!(judged, Judged::Better(gain) if gain.least > 0.7), "{judged:?}");
    }
}
