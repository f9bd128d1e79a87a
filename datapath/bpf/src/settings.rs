//! How a datapath is loaded, and what is attached.

use crate::Error;
use crate::layout::NAME_BYTES;
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
    /// The most flows at once, 1 to [`crate::layout::FLOWS_MAX`]. Any further flow runs Reno in the
    /// kernel.
    pub flows_max: u32,
    /// How many destinations may be remembered; 0 counts as 1.
    pub destinations_max: u32,
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
            destinations_max: 32_768,
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

/// Checks that `name` can name an algorithm: 1 to 15 printable characters. The kernel cuts longer
/// names.
pub fn check_name(name: &str) -> Result<(), Error> {
    let fits = !name.is_empty() && name.len() < NAME_BYTES;
    if fits && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(Error::Name(name.to_owned()))
}

/// A name as the kernel has it, filled up with zeros.
pub(crate) fn fixed_name(name: &str) -> Result<[u8; NAME_BYTES], Error> {
    check_name(name)?;
    let mut fixed = [0; NAME_BYTES];
    fixed[..name.len()].copy_from_slice(name.as_bytes());
    Ok(fixed)
}
