//! The findings as Markdown.

use super::{Finding, Judge, PARTS, Part};
use crate::antelope::page::Head;
use crate::antelope::rows::with_bounds;
use std::fmt::Write as _;

fn named(judges: &[Judge]) -> String {
    let name = |judge: &Judge| match judge {
        Judge::Power => "power",
        Judge::Goodput => "goodput",
        Judge::Resent => "sent again",
    };
    judges.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn verdict(finding: &Finding) -> String {
    let [worse, better] = finding.verdicts();
    match (worse.is_empty(), better.is_empty()) {
        (true, true) => "nothing seen".to_owned(),
        (false, true) => format!("yes: {}", named(&worse)),
        (true, false) => format!("no; better without: {}", named(&better)),
        (false, false) => format!("yes: {}; better without: {}", named(&worse), named(&better)),
    }
}

fn line(finding: &Finding) -> String {
    let [whole, without] = finding.resent.0;
    let [switches, switches_without] = finding.switches;
    let (environments, seeds) = finding.counts;
    let count = if environments == 1 { seeds } else { environments };
    format!(
        "| {} | {} | {count} | {} | {} | {} | {whole:.2}, {without:.2}: {} | {switches:.1}, \
         {switches_without:.1} | {} |",
        PARTS[finding.part].name,
        finding.ground.name(),
        with_bounds(finding.power, 3),
        with_bounds(finding.goodput, 3),
        with_bounds(finding.delay, 3),
        with_bounds(finding.resent.1, 3),
        verdict(finding),
    )
}

/// The cost of leaving a part out, in one line.
fn summary(part: usize, findings: &[Finding]) -> String {
    let of: Vec<&Finding> = findings.iter().filter(|it| it.part == part).collect();
    let places = |side: usize| of.iter().filter(|it| !it.verdicts()[side].is_empty()).count();
    let (worse, better) = (places(0), places(1));
    let said = match (worse, better) {
        (0, 0) => "leaving it out costs nothing that is seen here".to_owned(),
        (0, _) => format!("leaving it out costs nothing, and gains something in {better}"),
        (_, 0) => format!("leaving it out costs something in {worse}"),
        _ => format!("leaving it out costs something in {worse}, and gains something in {better}"),
    };
    let Part { name, settings, .. } = &PARTS[part];
    let settings = settings.join("`,\n  `");
    format!("- Without **{name}**:\n  {said} of {} places;\n  `{settings}`.\n", of.len())
}

pub fn text(head: &Head, driver: &str, seeds: &[u64; 2], findings: &[Finding]) -> String {
    let Head { origin, command } = head;
    let [first, last] = seeds;
    let mut out = format!(
        "{origin}.\nSeeds {first} to {last} of scenes, driver `{driver}`. Command:\n\n```\n\
         {command}\n```\n\n"
    );
    for part in 0..PARTS.len() {
        out += &summary(part, findings);
    }
    out += "\n| without | where | pairs | power | goodput | delay | sent again, %: whole, without: \
            more | switches a minute: whole, without | does it cost? |\n\
            |---|---|---:|---|---|---|---|---|---|\n";
    for finding in findings {
        let _ = writeln!(out, "{}", line(finding));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::finding;
    use super::*;

    #[test]
    fn every_line_has_a_cell_for_every_column_and_every_part_its_sentence() {
        let head = Head { origin: "here".to_owned(), command: "this".to_owned() };
        let text = text(&head, "rein", &[1, 2], &[finding(0.5), finding(2.0)]);
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(table.len(), 4);
        assert!(table.iter().all(|line| line.matches('|').count() == 10), "{text}");
        assert!(table[2].ends_with("| yes: power |"), "{}", table[2]);
        assert!(table[3].ends_with("| no; better without: power |"), "{}", table[3]);
        assert_eq!(text.matches("- Without **").count(), PARTS.len());
        let want = "leaving it out costs something in 1, and gains something in 1 of 2 places;";
        assert!(text.contains(want), "{text}");
    }
}
