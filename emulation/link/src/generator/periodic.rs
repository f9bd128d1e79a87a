//! Several opportunities at once, each time after the same wait: Pantheon's paths 13 and 14, whose
//! ACKs come together.

use super::Generated;

/// So many packets each so often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Periodic {
    /// How many leave together.
    pub packets: u32,
    /// How far apart, in milliseconds.
    pub interval_ms: u32,
}

impl Periodic {
    /// A round: one wait, and its packets.
    pub fn round(self) -> Generated {
        let stamps = (0..self.packets).map(|_| self.interval_ms).collect();
        Generated::of("periodic", stamps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_each_200_ms_are_0_6_mbit_per_sec() {
        let made = Periodic { packets: 10, interval_ms: 200 }.round();
        assert_eq!(made.trace.timestamps_ms(), [200; 10]);
        assert_eq!(made.trace.mean_bits_per_sec(), 600_000);
    }
}
