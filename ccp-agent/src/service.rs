//! What the service manager is told (systemd's `Type=notify` and `WatchdogSec`). Without a service
//! manager nothing happens.

use sd_notify::NotifyState::{self, Ready, Stopping, Watchdog};
use std::time::Duration;

/// Feeds the watchdog. The run loop does that itself, so an agent whose run loop hangs is restarted
/// although its other threads answer.
#[derive(Debug)]
pub struct Feeder {
    interval_ns: Option<u64>,
    fed_ns: u64,
}

impl Feeder {
    /// As the service manager asks for in the environment: three times within its limit.
    pub fn from_environment() -> Self {
        Self::every(sd_notify::watchdog_enabled().map(|limit| limit / 3))
    }

    fn every(interval: Option<Duration>) -> Self {
        let interval_ns = interval.map(|it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX));
        Self { interval_ns, fed_ns: 0 }
    }

    fn is_due(&mut self, now_ns: u64) -> bool {
        let Some(interval_ns) = self.interval_ns else { return false };
        let due = self.fed_ns == 0 || now_ns.saturating_sub(self.fed_ns) >= interval_ns;
        if due {
            self.fed_ns = now_ns;
        }
        due
    }

    /// Says that the run loop turns, if it is time to. `now_ns` is CLOCK_MONOTONIC.
    pub fn feed(&mut self, now_ns: u64) {
        if self.is_due(now_ns) {
            tell(Watchdog);
        }
    }
}

/// The service is ready.
pub fn ready() {
    tell(Ready);
}

/// The service begins to stop.
pub fn stopping() {
    tell(Stopping);
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager does not hear what it asked for");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_is_fed_three_times_within_its_limit_and_nobody_else_is() {
        let mut feeder = Feeder::every(Some(Duration::from_millis(100)));
        let fed = (1..1_000).filter(|ms| feeder.is_due(ms * 1_000_000)).count();
        assert_eq!(fed, 10);
        let mut nobody = Feeder::every(None);
        assert!(!(0..1_000).any(|ms| nobody.is_due(ms * 1_000_000)));
    }
}
