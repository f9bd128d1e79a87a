//! The tables and lines that a matrix prints.

use crate::Failure;
use crate::table::{figure, table};
use remuda_matrix::{Interval, Plan, Rank, Row};
use remuda_scenarios::Suite;
use std::time::Duration;

/// From this share (1000 %) on, a factor is easier to read than percent.
const FACTOR_FROM: f64 = 10.0;

pub fn ranking(rows: &[Row]) -> String {
    ranking_table(&remuda_matrix::ranking(rows))
}

/// The drivers as a table, the best first.
pub fn ranking_table(ranks: &[Rank]) -> String {
    let environments = ranks.first().map_or(0, |rank| rank.environments);
    let mut shown = table(&[
        "arm",
        "misses of the best, %",
        "by the merit of b1bd1fe, %",
        "wins",
        "ahead of next, %",
        "of the best fixed, %",
        "of the oracle, %",
        "of the link, %",
        "p95 queueing, ms",
        "sent again, %",
        "starved / starves",
    ]);
    for rank in ranks {
        shown.add_row([
            rank.driver.clone(),
            spread(rank.regret, 100.0),
            spread(rank.former_regret, 100.0),
            rank.wins.to_string(),
            ahead(rank.ahead),
            spread(rank.regret_to_fixed, 100.0),
            spread(rank.regret_to_oracle, 100.0),
            spread(rank.utilisation, 100.0),
            spread(rank.queueing_p95_ms, 1.0),
            spread(rank.retransmitted_percent, 1.0),
            format!("{} / {}", rank.starved[0], rank.starved[1]),
        ]);
    }
    let s = if environments == 1 { "" } else { "s" };
    format!(
        "{shown}\nOver {environments} environment{s} that all of them ran. Ranked by what they \
         miss of the best one there, on average:\nby merit, which is goodput squared over one-way \
         delay, less for loss and for harm to neighbours; of\ntransfers, it is their slowdown, \
         with both. The merit of commit b1bd1fe had no loss, and beside others only\nhow even the \
         share is.\nA win: within 10 % of \
         the best there. Of the best fixed: what it misses beyond what the best single arm\n\
         misses, on average. Of the oracle: what it misses of the best arm of each environment, on \
         average. Only a policy's can\nbe below 0. The other columns are medians; in brackets 95 % \
         intervals, where there are enough environments or seeds;\none of “ahead” that reaches \
         below 0 says that the next may be as good.\nStarved: environments in which \
         a flow of it had less than a tenth of an even share; starves: in which it had more\nthan \
         an even share while another flow starved."
    )
}

/// The middle of an interval, with its bounds if it has them.
pub fn spread(it: Interval, factor: f64) -> String {
    let show = |value: f64| figure(Some(value * factor));
    match it.bounds {
        None => show(it.middle),
        // Nothing varied: there is no interval.
        Some([low, high]) if low == high => show(it.middle),
        Some([low, high]) => format!("{} ({} to {})", show(it.middle), show(low), show(high)),
    }
}

/// How far one driver is ahead of the next, in percent; above 1000 % as a factor.
pub fn ahead(it: Interval) -> String {
    let [low, high] = it.bounds.unwrap_or([it.middle; 2]);
    if it.middle.max(high) > FACTOR_FROM {
        let factor = |share: f64| match share + 1.0 {
            times if times < 10.0 => format!("{times:.1} x"),
            times => format!("{times:.0} x"),
        };
        return match it.bounds {
            None => factor(it.middle),
            Some(_) => format!("{} ({} to {})", factor(it.middle), factor(low), factor(high)),
        };
    }
    if it.middle < 0.0 {
        let percent = |share: f64| figure(Some(share * 100.0));
        let behind = format!("behind by {}", percent(-it.middle));
        return match it.bounds {
            None => behind,
            Some(_) => format!("{behind} (ahead by {} to {})", percent(low), percent(high)),
        };
    }
    spread(it, 100.0)
}

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

/// How many runs were done, how many could not be kept, and how long it took.
pub fn done(rows: &[Row], all: usize, unkept: usize, took: Duration) -> String {
    let again = if unkept > 0 { format!(", {unkept} of them not kept") } else { String::new() };
    format!("remuda matrix: {} of {all} runs in {:.1} s{again}", rows.len(), took.as_secs_f64())
}

/// How many runs miss pass/fail lines; `None` without such lines.
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
        assert!(shown.contains("starves: in which it had more"), "{shown}");
    }

    #[test]
    fn an_interval_and_how_far_ahead_one_is_can_be_read() {
        let of = |middle, bounds| Interval { middle, bounds };
        assert_eq!(spread(of(-5.0, Some([-9.0, -1.1])), 1.0), "-5.0 (-9.0 to -1.1)");
        for (it, want) in [
            (of(0.2, None), "20.0"),
            (of(0.2, Some([-0.4, 0.7])), "20.0 (-40.0 to 70.0)"),
            (of(-0.103, None), "behind by 10.3"),
            (of(-0.103, Some([-0.4, 0.875])), "behind by 10.3 (ahead by -40.0 to 87.5)"),
            (of(10.0, None), "1000.0"),
            (of(375.91, None), "377 x"),
            (of(375.91, Some([-0.3, 1_200.0])), "377 x (0.7 x to 1201 x)"),
            (of(0.939, Some([-0.073, 20.0])), "1.9 x (0.9 x to 21 x)"),
        ] {
            assert_eq!(ahead(it), want);
        }
    }
}
