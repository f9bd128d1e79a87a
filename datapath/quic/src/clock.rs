//! The only file of this crate that reads the clock. It reads CLOCK_MONOTONIC, which is also the
//! clock of `Instant` and of the agent's time stamps.

use std::time::{Duration, Instant};

/// Converts `Instant` to nanoseconds of CLOCK_MONOTONIC, by one moment known as both.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    started_ns: u64,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is the file that reads the clock")]
    pub fn start() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let secs = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
        Self { started: Instant::now(), started_ns: secs * 1_000_000_000 + nanos }
    }

    /// Converts a time of the QUIC stack to nanoseconds of CLOCK_MONOTONIC.
    pub fn at_ns(&self, moment: Instant) -> u64 {
        match moment.checked_duration_since(self.started) {
            Some(since) => self.started_ns.saturating_add(nanos(since)),
            None => self.started_ns.saturating_sub(nanos(self.started - moment)),
        }
    }

    /// The present time, in nanoseconds of CLOCK_MONOTONIC.
    pub fn now_ns(&self) -> u64 {
        self.started_ns.saturating_add(nanos(self.started.elapsed()))
    }

    /// The time since [`Clock::start`], for measuring a transfer.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    #[cfg(test)]
    pub fn started(&self) -> Instant {
        self.started
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_before_and_after_keep_their_distance() {
        let clock = Clock::start();
        let second = Duration::from_secs(1);
        let at_ns = clock.at_ns(clock.started());
        assert_eq!(clock.at_ns(clock.started() + second), at_ns + 1_000_000_000);
        assert_eq!(clock.at_ns(clock.started() - second), at_ns - 1_000_000_000);
        assert!(clock.now_ns() >= at_ns);
    }
}
