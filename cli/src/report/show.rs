//! The text that `remuda report` prints.

use super::series;
use crate::matrix::{ahead, ranking_table, spread};
use crate::table::{figure, table};
use remuda_matrix::Interval;
use remuda_report::{Board, Diff, Series, Starved, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Changes come first, as on the page. With time series, the other tables are left out.
pub fn text(of: &Board, what_changed: Option<&Diff>, runs: &[Series]) -> String {
    let mut parts: Vec<String> = what_changed.map(diff).into_iter().collect();
    parts.extend(runs.iter().map(series::shown));
    if runs.is_empty() {
        parts.push(board(of));
    }
    parts.join("\n\n")
}

/// The ranking, the best arms by path, starvation, harm, and missed lines.
fn board(board: &Board) -> String {
    let mut parts = vec![best(board), starving(board), harm(board), lines(board)];
    if let Some(all) = board.slices.first() {
        parts.insert(0, ranking_table(&all.ranks));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn best(board: &Board) -> String {
    let columns = ["on", "best", "misses, %", "wins", "ahead, %", "next", "misses, %", "wins"];
    let mut shown = table(&columns);
    for slice in board.slices.iter().filter(|slice| slice.by != "suite") {
        let mut row = vec![slice.label.clone()];
        for (place, rank) in slice.ranks.iter().take(2).enumerate() {
            let wins = format!("{} of {}", rank.wins, rank.environments);
            row.extend([rank.driver.clone(), spread(rank.regret, 100.0), wins]);
            row.extend((place == 0).then(|| ahead(rank.ahead)));
        }
        shown.add_row(row);
    }
    shown.to_string()
}

/// Which drivers starve which, and how often.
fn starving(board: &Board) -> String {
    if board.starved.is_empty() {
        return "No driver starves another.".to_owned();
    }
    let mut counts: BTreeMap<(String, String), Vec<&Starved>> = BTreeMap::new();
    for it in &board.starved {
        let pair = (it.winner.clone(), it.loser.clone());
        counts.entry(pair).or_default().push(it);
    }
    let mut shown = table(&["driver", "starves", "environments", "tested", "as in"]);
    for ((driver, victim), all) in &counts {
        let places: BTreeSet<usize> = all.iter().map(|it| it.environment).collect();
        let tested: BTreeSet<&str> = all.iter().map(|it| it.driver.as_str()).collect();
        let place = &board.environments[all[0].environment];
        let name = format!("{}/{}", place.suite, place.name);
        let tested = tested.into_iter().collect::<Vec<_>>().join(", ");
        shown.add_row([driver, victim, &places.len().to_string(), &tested, &name]);
    }
    shown.to_string()
}

fn harm(board: &Board) -> String {
    if board.harms.is_empty() {
        return String::new();
    }
    let columns = ["driver", "takes of", "runs", "goodput, %", "delay, %", "most, %", "in"];
    let mut shown = table(&columns);
    let percent = |share: Option<f64>| figure(share.map(|it| it * 100.0));
    for it in &board.harms {
        let (place, most) = it.worst.clone().unzip();
        shown.add_row([
            it.driver.clone(),
            it.neighbour.clone(),
            it.runs.to_string(),
            percent(it.goodput),
            percent(it.delay),
            percent(most),
            place.unwrap_or_default(),
        ]);
    }
    format!("{shown}\nHarm: beyond what the neighbour's own driver would take; medians.")
}

fn lines(board: &Board) -> String {
    if board.expected == 0 {
        return String::new();
    }
    if board.missed.is_empty() {
        return format!("All {} pass/fail lines pass.", board.expected);
    }
    let count = board.missed.len();
    let mut shown = table(&["environment", "arm", "seed", "misses"]);
    for it in &board.missed {
        let place = &board.environments[it.environment];
        let name = format!("{}/{}", place.suite, place.name);
        shown.add_row([&name, &it.driver, &it.seed.to_string(), &it.lines]);
    }
    format!("{shown}\n{count} runs miss some of {} pass/fail lines.", board.expected)
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
    }
}

/// Three decimals, so that changes below one percent show.
fn ratio(it: Interval) -> String {
    match it.bounds {
        None => format!("{:.3}", it.middle),
        Some([low, high]) => format!("{:.3} ({low:.3} to {high:.3})", it.middle),
    }
}

fn diff(diff: &Diff) -> String {
    let counts = ["equal", "about", "better", "worse"];
    let figures = ["new merit to old", "below half", "new misses"];
    let mut shown = table(&[&["arm", ""][..], &counts, &figures].concat());
    for it in &diff.drivers {
        shown.add_row([
            it.driver.clone(),
            word(it.verdict).to_owned(),
            it.equal.to_string(),
            it.about.to_string(),
            it.better.to_string(),
            it.worse.to_string(),
            ratio(it.ratio),
            it.collapsed.to_string(),
            it.newly_missed.to_string(),
        ]);
    }
    let mut changes = table(&["environment", "arm", "seed", "merit", "Mbit/s", "p95 ms", "misses"]);
    for it in diff.changes.iter().take(20) {
        let both = |[old, new]: [f64; 2]| format!("{} > {}", figure(Some(old)), figure(Some(new)));
        changes.add_row([
            it.environment.clone(),
            it.driver.clone(),
            it.seed.to_string(),
            format!("x {:.3}", it.ratio),
            both(it.goodput_mbit_per_sec),
            both(it.queueing_p95_ms),
            it.newly_missed.clone(),
        ]);
    }
    let [old, new] = diff.alone;
    let mut text = format!(
        "{shown}\nOver {} runs that both tables have; {old} only the older one has, {new} only the \
         newer.\nA run is better or worse if its merit changed by more than 2 %. An arm fails if \
         its merit fell by more than 2 % with 95 %\nconfidence, or to less than half in any \
         environment, or if it misses a line or a flow starves that did not before.",
        diff.shared
    );
    if !diff.altered.is_empty() {
        let names = diff.altered.join(", ");
        text += &format!("\nNot compared, as they are not the same environments in both: {names}.");
    }
    if !diff.lines_changed.is_empty() {
        let names = diff.lines_changed.join("; ");
        text += &format!("\nThe pass/fail lines changed, which makes no arm worse: {names}.");
    }
    if !diff.changes.is_empty() {
        text += &format!("\n\n{changes}\nThe largest changes, 20 at most.");
    }
    text
}

/// Why the newer table is worse than the older one.
pub fn failing(diff: &Diff) -> String {
    let failing = diff.drivers.iter().filter(|it| it.verdict == Verdict::Fail);
    let names: Vec<&str> = failing.map(|it| it.driver.as_str()).collect();
    let mut reasons = Vec::new();
    if !names.is_empty() {
        reasons.push(format!("worse than in the older table: {}", names.join(", ")));
    }
    let [missing, _] = diff.alone;
    if missing > 0 {
        reasons.push(format!("{missing} runs of the older table are missing"));
    }
    if !diff.altered.is_empty() {
        reasons.push(format!("{} environments are not the same in both", diff.altered.len()));
    }
    reasons.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_matrix::Row;
    use remuda_report::{LinkSeries, Matrix};

    /// A table of one arm in forty environments.
    fn matrix(merit: impl Fn(usize) -> f64) -> Matrix {
        let row = |place: usize| Row {
            suite: "s".to_owned(),
            environment: format!("e{place}"),
            driver: "cubic".to_owned(),
            seed: 1,
            merit: merit(place),
            ..Row::default()
        };
        Matrix { rows: (0..40).map(row).collect(), ..Matrix::default() }
    }

    #[test]
    fn a_change_of_a_percent_is_told_and_comes_first() {
        let (old, new) = (matrix(|_| 1.0), matrix(|place| 1.002 + place as f64 / 1e3));
        let diff = Diff::of(&old, &new).unwrap();
        let text = text(&Board::of(&new), Some(&diff), &[]);
        let first = text.lines().find(|line| line.contains("cubic")).unwrap();
        assert!(first.contains("PASS"), "{first}");
        let cell = first.split("  ").find(|cell| cell.contains(" to ")).unwrap().trim();
        let figures: Vec<&str> = cell.split(['(', ')', ' ']).filter(|it| !it.is_empty()).collect();
        let [middle, low, "to", high] = figures[..] else { panic!("{cell}") };
        assert_eq!(middle, "1.022", "{cell}");
        assert!(low.len() == 5 && high.len() == 5 && low < middle && middle < high, "{cell}");
        assert!(text.find("new merit to old") < text.find("No driver starves another."), "{text}");
    }

    #[test]
    fn whoever_asks_for_time_series_gets_no_other_tables() {
        let matrix = matrix(|_| 1.0);
        let run = Series {
            environment: "s/e0".to_owned(),
            driver: "cubic".to_owned(),
            seed: 1,
            duration_s: 30.0,
            flows: Vec::new(),
            flows_left_out: 0,
            link: LinkSeries::default(),
        };
        let diff = Diff::of(&matrix, &matrix).unwrap();
        let board = Board::of(&matrix);
        let alone = text(&board, None, std::slice::from_ref(&run));
        assert_eq!(alone, "cubic in s/e0, seed 1");
        let beside = text(&board, Some(&diff), &[run]);
        assert!(beside.contains("PASS") && beside.ends_with(&alone), "{beside}");
        assert!(!beside.contains("No driver starves another."), "{beside}");
    }
}
