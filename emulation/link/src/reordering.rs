//! Reordering: some packets take a longer way, and may be overtaken.

use crate::chance::Chance;
use crate::time::Nanos;
use rand_chacha::ChaCha8Rng;

/// Sends a share of the packets on a detour, each by its own random draw. Packets on the detour
/// keep their order among themselves, and so do the others; the two kinds do not wait for each
/// other.
#[derive(Clone, Debug)]
pub struct Reordering {
    chance: Chance,
    extra: Nanos,
    rng: ChaCha8Rng,
}

impl Reordering {
    /// Sends `percent` of the packets on a detour that takes `extra` longer.
    pub fn new(percent: f64, extra: Nanos, rng: ChaCha8Rng) -> Self {
        Self { chance: Chance::from_percent(percent), extra, rng }
    }

    /// How much longer the next packet travels; `None` if it takes no detour.
    pub fn detour(&mut self) -> Option<Nanos> {
        self.chance.draw(&mut self.rng).then_some(self.extra)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn the_share_is_the_one_asked_for() {
        for percent in [0.0, 1.0, 20.0, 100.0] {
            let extra = Nanos::from_millis(3);
            let mut reordering = Reordering::new(percent, extra, ChaCha8Rng::seed_from_u64(1));
            let detours = (0..100_000).filter_map(|_| reordering.detour());
            let (mut count, mut other) = (0, 0);
            detours.for_each(|span| if span == extra { count += 1 } else { other += 1 });
            let share = f64::from(count) / 1_000.0;
            assert!((share - percent).abs() < 0.5 && other == 0, "{share} for {percent} %");
        }
    }
}
