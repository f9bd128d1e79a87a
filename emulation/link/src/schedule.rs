//! A value that changes at set moments: rate steps, outages, path changes.

use crate::time::Nanos;
use std::sync::Arc;

/// A value over time: one value from the start, others from given moments on.
///
/// With a period, the whole schedule repeats, including the first value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule<T> {
    first: T,
    steps: Arc<[(Nanos, T)]>,
    period: Option<Nanos>,
}

impl<T: Copy> Schedule<T> {
    /// A value that never changes.
    pub fn constant(value: T) -> Self {
        Self { first: value, steps: Arc::new([]), period: None }
    }

    /// Each step is a moment and the value from then on. The moments must not decrease, and must be
    /// before the end of the period. The period must not be zero.
    pub fn new(first: T, steps: Vec<(Nanos, T)>, period: Option<Nanos>) -> Self {
        debug_assert!(steps.is_sorted_by_key(|(at, _)| *at), "the moments of a schedule rise");
        debug_assert!(period != Some(Nanos::ZERO), "a period takes time");
        Self { first, steps: steps.into(), period }
    }

    /// Every value of the schedule; a value may appear several times.
    pub fn values(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::once(self.first).chain(self.steps.iter().map(|(_, value)| *value))
    }
}

/// Reads a schedule forwards: the moments passed to `at` must not decrease.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<T> {
    schedule: Schedule<T>,
    /// The start of the current round.
    base: Nanos,
    /// The next step of this round.
    next: usize,
    value: T,
    until: Nanos,
}

impl<T: Copy> Cursor<T> {
    pub(crate) fn new(schedule: Schedule<T>) -> Self {
        let value = schedule.first;
        Self { schedule, base: Nanos::ZERO, next: 0, value, until: Nanos::ZERO }
    }

    /// The value at `now`.
    pub(crate) fn at(&mut self, now: Nanos) -> T {
        if now >= self.until {
            self.walk(now);
        }
        self.value
    }

    /// The value at the last moment passed to `at`.
    pub(crate) fn value(&self) -> T {
        self.value
    }

    /// The value holds until this moment at least, which is after the last one passed to `at`.
    pub(crate) fn until(&self) -> Nanos {
        self.until
    }

    fn walk(&mut self, now: Nanos) {
        if let Some(period) = self.schedule.period {
            let rounds = (now - self.base).0 / period.0;
            if rounds > 0 {
                self.base = self.base + Nanos(rounds * period.0);
                self.next = 0;
                self.value = self.schedule.first;
            }
        }
        let steps = &self.schedule.steps;
        while let Some((_, value)) = steps.get(self.next).filter(|(at, _)| self.base + *at <= now) {
            self.value = *value;
            self.next += 1;
        }
        let end = self.schedule.period.map_or(Nanos::MAX, |period| self.base + period);
        self.until = steps.get(self.next).map_or(end, |(at, _)| self.base + *at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(period_ms: Option<u64>) -> Schedule<u32> {
        let steps = [(2, 20), (5, 50)].map(|(at, value)| (Nanos::from_millis(at), value));
        Schedule::new(0, steps.to_vec(), period_ms.map(Nanos::from_millis))
    }

    fn read(period_ms: Option<u64>, at_ms: &[u64]) -> Vec<u32> {
        let mut cursor = Cursor::new(schedule(period_ms));
        at_ms.iter().map(|ms| cursor.at(Nanos::from_millis(*ms))).collect()
    }

    #[test]
    fn a_step_holds_from_its_moment_on() {
        assert_eq!(read(None, &[0, 1, 2, 4, 5, 900]), [0, 0, 20, 20, 50, 50]);
        assert_eq!(Cursor::new(Schedule::constant(7)).at(Nanos::MAX), 7);
    }

    #[test]
    fn a_period_starts_with_the_first_value_again() {
        assert_eq!(read(Some(8), &[7, 8, 9, 10, 13, 15, 16]), [50, 0, 0, 20, 50, 50, 0]);
        assert_eq!(read(Some(8), &[8_000_007]), [50]);
    }

    proptest! {
        #[test]
        fn skipping_equals_walking(at_ms in 0u64..200, step in 1u64..40, repeats: bool) {
            let period = repeats.then_some(9);
            let mut walked = Cursor::new(schedule(period));
            for ms in (0..at_ms).step_by(step as usize) {
                walked.at(Nanos::from_millis(ms));
                prop_assert!(walked.until() > Nanos::from_millis(ms));
            }
            let now = Nanos::from_millis(at_ms);
            let mut skipped = Cursor::new(schedule(period));
            prop_assert_eq!(walked.at(now), skipped.at(now));
            prop_assert_eq!(walked.until(), skipped.until());
        }
    }
}
