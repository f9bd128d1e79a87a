//! Detects that the mean error of a model has changed.
//!
//! Page, "Continuous inspection schemes", Biometrika 41, 1954; in the form of Page and Hinkley,
//! where the usual error is the mean so far. Let z be the error minus that mean, in standard
//! deviations. Then `g = max(0, g + z - tolerance)`, and the same with -z; a drift is a `g` above
//! the threshold.
//!
//! Differs from the paper: errors are divided by their standard deviation so far, so that the same
//! parameters fit any model; a single error counts for at most four deviations; and no drift is
//! reported before mean and deviation are known ([`LEARNT_OF`] errors). Errors must be independent,
//! so each flow gives one.
//!
//! Without a drift, `g` exceeds a threshold h once in about e^(2 · tolerance · h) independent
//! errors: with the defaults, never in practice. A shift by two standard deviations is detected
//! after some twenty flows.

/// Errors needed before the first drift can be reported.
const LEARNT_OF: u64 = 30;
/// The most standard deviations that one error counts for.
const STEP_MAX: f64 = 4.0;
/// The smallest deviation assumed, in natural logarithms, for errors that hardly differ.
const DEVIATION_MIN: f64 = 0.05;

/// When a drift is reported. Both values are in standard deviations of the errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriftRule {
    /// Deviation from the mean that does not add up.
    pub tolerance: f64,
    /// Sum of excess deviations that is a drift.
    pub threshold: f64,
}

impl DriftRule {
    /// One false alarm in e^25 flows.
    pub const DEFAULT: Self = Self { tolerance: 0.5, threshold: 25.0 };
}

/// A drift that was detected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drifted {
    /// The mean error over all flows.
    pub usual: f64,
    /// The mean error since the drift began.
    pub now: f64,
    /// The number of errors since the drift began.
    pub of: u64,
}

/// The excess deviations in one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Excursion {
    g: f64,
    sum: f64,
    of: u64,
}

impl Excursion {
    fn add(&mut self, step: f64, error: f64) {
        self.g += step;
        self.sum += error;
        self.of += 1;
        if self.g <= 0.0 {
            *self = Self::default();
        }
    }
}

/// Watches the errors of one model.
#[derive(Clone, Debug)]
pub struct Drift {
    rule: DriftRule,
    of: u64,
    mean: f64,
    squares: f64,
    up: Excursion,
    down: Excursion,
}

impl Drift {
    pub fn new(rule: DriftRule) -> Self {
        let none = Excursion::default();
        Self { rule, of: 0, mean: 0.0, squares: 0.0, up: none, down: none }
    }

    /// Takes in an error. Returns a drift if this error completes one, and then starts over,
    /// because the errors have a new mean.
    pub fn add(&mut self, error: f64) -> Option<Drifted> {
        self.of += 1;
        let step = error - self.mean;
        self.mean += step / self.of as f64;
        self.squares += step * (error - self.mean);
        if self.of <= LEARNT_OF {
            return None;
        }
        let deviation = (self.squares / (self.of - 1) as f64).sqrt().max(DEVIATION_MIN);
        let z = ((error - self.mean) / deviation).clamp(-STEP_MAX, STEP_MAX);
        self.up.add(z - self.rule.tolerance, error);
        self.down.add(-z - self.rule.tolerance, error);
        let most = if self.up.g > self.down.g { self.up } else { self.down };
        if most.g <= self.rule.threshold {
            return None;
        }
        let (usual, now) = (self.mean, most.sum / most.of as f64);
        *self = Self::new(self.rule);
        Some(Drifted { usual, now, of: most.of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uniform(state: &mut u64) -> f64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Noise of mean 0 and deviation 1: uniform, nearly normal, skewed, two-valued, or rare.
    fn noise(kind: u8, state: &mut u64) -> f64 {
        let mut one = || uniform(state);
        match kind {
            0 => (one() - 0.5) * 12f64.sqrt(),
            1 => (0..12).map(|_| one()).sum::<f64>() - 6.0,
            2 => -(1.0 - one()).ln() - 1.0,
            3 => {
                if one() < 0.5 {
                    -1.0
                } else {
                    1.0
                }
            }
            _ => {
                if one() < 0.01 {
                    9.95
                } else {
                    -0.1005
                }
            }
        }
    }

    proptest! {
        #[test]
        fn noise_that_stays_as_it_is_is_no_drift(
            seed: u64, kind in 0..5u8, mean in -5.0..5.0f64, deviation in 0.01..5.0f64,
        ) {
            let (mut drift, mut state) = (Drift::new(DriftRule::DEFAULT), seed);
            for at in 0..3_000 {
                let drifted = drift.add(mean + deviation * noise(kind, &mut state));
                prop_assert!(drifted.is_none(), "after {at}: {drifted:?}");
            }
        }

        #[test]
        fn a_shift_by_two_deviations_is_one_soon_and_reported_with_its_size(
            seed: u64, kind in 0..3u8, is_up: bool, before in 150..600usize,
        ) {
            let (mut drift, mut state) = (Drift::new(DriftRule::DEFAULT), seed);
            for _ in 0..before {
                prop_assert!(drift.add(noise(kind, &mut state)).is_none());
            }
            let shift = if is_up { 2.0 } else { -2.0 };
            let after = (1..200).find_map(|at| {
                drift.add(shift + noise(kind, &mut state)).map(|drifted| (at, drifted))
            });
            let (at, drifted) = after.expect("it drifts");
            prop_assert!(at < 80, "after {at}");
            // The noise may have begun the excursion before the shift; that part is not shifted.
            let of = drifted.of as f64;
            let off = drifted.now - shift * (at as f64 / of).min(1.0);
            prop_assert!(off.abs() < 7.0 / of.sqrt(), "{drifted:?} after {at}");
            prop_assert!(drifted.usual.abs() < drifted.now.abs());
        }
    }

    #[test]
    fn errors_that_are_all_alike_drift_when_they_are_others() {
        let mut drift = Drift::new(DriftRule::DEFAULT);
        assert!((0..1_000).all(|_| drift.add(0.3).is_none()));
        assert!((0..20).any(|_| drift.add(0.9).is_some()));
        assert!((0..1_000).all(|_| drift.add(0.9).is_none()), "that is usual now");
    }
}
