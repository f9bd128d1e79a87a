//! Delays in whole milliseconds, and their quantiles as Mahimahi's scripts compute them.

use std::collections::BTreeMap;

/// How often each delay occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Delays {
    times: BTreeMap<u64, u64>,
    count: u64,
}

impl Delays {
    pub(super) fn count(&mut self, delay_ms: u64) {
        *self.times.entry(delay_ms).or_default() += 1;
        self.count += 1;
    }

    /// The delay at `percent` of the sorted delays.
    pub(super) fn quantile_ms(&self, percent: u64) -> Option<u64> {
        let place = place(self.count, percent)?;
        let mut below = 0;
        self.times.iter().find_map(|(delay_ms, times)| {
            below += times;
            (below > place).then_some(*delay_ms)
        })
    }
}

/// The least delay of the packets that arrived in each millisecond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SignalDelays {
    least_ms: BTreeMap<u64, u64>,
}

impl SignalDelays {
    pub(super) fn count(&mut self, came_ms: u64, delay_ms: u64) {
        let least = self.least_ms.entry(came_ms).or_insert(delay_ms);
        *least = (*least).min(delay_ms);
    }

    /// A quantile over every millisecond from the first arrival to the last.
    ///
    /// Milliseconds without an arrival get, backwards from the next arrival, its delay plus 1, 2, 3
    /// ms. These values are counted without storing them, because a log may have two arrivals that
    /// are weeks apart.
    pub(super) fn quantile_ms(&self, percent: u64) -> Option<u64> {
        let (first, _) = self.least_ms.first_key_value()?;
        let (last, _) = self.least_ms.last_key_value()?;
        let place = place(last - first + 1, percent)?;
        let most = self.least_ms.values().max()? + (last - first);
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.at_most(middle) > place { high = middle } else { low = middle + 1 }
        }
        Some(low)
    }

    /// The number of milliseconds whose delay is at most this.
    fn at_most(&self, delay_ms: u64) -> u64 {
        let (mut count, mut before) = (0, None);
        for (came, least) in &self.least_ms {
            let gap = before.map_or(0, |before| came - before - 1);
            count += u64::from(*least <= delay_ms) + gap.min(delay_ms.saturating_sub(*least));
            before = Some(*came);
        }
        count
    }
}

/// The index of a quantile: `None` without values, the last value for 100 %.
fn place(count: u64, percent: u64) -> Option<u64> {
    let last = count.checked_sub(1)?;
    Some(((u128::from(count) * u128::from(percent) / 100) as u64).min(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quantile_is_at_its_place_rounded_down() {
        let mut delays = Delays::default();
        assert_eq!(delays.quantile_ms(50), None);
        (0..20).for_each(|delay_ms| delays.count(delay_ms));
        let quantiles = [0, 50, 95, 99, 100].map(|percent| delays.quantile_ms(percent));
        assert_eq!(quantiles, [0, 10, 19, 19, 19].map(Some));
    }

    #[test]
    fn two_moments_weeks_apart_cost_nothing() {
        let mut delays = SignalDelays::default();
        delays.count(0, 5);
        delays.count(4_000_000_000, 7);
        // 3,999,999,999 milliseconds without an arrival, with delays from 8 ms upwards.
        assert_eq!(delays.quantile_ms(50), Some(2_000_000_006));
    }

    proptest! {
        #[test]
        fn runs_are_counted_as_if_they_were_made(
            packets in proptest::collection::vec((0u64..300, 0u64..60), 1..40),
            percent in 0u64..=100,
        ) {
            let mut delays = SignalDelays::default();
            packets.iter().for_each(|(came, delay)| delays.count(*came, *delay));
            let came = || packets.iter().map(|it| it.0);
            let (first, last) = (came().min().unwrap(), came().max().unwrap());
            let mut made = Vec::new();
            let mut later = 0;
            for moment in (first..=last).rev() {
                let of = packets.iter().filter(|it| it.0 == moment).map(|it| it.1).min();
                later = of.unwrap_or(later + 1);
                made.push(later);
            }
            made.sort_unstable();
            let place = (made.len() * percent as usize / 100).min(made.len() - 1);
            prop_assert_eq!(delays.quantile_ms(percent), Some(made[place]));
        }
    }
}
