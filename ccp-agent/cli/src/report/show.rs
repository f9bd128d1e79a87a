//! What `remuda report` prints.

use crate::matrix::ranking_table;
use crate::table::{figure, table};
use remuda_matrix::Interval;
use remuda_report::{Board, Diff, Starved, Verdict};
use std::collections::BTreeMap;

/// The ranking, who is best on which paths, who starves whom, what is missed.
pub fn board(board: &Board) -> String {
    let mut parts = vec![best(board), starving(board), harm(board), lines(board)];
    if let Some(all) = board.slices.first() {
        parts.insert(0, ranking_table(&all.ranks));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn percent(it: Interval) -> String {
    let show = |value: f64| figure(Some(value * 100.0));
    format!("{} ({}-{})", show(it.median), show(it.low), show(it.high))
}

fn best(board: &Board) -> String {
    let columns = ["on", "best", "wins", "misses, %", "next", "wins", "misses, %"];
    let mut shown = table(&columns);
    for slice in board.slices.iter().filter(|slice| slice.by != "suite") {
        let mut row = vec![slice.label.clone()];
        for rank in slice.ranks.iter().take(2) {
            let wins = format!("{} of {}", rank.wins, rank.environments);
            row.extend([rank.driver.clone(), wins, percent(rank.regret)]);
        }
        shown.add_row(row);
    }
    shown.to_string()
}

/// Who, and how often whom.
fn starving(board: &Board) -> String {
    if board.starved.is_empty() {
        return "Nobody starves.".to_owned();
    }
    let mut counts: BTreeMap<(String, String), Vec<&Starved>> = BTreeMap::new();
    for it in &board.starved {
        let pair = (it.winner.clone(), it.loser.clone());
        counts.entry(pair).or_default().push(it);
    }
    let mut shown = table(&["who", "starves", "environments", "as in"]);
    for ((who, whom), all) in &counts {
        let place = &board.environments[all[0].environment];
        let name = format!("{}/{}", place.suite, place.name);
        shown.add_row([who, whom, &all.len().to_string(), &name]);
    }
    shown.to_string()
}

fn harm(board: &Board) -> String {
    if board.harms.is_empty() {
        return String::new();
    }
    let columns = ["who", "takes of", "runs", "goodput, %", "delay, %", "most, %", "in"];
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
    format!("{shown}\nHarm: beyond what a neighbour of its own kind would take; medians.")
}

fn lines(board: &Board) -> String {
    if board.expected == 0 {
        return String::new();
    }
    if board.missed.is_empty() {
        return format!("All {} pass/fail lines pass.", board.expected);
    }
    let mut shown = table(&["environment", "arm", "seed", "misses"]);
    for it in &board.missed {
        let place = &board.environments[it.environment];
        let name = format!("{}/{}", place.suite, place.name);
        shown.add_row([&name, &it.driver, &it.seed.to_string(), &it.lines]);
    }
    shown.to_string()
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
    }
}

/// What changed.
pub fn diff(diff: &Diff) -> String {
    let columns =
        ["arm", "", "equal", "about", "better", "worse", "new merit to old", "new misses"];
    let mut shown = table(&columns);
    for it in &diff.drivers {
        let Interval { median, low, high } = it.ratio;
        shown.add_row([
            it.driver.clone(),
            word(it.verdict).to_owned(),
            it.equal.to_string(),
            it.about.to_string(),
            it.better.to_string(),
            it.worse.to_string(),
            format!("{median:.3} ({low:.3}-{high:.3})"),
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
         newer.\nA run is better or worse if its merit changed by more than 2 %.",
        diff.shared
    );
    if !diff.changes.is_empty() {
        text += &format!("\n\n{changes}\nThe largest changes, 20 at most.");
    }
    text
}

/// Which arms fail.
pub fn failing(diff: &Diff) -> String {
    let failing = diff.drivers.iter().filter(|it| it.verdict == Verdict::Fail);
    let names: Vec<&str> = failing.map(|it| it.driver.as_str()).collect();
    format!("worse than in the older table: {}", names.join(", "))
}
