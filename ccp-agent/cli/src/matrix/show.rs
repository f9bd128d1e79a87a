//! What a matrix prints.

use crate::Failure;
use crate::table::{figure, table};
use remuda_matrix::{Interval, Plan, Rank, Row};
use remuda_scenarios::Suite;
use std::time::Duration;

/// Who does best.
pub fn ranking(rows: &[Row]) -> String {
    ranking_table(&remuda_matrix::ranking(rows))
}

/// Drivers, the best first.
pub fn ranking_table(ranks: &[Rank]) -> String {
    let environments = ranks.first().map_or(0, |rank| rank.environments);
    let mut shown = table(&[
        "arm",
        "misses of the best, %",
        "wins",
        "ahead of next, %",
        "of the best fixed, %",
        "of the link, %",
        "p95 queueing, ms",
        "sent again, %",
        "starved / starves",
    ]);
    for rank in ranks {
        shown.add_row([
            rank.driver.clone(),
            spread(rank.regret, 100.0),
            rank.wins.to_string(),
            spread(rank.ahead, 100.0),
            spread(rank.regret_to_fixed, 100.0),
            spread(rank.utilisation, 100.0),
            spread(rank.queueing_p95_ms, 1.0),
            spread(rank.retransmitted_percent, 1.0),
            format!("{} / {}", rank.starved[0], rank.starved[1]),
        ]);
    }
    let s = if environments == 1 { "" } else { "s" };
    format!(
        "{shown}\nOver {environments} environment{s} that all of them ran. Ranked by what they \
         miss of the best one there, on average:\nby goodput squared over one-way delay; beside \
         others, by how even the share is; of transfers, by their slowdown.\nA win: within 10 % of \
         the best there. Of the best fixed: what it misses beyond what the best single arm\n\
         misses, on average; only a policy's can be below 0. The other columns are medians; in \
         brackets 95 % intervals, where\nthere are enough environments or seeds. Starved: \
         environments in which a flow of it had less than a tenth of an\neven share; starves: in \
         which it had more than an even share while another flow starved."
    )
}

/// A middle, and its interval if it has one.
pub fn spread(it: Interval, factor: f64) -> String {
    let show = |value: f64| figure(Some(value * factor));
    match it.bounds {
        None => show(it.middle),
        Some([low, high]) => format!("{} ({}-{})", show(it.middle), show(low), show(high)),
    }
}

/// All suites.
pub fn suites(all: &[Suite]) -> Result<String, Failure> {
    let mut shown = table(&["suite", "environments", "what", "source"]);
    for suite in all {
        let count = suite.environments()?.len().to_string();
        shown.add_row([&suite.name, &count, &suite.title, &suite.source]);
    }
    Ok(shown.to_string())
}

/// All environments of a plan with one driver and one seed.
pub fn environments(plan: &Plan) -> String {
    let mut shown = table(&["suite", "environment", "group", "path", "look at"]);
    for job in &plan.jobs {
        let it = &job.environment;
        shown.add_row([&it.suite, &it.name, &it.group, it.path.name(), &it.look_at]);
    }
    shown.to_string()
}

/// What was done, what of it the next matrix runs again, and how long it took.
pub fn done(rows: &[Row], all: usize, unkept: usize, took: Duration) -> String {
    let again = if unkept > 0 { format!(", {unkept} of them not kept") } else { String::new() };
    format!("remuda matrix: {} of {all} runs in {:.1} s{again}", rows.len(), took.as_secs_f64())
}

/// How many runs miss pass/fail lines, if there are any such lines.
pub fn missed(rows: &[Row]) -> Option<String> {
    let lines: u64 = rows.iter().map(|row| row.expected).sum();
    let missing = rows.iter().filter(|row| !row.missed.is_empty()).count();
    let fix = "`remuda report --text` lists them";
    match (lines, missing) {
        (0, _) => None,
        (_, 0) => Some(format!("all {lines} pass/fail lines pass")),
        _ => Some(format!("{missing} runs miss some of {lines} pass/fail lines; {fix}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ranking_says_what_its_counts_are() {
        let rank = Rank { driver: "bbr".to_owned(), starved: [2, 3], ..Rank::default() };
        let shown = ranking_table(&[rank]);
        assert!(shown.contains("2 / 3"), "{shown}");
        assert!(shown.contains("starves: in which it had more than an even share"), "{shown}");
    }
}
