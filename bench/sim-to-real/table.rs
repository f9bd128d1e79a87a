//! The table as Markdown, in the form in which it goes into the docs.

use crate::sim_to_real::guests::RATE_MAX_MBIT_PER_SEC;
use crate::sim_to_real::measure::{
    Figures, HOST_LATE_STD_MS, Measured, SIM_DRAWS, Settings, Side, of,
};
use crate::sim_to_real::verdict::{
    Comparison, DELAY_TOLERANCE, DELAY_TOLERANCE_MS, Figure, GOODPUT_TOLERANCE,
    RETRANSMITTED_FACTOR, RETRANSMITTED_FLOOR_PKTS, Verdict,
};
use crate::stats::{Origin, Spread};
use remuda_scenarios::Scenario;

/// The text above the table: how to repeat it, and the bounds.
pub fn head(settings: &Settings, origin: &Origin, guests: Option<&str>) -> String {
    let Settings { rounds, seed, jobs, tries, .. } = settings;
    let kept = if settings.keep.is_some() { ", kept from call to call" } else { "" };
    let percent = |share: f64| share * 100.0;
    let more: String = settings.rounds_of.iter().map(|more| format!(", `{more}`")).collect();
    let in_guests = guests.map(|kernel| {
        let at_once = remuda_guest::at_once();
        format!(
            "Live runs up to {RATE_MAX_MBIT_PER_SEC} Mbit/s are in guests of one processor, \
             kernel {kernel},\n{at_once} at once; those above are on the host.\n"
        )
    });
    let in_guests = in_guests.unwrap_or_default();
    format!(
        "{origin}.\n\
         {rounds} rounds a scenario{more}, seeds from {seed};\n\
         {jobs} live runs at once{kept}; one from which more than {:.1} % of a processor was\n\
         stolen was run again, {tries} times in all at most.\n\
         {in_guests}\
         Every link but the bottleneck has {} us of jitter, each round otherwise; the simulator's\n\
         figure of a round is the median of {SIM_DRAWS} such runs.\n\n\
         Bounds, on medians over rounds: goodput within {} %, 95th percentile of the queueing\n\
         delay within {} % or {} ms, retransmissions within a factor of {}; counts that\n\
         differ by fewer than {} segments are equal. Ratios are the simulator's median to each\n\
         live round: median (least–greatest).\n",
        percent(remuda_live::STOLEN_MAX),
        HOST_LATE_STD_MS * 1e3,
        percent(GOODPUT_TOLERANCE),
        percent(DELAY_TOLERANCE),
        DELAY_TOLERANCE_MS,
        RETRANSMITTED_FACTOR,
        RETRANSMITTED_FLOOR_PKTS,
    )
}

/// The header line of the table.
pub fn columns() -> String {
    let mut names = vec!["scenario".to_owned()];
    for figure in ["goodput (Mbit/s)", "p95 of the queueing delay (ms)", "retransmitted (segments)"]
    {
        names.push(format!("{figure}: kernel / ours / sim"));
        names.extend(["sim : kernel".to_owned(), "sim : ours".to_owned()]);
    }
    names.push("verdict".to_owned());
    format!("| {} |\n|{}", names.join(" | "), "---|".repeat(names.len()))
}

/// A line of the table.
pub fn row(verdict: &Verdict) -> String {
    let mut cells = vec![verdict.scenario.clone()];
    for row in &verdict.rows {
        let [kernel, ours, sim] = row.medians;
        cells.push(match row.figure {
            Figure::Goodput => format!("{kernel:.2} / {ours:.2} / {sim:.2}"),
            Figure::Delay => format!("{kernel:.1} / {ours:.1} / {sim:.1}"),
            Figure::Retransmitted => format!("{kernel:.0} / {ours:.0} / {sim:.0}"),
        });
        cells.extend(row.against.iter().map(|comparison| ratio(row.figure, comparison)));
    }
    cells.push(words(verdict));
    format!("| {} |", cells.join(" | "))
}

fn ratio(figure: Figure, comparison: &Comparison) -> String {
    let Some(Spread { low, median, high }) = comparison.ratio else { return "–".to_owned() };
    match figure {
        Figure::Goodput => format!("{median:.3} ({low:.3}–{high:.3})"),
        Figure::Delay | Figure::Retransmitted => format!("{median:.2} ({low:.2}–{high:.2})"),
    }
}

fn words(verdict: &Verdict) -> String {
    let mut missed = Vec::new();
    for (against, live) in ["kernel", "ours"].into_iter().enumerate() {
        let figures: Vec<_> = verdict.missed(against).into_iter().map(Figure::name).collect();
        if !figures.is_empty() {
            missed.push(format!("{} ({live})", figures.join(", ")));
        }
    }
    let mut words =
        if missed.is_empty() { "met".to_owned() } else { format!("MISSED: {}", missed.join("; ")) };
    if verdict.disturbed > 0 {
        words += &format!(", {} runs disturbed", verdict.disturbed);
    }
    words
}

/// The number of scenarios within bounds.
pub fn summary(verdicts: &[Verdict]) -> String {
    let all = verdicts.len();
    let met = |against: usize| verdicts.iter().filter(|it| it.missed(against).is_empty()).count();
    format!(
        "Within bounds: {} of {all} scenarios against the kernel's own, {} of {all} against ours,\n\
         {} of {all} against both.",
        met(0),
        met(1),
        verdicts.iter().filter(|verdict| verdict.is_met()).count()
    )
}

/// The header line for [`sim_line`].
pub fn sim_columns() -> String {
    format!(
        "{:<32} {:>15} {:>18} {:>15}",
        "scenario", "goodput", "queueing delay p95", "retransmitted"
    )
}

/// A line for a scenario that only the simulator ran.
pub fn sim_line(scenario: &Scenario, measured: &[Measured]) -> String {
    let figures = of(measured, scenario, Side::Sim);
    let median = |figure: fn(&Figures) -> f64| {
        Spread::of_any(figures.values().map(|it| figure(it))).map_or(0.0, |spread| spread.median)
    };
    format!(
        "{:<32} {:8.2} Mbit/s {:15.1} ms {:6.0} segments",
        scenario.name,
        median(|it| it.goodput_mbit_per_sec),
        median(|it| it.queueing_p95_ms),
        median(|it| it.retransmitted_pkts as f64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim_to_real::verdict::Row;

    fn verdict(is_met: bool) -> Verdict {
        let ratio = Spread { low: 0.9, median: 1.0, high: 1.2 };
        let against =
            [Comparison { ratio: Some(ratio), is_met: true }, Comparison { ratio: None, is_met }];
        let row = |figure| Row { figure, medians: [10.0, 9.0, 9.5], against };
        let rows = Figure::ALL.into_iter().map(row).collect();
        Verdict { scenario: "x".to_owned(), rows, disturbed: 0 }
    }

    #[test]
    fn every_line_has_a_cell_for_every_column() {
        let columns = columns();
        let count = |line: &str| line.matches('|').count();
        assert!(columns.lines().all(|line| count(line) == count(&row(&verdict(true)))));
        assert!(row(&verdict(true)).contains("| 10.00 / 9.00 / 9.50 | 1.000 (0.900–1.200) | – |"));
        assert!(row(&verdict(true)).ends_with("| met |"));
        let all = "| MISSED: goodput, delay, retransmitted (ours) |";
        assert!(row(&verdict(false)).ends_with(all));
    }

    #[test]
    fn the_summary_counts_each_side() {
        let text = summary(&[verdict(true), verdict(false)]);
        assert!(text.contains("2 of 2 scenarios against the kernel's own, 1 of 2 against ours"));
    }
}
