//! Directions, and the random streams of each.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Which way a link runs. The two directions draw from different random streams of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// The use of a random stream. Each use has its own stream, so that changing one model does not
/// move the draws of another. For the same reason a new use goes at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RandomUse {
    Loss,
    Jitter,
    Queue,
    Reordering,
    Generator,
}

impl Direction {
    /// The name in Mahimahi's logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "uplink",
            Self::Down => "downlink",
        }
    }

    pub(super) fn rng(self, seed: u64, use_: RandomUse) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(self.stream(use_));
        rng
    }

    /// Each pair of uses takes four streams, two for each direction.
    fn stream(self, use_: RandomUse) -> u64 {
        let (direction, use_) = (self as u64, use_ as u64);
        use_ / 2 * 4 + direction * 2 + use_ % 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_has_a_stream_of_its_own_and_old_ones_stay() {
        use RandomUse::{Generator, Jitter, Loss, Queue, Reordering};
        let uses = [Loss, Jitter, Queue, Reordering, Generator];
        assert_eq!(uses.map(|use_| Direction::Up.stream(use_)), [0, 1, 4, 5, 8]);
        assert_eq!(uses.map(|use_| Direction::Down.stream(use_)), [2, 3, 6, 7, 10]);
    }
}
