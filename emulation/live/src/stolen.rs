//! Measures the time a hypervisor takes from this machine's processors, and repeats disturbed runs.
//!
//! Tracing inside a guest does not show stolen time: a thread that waits for its processor seems to
//! run. To a link or a receiver, it looks like a slow host. BBR at 96 Mbit/s and 40 ms, the
//! kernel's or ours, has a queue of 13 ms at the 95th percentile while 0.6 % of one processor is
//! stolen, and up to 73 ms from 1.3 % on.

use crate::clock::Clock;
use std::time::Duration;

/// A run is disturbed if a larger share of one processor was stolen while it ran.
pub const STOLEN_MAX: f64 = 0.007;

/// The unit of /proc/stat: `USER_HZ`.
const TICK: Duration = Duration::from_millis(10);

/// The time stolen from all processors together since the machine started; zero if the kernel does
/// not report it.
fn stolen() -> Duration {
    of_stat(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Parses the first line: user, nice, system, idle, iowait, irq, softirq, steal, …
fn of_stat(stat: &str) -> Duration {
    let line = stat.lines().next().unwrap_or_default();
    let ticks = line.split_whitespace().nth(8).and_then(|steal| steal.parse::<u32>().ok());
    TICK.saturating_mul(ticks.unwrap_or(0))
}

/// Runs `work`, and repeats it while it is disturbed, at most `tries` times in all. Returns the
/// least disturbed result, and the share of one processor that was stolen during it. Calls
/// `on_repeat` with that share before each repetition.
///
/// # Errors
///
/// Returns the error of the first run of `work`. An error of a later run only ends the repetitions.
pub fn least_disturbed<T, E>(
    tries: u32,
    mut work: impl FnMut() -> Result<T, E>,
    on_repeat: impl Fn(f64),
) -> Result<(T, f64), E> {
    let mut timed = || {
        let (clock, before) = (Clock::start(), stolen());
        let done = work()?;
        let share = stolen().saturating_sub(before).as_secs_f64() / clock.elapsed().as_secs_f64();
        Ok((done, share))
    };
    let mut best = timed()?;
    for _ in 1..tries {
        if best.1 <= STOLEN_MAX {
            break;
        }
        on_repeat(best.1);
        // An error does not discard the result of an earlier run.
        match timed() {
            Ok(next) if next.1 < best.1 => best = next,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eighth_figure_is_what_was_stolen() {
        let stat = "cpu  1 2 3 1000 1000 4 5 17 0 0\ncpu0 9";
        assert_eq!(of_stat(stat), Duration::from_millis(170));
        assert_eq!(of_stat(""), Duration::ZERO);
    }
}
