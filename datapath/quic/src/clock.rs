//! The clock, read here and nowhere else in this crate: CLOCK_MONOTONIC, of which both `Instant`
//! and the agent's stamps are readings.

use std::time::{Duration, Instant};

/// One moment by both names.
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

    /// A moment that the QUIC stack names, in nanoseconds of CLOCK_MONOTONIC.
    pub fn at_ns(&self, moment: Instant) -> u64 {
        match moment.checked_duration_since(self.started) {
            Some(since) => self.started_ns.saturating_add(nanos(since)),
            None => self.started_ns.saturating_sub(nanos(self.started - moment)),
        }
    }

    /// Now, in nanoseconds of CLOCK_MONOTONIC.
    pub fn now_ns(&self) -> u64 {
        self.started_ns.saturating_add(nanos(self.started.elapsed()))
    }

    /// How long it has run, for who measures a transfer.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// When it was read first.
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
