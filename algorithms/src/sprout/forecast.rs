//! What a link will deliver, with 95 % certainty: Sprout's Bayesian filter over its rate.
//!
//! Sprout (NSDI 2013), section 3. The rate of the link is one of 256 values; in each tick of 20 ms
//! it may have moved (Brownian motion, and an outage that is hard to leave), and what was delivered
//! says which values are likely (Poisson).

pub const TICK_S: f64 = 0.02;
/// Section 3.1: bins of the rate, from 0 to [`RATE_MAX`] units a second.
const BINS: usize = 256;
const RATE_MAX: f64 = 1_000.0;
/// Section 3.1: sigma, in units a second by the root of a second.
const SIGMA: f64 = 200.0;
/// Section 3.1: lambda_z, how fast an outage ends, by second.
const OUTAGE_ESCAPE: f64 = 1.0;
/// Section 3.3: the forecast's certainty.
const PERCENTILE: f64 = 0.05;
/// Section 3.3: ticks looked ahead.
pub const HORIZON: usize = 8;
/// Bins that the rate can move in a tick: three standard deviations.
const REACH: usize = 22;
/// More units than this are in no tick.
const UNITS_MAX: f64 = 100.0;
/// The least probability of a bin: what was impossible may come.
const LEAST: f64 = 1e-9;

/// What is believed of a link's rate.
#[derive(Clone, Debug)]
pub struct Belief {
    bins: [f64; BINS],
    /// Of a move by so many bins.
    kernel: [f64; REACH + 1],
}

fn rate(bin: usize) -> f64 {
    RATE_MAX * bin as f64 / (BINS - 1) as f64
}

impl Belief {
    /// Any rate is as likely as any other.
    pub fn new() -> Self {
        let sigma_bins = SIGMA * libm::sqrt(TICK_S) / rate(1);
        let weight =
            |by: usize| libm::exp(-0.5 * (by as f64 / sigma_bins) * (by as f64 / sigma_bins));
        let sum = weight(0) + 2.0 * (1..=REACH).map(weight).sum::<f64>();
        Self { bins: [1.0 / BINS as f64; BINS], kernel: std::array::from_fn(|by| weight(by) / sum) }
    }

    /// Rates around `rate`, in units a second.
    pub fn around(at: f64) -> Self {
        let mut belief = Self::new();
        for (bin, p) in belief.bins.iter_mut().enumerate() {
            let off = (rate(bin) - at) / SIGMA;
            *p = libm::exp(-0.5 * off * off);
        }
        belief.normalize();
        belief
    }

    pub fn evolve(&mut self) {
        let mut next = [0.0; BINS];
        for (bin, p) in self.bins.iter().enumerate() {
            // An outage is hard to leave: most of it stays.
            let moves = if bin == 0 { OUTAGE_ESCAPE * TICK_S } else { 1.0 };
            if bin == 0 {
                next[0] += p * (1.0 - moves);
            }
            for (by, weight) in self.kernel.iter().enumerate() {
                let share = p * moves * weight;
                next[(bin + by).min(BINS - 1)] += share;
                if by > 0 {
                    next[bin.saturating_sub(by)] += share;
                }
            }
        }
        self.bins = next;
        self.normalize();
    }

    /// So much was delivered in a tick, in units.
    pub fn observe(&mut self, delivered: f64) {
        for (bin, p) in self.bins.iter_mut().enumerate() {
            let mean = (rate(bin) * TICK_S).max(1e-3);
            // The factorial is the same for all.
            let log = delivered * libm::log(mean) - mean;
            *p *= libm::exp(log - (delivered * libm::log(delivered.max(1e-3)) - delivered));
            *p = p.max(LEAST);
        }
        self.normalize();
    }

    /// At least so much would have been delivered in a tick, in units: the sender had no more.
    pub fn observe_at_least(&mut self, delivered: f64) {
        let whole = delivered.clamp(0.0, UNITS_MAX) as u32;
        for (bin, p) in self.bins.iter_mut().enumerate() {
            // Of Poisson's distribution, what lies below.
            let mean = rate(bin) * TICK_S;
            let mut term = libm::exp(-mean);
            let mut below = 0.0;
            for units in 0..whole {
                below += term;
                term *= mean / f64::from(units + 1);
            }
            *p = (*p * (1.0 - below).max(0.0)).max(LEAST);
        }
        self.normalize();
    }

    fn normalize(&mut self) {
        let sum: f64 = self.bins.iter().sum();
        if sum.is_finite() && sum > 0.0 {
            self.bins.iter_mut().for_each(|p| *p /= sum);
        } else {
            *self = Self::new();
        }
    }

    /// What the next ticks deliver in all, with that certainty: after one tick, after two, and on.
    pub fn forecast(&self) -> [f64; HORIZON] {
        let mut belief = self.clone();
        let mut all = 0.0;
        std::array::from_fn(|_| {
            belief.evolve();
            all += belief.low() * TICK_S;
            all
        })
    }

    /// The rate that the link's is above, with that certainty.
    fn low(&self) -> f64 {
        let mut sum = 0.0;
        let below = self.bins.iter().take_while(|p| {
            sum += **p;
            sum < PERCENTILE
        });
        rate(below.count().min(BINS - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ticks: usize, units: impl Fn(usize) -> f64) -> Belief {
        let mut belief = Belief::new();
        for tick in 0..ticks {
            belief.evolve();
            belief.observe(units(tick));
        }
        belief
    }

    #[test]
    fn a_steady_rate_is_found_and_the_forecast_is_cautious() {
        // 8 units a tick: 400 a second; 95 % of what it could be in five ticks is below 40
        let five = after(100, |_| 8.0).forecast()[4];
        assert!((15.0..40.0).contains(&five), "{five}");
    }

    #[test]
    fn the_forecast_follows_a_link_that_slows_down() {
        let before = after(100, |_| 12.0).forecast()[4];
        let after = after(130, |tick| if tick < 100 { 12.0 } else { 2.0 }).forecast()[4];
        assert!(after < before / 4.0, "{before} {after}");
    }

    #[test]
    fn an_outage_is_forecast_to_last() {
        let silent = after(100, |tick| if tick < 50 { 8.0 } else { 0.0 }).forecast();
        assert_eq!(silent[HORIZON - 1], 0.0);
    }

    #[test]
    fn probabilities_stay_probabilities_whatever_is_observed() {
        let mut belief = after(5, |_| 1e9);
        belief.observe(0.0);
        assert!((belief.bins.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
