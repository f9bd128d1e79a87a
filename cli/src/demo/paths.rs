//! The three paths, and the order in which drivers run on them. Pure data, without a clock.

use remuda_live::{LinkSpec, PathSpec, QueueSpec};
use std::time::Duration;

/// 3 MB/s, as in the paper.
pub const RATE_MBIT_PER_SEC: f64 = 24.0;
/// One-way: 40 ms in both directions together, as in the paper.
pub const DELAY_MS: f64 = 20.0;
/// Only acknowledgements go up, so a queue of this many BDPs never fills.
const UP_QUEUE_BDPS: f64 = 8.0;

/// A path of the demonstration. Rate and delay are the same on all paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    pub key: &'static str,
    pub title: &'static str,
    /// The arm that the paper's Rein chooses here.
    pub suits: &'static str,
    /// Drop-tail buffer before the bottleneck, in BDPs.
    pub buffer_bdps: f64,
    /// Standard deviation of the delay.
    pub jitter_std_ms: f64,
    /// Correlation of one packet's delay with the next one's.
    pub jitter_correlation: f64,
}

/// Rein's section 5.2: two wired networks with different buffers, and a WiFi-like one.
pub const PATHS: [Path; 3] = [
    Path {
        key: "wired_1_bdp",
        title: "wired, 1 BDP",
        suits: "bbr",
        buffer_bdps: 1.0,
        jitter_std_ms: 0.0,
        jitter_correlation: 0.0,
    },
    Path {
        key: "wired_4_bdp",
        title: "wired, 4 BDP",
        suits: "cubic",
        buffer_bdps: 4.0,
        jitter_std_ms: 0.0,
        jitter_correlation: 0.0,
    },
    Path {
        key: "wifi_like",
        title: "WiFi-like",
        suits: "westwood",
        buffer_bdps: 2.0,
        // A radio retransmits what it loses. So TCP sees a delay that varies within milliseconds
        // (about 30 packets here), and almost no loss.
        jitter_std_ms: 20.0,
        jitter_correlation: 0.97,
    },
];

impl Path {
    /// The path for the emulator. Downloads go down, from the server to the client.
    pub fn spec(&self, seed: u64) -> PathSpec {
        let up = LinkSpec {
            rate_mbit_per_sec: Some(RATE_MBIT_PER_SEC),
            delay_ms: DELAY_MS,
            queue: QueueSpec::droptail_bdp(UP_QUEUE_BDPS),
            seed,
            ..LinkSpec::default()
        };
        let down = LinkSpec {
            jitter_std_ms: self.jitter_std_ms,
            jitter_correlation: self.jitter_correlation,
            queue: QueueSpec::droptail_bdp(self.buffer_bdps),
            ..up.clone()
        };
        PathSpec { up, down, ..PathSpec::default() }
    }

    pub fn about(&self) -> String {
        let mut text = format!(
            "{RATE_MBIT_PER_SEC} Mbit/s, {} ms RTT, droptail of {} BDP",
            2.0 * DELAY_MS,
            self.buffer_bdps
        );
        if self.jitter_std_ms > 0.0 {
            text += &format!(
                ", delay jitter of {} ms standard deviation (AR(1), {} from packet to packet)",
                self.jitter_std_ms, self.jitter_correlation
            );
        }
        text
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The drivers of the downloads.
    pub drivers: Vec<String>,
    /// How often each driver downloads the file on each path.
    pub rounds: u32,
    pub file_bytes: u64,
    /// The seed of loss, jitter and order.
    pub seed: u64,
    /// No download starts that might not end within this time.
    pub within: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heat {
    /// Index into [`PATHS`].
    pub path: usize,
    pub driver: String,
    pub round: u32,
    /// The seed of the links, the same for all drivers of a round.
    pub seed: u64,
}

impl Plan {
    /// The downloads on a path, in order. The order rotates from round to round, so that no driver
    /// always runs in the quiet or the busy moments of the machine.
    pub fn heats(&self, path: usize) -> Vec<Heat> {
        let mut heats = Vec::new();
        for round in 0..self.rounds {
            let mut drivers = self.drivers.clone();
            let turn = (self.seed as usize).wrapping_add(path + round as usize) % drivers.len();
            drivers.rotate_left(turn);
            let seed = self.seed.wrapping_add(round.into());
            heats.extend(drivers.into_iter().map(|driver| Heat { path, driver, round, seed }));
        }
        heats
    }

    /// The time of a download at half of the path's rate, its fair share.
    pub fn fair_time(&self) -> Duration {
        Duration::from_secs_f64(self.file_bytes as f64 * 8.0 / (RATE_MBIT_PER_SEC * 1e6 / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn plan() -> Plan {
        Plan {
            drivers: ["rein", "cubic", "bbr"].map(str::to_owned).to_vec(),
            rounds: 3,
            file_bytes: 12_000_000,
            seed: 5,
            within: Duration::from_secs(100),
        }
    }

    #[test]
    fn the_paths_are_links_that_can_be_built() {
        let keys: HashSet<&str> = PATHS.iter().map(|path| path.key).collect();
        assert_eq!(keys.len(), PATHS.len());
        for path in PATHS {
            let spec = path.spec(7);
            spec.down.validate().expect("down");
            spec.up.validate().expect("up");
            assert_eq!(spec.rtt().0, 40_000_000, "{}", path.key);
            assert!(remuda_algorithms::arm(path.suits).is_some(), "{}", path.suits);
        }
    }

    #[test]
    fn every_driver_runs_once_a_round_and_once_in_each_place() {
        let plan = plan();
        for path in 0..PATHS.len() {
            let heats = plan.heats(path);
            assert_eq!(heats.len(), 9);
            for place in 0..3 {
                let there: HashSet<&str> =
                    heats.iter().skip(place).step_by(3).map(|heat| heat.driver.as_str()).collect();
                assert_eq!(there.len(), 3, "place {place}");
            }
        }
        assert_eq!(plan.heats(0), plan.heats(0), "one seed, one order");
    }

    #[test]
    fn the_fair_share_is_half_of_the_path() {
        assert_eq!(plan().fair_time(), Duration::from_secs(8));
    }
}
