//! Windowed maximum and minimum of a signal, over time or over rounds.
//!
//! Kathleen Nichols' algorithm as in Linux lib/win_minmax.c: the best, second-best and third-best
//! sample of a window, in constant space.
//!
//! Differs from Linux: one type serves maximum and minimum, and the key is a `u64`, so that rounds
//! (BBR's bandwidth) and microseconds (minimum RTT) use the same code.

/// The best of the samples of the last `window` keys.
#[derive(Clone, Copy, Debug)]
pub struct Windowed<V> {
    window: u64,
    best: [(u64, V); 3],
    better: fn(V, V) -> bool,
}

impl<V: Copy + PartialOrd> Windowed<V> {
    /// A filter for the maximum over `window` keys, which starts from one sample.
    pub fn max(window: u64, at: u64, value: V) -> Self {
        Self { window, best: [(at, value); 3], better: |a, b| a >= b }
    }

    /// A filter for the minimum over `window` keys, which starts from one sample.
    pub fn min(window: u64, at: u64, value: V) -> Self {
        Self { window, best: [(at, value); 3], better: |a, b| a <= b }
    }

    /// The best sample of the window.
    pub fn get(&self) -> V {
        self.best[0].1
    }

    /// The key of the best sample.
    pub fn taken_at(&self) -> u64 {
        self.best[0].0
    }

    /// Forgets all and starts again from one sample.
    pub fn reset(&mut self, at: u64, value: V) {
        self.best = [(at, value); 3];
    }

    /// Adds a sample. Keys do not decrease; one that does counts as the newest.
    pub fn update(&mut self, at: u64, value: V) {
        let newest = (at, value);
        let age = |sample: (u64, V)| at.saturating_sub(sample.0);
        if (self.better)(value, self.best[0].1) || age(self.best[2]) > self.window {
            self.reset(at, value);
            return;
        }
        if (self.better)(value, self.best[1].1) {
            self.best[1] = newest;
            self.best[2] = newest;
        } else if (self.better)(value, self.best[2].1) {
            self.best[2] = newest;
        }
        self.expire(newest);
    }

    /// Linux' `minmax_subwin_update`: drops what is too old, and takes a second and third choice
    /// from later quarters of the window as it passes.
    fn expire(&mut self, newest: (u64, V)) {
        let age = newest.0.saturating_sub(self.best[0].0);
        if age > self.window {
            self.best = [self.best[1], self.best[2], newest];
            if newest.0.saturating_sub(self.best[0].0) > self.window {
                self.best = [self.best[1], self.best[2], newest];
            }
        } else if self.best[1].0 == self.best[0].0 && age > self.window / 4 {
            self.best[1] = newest;
            self.best[2] = newest;
        } else if self.best[2].0 == self.best[1].0 && age > self.window / 2 {
            self.best[2] = newest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_second_best_follows_when_the_best_is_too_old() {
        let mut max = Windowed::max(10, 0, 10u64);
        for (at, value) in [(3, 7), (6, 5), (9, 3)] {
            max.update(at, value);
        }
        assert_eq!((max.get(), max.taken_at()), (10, 0));
        max.update(11, 1);
        assert_eq!((max.get(), max.taken_at()), (7, 3));
    }

    #[test]
    fn a_minimum_is_the_mirror_image() {
        let mut min = Windowed::min(10, 0, 10u64);
        min.update(1, 12);
        assert_eq!(min.get(), 10);
        min.update(2, 8);
        assert_eq!(min.get(), 8);
    }

    proptest! {
        #[test]
        fn the_maximum_is_no_less_than_the_newest_and_comes_from_the_window(
            samples in prop::collection::vec((1u64..4, 0u64..100), 1..60),
        ) {
            let mut at = 0;
            let mut max = Windowed::max(10, 0, 0u64);
            for (step, value) in samples {
                at += step;
                max.update(at, value);
                prop_assert!(max.get() >= value);
                prop_assert!(at - max.taken_at() <= 10);
            }
        }
    }
}
