//! Completion times, compared as in the paper, and the arms that rein chose.

use super::paths::{PATHS, Plan};
use super::record::Run;
use crate::table::table;
use std::fmt;

/// The driver whose gain over the others is computed.
pub const POLICY: &str = "rein";
/// Rein's section 5.2: seconds for 30 MB, the mean over its three environments.
pub const PAPER_TIMES_S: [(&str, f64); 4] =
    [("rein", 15.21), ("cubic", 16.34), ("bbr", 23.88), ("westwood", 17.82)];

/// The completion times of one driver on one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    pub mean_s: f64,
    pub least_s: f64,
    pub most_s: f64,
    pub count: usize,
    /// Whether a download did not complete: the true mean is then larger.
    pub is_bound: bool,
}

impl Times {
    fn of<'a>(runs: impl Iterator<Item = &'a Run>) -> Option<Self> {
        let (mut times, mut is_bound) = (Vec::new(), false);
        for run in runs {
            times.push(run.elapsed.as_secs_f64());
            is_bound |= !run.completed;
        }
        let count = times.len();
        let least_s = times.iter().copied().reduce(f64::min)?;
        let most_s = times.iter().copied().reduce(f64::max)?;
        let mean_s = times.iter().sum::<f64>() / count as f64;
        Some(Self { mean_s, least_s, most_s, count, is_bound })
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = if self.is_bound { ">" } else { "" };
        write!(f, "{bound}{:.1}", self.mean_s)?;
        if self.count > 1 {
            write!(f, " ({:.1}-{:.1})", self.least_s, self.most_s)?;
        }
        Ok(())
    }
}

/// One driver on all paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub driver: String,
    /// For each path; `None` if the driver did not run there.
    pub times: Vec<Option<Times>>,
    /// The mean of the paths' means; `None` unless the driver ran on all paths.
    pub mean_s: Option<f64>,
    /// Whether the mean is a lower bound.
    pub is_bound: bool,
    /// How much longer this driver takes than rein, in per cent of rein's time.
    pub rein_gains_percent: Option<f64>,
}

/// The arms that rein chose on a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Pick {
    /// Index into [`PATHS`].
    pub path: usize,
    /// The arm at the end of each download.
    pub arms: Vec<String>,
    /// How many downloads ended with the arm that the paper's Rein chooses.
    pub as_paper: usize,
    /// The reasons, one line for each download.
    pub why: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// In the order of the plan.
    pub lines: Vec<Line>,
    /// By path; empty if rein did not run.
    pub picks: Vec<Pick>,
}

impl Summary {
    pub fn of(plan: &Plan, runs: &[Run]) -> Self {
        let mut lines: Vec<Line> = plan.drivers.iter().map(|driver| line(driver, runs)).collect();
        let rein = lines.iter().find(|line| line.driver == POLICY && !line.is_bound);
        let rein_s = rein.and_then(|line| line.mean_s);
        for line in lines.iter_mut().filter(|line| line.driver != POLICY) {
            let gain = |(rein, other): (f64, f64)| (other - rein) / rein * 100.0;
            line.rein_gains_percent = rein_s.zip(line.mean_s).map(gain);
        }
        let picks = (0..PATHS.len()).filter_map(|path| pick(path, runs)).collect();
        Self { lines, picks }
    }

    /// The comparison in one sentence, whether rein wins or not.
    pub fn verdict(&self) -> String {
        let rein = self.lines.iter().find(|line| line.driver == POLICY);
        let Some(rein_s) = rein.and_then(|line| line.mean_s) else {
            return "rein did not run on every path: nothing to compare".to_owned();
        };
        let others = self.lines.iter().filter(|line| line.driver != POLICY && !line.is_bound);
        let best = others
            .filter_map(|line| Some((line.driver.as_str(), line.mean_s?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let bound = rein.is_some_and(|line| line.is_bound);
        match best {
            _ if bound => format!("rein did not complete every download in {rein_s:.1} s"),
            None => format!("rein takes {rein_s:.1} s; no arm alone completed every download"),
            Some((arm, arm_s)) if rein_s < arm_s => format!(
                "rein wins: {rein_s:.1} s on average, the best single arm ({arm}) {arm_s:.1} s"
            ),
            Some((arm, arm_s)) => {
                format!("rein does not win: {rein_s:.1} s on average, {arm} alone {arm_s:.1} s")
            }
        }
    }
}

fn line(driver: &str, runs: &[Run]) -> Line {
    let of =
        |path: usize| Times::of(runs.iter().filter(|run| run.path == path && run.driver == driver));
    let times: Vec<Option<Times>> = (0..PATHS.len()).map(of).collect();
    let means: Option<Vec<f64>> = times.iter().map(|times| Some((*times)?.mean_s)).collect();
    let mean_s = means.map(|means| means.iter().sum::<f64>() / means.len() as f64);
    let is_bound = times.iter().flatten().any(|times| times.is_bound);
    Line { driver: driver.to_owned(), times, mean_s, is_bound, rein_gains_percent: None }
}

fn pick(path: usize, runs: &[Run]) -> Option<Pick> {
    let runs: Vec<&Run> =
        runs.iter().filter(|run| run.path == path && run.driver == POLICY).collect();
    runs.first()?;
    let arms: Vec<String> = runs.iter().map(|run| run.last_arm().to_owned()).collect();
    let as_paper = arms.iter().filter(|arm| *arm == PATHS[path].suits).count();
    let why = runs.iter().map(|run| why(run)).collect::<Vec<_>>().join("\n");
    Some(Pick { path, arms, as_paper, why })
}

fn why(run: &Run) -> String {
    if run.choices.is_empty() {
        return "it ended before rein had seen enough to decide".to_owned();
    }
    let texts = run.choices.iter().map(|choice| {
        let at_s = choice.at.as_secs_f64();
        format!("at {at_s:.1} s: {}", choice.why)
    });
    texts.collect::<Vec<_>>().join("; ")
}

fn seconds(mean_s: Option<f64>, is_bound: bool) -> String {
    let bound = if is_bound { ">" } else { "" };
    mean_s.map_or("-".to_owned(), |mean_s| format!("{bound}{mean_s:.1}"))
}

impl Line {
    /// The cells of a table row: driver, a time for each path, the mean, rein's gain.
    pub fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.driver.clone()];
        let time = |times: &Option<Times>| times.map_or("-".to_owned(), |it| it.to_string());
        cells.extend(self.times.iter().map(time));
        cells.push(seconds(self.mean_s, self.is_bound));
        let bound = if self.is_bound { ">" } else { "" };
        let gain = |percent: f64| format!("{bound}{percent:+.1} %");
        cells.push(self.rein_gains_percent.map_or(String::new(), gain));
        cells
    }
}

/// The columns of the table of completion times.
pub fn columns() -> Vec<String> {
    let mut columns = vec!["driver".to_owned()];
    columns.extend(PATHS.iter().map(|path| format!("{}, s", path.title)));
    columns.push("mean, s".to_owned());
    columns.push("rein gains".to_owned());
    columns
}

impl Pick {
    /// The cells of a table row: path, arms, the paper's choice, reasons.
    pub fn cells(&self) -> [String; 4] {
        let path = &PATHS[self.path];
        let agrees = format!("{} ({} of {})", path.suits, self.as_paper, self.arms.len());
        [path.title.to_owned(), self.arms.join(", "), agrees, self.why.clone()]
    }
}

/// The columns of the table of rein's choices.
pub const PICK_COLUMNS: [&str; 4] = ["path", "rein ended with", "the paper's choice", "why"];

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = columns();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut times = table(&columns);
        for line in &self.lines {
            times.add_row(line.cells());
        }
        writeln!(f, "{times}")?;
        if !self.picks.is_empty() {
            let mut picks = table(&PICK_COLUMNS);
            for pick in &self.picks {
                picks.add_row(pick.cells());
            }
            writeln!(f, "{picks}")?;
        }
        write!(f, "{}", self.verdict())
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::run;
    use super::*;
    use std::time::Duration;

    /// The summary of these times of rein and cubic on the three paths.
    fn summary(rein_s: [f64; 3], cubic_s: [f64; 3], cubic_completes: bool) -> Summary {
        let plan = Plan {
            drivers: ["rein", "cubic"].map(str::to_owned).to_vec(),
            rounds: 1,
            file_bytes: 1_000_000,
            seed: 1,
            within: Duration::from_secs(100),
        };
        let mut runs = Vec::new();
        for path in 0..PATHS.len() {
            runs.push(run(path, "rein", rein_s[path], &["cubic", PATHS[path].suits]));
            let cubic = run(path, "cubic", cubic_s[path], &["cubic"]);
            runs.push(Run { completed: cubic_completes, ..cubic });
        }
        Summary::of(&plan, &runs)
    }

    #[test]
    fn the_gain_is_relative_to_reins_own_time_as_in_the_paper() {
        let summary = summary([10.0, 10.0, 10.0], [5.0, 10.0, 18.0], true);
        assert_eq!(summary.lines[1].cells(), ["cubic", "5.0", "10.0", "18.0", "11.0", "+10.0 %"]);
        assert_eq!(
            summary.verdict(),
            "rein wins: 10.0 s on average, the best single arm (cubic) 11.0 s"
        );
        assert_eq!(summary.picks.iter().map(|pick| pick.as_paper).sum::<usize>(), 3);
    }

    #[test]
    fn a_loss_is_said_as_plainly() {
        let verdict = summary([10.0; 3], [9.0; 3], true).verdict();
        assert_eq!(verdict, "rein does not win: 10.0 s on average, cubic alone 9.0 s");
    }

    #[test]
    fn what_did_not_complete_is_a_bound_and_wins_nothing() {
        let summary = summary([10.0; 3], [9.0; 3], false);
        assert_eq!(summary.lines[1].cells()[1], ">9.0");
        let verdict = summary.verdict();
        assert_eq!(verdict, "rein takes 10.0 s; no arm alone completed every download");
    }

    #[test]
    fn rounds_show_their_spread() {
        let runs = [4.0, 6.0].map(|elapsed_s| run(0, "cubic", elapsed_s, &["cubic"]));
        assert_eq!(Times::of(runs.iter()).expect("two").to_string(), "5.0 (4.0-6.0)");
        assert_eq!(Times::of([].iter()), None);
    }
}
