//! The findings as Markdown.

use super::{Amount, Finding, Learned, ROUNDS, WORLDS};
use crate::antelope::measure::Settings;
use crate::antelope::page::Head;
use crate::antelope::rows::with_bounds;
use remuda_matrix::Interval;
use std::collections::BTreeMap;
use std::fmt::Write as _;

fn arms(shares: &BTreeMap<String, f64>) -> String {
    let mut ordered: Vec<_> = shares.iter().filter(|(_, share)| **share >= 0.05).collect();
    ordered.sort_by(|a, b| b.1.total_cmp(a.1));
    let said = ordered.iter().map(|(arm, share)| format!("{arm} {:.0} %", **share * 100.0));
    said.collect::<Vec<_>>().join(", ")
}

fn verdict(power: Interval) -> &'static str {
    match power.bounds {
        Some([low, _]) if low > 1.0 => "yes",
        Some([_, high]) if high < 1.0 => "**it harms**",
        _ => "nothing seen",
    }
}

fn line(finding: &Finding) -> String {
    let Finding { world, flows, learned, room, explored, arms: [before, after], .. } = finding;
    let (room, explored) = (with_bounds(*room, 3), with_bounds(*explored, 3));
    let name = WORLDS[*world].name;
    let Some(Learned { power, goodput, delay, resent }) = learned else {
        return format!(
            "| {name} | {flows} | {room} | {explored} | the shipped model has stayed |  |  |  | {} \
             |  | – |",
            arms(before)
        );
    };
    let ([with_shipped, with_learned], more) = resent;
    format!(
        "| {name} | {flows} | {room} | {explored} | {} | {} | {} | {with_shipped:.2}, \
         {with_learned:.2}: {} | {} | {} | {} |",
        with_bounds(*power, 3),
        with_bounds(*goodput, 3),
        with_bounds(*delay, 3),
        with_bounds(*more, 3),
        arms(before),
        arms(after),
        verdict(*power)
    )
}

pub fn text(head: &Head, settings: &Settings, findings: &[Finding]) -> String {
    let Head { origin, command } = head;
    let Amount { learn: (flows, learn_s), judge: (judged, judge_s) } = Amount::of(settings.extent);
    let mut out = format!(
        "{origin}.\n{ROUNDS} rounds of {flows} flows of {learn_s:.0} s to learn from, {judged} \
         other flows of {judge_s:.0} s to judge by. Command:\n\n```\n{command}\n```\n\n"
    );
    out += "| paths | what they are like | the trainer, round by round |\n|---|---|---|\n";
    for finding in findings {
        let world = &WORLDS[finding.world];
        let said = finding.said.join("; then ");
        let _ = writeln!(out, "| {} | {} | {said} |", world.name, world.about);
    }
    out += "\n| paths | flows | the best arm of each flow | while others are tried \
            | power, learned | goodput | delay | sent again, %: shipped, learned: more \
            | arms, shipped | arms, learned | is it worth something? |\n\
            |---|---:|---|---|---|---|---|---|---|---|---|\n";
    for finding in findings {
        let _ = writeln!(out, "{}", line(finding));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::antelope::scene::Extent;

    #[test]
    fn every_world_has_its_lines_and_a_cell_for_every_column() {
        let of = |low: f64| Interval { middle: low + 0.1, bounds: Some([low, low + 0.2]) };
        let learned = |low| {
            let resent = ([1.0, 2.0], of(0.9));
            Learned { power: of(low), goodput: of(1.0), delay: of(1.0), resent }
        };
        let shares = || BTreeMap::from([("bbr".to_owned(), 0.97), ("copa".to_owned(), 0.03)]);
        let finding = |world, learned| Finding {
            world,
            said: vec!["kept: no better".to_owned(); 2],
            flows: 9,
            learned,
            room: of(1.2),
            explored: of(0.9),
            arms: [shares(), shares()],
        };
        let findings =
            [finding(0, Some(learned(1.1))), finding(1, Some(learned(0.5))), finding(2, None)];
        let settings = Settings {
            driver: "antelope".to_owned(),
            arms: Vec::new(),
            against: Vec::new(),
            remembering: Vec::new(),
            seeds: 1..=1,
            extent: Extent::Full,
        };
        let head = Head { origin: "here".to_owned(), command: "this".to_owned() };
        let text = text(&head, &settings, &findings);
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(table.len(), 10);
        let (learning, judged) = table.split_at(5);
        assert!(learning.iter().all(|line| line.matches('|').count() == 4), "{text}");
        assert!(learning[4].starts_with("| satellite | 5 to 30 Mbit/s"), "{text}");
        assert!(learning[4].ends_with("| kept: no better; then kept: no better |"), "{text}");
        assert!(judged.iter().all(|line| line.matches('|').count() == 12), "{text}");
        assert!(judged[2].ends_with("| bbr 97 % | bbr 97 % | yes |"), "{}", judged[2]);
        assert!(judged[3].ends_with("| **it harms** |"), "{}", judged[3]);
    }
}
