//! A ridge regression that learns one observation after the other.
//!
//! Of contexts x and rewards r it keeps the inverse of A = I + sum x xT, and b = sum r x. A new
//! observation changes the inverse by a matrix of rank one (Sherman and Morrison, 1950):
//!
//! ```text
//! inverse(A + x xT) = inverse(A) - v vT / (1 + x.v)      v = inverse(A) x
//! ```

use super::context::{Context, LENGTH};

/// A matrix of contexts.
pub type Matrix = [Context; LENGTH];

/// What is expected of an arm in a context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    /// One standard deviation of it, in units of the reward's own noise: sqrt(xT inverse(A) x).
    pub width: f64,
}

/// The regression of one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Ridge {
    inverse: Matrix,
    b: Context,
}

pub(super) fn dot(a: &Context, b: &Context) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn identity() -> Matrix {
    let mut matrix = [[0.0; LENGTH]; LENGTH];
    for (at, row) in matrix.iter_mut().enumerate() {
        row[at] = 1.0;
    }
    matrix
}

impl Ridge {
    /// One that has seen nothing.
    pub fn new() -> Self {
        Self { inverse: identity(), b: [0.0; LENGTH] }
    }

    /// One that has seen what this inverse of A and this b say.
    pub(super) fn of(inverse: Matrix, b: Context) -> Self {
        Self { inverse, b }
    }

    fn v(&self, x: &Context) -> Context {
        let mut v = [0.0; LENGTH];
        for (to, row) in v.iter_mut().zip(&self.inverse) {
            *to = dot(row, x);
        }
        v
    }

    /// What is expected in that context.
    pub fn estimate(&self, x: &Context) -> Estimate {
        let v = self.v(x);
        Estimate { mean: dot(&v, &self.b), width: dot(&v, x).max(0.0).sqrt() }
    }

    /// Takes in a reward had in that context.
    pub fn learn(&mut self, x: &Context, reward: f64) {
        let v = self.v(x);
        let whole = 1.0 + dot(&v, x).max(0.0);
        for (row, of) in self.inverse.iter_mut().zip(&v) {
            for (cell, other) in row.iter_mut().zip(&v) {
                *cell -= of * other / whole;
            }
        }
        for (to, x) in self.b.iter_mut().zip(x) {
            *to += reward * x;
        }
    }
}

impl Default for Ridge {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(at: usize) -> Context {
        let mut x = [0.0; LENGTH];
        x[at] = 1.0;
        x
    }

    #[test]
    fn one_context_is_the_mean_shrunk_by_one() {
        let mut ridge = Ridge::new();
        assert_eq!(ridge.estimate(&axis(0)), Estimate { mean: 0.0, width: 1.0 });
        for (reward, mean, width_squared) in
            [(1.0, 1.0 / 2.0, 1.0 / 2.0), (0.0, 1.0 / 3.0, 1.0 / 3.0), (1.0, 2.0 / 4.0, 1.0 / 4.0)]
        {
            ridge.learn(&axis(0), reward);
            let got = ridge.estimate(&axis(0));
            assert!((got.mean - mean).abs() < 1e-12, "{got:?}");
            assert!((got.width * got.width - width_squared).abs() < 1e-12, "{got:?}");
        }
        assert_eq!(ridge.estimate(&axis(1)), Estimate { mean: 0.0, width: 1.0 });
    }

    #[test]
    fn a_linear_reward_is_found() {
        let mut ridge = Ridge::new();
        for turn in 0..20_000 {
            let mut x = axis(turn % 3);
            x[LENGTH - 1] = 1.0;
            ridge.learn(&x, [0.2, 0.5, 0.8][turn % 3]);
        }
        for (at, want) in [(0, 0.2), (1, 0.5), (2, 0.8)] {
            let mut x = axis(at);
            x[LENGTH - 1] = 1.0;
            let got = ridge.estimate(&x);
            assert!((got.mean - want).abs() < 0.01 && got.width < 0.02, "{at}: {got:?}");
        }
    }
}
