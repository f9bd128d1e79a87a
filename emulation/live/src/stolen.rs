//! Time that a hypervisor took from this machine's processors.
//!
//! A guest's own tracing does not see it: a thread that waits for its processor looks as if it ran.
//! For a link or a receiver it is a late host; a measurement says how much of it there was.

use std::time::Duration;

/// `USER_HZ`: what /proc/stat counts in.
const TICK: Duration = Duration::from_millis(10);

/// What was stolen from all processors together since the machine started; zero where the kernel
/// does not say.
pub fn stolen() -> Duration {
    of_stat(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// The first line: user, nice, system, idle, iowait, irq, softirq, steal, …
fn of_stat(stat: &str) -> Duration {
    let line = stat.lines().next().unwrap_or_default();
    let ticks = line.split_whitespace().nth(8).and_then(|steal| steal.parse::<u32>().ok());
    TICK.saturating_mul(ticks.unwrap_or(0))
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
