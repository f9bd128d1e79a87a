//! STARTUP doubles the rate each round trip until the pipe is full; DRAIN empties the queue that
//! this has made.

use crate::units::{Gain, Rate};

/// tcp_bbr.c `bbr_high_gain`: 2/ln(2), the least gain that doubles the rate each round trip.
pub const HIGH_GAIN: Gain = Gain(2_885);
/// tcp_bbr.c `bbr_drain_gain`: its inverse, so that DRAIN takes a round trip.
pub const DRAIN_GAIN: Gain = Gain(347);
/// tcp_bbr.c `bbr_full_bw_thresh`: the rate is still growing if it grew by a quarter,
const GROWTH: Gain = Gain(1_250);
/// tcp_bbr.c `bbr_full_bw_cnt`: and the pipe is full if it did not for three round trips (the
/// receive window grows, we fill it, the rate shows it).
const ROUNDS: u32 = 3;
/// On a path that was left empty, this many rounds need not show growth. The arm before may have
/// been faster in a burst than on the whole, and growth does not show until the rate of the burst
/// is forgotten.
const EXCUSED: u32 = 20;

/// Whether the pipe is full.
#[derive(Clone, Copy, Debug)]
pub struct FullPipe {
    bw: Rate,
    rounds: u32,
    full: bool,
    /// This many rounds from now on need not show growth.
    excused: u32,
}

impl FullPipe {
    /// The pipe of a path whose rate is known is full.
    pub fn new(full: bool) -> Self {
        Self { bw: Rate::default(), rounds: 0, full, excused: 0 }
    }

    /// The pipe of a path that the arm before left empty.
    pub fn left_empty() -> Self {
        Self { excused: EXCUSED, ..Self::new(false) }
    }

    /// To be called when a queue stands: the rate has to grow from now on.
    pub fn expect_growth(&mut self) {
        self.excused = 0;
    }

    /// Whether the pipe is full.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// At the start of a round that the application did not limit.
    pub fn update(&mut self, bw: Rate) {
        if self.full || bw == Rate::default() {
            return;
        }
        if self.excused > 0 {
            (self.bw, self.excused) = (bw, self.excused - 1);
            return;
        }
        if bw >= self.bw * GROWTH {
            self.bw = bw;
            self.rounds = 0;
            return;
        }
        self.rounds += 1;
        self.full = self.rounds >= ROUNDS;
    }

    /// tcp_bbr.c `bbr_set_state`: after a timeout the rate has to grow anew.
    pub fn forget_growth(&mut self) {
        self.bw = Rate::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rates: &[u64], want: &str) {
        let mut pipe = FullPipe::new(false);
        let got: String = rates
            .iter()
            .map(|&rate| {
                pipe.update(Rate::from_bytes_per_sec(rate));
                if pipe.is_full() { 'F' } else { '.' }
            })
            .collect();
        assert_eq!(got, want);
    }

    #[test]
    fn the_pipe_is_full_after_three_rounds_without_growth() {
        check(&[100, 200, 400, 499, 420, 430], ".....F");
    }

    #[test]
    fn a_quarter_more_is_growth() {
        check(&[100, 110, 120, 125, 130, 140, 150], "......F");
    }
}
