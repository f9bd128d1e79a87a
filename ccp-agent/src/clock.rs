//! The clock, read here and nowhere else in the agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where a host takes the time from.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// CLOCK_MONOTONIC, the clock of the datapaths of this host.
    #[default]
    Monotonic,
    /// A number of microseconds that the caller sets: to feed recorded events to a host.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    pub fn now_us(&self) -> u64 {
        match self {
            Self::Monotonic => monotonic_us(),
            Self::Manual(now_us) => now_us.load(Ordering::Relaxed),
        }
    }
}

/// CLOCK_MONOTONIC in nanoseconds: the clock of the datapaths of this host.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid out-pointer; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub fn monotonic_us() -> u64 {
    monotonic_ns() / 1_000
}

/// CLOCK_MONOTONIC in seconds: the clock of what is remembered.
pub fn monotonic_s() -> u64 {
    monotonic_ns() / 1_000_000_000
}

/// Wall-clock time since 1970: to stamp the event log for people, and to know how old a file is
/// that a former agent has left.
#[expect(clippy::disallowed_methods, reason = "this is the file that reads the clock")]
pub fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
