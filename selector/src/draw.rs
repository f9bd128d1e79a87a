//! Draws for policies, which have no randomness of their own: from the flow's own history.
//!
//! Two flows that saw the same draw the same; two that did not soon draw differently, as each
//! report is stirred in. The generator is splitmix64 (Steele, Lea and Flood, OOPSLA 2014).

use remuda_algorithms::units::Time;
use remuda_algorithms::{Measurement, PathState};
use std::time::Duration;

/// splitmix64's step: 2^64 over the golden ratio, odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// A double has so many bits of mantissa.
const MANTISSA_BITS: u32 = 53;

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The draws of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws(u64);

impl Draws {
    /// Of a flow that starts, or is taken over, on this path.
    pub fn of(path: &PathState, now: Time) -> Self {
        let mut draws = Self(nanos(now.0));
        let times = [path.srtt, path.rtt_min()].map(|rtt| nanos(rtt.unwrap_or_default()));
        for known in [path.cwnd.0, path.mss.0].into_iter().chain(times) {
            draws.mix(known);
        }
        draws
    }

    /// Takes in what a report adds to the flow's history.
    pub fn stir(&mut self, m: &Measurement, now: Time) {
        self.mix(nanos(now.0));
        self.mix(m.delivered.0);
        self.mix(m.rtt.map_or(0, |rtt| rtt.sum_us));
    }

    fn mix(&mut self, value: u64) {
        self.0 ^= value;
        self.0 = self.next();
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to `count`, which is not drawn: each as likely as the others, but for one
    /// part in 2^64 over `count`. 0 of none.
    pub fn below(&mut self, count: usize) -> usize {
        let drawn = u128::from(self.next()) * count as u128;
        usize::try_from(drawn >> u64::BITS).unwrap_or(0)
    }

    /// A share: from 0 up to 1, which is not drawn.
    pub fn share(&mut self) -> f64 {
        (self.next() >> (u64::BITS - MANTISSA_BITS)) as f64 / (1u64 << MANTISSA_BITS) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_algorithms::units::Bytes;

    fn draws() -> Draws {
        Draws::of(&PathState::new(Bytes(1_448), Bytes(14_480)), Time::ZERO)
    }

    #[test]
    fn one_history_draws_the_same_and_another_one_differently() {
        let of = |delivered| {
            let mut draws = draws();
            let m = Measurement { delivered: Bytes(delivered), ..Measurement::QUIET };
            draws.stir(&m, Time(Duration::from_millis(10)));
            (0..16).map(|_| draws.below(8)).collect::<Vec<_>>()
        };
        assert_eq!(of(1_448), of(1_448));
        assert_ne!(of(1_448), of(2_896));
    }

    #[test]
    fn each_number_is_as_likely_as_the_others() {
        let mut draws = draws();
        let mut counts = [0u32; 8];
        (0..8_000).for_each(|_| counts[draws.below(8)] += 1);
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        assert_eq!(draws.below(0), 0);
    }

    #[test]
    fn shares_are_even_from_0_to_1() {
        let mut draws = draws();
        let shares: Vec<f64> = (0..4_000).map(|_| draws.share()).collect();
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        let mean = shares.iter().sum::<f64>() / 4_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
    }
}
