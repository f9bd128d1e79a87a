//! Flows that arrive at random: a Poisson process of transfers, with the sizes of a published
//! distribution.

use crate::scenario::mixed;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// 2^-53: a double holds 53 bits of a fraction.
const FRACTION_STEP: f64 = 1.0 / 9_007_199_254_740_992.0;

/// Transfers that arrive as a Poisson process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// The average payload that all transfers together offer.
    pub load_mbit_per_sec: f64,
    /// The distribution of their sizes.
    pub sizes: FlowSizes,
}

/// A published distribution of transfer sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowSizes {
    /// A web search cluster: Alizadeh et al., DCTCP (SIGCOMM 2010), figure 4, in the table that
    /// simulations use. Mean 1.7 MB.
    WebSearch,
    /// A data mining cluster: Greenberg et al., VL2 (SIGCOMM 2009), figure 2, in the table of
    /// segments that simulations use since pFabric (SIGCOMM 2013). Four of five transfers have at
    /// most seven segments, about 10 kB. One in 28 is above 35 MB, and these carry 95 % of all
    /// bytes. Mean 7.5 MB.
    DataMining,
}

/// Size in bytes, and the share of transfers that are no larger.
const WEB_SEARCH: &[(f64, f64)] = &[
    (1.0, 0.0),
    (10_000.0, 0.15),
    (20_000.0, 0.20),
    (30_000.0, 0.30),
    (50_000.0, 0.40),
    (80_000.0, 0.53),
    (200_000.0, 0.60),
    (1_000_000.0, 0.70),
    (2_000_000.0, 0.80),
    (5_000_000.0, 0.90),
    (10_000_000.0, 0.97),
    (30_000_000.0, 1.0),
];

/// The unit of the published table for [`DATA_MINING`].
const SEGMENT_BYTES: f64 = 1_460.0;

const DATA_MINING: &[(f64, f64)] = &[
    (SEGMENT_BYTES, 0.0),
    (SEGMENT_BYTES, 0.5),
    (2.0 * SEGMENT_BYTES, 0.6),
    (3.0 * SEGMENT_BYTES, 0.7),
    (7.0 * SEGMENT_BYTES, 0.8),
    (267.0 * SEGMENT_BYTES, 0.9),
    (2_107.0 * SEGMENT_BYTES, 0.95),
    (66_667.0 * SEGMENT_BYTES, 0.99),
    (666_667.0 * SEGMENT_BYTES, 1.0),
];

impl FlowSizes {
    fn table(self) -> &'static [(f64, f64)] {
        match self {
            Self::WebSearch => WEB_SEARCH,
            Self::DataMining => DATA_MINING,
        }
    }

    /// Sizes between two points of the table are spread evenly.
    pub fn mean_bytes(self) -> f64 {
        let spans = self.table().windows(2);
        spans.map(|pair| (pair[1].1 - pair[0].1) * (pair[0].0 + pair[1].0) / 2.0).sum()
    }

    /// The size that a share of `share` of the transfers does not exceed.
    fn at(self, share: f64) -> u64 {
        let table = self.table();
        let above = table.partition_point(|(_, below)| *below <= share).clamp(1, table.len() - 1);
        let ((low, from), (high, to)) = (table[above - 1], table[above]);
        let bytes = low + (high - low) * ((share - from) / (to - from)).clamp(0.0, 1.0);
        (bytes.round() as u64).max(1)
    }
}

impl Arrivals {
    /// The average number of arrivals per second.
    pub fn per_second(&self) -> f64 {
        self.load_mbit_per_sec * 1e6 / 8.0 / self.sizes.mean_bytes()
    }

    /// Draws arrivals between two moments in seconds: each a moment and a size in bytes. `place`
    /// gives each group its own random draws.
    pub(crate) fn draw(
        &self,
        (start_s, end_s): (f64, f64),
        (seed, place): (u64, u64),
    ) -> impl Iterator<Item = (f64, u64)> {
        let seed = mixed(mixed(seed ^ 0x0061_7272_6976_616c).wrapping_add(place));
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut fraction = move || (rng.next_u64() >> 11) as f64 * FRACTION_STEP;
        let (mean_gap_s, sizes) = (1.0 / self.per_second(), self.sizes);
        let mut at_s = start_s;
        std::iter::from_fn(move || {
            // `libm`'s logarithm is the same on every machine.
            at_s -= mean_gap_s * libm::log(1.0 - fraction());
            (at_s < end_s).then(|| (at_s, sizes.at(fraction())))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_means_are_the_published_ones() {
        let means = [FlowSizes::WebSearch, FlowSizes::DataMining].map(FlowSizes::mean_bytes);
        assert!((means[0] / 1.7e6 - 1.0).abs() < 0.05, "{means:?}");
        assert!((means[1] / 7.4e6 - 1.0).abs() < 0.05, "{means:?}");
    }

    /// The properties that pFabric's section 5.1 states in words.
    #[test]
    fn data_mining_is_mostly_mice_and_its_bytes_are_elephants() {
        let of = |share| FlowSizes::DataMining.at(share);
        assert_eq!([of(0.0), of(0.4), of(0.8), of(1.0)], [1_460, 1_460, 10_220, 973_333_820]);
        let sizes: Vec<u64> = (0..100_000).map(|at| of((f64::from(at) + 0.5) / 1e5)).collect();
        let share_below = |bytes| sizes.partition_point(|size| *size <= bytes) as f64 / 1e5;
        assert!((share_below(10_220) - 0.8).abs() < 1e-4, "four of five: {}", share_below(10_220));
        let large = 1.0 - share_below(35_000_000);
        assert!((large - 0.036).abs() < 0.001, "above 35 MB: {large}");
        let total = |sizes: &[u64]| sizes.iter().sum::<u64>() as f64;
        let of_large = total(&sizes[((1.0 - large) * 1e5) as usize..]) / total(&sizes);
        assert!((of_large - 0.95).abs() < 0.005, "their bytes: {of_large}");
    }

    #[test]
    fn quantiles_are_the_tables() {
        let of = |share| FlowSizes::WebSearch.at(share);
        assert_eq!([of(0.0), of(0.15), of(0.175), of(0.8)], [1, 10_000, 15_000, 2_000_000]);
        assert_eq!(of(1.0), 30_000_000);
    }

    #[test]
    fn they_offer_the_load_asked_for() {
        let arrivals = Arrivals { load_mbit_per_sec: 72.0, sizes: FlowSizes::WebSearch };
        let drawn: Vec<_> = arrivals.draw((5.0, 4_005.0), (1, 0)).collect();
        let bytes: u64 = drawn.iter().map(|(_, bytes)| bytes).sum();
        let load = bytes as f64 * 8.0 / 1e6 / 4_000.0;
        assert!((load / 72.0 - 1.0).abs() < 0.03, "{load} Mbit/s");
        assert!(drawn.iter().all(|(at_s, _)| (5.0..4_005.0).contains(at_s)));
        assert!(drawn.is_sorted_by_key(|(at_s, _)| *at_s));
    }

    #[test]
    fn seed_and_place_decide() {
        let arrivals = Arrivals { load_mbit_per_sec: 10.0, sizes: FlowSizes::DataMining };
        let drawn = |key| arrivals.draw((0.0, 100.0), key).collect::<Vec<_>>();
        assert_eq!(drawn((1, 0)), drawn((1, 0)));
        assert_ne!(drawn((1, 0)), drawn((2, 0)));
        assert_ne!(drawn((1, 0)), drawn((1, 1)));
    }
}
