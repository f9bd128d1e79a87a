//! The state of the demonstration: a block that is redrawn on a terminal, or lines without one.

use super::paths::{PATHS, Plan};
use super::record::Run;
use crate::output::{visible, visible_name};
use ccp_agent::flow::Row;
use remuda_live::Clock;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a line is written without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Makes a terminal cut long lines; `WRAP_ON` makes it wrap them again.
const WRAP_OFF: &str = "\x1b[?7l";
const WRAP_ON: &str = "\x1b[?7h";
/// Clears the screen from the cursor to the end.
const CLEAR_BELOW: &str = "\x1b[J";

/// What a path does now.
#[derive(Clone, Debug, PartialEq)]
pub enum Lane {
    Waiting,
    /// A download is about to start.
    Starting {
        driver: String,
    },
    Running {
        driver: String,
        /// The arm that drives the download.
        arm: String,
        /// The time since the download's first byte.
        at: Duration,
        received_bytes: u64,
        srtt_ms: Option<f64>,
        /// Why this arm drives the download.
        why: String,
    },
    /// All downloads of the path have ended.
    Done,
}

impl Lane {
    /// A running download, with the agent's row for its flow if an agent drives it.
    pub fn running(driver: &str, at: Duration, received_bytes: u64, row: Option<Row>) -> Self {
        let driver = driver.to_owned();
        match row {
            Some(row) => {
                let Row { arm, srtt_ms, why, .. } = row;
                Self::Running { driver, arm, at, received_bytes, srtt_ms, why }
            }
            None => {
                let (arm, why) = ("-".to_owned(), "the kernel's own".to_owned());
                Self::Running { driver, arm, at, received_bytes, srtt_ms: None, why }
            }
        }
    }
}

#[derive(Debug)]
struct State {
    lanes: Vec<Lane>,
    /// For each lane: the number of downloads that ended, and their total time.
    ended: Vec<(u32, Duration)>,
    notes: Vec<String>,
}

/// The shared state to which all paths report.
#[derive(Debug)]
pub struct Board(Mutex<State>);

impl Board {
    /// The state before the first download.
    pub fn new() -> Self {
        Self(Mutex::new(State {
            lanes: vec![Lane::Waiting; PATHS.len()],
            ended: vec![(0, Duration::ZERO); PATHS.len()],
            notes: Vec::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what a path does now.
    pub fn set(&self, path: usize, lane: Lane) {
        self.lock().lanes[path] = lane;
    }

    /// Adds a line that is shown once.
    pub fn note(&self, note: String) {
        self.lock().notes.push(note);
    }

    /// Records that a download has ended, `took` after its preparation began.
    pub fn ended(&self, run: &Run, took: Duration) {
        let mut state = self.lock();
        let (count, total) = &mut state.ended[run.path];
        *count += 1;
        *total += took;
        state.notes.push(ended_line(run));
    }
}

fn ended_line(run: &Run) -> String {
    let title = PATHS[run.path].title;
    let elapsed_s = run.elapsed.as_secs_f64();
    let mut line = format!("{title:<13} {:<9}", run.driver);
    let _ = if run.completed {
        write!(line, " {elapsed_s:5.1} s")
    } else {
        write!(line, " not done after {elapsed_s:.1} s")
    };
    for choice in &run.choices {
        let _ = write!(line, "; at {:.1} s: {}", choice.at.as_secs_f64(), choice.why);
    }
    line
}

pub struct Display<'a> {
    board: &'a Board,
    plan: &'a Plan,
    clock: Clock,
    is_terminal: bool,
    painted_lines: usize,
    line_at: Duration,
}

impl<'a> Display<'a> {
    pub fn new(board: &'a Board, plan: &'a Plan, clock: Clock) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { board, plan, clock, is_terminal, painted_lines: 0, line_at: Duration::ZERO }
    }

    /// Shows the current state. If standard error is closed, the downloads go on.
    pub fn show(&mut self) {
        let now = self.clock.elapsed();
        let mut text = String::new();
        let mut state = self.board.lock();
        if self.is_terminal {
            if self.painted_lines > 0 {
                let _ = write!(text, "\x1b[{}A\r{CLEAR_BELOW}", self.painted_lines);
            }
            text += WRAP_OFF;
        }
        for note in state.notes.drain(..) {
            let _ = writeln!(text, "{:6.1} s  {}", now.as_secs_f64(), visible_name(&note));
        }
        if self.is_terminal {
            let block = visible(&block(&state, self.plan, now)).into_owned();
            self.painted_lines = block.lines().count();
            text = text + &block + WRAP_ON;
        } else if now >= self.line_at {
            self.line_at = now + LINE_EVERY;
            text += &visible(&block(&state, self.plan, now));
        }
        drop(state);
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

/// The estimated remaining time, from how long each path's downloads took so far.
fn left(state: &State, plan: &Plan, now: Duration) -> Duration {
    let of_lane = plan.rounds * u32::try_from(plan.drivers.len()).unwrap_or(u32::MAX);
    let left_of = |(count, total): &(u32, Duration)| {
        let (count, total) = (*count, *total);
        let each = if count == 0 { plan.fair_time() } else { total / count };
        (each * of_lane.saturating_sub(count) + total).saturating_sub(now)
    };
    let most = state.ended.iter().map(left_of).max().unwrap_or_default();
    most.min(plan.within.saturating_sub(now))
}

fn block(state: &State, plan: &Plan, now: Duration) -> String {
    let ended: u32 = state.ended.iter().map(|(count, _)| count).sum();
    let all = plan.rounds as usize * plan.drivers.len() * PATHS.len();
    let mut text = format!(
        "{:6.1} s  {ended} of {all} downloads of {} MB; about {:.0} s to go\n",
        now.as_secs_f64(),
        plan.file_bytes as f64 / 1e6,
        left(state, plan, now).as_secs_f64()
    );
    for (path, lane) in PATHS.iter().zip(&state.lanes) {
        text += &format!("  {:<13} {}\n", path.title, lane_line(lane, plan));
    }
    text
}

fn lane_line(lane: &Lane, plan: &Plan) -> String {
    match lane {
        Lane::Waiting => "waits".to_owned(),
        Lane::Starting { driver } => format!("{driver:<9} starts"),
        Lane::Done => "done".to_owned(),
        Lane::Running { driver, arm, at, received_bytes, srtt_ms, why } => {
            let at_s = at.as_secs_f64();
            let percent = 100.0 * *received_bytes as f64 / plan.file_bytes.max(1) as f64;
            let mbit_per_sec = *received_bytes as f64 * 8.0 / 1e6 / at_s.max(1e-3);
            let srtt = srtt_ms.map_or("     -".to_owned(), |ms| format!("{ms:6.1}"));
            format!(
                "{driver:<9} arm {arm:<8} {at_s:5.1} s {percent:3.0} % {mbit_per_sec:5.1} Mbit/s \
                 srtt {srtt} ms  {why}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::run;
    use super::*;

    fn plan() -> Plan {
        Plan {
            drivers: ["rein", "cubic"].map(str::to_owned).to_vec(),
            rounds: 1,
            file_bytes: 12_000_000,
            seed: 1,
            within: Duration::from_secs(100),
        }
    }

    #[test]
    fn the_block_says_who_runs_where_and_why() {
        let board = Board::new();
        board.set(
            0,
            Lane::Running {
                driver: "rein".to_owned(),
                arm: "bbr".to_owned(),
                at: Duration::from_secs(4),
                received_bytes: 6_000_000,
                srtt_ms: Some(61.25),
                why: "small buffer".to_owned(),
            },
        );
        let text = block(&board.lock(), &plan(), Duration::from_secs(5));
        let want = "rein      arm bbr        4.0 s  50 %  12.0 Mbit/s srtt   61.2 ms  small buffer";
        assert!(text.contains(want), "{text}");
        assert!(text.contains("0 of 6 downloads of 12 MB; about 11 s to go"), "{text}");
        assert_eq!(text.lines().count(), 1 + PATHS.len());
    }

    #[test]
    fn the_time_to_go_follows_what_downloads_took() {
        let board = Board::new();
        for path in 0..PATHS.len() {
            board.ended(&run(path, "rein", 4.0, &["cubic"]), Duration::from_secs(20));
        }
        let state = board.lock();
        assert_eq!(left(&state, &plan(), Duration::from_secs(25)), Duration::from_secs(15));
        assert_eq!(left(&state, &plan(), Duration::from_secs(99)), Duration::ZERO);
        assert_eq!(state.notes[0], "wired, 1 BDP  rein        4.0 s");
    }
}
