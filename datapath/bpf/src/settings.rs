//! How a datapath is loaded, and what is attached.

use crate::admission::Admission;
use std::path::PathBuf;
use std::time::Duration;

/// How to load the datapath.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name sockets ask for with `TCP_CONGESTION`; 1 to 15 characters.
    pub name: String,
    /// The kernel's own algorithm that flows go back to when the agent leaves.
    pub native: String,
    /// When the last heartbeat is older than this, flows enter fallback.
    pub heartbeat_timeout: Duration,
    /// The largest window, in segments.
    pub cwnd_max_pkts: u32,
    /// The largest pacing rate, in bytes per second.
    pub rate_max_bytes_per_sec: u64,
    /// Initial window, in segments, of flows taken over by cgroup; `None` leaves the kernel's.
    pub initial_cwnd_pkts: Option<u32>,
    /// The most flows at once, 1 to [`crate::layout::FLOWS_MAX`]. Any further socket runs `native`.
    pub flows_max: u32,
    /// Who may have flows, and how many.
    pub admission: Admission,
    /// How many destinations may be remembered; 0 counts as 1.
    pub destinations_max: u32,
    /// Whether each response is an event: what a server sends between two requests.
    pub measures_responses: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "remuda".to_owned(),
            native: "cubic".to_owned(),
            heartbeat_timeout: Duration::from_millis(150),
            cwnd_max_pkts: 100_000,
            rate_max_bytes_per_sec: 12_500_000_000,
            initial_cwnd_pkts: None,
            flows_max: 8_192,
            admission: Admission::default(),
            destinations_max: 32_768,
            measures_responses: false,
        }
    }
}

/// What is loaded and attached at a start.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub settings: Settings,
    /// The directories of the cgroups whose new sockets are taken over.
    pub cgroups: Vec<PathBuf>,
    /// Whether the algorithm becomes the default of this network namespace.
    pub takes_default: bool,
}
