//! Scheduling priority for threads that must not wait for ordinary programs.

use crate::clock::{Clock, own_cpu};
use remuda_link::Nanos;
use std::time::Duration;

/// How often a real-time thread checks how much processor time it uses.
const CHECK_INTERVAL: Nanos = Nanos(1_000_000_000);
/// A thread that uses a larger share of a processor gives the priority up. From 0.95 on, the kernel
/// would stop a real-time thread for tens of milliseconds at a time.
const USE_MAX: f64 = 0.8;
/// The lowest real-time priority, which is above all ordinary programs.
const PRIORITY: i32 = 1;
/// Above ordinary programs, without real-time priority.
const NICE: i32 = -10;

/// Raises the calling thread's priority above ordinary programs. Does nothing if that is refused.
pub(crate) fn hurry() {
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// Real-time priority of the calling thread, as long as it leaves enough time to other programs.
///
/// A link that waits for another program releases ACKs in bunches, and BBR mistakes a bunch for
/// bandwidth. On one processor of 1 GHz, at 96 Mbit/s with half a BDP of buffer, the 95th
/// percentile of the queue was 14.9 to 19.2 ms in three runs; with real-time priority it is 10.9 to
/// 12.2 ms. A nice value is not enough: the kernel lets a running program finish its slice of up to
/// 4 ms.
#[derive(Debug)]
pub(crate) struct RealTime {
    has_priority: bool,
    checked_at: Nanos,
    used: Duration,
}

impl RealTime {
    /// Requests real-time priority. If that is refused, the thread keeps the priority of [`hurry`].
    pub(crate) fn start(clock: Clock) -> Self {
        hurry();
        // Reset on fork: threads started by this one need no such priority.
        let has_priority = set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, PRIORITY);
        Self { has_priority, checked_at: clock.now(), used: own_cpu() }
    }

    /// Gives the priority up for good after a second of too much use.
    pub(crate) fn check(&mut self, clock: Clock) {
        let since = clock.now() - self.checked_at;
        if !self.has_priority || since < CHECK_INTERVAL {
            return;
        }
        let used = own_cpu();
        if uses_too_much(used - self.used, since) {
            self.has_priority = !set_policy(libc::SCHED_OTHER, 0);
        }
        (self.checked_at, self.used) = (self.checked_at + since, used);
    }
}

fn uses_too_much(used: Duration, since: Nanos) -> bool {
    used.as_secs_f64() * 1e9 > USE_MAX * since.0 as f64
}

fn set_policy(policy: i32, sched_priority: i32) -> bool {
    let priority = libc::sched_param { sched_priority };
    // SAFETY: zero means the calling thread, and `priority` lives during the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const priority) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_fifths_of_a_processor_are_not_too_much() {
        assert!(!uses_too_much(Duration::from_millis(800), CHECK_INTERVAL));
        assert!(uses_too_much(Duration::from_millis(801), CHECK_INTERVAL));
    }
}
