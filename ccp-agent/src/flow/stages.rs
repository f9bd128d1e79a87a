//! Events of the stages that a flow's arm enters, within a budget.
//!
//! On a path of a millisecond an arm with a cycle of five round trips enters hundreds of stages a
//! second; the log has room for what a person can read.

use super::{Context, Flow};
use crate::bucket::Bucket;
use crate::events::Event;

/// Events of stages that a flow may record a second in the long run, and at once.
const PER_SEC: f64 = 20.0;
const MOST: f64 = 200.0;
/// The feature that counts what was not recorded.
const LEFT_OUT: &str = "left_out";

/// The budget of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stages {
    budget: Bucket,
    /// Stages that were not recorded since the last one that was.
    left_out: u64,
}

impl Stages {
    pub(super) fn new(at_us: u64) -> Self {
        Self { budget: Bucket::full(PER_SEC, MOST, at_us.saturating_mul(1_000)), left_out: 0 }
    }

    /// Whether another may be recorded at that moment; how many before it were not.
    fn take(&mut self, at_us: u64) -> Option<u64> {
        self.budget.fill(at_us.saturating_mul(1_000));
        if !self.budget.has_one() {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.budget.take_one();
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Flow {
    /// Records the stages that its arm has entered.
    pub(super) fn record_stages(&mut self, ctx: &mut Context<'_>) {
        while let Some(stage) = self.controller.stage() {
            let Some(left_out) = self.stages.take(self.at_us) else { continue };
            let mut features: std::collections::BTreeMap<_, _> =
                stage.why.features.into_iter().collect();
            if left_out > 0 {
                features.insert(LEFT_OUT, left_out.to_string());
            }
            let (arm, why) = (self.arm().to_owned(), stage.why.text);
            let event = Event::Stage { arm, stage: stage.name, why, features };
            ctx.recorder.record(Some(self.id), &event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_budget_is_counted() {
        let mut stages = Stages::new(0);
        let taken = (0..300).filter(|_| stages.take(0).is_some()).count();
        assert_eq!(taken as f64, MOST);
        assert_eq!(stages.take(1_000_000), Some(100));
        assert_eq!(stages.take(1_000_000), Some(0));
    }
}
