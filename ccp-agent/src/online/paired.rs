//! Compares the errors of two models, flow by flow.
//!
//! Predictions within a flow are not independent. So the unit is a flow, and its value is the mean
//! difference over its first spans. The interval is a confidence sequence, which holds at every
//! look: the comparison may be judged after each flow, and ended at any.

use crate::confidence::Sequence;
use crate::interval::Interval;
use std::collections::BTreeMap;

/// The probability that the interval misses the mean, at any look, is at most this.
const ALPHA: f64 = 0.01;
/// A flow counts when it ends, or when it has so many spans. A span lasts 12 s at most.
const SPANS_MAX: u32 = 5;
/// The most flows that are open at once; of more, the ones that began first do not count.
const OPEN_MAX: usize = 65_536;

/// The differences in the spans of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    sum: f64,
    spans: u32,
}

/// The confidence sequence of the mean difference, and the flows that do not count yet.
#[derive(Clone, Debug)]
pub struct Paired {
    open: BTreeMap<u32, Open>,
    sequence: Sequence,
}

impl Default for Paired {
    fn default() -> Self {
        Self { open: BTreeMap::new(), sequence: Sequence::new(ALPHA) }
    }
}

impl Paired {
    /// Adds the difference in one span of a flow, -1 to 1; returns whether it is the flow's first.
    pub fn add(&mut self, flow: u32, difference: f64) -> bool {
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(&flow) {
            self.open.pop_first();
        }
        let open = self.open.entry(flow).or_default();
        if open.spans == SPANS_MAX {
            return false;
        }
        open.sum += difference;
        open.spans += 1;
        if open.spans == SPANS_MAX {
            let mean = open.sum / f64::from(SPANS_MAX);
            self.count(mean);
            return false;
        }
        open.spans == 1
    }

    /// The flow has ended.
    pub fn ended(&mut self, flow: u32) {
        let counts = self.open.remove(&flow).filter(|it| it.spans < SPANS_MAX);
        if let Some(Open { sum, spans }) = counts {
            self.count(sum / f64::from(spans));
        }
    }

    fn count(&mut self, difference: f64) {
        self.sequence.add(0.5 + difference / 2.0);
    }

    /// The number of flows that count.
    pub fn flows(&self) -> u64 {
        self.sequence.count()
    }

    /// The mean over flows with its interval; `None` before the first flow.
    pub fn interval(&self) -> Option<Interval> {
        let Interval { mean, least, most } = self.sequence.interval();
        let wide = |it: f64| 2.0 * it - 1.0;
        (self.flows() > 0).then(|| Interval {
            mean: wide(mean),
            least: wide(least),
            most: wide(most),
        })
    }

    /// Roughly how many flows more it takes until the interval excludes 0, if the mean stays;
    /// `None` if it does already, or if there is nothing to go by.
    pub fn flows_left(&self) -> Option<u64> {
        self.sequence.left()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_counts_once_when_it_ends_or_has_lasted() {
        let mut paired = Paired::default();
        assert!(paired.add(1, 0.5) && !paired.add(1, 1.0));
        assert_eq!((paired.flows(), paired.interval()), (0, None));
        paired.ended(1);
        assert_eq!((paired.flows(), paired.interval().map(|it| it.mean)), (1, Some(0.75)));
        paired.ended(1);
        for _ in 0..1_000 {
            paired.add(2, 0.25);
        }
        assert_eq!(paired.flows(), 2, "it has lasted a minute");
        paired.ended(2);
        assert_eq!((paired.flows(), paired.interval().map(|it| it.mean)), (2, Some(0.5)));
    }

    #[test]
    fn flows_that_never_end_have_a_bound() {
        let mut paired = Paired::default();
        for flow in 0..OPEN_MAX as u32 + 10 {
            paired.add(flow, 0.1);
        }
        assert_eq!(paired.open.len(), OPEN_MAX);
        paired.ended(0);
        assert_eq!(paired.flows(), 0, "the first one was forgotten");
    }

    #[test]
    fn equal_models_are_told_apart_in_fewer_trials_than_alpha_says() {
        let mut state: u64 = 7;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let trials = 400;
        let wrong = (0..trials).filter(|_| {
            let mut paired = Paired::default();
            (1..=500_u32).any(|flow| {
                paired.add(flow, uniform() - uniform());
                paired.ended(flow);
                paired.interval().is_some_and(|it| it.least > 0.0 || it.most < 0.0)
            })
        });
        let wrong = wrong.count();
        println!(
            "of {trials} trials of equal models, looked at after every flow, decided: {wrong}"
        );
        assert!(wrong * 100 <= trials, "{wrong}");
    }
}
