//! Models of the jitter of a radio, as keys of a link.

use crate::Error;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write;
use std::path::Path;

/// How the delay of a path varies. All but `Normal` are models that Rein's thresholds were not
/// chosen with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    None,
    /// Normal, half of each packet's jitter from the packet before: the suite's WiFi path.
    Normal,
    /// Uniform, drawn anew each 5 ms.
    Uniform,
    /// Pareto with a shape of 1.5, drawn anew each 5 ms: mostly short, now and then long.
    Pareto,
    /// The link sends bursts of 1 to 32 packets, with waits between: the simulator's Wi-Fi link.
    Bursts,
}

/// How often a recorded delay changes, and how long the recording is, in milliseconds.
const STEP_MS: usize = 5;
const RECORDED_MS: usize = 30_000;
/// The shape of the Pareto distribution, and its longest draw in scales.
const SHAPE: f64 = 1.5;
const LONGEST: f64 = 20.0;

impl Jitter {
    pub const ALL: [Self; 4] = [Self::Normal, Self::Uniform, Self::Pareto, Self::Bursts];

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "wired",
            Self::Normal => "normal",
            Self::Uniform => "uniform",
            Self::Pareto => "Pareto",
            Self::Bursts => "bursts",
        }
    }

    /// The keys of the link that carries data. `part` is the size of the jitter in round trips.
    /// Recorded delays are written into `folder`.
    pub(super) fn keys(
        self,
        rate_mbit_per_sec: f64,
        rtt_ms: f64,
        part: f64,
        seed: u64,
        folder: &Path,
    ) -> Result<String, Error> {
        let one_way_ms = rtt_ms / 2.0;
        let size_ms = rtt_ms * part;
        let rate = format!("rate_mbit_per_sec = {rate_mbit_per_sec:.1}\n");
        let draw: fn(f64) -> f64 = match self {
            Self::None => return Ok(format!("{rate}delay_ms = {one_way_ms:.1}\n")),
            Self::Normal => {
                return Ok(format!(
                    "{rate}delay_ms = {one_way_ms:.1}\njitter_std_ms = {size_ms:.2}\n\
                     jitter_correlation = 0.5\n"
                ));
            }
            Self::Bursts => {
                return Ok(format!(
                    "generator = {{ kind = \"wifi\", mean_mbit_per_sec = {rate_mbit_per_sec:.1}, \
                     burst_pkts_max = 32 }}\ndelay_ms = {one_way_ms:.1}\n"
                ));
            }
            // From none on, with a standard deviation of one.
            Self::Uniform => |fraction| 12f64.sqrt() * fraction,
            Self::Pareto => |fraction| ((1.0 - fraction).powf(-1.0 / SHAPE) - 1.0).min(LONGEST),
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut text = String::from("time_s,delay_ms\n");
        for step in 0..RECORDED_MS / STEP_MS {
            let fraction = f64::from(rng.next_u32()) / (f64::from(u32::MAX) + 1.0);
            let at_s = (step * STEP_MS) as f64 / 1e3;
            let delay_ms = one_way_ms + size_ms * draw(fraction);
            writeln!(text, "{at_s:.3},{delay_ms:.3}").expect("a string takes it");
        }
        let name = format!("{}-{rtt_ms}-{part}-{seed}.csv", self.name());
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(Error::writing(Some(&path)))?;
        Ok(format!("{rate}delay_trace = {{ file = {path:?}, of = \"one_way\" }}\n"))
    }
}
