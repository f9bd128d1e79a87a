//! The parts of the page, as Markdown: the same figures give the same bytes, apart from the head.

use crate::antelope::head_to_head::Comparison;
use crate::antelope::measure::{Mode, mean_of};
use crate::antelope::rows::{Line, Table, with_bounds};
use crate::antelope::scene::Scene;
use std::fmt::Write as _;

/// The origin of the figures.
#[derive(Clone, Debug)]
pub struct Head {
    /// Commit, kernel and machine.
    pub origin: String,
    pub command: String,
}

impl Head {
    fn text(&self, table: &Table<'_>) -> String {
        let seeds = &table.settings.seeds;
        format!(
            "{}.\nSeeds {} to {}, driver `{}`. Command:\n\n```\n{}\n```\n",
            self.origin,
            seeds.start(),
            seeds.end(),
            table.settings.driver,
            self.command
        )
    }
}

/// Longest line of a page.
const COLUMNS: usize = 100;

/// Breaks a command into lines that fit the page; a shell runs it as before.
pub fn broken(command: &str) -> String {
    const BREAK: &str = " \\";
    let (mut out, mut columns) = (String::new(), 0);
    for word in command.split(' ') {
        if columns > 0 && columns + 1 + word.len() + BREAK.len() > COLUMNS {
            out = out + BREAK + "\n   ";
            columns = 3;
        }
        let space = if columns > 0 { " " } else { "" };
        columns += space.len() + word.len();
        out = out + space + word;
    }
    out
}

fn lines(lines: &[Line]) -> String {
    let mut out = String::from(
        "| row | what | paper | target | got (95 % interval) | met |\n|---|---|---|---|---|---|\n",
    );
    for Line { row, what, paper, target, got, met } in lines {
        let met = match met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "–",
        };
        let _ = writeln!(out, "| {row} | {what} | {paper} | {target} | {got} | {met} |");
    }
    out
}

/// How many lines have a target, and how many of these meet it.
pub fn summary(lines: &[Line]) -> String {
    let asked = lines.iter().filter(|line| line.met.is_some()).count();
    let met = lines.iter().filter(|line| line.met == Some(true)).count();
    format!("{met} of {asked} targets met")
}

pub fn simulated(
    head: &Head,
    table: &Table<'_>,
    all: &[Line],
    (comparison, suites): (&Comparison, &[String]),
) -> String {
    let mut out = head.text(table);
    let _ = write!(out, "\n{}.\n\n{}", summary(all), lines(all));
    out += &head_to_head(table, comparison, suites);
    out
}

/// The part of real TCP.
pub fn live(head: &Head, table: &Table<'_>, all: &[Line]) -> String {
    let mut out = head.text(table);
    let disturbed = table.measured.disturbed();
    let _ = writeln!(out, "\n{}; {disturbed} runs were disturbed.\n", summary(all));
    out += &lines(all);
    out
}

/// Every driver in every scene of A1 to A3, as in the paper's figures 9 to 11. This part is
/// printed, and not written into a page.
pub fn drivers(table: &Table<'_>) -> String {
    let mut out = String::from(
        "\n### Every driver\n\nGoodput in Mbit/s, mean delay and its 95th percentile in ms, and \
         the packets dropped at the\nbottleneck in %: means over seeds.\n",
    );
    let settings = table.settings;
    let own = [settings.driver.clone()];
    let seeds: Vec<usize> = (0..settings.seeds()).collect();
    for scene in Scene::all() {
        let who = own.iter().chain(&settings.against).chain(&settings.arms);
        let there = who.filter(|driver| table.measured.has(scene, driver));
        let there: Vec<&String> = there.collect();
        let is_shown = matches!(scene, Scene::Wan(_) | Scene::Datacenter(_) | Scene::Cell(_));
        if !is_shown || there.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "\n| {} | goodput | delay | p95 | dropped |\n|---|---:|---:|---:|---:|",
            scene.name()
        );
        for driver in there {
            let figures = table.measured.get(scene, driver, Mode::Default);
            let mean = |of: fn(&crate::antelope::figures::Figures) -> f64| {
                mean_of(figures, &seeds, |it| Some(of(it))).unwrap_or(0.0)
            };
            let _ = writeln!(
                out,
                "| {driver} | {:.2} | {:.1} | {:.1} | {:.2} |",
                mean(|it| it.goodput_mbit_per_sec),
                mean(|it| it.delay_mean_ms),
                mean(|it| it.delay_p95_ms),
                mean(|it| it.dropped_percent),
            );
        }
    }
    out
}

fn head_to_head(table: &Table<'_>, comparison: &Comparison, suites: &[String]) -> String {
    let own = &table.settings.driver;
    let mut out = format!(
        "\n### Head to head\n\nPower (goodput over mean one-way delay) in {} environments of {},\n\
         of suites those without others on the path, as a share of that of the oracle, the best\n\
         fixed arm of each environment. *Ahead* is how far `{own}` is above that driver; beaten\n\
         if its interval lies above 0.\n\n| driver | | power to the oracle's | {own} is ahead by \
         | beaten |\n|---|---|---|---|---|\n",
        comparison.environments,
        suites.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    );
    for place in &comparison.places {
        let kind = if place.is_arm { "arm" } else { "policy" };
        let (ahead, beaten) = place.behind.map_or(("–".to_owned(), "–"), |behind| {
            let above = behind.bounds.is_some_and(|[low, _]| low > 0.0);
            (with_bounds(behind, 3), if above { "yes" } else { "**no**" })
        });
        let (driver, power) = (&place.driver, with_bounds(place.power, 3));
        let _ = writeln!(out, "| {driver} | {kind} | {power} | {ahead} | {beaten} |");
    }
    out += "| oracle | | 1 | – | – |\n";
    if let Some(place) = comparison.places.iter().find(|place| place.driver == *own) {
        let regret = 1.0 - place.power.middle;
        let bounds = place.power.bounds.map(|[low, high]| [1.0 - high, 1.0 - low]);
        let regret = with_bounds(remuda_matrix::Interval { middle: regret, bounds }, 3);
        let _ = writeln!(out, "\nRegret of `{own}` to the oracle: {regret}; at most 0.1 is asked.");
    }
    if !comparison.lost.is_empty() {
        let _ = writeln!(
            out,
            "\nIt has less than the oracle in {} of them, most of all in:\n\n\
             | environment | power to the oracle's | oracle |\n|---|---:|---|",
            comparison.behind_in
        );
    }
    for lost in &comparison.lost {
        let _ = writeln!(out, "| {} | {:.3} | {} |", lost.environment, lost.power, lost.best);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_broken_between_words() {
        assert_eq!(broken("cargo run -- --live"), "cargo run -- --live");
        let word = "x".repeat(60);
        assert_eq!(broken(&format!("{word} {word} a")), format!("{word} \\\n    {word} a"));
    }

    #[test]
    fn every_line_has_a_cell_for_every_column() {
        let line = Line {
            row: "A7",
            what: "share".to_owned(),
            paper: "0.5".to_owned(),
            target: "0.4 to 0.6".to_owned(),
            got: "0.3".to_owned(),
            met: Some(false),
        };
        let shown = Line { met: None, ..line.clone() };
        let text = lines(&[line.clone(), shown.clone()]);
        assert!(text.lines().all(|line| line.matches('|').count() == 7), "{text}");
        assert!(text.contains("| A7 | share | 0.5 | 0.4 to 0.6 | 0.3 | **no** |"));
        assert_eq!(
            summary(&[line.clone(), shown, Line { met: Some(true), ..line }]),
            "1 of 2 targets met"
        );
    }
}
