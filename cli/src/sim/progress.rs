//! The progress of a sweep: a bar on a terminal, occasional lines without one, nothing for short
//! work.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use remuda_results::Outcome;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Work that ends sooner needs no bar.
const PATIENCE: Duration = Duration::from_millis(700);
/// How often a line is written without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// The work that all threads have done, in simulated milliseconds.
#[derive(Debug, Default)]
pub struct Work(AtomicU64);

impl Work {
    pub fn add(&self, simulated_ms: u64) {
        self.0.fetch_add(simulated_ms, Ordering::Relaxed);
    }

    fn done_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The progress on standard error.
pub struct Progress {
    quiet: bool,
    total_ms: u64,
    runs: usize,
    bar: Option<ProgressBar>,
    line_at: Duration,
}

impl Progress {
    pub fn new(total_ms: u64, runs: usize, quiet: bool) -> Self {
        Self { quiet, total_ms, runs, bar: None, line_at: LINE_EVERY }
    }

    /// Shows the progress, if it is time to.
    pub fn show(&mut self, work: &Work, runs_done: usize, elapsed: Duration) {
        if self.quiet || elapsed < PATIENCE {
            return;
        }
        let done_ms = work.done_ms().min(self.total_ms);
        if std::io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| bar(self.total_ms));
            bar.set_message(message(done_ms, self.total_ms, (runs_done, self.runs), elapsed));
            bar.set_position(done_ms);
        } else if elapsed >= self.line_at {
            self.line_at = elapsed + LINE_EVERY;
            let message = message(done_ms, self.total_ms, (runs_done, self.runs), elapsed);
            eprintln!("remuda sim: {message}");
        }
    }

    pub fn clear(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(total_ms: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total_ms), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:40} {msg}");
    // The template is a constant; if it were wrong, a plain bar would do.
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// The progress and the estimated remaining time.
fn message(
    done_ms: u64,
    total_ms: u64,
    (runs_done, runs): (usize, usize),
    elapsed: Duration,
) -> String {
    let share = done_ms as f64 / total_ms.max(1) as f64;
    let mut text = format!("{:.0} %, {runs_done} of {runs} runs", share * 100.0);
    if share > 0.0 {
        let left_s = elapsed.as_secs_f64() * (1.0 - share) / share;
        let _ = write!(text, ", about {left_s:.0} s left");
    }
    text
}

/// How much was done, and how fast.
pub fn summary(outcomes: &[&Outcome], elapsed: Duration) -> String {
    let simulated_s: f64 = outcomes.iter().map(|outcome| outcome.duration_s).sum();
    let packets: u64 = outcomes.iter().map(|outcome| outcome.packets).sum();
    let elapsed_s = elapsed.as_secs_f64().max(1e-3);
    format!(
        "remuda sim: {} run{}, {simulated_s:.0} simulated seconds and {:.2} million data packets \
         in {elapsed_s:.1} s: {:.0} times real time, {:.2} million packets a second\n",
        outcomes.len(),
        if outcomes.len() == 1 { "" } else { "s" },
        packets as f64 / 1e6,
        simulated_s / elapsed_s,
        packets as f64 / 1e6 / elapsed_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_how_far_and_how_long() {
        let text = message(250, 1_000, (2, 8), Duration::from_secs(10));
        assert_eq!(text, "25 %, 2 of 8 runs, about 30 s left");
        let text = message(0, 1_000, (0, 8), Duration::from_secs(10));
        assert_eq!(text, "0 %, 0 of 8 runs");
    }

    #[test]
    fn a_summary_says_how_fast() {
        let outcome = Outcome { duration_s: 30.0, packets: 3_000_000, ..Outcome::default() };
        let text = summary(&[&outcome, &outcome], Duration::from_secs(2));
        assert!(text.contains("60 simulated seconds and 6.00 million data packets"), "{text}");
        assert!(text.contains("30 times real time, 3.00 million packets a second"), "{text}");
    }
}
