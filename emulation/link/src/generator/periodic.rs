//! Several opportunities at once at regular intervals: Pantheon's paths 13 and 14, on which ACKs
//! arrive in groups.

use super::Generated;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Periodic {
    /// How many packets leave together.
    pub packets: u32,
    /// The time from one group to the next, in milliseconds.
    pub interval_ms: u32,
}

impl Periodic {
    /// Makes one round: a single interval, with its packets at the end.
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
