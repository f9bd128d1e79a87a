//! What the application that owns a flow wants of it.
//!
//! Zhou et al., Antelope (ICNP 2021), section IV-A: a flow is sensitive to throughput, to delay, or
//! to both. The paper's zeta and theta are 0 or 1; here they may lie between.

use serde::{Deserialize, Serialize};

/// How much throughput and delay count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preference {
    /// The weight of throughput, zeta: 0 to 1.
    pub throughput: f64,
    /// The weight of delay, theta: 0 to 1.
    pub delay: f64,
}

impl Preference {
    pub const DEFAULT: Self = Self { throughput: 1.0, delay: 1.0 };
    pub const DELAY: Self = Self { throughput: 0.0, delay: 1.0 };
    pub const THROUGHPUT: Self = Self { throughput: 1.0, delay: 0.0 };

    /// Whether both weights are 0 to 1, and not both 0.
    pub fn is_valid(&self) -> bool {
        let weight = |value: f64| (0.0..=1.0).contains(&value);
        weight(self.throughput) && weight(self.delay) && self.throughput + self.delay > 0.0
    }
}

impl Default for Preference {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_0_to_1_and_not_both_0() {
        for (throughput, delay, want) in [
            (1.0, 1.0, true),
            (0.3, 0.0, true),
            (0.0, 0.0, false),
            (1.1, 0.0, false),
            (-0.1, 1.0, false),
            (f64::NAN, 1.0, false),
        ] {
            let got = Preference { throughput, delay }.is_valid();
            assert_eq!(got, want, "{throughput} {delay}");
        }
    }
}
