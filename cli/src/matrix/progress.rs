//! The progress of a matrix: a bar on a terminal, occasional lines without one, nothing for short
//! work. Warns at once if a row cannot be kept, so that the user can still make room.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use remuda_matrix::{Progress, Unkept};
use std::io::IsTerminal;
use std::time::Duration;

/// Work that ends sooner needs no bar.
const PATIENCE: Duration = Duration::from_millis(700);
/// How often a line is written without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// What a run that is not kept costs, and the fix.
const UNKEPT: &str = "\
    its row goes into the table, but the next matrix runs it again, like all that cannot be kept\n\
    fix: make room there now, or --keep DIR elsewhere the next time";

/// The progress on standard error.
pub struct Bar {
    quiet: bool,
    runs: usize,
    bar: Option<ProgressBar>,
    line_at: Duration,
    unkept: Option<Unkept>,
}

impl Bar {
    pub fn new(runs: usize, quiet: bool) -> Self {
        Self { quiet, runs, bar: None, line_at: LINE_EVERY, unkept: None }
    }

    /// Shows the progress, if it is time to.
    pub fn show(&mut self, so_far: &Progress, elapsed: Duration) {
        if let (None, Some(first)) = (&self.unkept, &so_far.unkept) {
            self.warn(first);
        }
        self.unkept.clone_from(&so_far.unkept);
        if self.quiet || elapsed < PATIENCE {
            return;
        }
        if std::io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| bar(self.runs));
            bar.set_message(message(so_far, elapsed));
            bar.set_position(so_far.done as u64);
        } else if elapsed >= self.line_at {
            self.line_at = elapsed + LINE_EVERY;
            eprintln!("remuda matrix: {}", message(so_far, elapsed));
        }
    }

    /// Prints a warning, also with --quiet.
    fn warn(&self, first: &Unkept) {
        let warning = format!("remuda matrix: cannot keep a run: {}\n{UNKEPT}", first.why);
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{warning}")),
            None => eprintln!("{warning}"),
        }
    }

    /// Removes the bar. Returns how many runs could not be kept.
    pub fn clear(self) -> usize {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        self.unkept.map_or(0, |unkept| unkept.runs)
    }
}

fn bar(runs: usize) -> ProgressBar {
    let target = ProgressDrawTarget::stderr();
    let bar = ProgressBar::with_draw_target(Some(runs as u64), target);
    let style = ProgressStyle::with_template("{bar:40} {msg}");
    // The template is a constant; if it were wrong, a plain bar would do.
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// The progress and the estimated remaining time. Runs kept from before took no time.
fn message(so_far: &Progress, elapsed: Duration) -> String {
    let Progress { done, kept, failed, all, .. } = *so_far;
    let mut text = format!("{done} of {all} runs");
    if kept > 0 {
        text += &format!(", {kept} kept from before");
    }
    if failed > 0 {
        text += &format!(", {failed} failed");
    }
    if let Some(unkept) = &so_far.unkept {
        text += &format!(", {} not kept", unkept.runs);
    }
    if done > kept {
        let each_s = elapsed.as_secs_f64() / (done - kept) as f64;
        text += &format!(", about {:.0} s left", each_s * (all - done) as f64);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_guessed_from_what_was_run() {
        let so_far = Progress { done: 60, kept: 40, failed: 1, all: 100, unkept: None };
        let text = message(&so_far, Duration::from_secs(10));
        let want = "60 of 100 runs, 40 kept from before, 1 failed, about 20 s left";
        assert_eq!(text, want);
        let kept = Progress { done: 5, kept: 5, all: 9, ..Progress::default() };
        assert_eq!(message(&kept, Duration::from_secs(1)), "5 of 9 runs, 5 kept from before");
        let unkept = Some(Unkept { runs: 2, why: "full".to_owned() });
        let full = Progress { done: 4, kept: 4, all: 4, unkept, ..Progress::default() };
        let want = "4 of 4 runs, 4 kept from before, 2 not kept";
        assert_eq!(message(&full, Duration::from_secs(1)), want);
    }
}
