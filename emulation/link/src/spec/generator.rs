//! The generator that makes a link's opportunities, as a spec file describes it.

use super::error::{SpecError, check};
use super::{check_rate, check_span};
use crate::generator::{Cell, Generated, Leo, Markov, Periodic, Poisson, Sawtooth, Wifi};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// An hour. At a gigabit, its opportunities would take 1.2 GB of memory.
const ROUND_S_MAX: f64 = 3_600.0;
/// The largest number of opportunities in a round: 200 MB of memory.
const PACKETS_MAX: f64 = 50e6;
/// The most packets that 802.11n's block acknowledgement covers.
const BURST_PKTS_MAX: u32 = 64;
/// The most packets that a link delivers together: 1.5 MB.
const TOGETHER_PKTS_MAX: u32 = 1_000;

/// A generator. Its trace repeats after `round_s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum GeneratorSpec {
    /// Opportunities as a Poisson process; see [`Poisson`].
    Poisson {
        mean_mbit_per_sec: f64,
        #[serde(default = "minute")]
        round_s: f64,
    },
    /// A rate that changes at random, like that of a cellular link; see [`Markov`].
    Markov {
        min_mbit_per_sec: f64,
        max_mbit_per_sec: f64,
        /// How long one rate lasts.
        #[serde(default = "tenth")]
        step_ms: f64,
        #[serde(default = "minute")]
        round_s: f64,
    },
    /// A rate that climbs and falls back; see [`Sawtooth`].
    Sawtooth {
        min_mbit_per_sec: f64,
        max_mbit_per_sec: f64,
        /// How long one climb takes.
        tooth_s: f64,
        #[serde(default = "minute")]
        round_s: f64,
    },
    /// Bursts with waits between them; see [`Wifi`].
    Wifi {
        mean_mbit_per_sec: f64,
        /// A burst has 1 to this many packets.
        burst_pkts_max: u32,
        #[serde(default = "minute")]
        round_s: f64,
    },
    /// A group of packets at regular intervals; see [`Periodic`].
    Periodic {
        /// How many packets leave together.
        packets: u32,
        interval_ms: f64,
    },
    /// A cell with scheduled grants, fades and silences; see [`Cell`].
    Cell {
        min_mbit_per_sec: f64,
        max_mbit_per_sec: f64,
        /// The time from one grant to the next.
        grant_ms: f64,
        /// The mean time between two fades.
        fade_every_s: f64,
        /// The mean length of a fade.
        fade_s: f64,
        /// The share of fades in which nothing is sent.
        #[serde(default)]
        silent_percent: f64,
        #[serde(default = "minute")]
        round_s: f64,
    },
    /// A path over satellites, with a hand-over every 15 s; see [`Leo`].
    Leo {
        min_mbit_per_sec: f64,
        max_mbit_per_sec: f64,
        /// How long nothing leaves after a hand-over.
        out_ms: f64,
        /// The most that a satellite adds to the delay.
        delay_ms_max: f64,
        #[serde(default = "minute")]
        round_s: f64,
    },
}

fn minute() -> f64 {
    60.0
}

fn tenth() -> f64 {
    100.0
}

fn whole_ms(ms: f64) -> u32 {
    ms.round() as u32
}

fn range(min: f64, max: f64) -> Result<(), SpecError> {
    check_rate("generator.min_mbit_per_sec", min)?;
    check_rate("generator.max_mbit_per_sec", max)?;
    let rule = "must be at least min_mbit_per_sec";
    check(max >= min, "generator.max_mbit_per_sec", max, rule)
}

/// Spans must be whole milliseconds, as in trace files.
fn check_whole(key: &str, ms: f64) -> Result<(), SpecError> {
    check((1.0..=ROUND_S_MAX * 1e3).contains(&ms), key, ms, "must be between 1 ms and an hour")
}

impl GeneratorSpec {
    fn round_s(&self) -> f64 {
        match self {
            Self::Poisson { round_s, .. }
            | Self::Markov { round_s, .. }
            | Self::Sawtooth { round_s, .. }
            | Self::Wifi { round_s, .. }
            | Self::Cell { round_s, .. }
            | Self::Leo { round_s, .. } => *round_s,
            Self::Periodic { interval_ms, .. } => interval_ms / 1e3,
        }
    }

    /// The highest rate that lasts, in Mbit/s.
    fn most(&self) -> f64 {
        match self {
            Self::Periodic { packets, interval_ms } => f64::from(*packets) * 12.0 / interval_ms,
            Self::Poisson { mean_mbit_per_sec, .. } | Self::Wifi { mean_mbit_per_sec, .. } => {
                *mean_mbit_per_sec
            }
            Self::Markov { max_mbit_per_sec, .. }
            | Self::Sawtooth { max_mbit_per_sec, .. }
            | Self::Cell { max_mbit_per_sec, .. }
            | Self::Leo { max_mbit_per_sec, .. } => *max_mbit_per_sec,
        }
    }

    /// The rate to expect in the long run, in Mbit/s; that of one round may differ.
    pub fn mean_mbit_per_sec(&self) -> f64 {
        match self {
            // A walk over levels spaced by squares is at each level equally often: the mean of
            // (k / 8)^2 for k from 0 to 8 is 17/48.
            Self::Markov { min_mbit_per_sec, max_mbit_per_sec, .. } => {
                min_mbit_per_sec + (max_mbit_per_sec - min_mbit_per_sec) * 17.0 / 48.0
            }
            Self::Sawtooth { min_mbit_per_sec, max_mbit_per_sec, .. }
            | Self::Leo { min_mbit_per_sec, max_mbit_per_sec, .. } => {
                f64::midpoint(*min_mbit_per_sec, *max_mbit_per_sec)
            }
            Self::Cell { .. } => self.cell().map_or(0.0, Cell::mean),
            Self::Periodic { .. } | Self::Poisson { .. } | Self::Wifi { .. } => self.most(),
        }
    }

    fn cell(&self) -> Option<Cell> {
        let Self::Cell { min_mbit_per_sec, max_mbit_per_sec, grant_ms, fade_every_s, .. } = *self
        else {
            return None;
        };
        let Self::Cell { fade_s, silent_percent, .. } = *self else { return None };
        Some(Cell {
            least: min_mbit_per_sec,
            most: max_mbit_per_sec,
            grant_ms: whole_ms(grant_ms),
            fade_every_ms: whole_ms(fade_every_s * 1e3),
            fade_ms: whole_ms(fade_s * 1e3),
            silent_share: silent_percent / 100.0,
        })
    }

    /// Whether the generator also sets the link's delay.
    pub(super) fn sets_delays(&self) -> bool {
        matches!(self, Self::Leo { .. })
    }

    pub(super) fn validate(&self) -> Result<(), SpecError> {
        let round_s = self.round_s();
        if !matches!(self, Self::Periodic { .. }) {
            let fits = (1.0..=ROUND_S_MAX).contains(&round_s);
            check(fits, "generator.round_s", round_s, "must be between 1 and 3600")?;
        }
        match self {
            Self::Periodic { packets, interval_ms } => {
                check_whole("generator.interval_ms", *interval_ms)?;
                let fits = (1..=TOGETHER_PKTS_MAX).contains(packets);
                check(fits, "generator.packets", packets, "must be between 1 and 1000")?;
            }
            Self::Poisson { mean_mbit_per_sec, .. } => {
                check_rate("generator.mean_mbit_per_sec", *mean_mbit_per_sec)?;
            }
            Self::Markov { min_mbit_per_sec, max_mbit_per_sec, step_ms, .. } => {
                range(*min_mbit_per_sec, *max_mbit_per_sec)?;
                check_whole("generator.step_ms", *step_ms)?;
            }
            Self::Sawtooth { min_mbit_per_sec, max_mbit_per_sec, tooth_s, .. } => {
                range(*min_mbit_per_sec, *max_mbit_per_sec)?;
                check_whole("generator.tooth_s", *tooth_s * 1e3)?;
            }
            Self::Wifi { mean_mbit_per_sec, burst_pkts_max, .. } => {
                check_rate("generator.mean_mbit_per_sec", *mean_mbit_per_sec)?;
                let fits = (1..=BURST_PKTS_MAX).contains(burst_pkts_max);
                let rule = "must be between 1 and 64, the most that one block ACK covers";
                check(fits, "generator.burst_pkts_max", burst_pkts_max, rule)?;
            }
            Self::Cell { min_mbit_per_sec, max_mbit_per_sec, grant_ms, .. } => {
                range(*min_mbit_per_sec, *max_mbit_per_sec)?;
                check_whole("generator.grant_ms", *grant_ms)?;
                self.validate_fades()?;
            }
            Self::Leo { min_mbit_per_sec, max_mbit_per_sec, out_ms, delay_ms_max, .. } => {
                range(*min_mbit_per_sec, *max_mbit_per_sec)?;
                let rule =
                    "must be between 0 and 5000, a third of the time that a satellite serves";
                check((0.0..=5e3).contains(out_ms), "generator.out_ms", out_ms, rule)?;
                check_span("generator.delay_ms_max", *delay_ms_max)?;
            }
        }
        let packets = crate::generator::packets_per_ms(self.most()) * round_s * 1e3;
        let rule = "would take more than 50 million opportunities at this rate: make it shorter";
        check(packets <= PACKETS_MAX, "generator.round_s", round_s, rule)
    }

    fn validate_fades(&self) -> Result<(), SpecError> {
        let Self::Cell { fade_every_s, fade_s, silent_percent, .. } = self else { return Ok(()) };
        check_whole("generator.fade_every_s", *fade_every_s * 1e3)?;
        check_whole("generator.fade_s", *fade_s * 1e3)?;
        super::percent("generator.silent_percent", *silent_percent)
    }

    /// Generates the opportunities of one round.
    pub(super) fn make(&self, rng: &mut ChaCha8Rng) -> Generated {
        let round_ms = whole_ms(self.round_s() * 1e3);
        match *self {
            Self::Periodic { packets, interval_ms } => {
                Periodic { packets, interval_ms: whole_ms(interval_ms) }.round()
            }
            Self::Poisson { mean_mbit_per_sec: mean, .. } => Poisson { mean }.round(round_ms, rng),
            Self::Markov { min_mbit_per_sec, max_mbit_per_sec, step_ms, .. } => {
                let (least, most) = (min_mbit_per_sec, max_mbit_per_sec);
                Markov { least, most, step_ms: whole_ms(step_ms) }.round(round_ms, rng)
            }
            Self::Sawtooth { min_mbit_per_sec, max_mbit_per_sec, tooth_s, .. } => {
                let (least, most) = (min_mbit_per_sec, max_mbit_per_sec);
                Sawtooth { least, most, tooth_ms: whole_ms(tooth_s * 1e3) }.round(round_ms)
            }
            Self::Wifi { mean_mbit_per_sec: mean, burst_pkts_max, .. } => {
                Wifi { mean, burst_pkts_max }.round(round_ms, rng)
            }
            Self::Cell { .. } => self.cell().expect("it is a cell").round(round_ms, rng),
            Self::Leo { min_mbit_per_sec, max_mbit_per_sec, out_ms, delay_ms_max, .. } => {
                let (least, most) = (min_mbit_per_sec, max_mbit_per_sec);
                let (out_ms, delay_ms_most) = (whole_ms(out_ms), delay_ms_max);
                Leo { least, most, out_ms, delay_ms_most }.round(round_ms, rng)
            }
        }
    }

    /// A description for the first line of a log.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Periodic { packets, interval_ms } => {
                format!("{packets} packets each {interval_ms} ms")
            }
            Self::Poisson { mean_mbit_per_sec, .. } => {
                format!("Poisson, {mean_mbit_per_sec} Mbit/s")
            }
            Self::Markov { min_mbit_per_sec, max_mbit_per_sec, .. } => {
                format!("wandering, {min_mbit_per_sec} to {max_mbit_per_sec} Mbit/s")
            }
            Self::Sawtooth { min_mbit_per_sec, max_mbit_per_sec, .. } => {
                format!("sawtooth, {min_mbit_per_sec} to {max_mbit_per_sec} Mbit/s")
            }
            Self::Wifi { mean_mbit_per_sec, .. } => format!("bursts, {mean_mbit_per_sec} Mbit/s"),
            Self::Cell { min_mbit_per_sec, max_mbit_per_sec, .. } => {
                format!("cell, {min_mbit_per_sec} to {max_mbit_per_sec} Mbit/s")
            }
            Self::Leo { min_mbit_per_sec, max_mbit_per_sec, .. } => {
                format!("satellites, {min_mbit_per_sec} to {max_mbit_per_sec} Mbit/s")
            }
        }
    }
}
