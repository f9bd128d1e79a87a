//! How a rate moves without candidates: by segments, ever more of them while the direction holds.
//!
//! Section III-D: each two round trips the window grows by v segments, or shrinks by v where
//! RTT / RTTmin > 1 + mu; v doubles while the direction stays, and is 1 when it turns.

use crate::units::{Bytes, Packets, Rate};
use std::time::Duration;

/// A larger v would double most windows at once.
const VELOCITY_MAX: u64 = 1 << 12;

/// v, and which way it was last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Velocity {
    segments: u64,
    up: bool,
}

impl Velocity {
    /// The largest v, upwards. The caller limits the step that this v makes.
    pub fn fastest() -> Self {
        Self { segments: VELOCITY_MAX, up: true }
    }

    /// The next v in that direction, in segments.
    pub fn next(&mut self, up: bool) -> u64 {
        let same = self.segments > 0 && self.up == up;
        self.segments = if same { (self.segments * 2).min(VELOCITY_MAX) } else { 1 };
        self.up = up;
        self.segments
    }
}

/// So many segments a round trip, as a rate.
pub fn segments_per_round(segments: u64, mss: Bytes, srtt: Duration) -> Rate {
    Packets(segments).to_bytes(mss) / srtt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_while_the_direction_stays() {
        let mut velocity = Velocity::default();
        let moves = [true, true, true, false, false, true].map(|up| velocity.next(up));
        assert_eq!(moves, [1, 2, 4, 1, 2, 1]);
        for _ in 0..100 {
            velocity.next(true);
        }
        assert_eq!(velocity.next(true), VELOCITY_MAX);
    }
}
