//! Ranks drivers side by side over the environments that all of them ran.
//!
//! - In each environment a driver's figure is the median of its seeds, of those that all drivers
//!   ran.
//! - **regret**: 1 - merit / merit of the best driver of the environment (`metrics/merit.rs`),
//!   which is never below 0. Drivers are ranked by its mean over environments: a driver that is
//!   best in most environments and useless in some is not the best.
//! - **regret to the oracle over fixed arms**: 1 - merit / merit of the best arm of the
//!   environment, policies excluded; the mean. For a policy this is below 0 if the policy does
//!   better than an oracle that picks the best arm of each environment beforehand.
//! - **regret to the best fixed arm**: the driver's regret less that of the arm, policies excluded,
//!   with the least regret. For an arm this is never below 0; for a policy it is below 0 if the
//!   policy does better than any one arm used everywhere.
//! - **regret by the former merit**: the regret by the merit of commit b1bd1fe
//!   (`metrics/former_merit.rs`). A target on regret holds if it holds by both.
//! - **ahead**: merit over that of the next driver in the ranking, less 1: the median over
//!   environments. It may be below 0 because the ranking is by a mean: the driver is behind in most
//!   environments and far ahead in some.
//! - **wins**: environments in which the merit is within 10 % of the best (ccBench's winners).
//! - All other figures are medians. `interval.rs` has the intervals: the best driver of each
//!   environment and the best fixed arm are chosen anew in each draw; the next driver is that of
//!   the ranking.

use crate::interval::{Drawn, ENOUGH, Interval, bootstrap, every};
use crate::metrics::{mean, median};
use crate::row::Row;
use crate::shared::{FIGURES, Shared, best, share};
use serde::Serialize;

/// ccBench's limit: within a tenth of the best.
const WINS_WITHIN: f64 = 0.1;
/// How many of the first [`FIGURES`] are merits.
const MERITS: usize = 2;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rank {
    pub driver: String,
    /// Number of environments that all drivers ran.
    pub environments: usize,
    /// Number of environments in which the merit is within 10 % of the best.
    pub wins: usize,
    /// Regret to the best driver of each environment, 0 to 1: the mean.
    pub regret: Interval,
    /// The same by the merit of commit b1bd1fe.
    pub former_regret: Interval,
    /// Merit over that of the next driver, less 1; empty for the last driver.
    pub ahead: Interval,
    /// Regret less that of the best fixed arm; below 0 only for a policy.
    pub regret_to_fixed: Interval,
    /// Mean regret to the best arm of each environment; below 0 only for a policy.
    pub regret_to_oracle: Interval,
    /// Over the environments where something limits the link.
    pub utilisation: Interval,
    pub queueing_p95_ms: Interval,
    pub retransmitted_percent: Interval,
    /// Number of environments in which a flow of the driver starved, and in which it had more than
    /// an equal share while a flow starved.
    pub starved: [usize; 2],
}

/// The figures of a driver in a sample.
#[derive(Clone, Copy, Default)]
struct Figures {
    regret: Option<f64>,
    ahead: Option<f64>,
    regret_to_fixed: Option<f64>,
    regret_to_oracle: Option<f64>,
    former_regret: Option<f64>,
    /// Medians of the figures that are no merits, in the order of [`FIGURES`].
    middles: [Option<f64>; FIGURES.len() - MERITS],
}

impl Figures {
    fn all(self) -> impl Iterator<Item = Option<f64>> {
        let to_arms = [self.regret_to_fixed, self.regret_to_oracle];
        [self.regret, self.ahead]
            .into_iter()
            .chain(to_arms)
            .chain(self.middles)
            .chain([self.former_regret])
    }
}

impl Shared<'_> {
    /// The figures of each driver. `order` has the drivers in the order of the ranking, which
    /// defines the next driver.
    fn figures(&self, sample: &[Drawn], order: &[usize]) -> Vec<Figures> {
        let merits = self.merits(sample);
        let best = self::best(&merits);
        let regrets: Vec<Option<f64>> = merits.iter().map(|own| regret(own, &best)).collect();
        let arms = (0..regrets.len()).filter(|driver| self.is_arm(*driver));
        let fixed = arms.filter_map(|driver| regrets[driver]).reduce(f64::min);
        let oracle = self.oracle(&merits);
        let former = self.former_merits(sample);
        let best_formerly = self::best(&former);
        let of_driver = |driver: usize| {
            let others = std::array::from_fn(|figure| {
                let medians = self.medians(sample, driver, figure + MERITS);
                median(&medians.flatten().collect::<Vec<_>>())
            });
            Figures {
                regret: regrets[driver],
                ahead: None,
                regret_to_fixed: regrets[driver].zip(fixed).map(|(own, fixed)| own - fixed),
                regret_to_oracle: oracle.as_ref().and_then(|it| regret(&merits[driver], it)),
                former_regret: regret(&former[driver], &best_formerly),
                middles: others,
            }
        };
        let mut figures: Vec<Figures> = (0..self.drivers.len()).map(of_driver).collect();
        for pair in order.windows(2) {
            let both = merits[pair[0]].iter().zip(&merits[pair[1]]);
            let ratios = both.filter(|(_, next)| **next > 0.0).map(|(own, next)| own / next - 1.0);
            figures[pair[0]].ahead = median(&ratios.collect::<Vec<_>>());
        }
        figures
    }

    fn starved(&self, driver: usize, of: impl Fn(&Row) -> bool) -> usize {
        self.runs.iter().filter(|of_driver| of_driver[driver].iter().any(|row| of(row))).count()
    }

    fn rank(&self, driver: usize, intervals: &[Interval], wins: usize) -> Rank {
        Rank {
            driver: self.drivers[driver].to_owned(),
            environments: self.runs.len(),
            wins,
            regret: intervals[0],
            ahead: intervals[1],
            regret_to_fixed: intervals[2],
            regret_to_oracle: intervals[3],
            utilisation: self.if_enough(driver, MERITS, intervals[4]),
            queueing_p95_ms: intervals[5],
            retransmitted_percent: intervals[6],
            former_regret: intervals[7],
            starved: [
                self.starved(driver, |row| row.starved == "tested"),
                self.starved(driver, |row| starves(row, self.drivers[driver])),
            ],
        }
    }

    /// Drops the interval if fewer environments than needed have the figure, although enough were
    /// drawn.
    fn if_enough(&self, driver: usize, figure: usize, it: Interval) -> Interval {
        let has_one =
            |of: &&Vec<[Vec<_>; FIGURES.len()]>| of[driver][figure].iter().any(Option::is_some);
        let few = self.values.iter().filter(has_one).count() < ENOUGH;
        let bounds = if few && self.runs.len() >= ENOUGH { None } else { it.bounds };
        Interval { bounds, ..it }
    }
}

/// Whether the tested driver had more than an equal share while a flow starved. A driver that was
/// only present is not to blame.
fn starves(row: &Row, driver: &str) -> bool {
    row.starved_by.split(',').any(|name| name.trim() == driver)
}

fn regret(own: &[f64], best: &[f64]) -> Option<f64> {
    let missed = |(own, best): (&f64, &f64)| 1.0 - share(*own, *best);
    mean(&own.iter().zip(best).map(missed).collect::<Vec<_>>())
}

/// All drivers, the one with the least regret first.
pub fn ranking(rows: &[Row]) -> Vec<Rank> {
    let shared = Shared::of(rows);
    let seeds = shared.seeds();
    let every = every(&seeds);
    let merits = shared.merits(&every);
    let best = best(&merits);
    let within = |(merit, best): &(&f64, &f64)| **merit >= (1.0 - WINS_WITHIN) * **best;
    let wins: Vec<usize> =
        merits.iter().map(|own| own.iter().zip(&best).filter(within).count()).collect();
    let regrets: Vec<f64> =
        merits.iter().map(|own| regret(own, &best).unwrap_or_default()).collect();
    let mut order: Vec<usize> = (0..shared.drivers.len()).collect();
    order.sort_by(|a, b| regrets[*a].total_cmp(&regrets[*b]).then(wins[*b].cmp(&wins[*a])));
    let of = |sample: &[Drawn]| {
        shared.figures(sample, &order).into_iter().flat_map(Figures::all).collect::<Vec<_>>()
    };
    let intervals = bootstrap(&seeds, of);
    let each = Figures::default().all().count();
    let rank =
        |driver: &usize| shared.rank(*driver, &intervals[driver * each..][..each], wins[*driver]);
    order.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(environment: &str, driver: &str, seed: u64, merit: f64) -> Row {
        Row {
            environment: environment.to_owned(),
            driver: driver.to_owned(),
            seed,
            merit,
            former_merit: merit,
            ..Row::default()
        }
    }

    #[test]
    fn winners_are_within_a_tenth_of_the_best() {
        let rows = [
            row("x", "a", 1, 10.0),
            row("x", "b", 1, 9.1),
            row("x", "c", 1, 5.0),
            row("y", "a", 1, 4.0),
            row("y", "b", 1, 8.0),
            row("y", "c", 1, 1.0),
        ];
        let ranks = ranking(&rows);
        let said: Vec<_> = ranks.iter().map(|it| (it.driver.as_str(), it.wins)).collect();
        assert_eq!(said, [("b", 2), ("a", 1), ("c", 0)]);
        assert!((ranks[1].regret.middle - 0.25).abs() < 1e-12);
        assert!((ranks[2].regret.middle - 0.687_5).abs() < 1e-12);
        // b has 0.91 and 3 times the merit of a; a is the best fixed arm but for b.
        assert!((ranks[0].ahead.middle - ((0.91 + 2.0) / 2.0 - 1.0)).abs() < 1e-12);
        assert_eq!(ranks[0].regret_to_fixed.middle, 0.0);
        assert_eq!(ranks[2].ahead, Interval::default());
    }

    #[test]
    fn a_driver_has_the_median_of_its_seeds_and_a_seed_that_one_lacks_counts_for_none() {
        let rows = [
            row("x", "a", 1, 1.0),
            row("x", "a", 2, 10.0),
            row("x", "a", 3, 11.0),
            row("x", "a", 4, 99.0),
            row("x", "b", 1, 10.0),
            row("x", "b", 2, 10.0),
            row("x", "b", 3, 1.0),
            row("y", "a", 1, 99.0),
        ];
        let ranks = ranking(&rows);
        assert!(ranks.iter().all(|it| it.environments == 1 && it.wins == 1), "{ranks:?}");
    }
    /// Seeds differ a hundredfold, as traces do, and `a` has a tenth more than `b` in each.
    #[test]
    fn drivers_share_what_is_drawn_so_what_is_missed_of_the_best_is_never_below_0() {
        let mut rows = Vec::new();
        for place in 0..9 {
            for seed in 1..=10 {
                let luck = 10f64.powf((seed * 7 % 10) as f64 / 5.0);
                let environment = format!("e{place}");
                rows.push(row(&environment, "a", seed, 11.0 * luck));
                rows.push(row(&environment, "b", seed, 10.0 * luck));
                let odd = if (seed + place) % 3 == 0 { 20.0 } else { 5.0 };
                rows.push(row(&environment, "c", seed, odd * luck));
            }
        }
        let near = |it: Interval, want: f64| {
            let ends = it.bounds.expect("nine environments are enough");
            [it.middle, ends[0], ends[1]].iter().all(|had| (had - want).abs() < 1e-9)
        };
        let pair: Vec<Row> = rows.iter().filter(|row| row.driver != "c").cloned().collect();
        let ranks = ranking(&pair);
        assert!(near(ranks[0].regret, 0.0) && near(ranks[0].ahead, 0.1), "{ranks:?}");
        assert!(near(ranks[1].regret, 1.0 / 11.0), "{ranks:?}");
        assert!(near(ranks[1].regret_to_fixed, 1.0 / 11.0), "{ranks:?}");
        for rank in ranking(&rows) {
            for it in [rank.regret, rank.regret_to_fixed] {
                let [low, high] = it.bounds.expect("nine environments are enough");
                assert!(0.0 <= low && low <= high && it.middle >= 0.0, "{rank:?}");
            }
            let [low, high] = rank.regret.bounds.unwrap();
            assert!(low <= rank.regret.middle && rank.regret.middle <= high, "{rank:?}");
        }
    }

    #[test]
    fn a_policy_alone_misses_less_than_the_best_fixed_arm() {
        let rows = [
            row("x", "reno", 1, 10.0),
            row("x", "cubic", 1, 5.0),
            row("x", "rein", 1, 10.0),
            row("y", "reno", 1, 2.0),
            row("y", "cubic", 1, 10.0),
            row("y", "rein", 1, 10.0),
        ];
        let said = ranking(&rows).into_iter().map(|it| (it.driver, it.regret_to_fixed.middle));
        let want = [("rein", -0.25), ("cubic", 0.0), ("reno", 0.4 - 0.25)];
        for ((driver, had), (name, want)) in said.zip(want) {
            assert!(driver == name && (had - want).abs() < 1e-12, "{driver}: {had}");
        }
    }

    #[test]
    fn what_is_missed_by_the_former_merit_is_shown_beside() {
        let row = |driver, merit, former_merit| Row { former_merit, ..row("x", driver, 1, merit) };
        let ranks = ranking(&[row("reno", 10.0, 2.0), row("cubic", 5.0, 8.0)]);
        let said: Vec<_> =
            ranks.iter().map(|it| (it.regret.middle, it.former_regret.middle)).collect();
        assert_eq!(said, [(0.0, 0.75), (0.5, 0.0)]);
    }

    #[test]
    fn the_oracle_has_the_best_arm_of_each_environment_and_no_policy() {
        let rows = [
            row("x", "reno", 1, 10.0),
            row("x", "cubic", 1, 5.0),
            row("x", "rein", 1, 12.0),
            row("y", "reno", 1, 2.0),
            row("y", "cubic", 1, 10.0),
            row("y", "rein", 1, 9.0),
        ];
        let said = ranking(&rows).into_iter().map(|it| (it.driver, it.regret_to_oracle.middle));
        let want = [("rein", (-0.2 + 0.1) / 2.0), ("cubic", 0.25), ("reno", 0.4)];
        for ((driver, had), (name, want)) in said.zip(want) {
            assert!(driver == name && (had - want).abs() < 1e-12, "{driver}: {had}");
        }
        let policies: Vec<Row> = rows.into_iter().filter(|row| row.driver == "rein").collect();
        assert_eq!(ranking(&policies)[0].regret_to_oracle, Interval::default(), "of no arm");
    }

    #[test]
    fn a_driver_that_is_only_present_starves_no_flow() {
        let starved = |driver: &str, who: &str, by: &str| Row {
            starved: who.to_owned(),
            starved_by: by.to_owned(),
            ..row("x", driver, 1, 1.0)
        };
        let rows = [
            starved("copa", "neighbour", "bbr, cubic"),
            starved("bbr", "neighbour", "bbr, cubic"),
            starved("bbr3", "tested", "bbr, cubic"),
            starved("cubic", "tested", "cubic"),
            starved("reno", "", ""),
        ];
        let mut said: Vec<_> =
            ranking(&rows).into_iter().map(|it| (it.driver, it.starved)).collect();
        said.sort();
        let want = [
            ("bbr", [0, 1]),
            ("bbr3", [1, 0]),
            ("copa", [0, 0]),
            ("cubic", [1, 1]),
            ("reno", [0, 0]),
        ];
        assert_eq!(said, want.map(|(driver, counts)| (driver.to_owned(), counts)));
    }
}
