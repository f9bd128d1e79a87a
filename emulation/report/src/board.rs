//! The data of the page: environments × drivers, and notable results.

use crate::cloud::Cloud;
use crate::matrix::Matrix;
use crate::metric::ascending;
use crate::slice::{Buffer, Slice, slices};
use ccp_agent::catalogue::{self, Kind};
use remuda_matrix::{Harm, Rank, Row, Versus, harms, median, versus};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// An environment; its figures are medians over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    pub suite: String,
    pub name: String,
    pub group: String,
    /// The kind of path, as `cellular`.
    pub path: String,
    pub buffer: Buffer,
    /// Mean capacity of the bottleneck; `None` if nothing limits it.
    pub capacity_mbit_per_sec: Option<f64>,
    /// Round trip when no packet waits.
    pub rtt_ms: f64,
    /// Size of the bottleneck's queue; `None` if it has no limit.
    pub queue_bdp: Option<f64>,
    /// The drivers of the other flows that respond to congestion.
    pub neighbours: String,
}

impl Place {
    /// The environment of `rows`, which must all be of one environment. If a figure differs by
    /// seed, the place has the median.
    pub(crate) fn of(rows: &[&Row]) -> Self {
        let first = rows.first().copied().cloned().unwrap_or_default();
        let queue_bdp = middle(rows, |row| row.queue_bdp);
        Self {
            buffer: Buffer::of(&first.path, queue_bdp),
            suite: first.suite,
            name: first.environment,
            group: first.group,
            path: first.path,
            capacity_mbit_per_sec: middle(rows, |row| row.capacity_mbit_per_sec),
            rtt_ms: middle(rows, |row| Some(row.path_rtt_ms)).unwrap_or_default(),
            queue_bdp,
            neighbours: first.neighbours,
        }
    }
}

/// Medians over seeds of one driver in one environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cell {
    /// Merit over that of the best driver of the environment, 0 to 1.
    pub of_best: f64,
    pub goodput_mbit_per_sec: f64,
    pub utilisation: Option<f64>,
    /// 95th percentile of the delay in the bottleneck's queue.
    pub queueing_p95_ms: f64,
    pub retransmitted_percent: f64,
    /// Goodput over an equal share, beside neighbours.
    pub share: Option<f64>,
    /// 95th percentile of the transfers' slowdown.
    pub slowdown_p95: Option<f64>,
}

/// A driver in an environment where a flow starved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Starved {
    /// Index of the environment.
    pub environment: usize,
    pub driver: String,
    /// The role of the flow that starved: `tested` or `neighbour`.
    pub role: String,
    /// The drivers of the flows that starved.
    pub loser: String,
    /// The drivers of the flows that had more than an equal share.
    pub winner: String,
    /// The tested flows' goodput over an equal share.
    pub share: Option<f64>,
    /// Number of seeds in which this happened.
    pub seeds: usize,
}

/// Harm of a driver to neighbours of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HarmTo {
    pub driver: String,
    pub neighbour: String,
    pub runs: usize,
    /// Median harm to the neighbours' goodput.
    pub goodput: Option<f64>,
    /// Median harm to the neighbours' delay.
    pub delay: Option<f64>,
    /// The environment of the largest harm to goodput, and that harm.
    pub worst: Option<(String, f64)>,
}

/// A run that fails a pass/fail line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Missed {
    /// Index of the environment.
    pub environment: usize,
    pub driver: String,
    pub seed: u64,
    /// The lines that failed, with the values.
    pub lines: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Board {
    /// The metadata of the table: program, commit, suites, arms.
    pub about: BTreeMap<String, String>,
    pub runs: usize,
    pub seeds: usize,
    pub drivers: Vec<String>,
    /// In the order of the rows.
    pub environments: Vec<Place>,
    /// Indexed by environment, then driver; `None` where the driver did not run.
    pub cells: Vec<Vec<Option<Cell>>>,
    /// Indexed by metric of [`METRICS`](crate::METRICS), then driver: the environments with a
    /// value, ascending.
    pub ascending: Vec<Vec<Vec<usize>>>,
    /// The slices, each with its ranking; the first slice has all environments.
    pub slices: Vec<Slice>,
    pub starved: Vec<Starved>,
    /// Harm of each driver to neighbours of each kind, medians over environments.
    pub harms: Vec<HarmTo>,
    /// Each policy compared with each other driver, over all environments; empty without an arm.
    pub versus: Vec<Versus>,
    /// Number of pass/fail lines, summed over all runs.
    pub expected: u64,
    /// The runs that fail a line.
    pub missed: Vec<Missed>,
}

type Rows<'a> = Vec<Vec<Vec<&'a Row>>>;

impl Board {
    pub fn of(matrix: &Matrix) -> Self {
        let rows = &matrix.rows;
        let mut known = BTreeMap::new();
        for row in rows {
            let next = known.len();
            known.entry((&row.suite, &row.environment)).or_insert(next);
        }
        let drivers = matrix.drivers();
        let mut by_cell: Rows<'_> = vec![vec![Vec::new(); drivers.len()]; known.len()];
        for row in rows {
            let place = known[&(&row.suite, &row.environment)];
            let driver = drivers.partition_point(|name| *name < row.driver);
            by_cell[place][driver].push(row);
        }
        let seeds: BTreeSet<u64> = rows.iter().map(|row| row.seed).collect();
        let cells: Vec<_> = by_cell.iter().map(|drivers| cells(drivers)).collect();
        let places: Vec<Place> =
            by_cell.iter().map(|drivers| Place::of(&drivers.concat())).collect();
        let mut slices = slices(rows, &places);
        for slice in &mut slices {
            slice.clouds = clouds(slice, &drivers, &cells);
        }
        Self {
            about: matrix.about.clone(),
            runs: rows.len(),
            seeds: seeds.len(),
            slices,
            starved: starved(&by_cell, &drivers),
            harms: harms_to(rows),
            versus: versus(rows, &policies(&drivers)),
            expected: rows.iter().map(|row| row.expected).sum(),
            missed: missed(&by_cell),
            ascending: ascending(&cells, drivers.len()),
            cells,
            environments: places,
            drivers,
        }
    }
}

/// The drivers that are policies.
fn policies(drivers: &[String]) -> Vec<&str> {
    let is_policy = |name: &&str| matches!(catalogue::kind(name), Ok(Kind::Policy));
    drivers.iter().map(String::as_str).filter(is_policy).collect()
}

fn middle(rows: &[&Row], metric: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
    median(&rows.iter().filter_map(|row| metric(row)).collect::<Vec<_>>())
}

fn cells(drivers: &[Vec<&Row>]) -> Vec<Option<Cell>> {
    let merit = |rows: &[&Row]| middle(rows, |row| Some(row.merit));
    let best = drivers.iter().filter_map(|rows| merit(rows)).fold(0.0, f64::max);
    let cell = |rows: &Vec<&Row>| {
        let of_best = merit(rows)?;
        let known = |metric: fn(&Row) -> f64| middle(rows, |row| Some(metric(row)));
        Some(Cell {
            of_best: if best > 0.0 { of_best / best } else { 1.0 },
            goodput_mbit_per_sec: known(|row| row.goodput_mbit_per_sec)?,
            utilisation: middle(rows, |row| row.utilisation),
            queueing_p95_ms: known(|row| row.queueing_p95_ms)?,
            retransmitted_percent: known(|row| row.retransmitted_percent)?,
            share: middle(rows, |row| row.share),
            slowdown_p95: middle(rows, |row| row.slowdown_p95),
        })
    };
    drivers.iter().map(cell).collect()
}

/// One entry a driver, in the order of the ranking.
fn clouds(slice: &Slice, drivers: &[String], cells: &[Vec<Option<Cell>>]) -> Vec<Cloud> {
    let of = |rank: &Rank| {
        let column = drivers.iter().position(|name| *name == rank.driver)?;
        let own = slice.environments.iter().filter_map(|place| cells[*place][column].as_ref());
        Cloud::of(&rank.driver, own)
    };
    slice.ranks.iter().filter_map(of).collect()
}

fn starved(by_cell: &Rows<'_>, drivers: &[String]) -> Vec<Starved> {
    let mut all = Vec::new();
    for (environment, of_driver) in by_cell.iter().enumerate() {
        for (driver, rows) in drivers.iter().zip(of_driver) {
            for role in ["tested", "neighbour"] {
                let those: Vec<&Row> =
                    rows.iter().filter(|row| row.starved == role).copied().collect();
                let Some(first) = those.first() else { continue };
                all.push(Starved {
                    environment,
                    driver: driver.clone(),
                    role: role.to_owned(),
                    loser: first.starved_drivers.clone(),
                    winner: first.starved_by.clone(),
                    share: middle(&those, |row| row.share),
                    seeds: those.len(),
                });
            }
        }
    }
    all
}

fn harms_to(rows: &[Row]) -> Vec<HarmTo> {
    let mut by_pair: BTreeMap<(String, String), Vec<Harm>> = BTreeMap::new();
    for harm in harms(rows) {
        by_pair.entry((harm.driver.clone(), harm.neighbour.clone())).or_default().push(harm);
    }
    let of = |((driver, neighbour), all): ((String, String), Vec<Harm>)| {
        let named = |it: &Harm| Some((format!("{}/{}", it.suite, it.environment), it.goodput?));
        let goodputs: Vec<f64> = all.iter().filter_map(|it| it.goodput).collect();
        let delays: Vec<f64> =
            all.iter().filter(|it| it.goodput.is_some()).map(|it| it.delay).collect();
        HarmTo {
            driver,
            neighbour,
            runs: goodputs.len(),
            goodput: median(&goodputs),
            delay: median(&delays),
            worst: all.iter().filter_map(named).max_by(|a, b| a.1.total_cmp(&b.1)),
        }
    };
    by_pair.into_iter().map(of).collect()
}

fn missed(by_cell: &Rows<'_>) -> Vec<Missed> {
    let all = by_cell.iter().enumerate();
    let rows = all.flat_map(|(place, of)| of.iter().flatten().map(move |row| (place, row)));
    rows.filter(|(_, row)| !row.missed.is_empty())
        .map(|(environment, row)| Missed {
            environment,
            driver: row.driver.clone(),
            seed: row.seed,
            lines: row.missed.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(environment: &str, driver: &str, seed: u64, merit: f64) -> Row {
        let (environment, driver) = (environment.to_owned(), driver.to_owned());
        Row { suite: "s".to_owned(), environment, driver, seed, merit, ..Row::default() }
    }

    #[test]
    fn a_cell_is_the_median_of_its_seeds_to_the_best_there() {
        let rows = vec![
            row("y", "b", 1, 5.0),
            row("y", "b", 2, 7.0),
            row("x", "a", 1, 4.0),
            row("y", "a", 1, 12.0),
        ];
        let board = Board::of(&Matrix { rows, about: BTreeMap::new() });
        assert_eq!(board.drivers, ["a", "b"]);
        let names: Vec<&str> = board.environments.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["y", "x"], "in the order of the rows");
        let of_best = |place: usize, driver: usize| board.cells[place][driver].map(|it| it.of_best);
        assert_eq!([of_best(0, 0), of_best(0, 1)], [Some(1.0), Some(0.5)]);
        assert_eq!([of_best(1, 0), of_best(1, 1)], [Some(1.0), None]);
        assert_eq!((board.runs, board.seeds), (4, 2));
    }

    #[test]
    fn each_policy_is_beside_each_other_driver() {
        let of = |driver, merit| row("x", driver, 1, merit);
        let rows = vec![of("bbr", 1.0), of("cubic", 2.0), of("random", 1.0), of("rein", 3.0)];
        let board = Board::of(&Matrix { rows, about: BTreeMap::new() });
        let pairs: Vec<_> =
            board.versus.iter().map(|it| (it.driver.as_str(), it.other.as_str())).collect();
        let of = |policy, others: [&'static str; 3]| others.map(|other| (policy, other));
        let want = [of("random", ["bbr", "cubic", "rein"]), of("rein", ["bbr", "cubic", "random"])];
        assert_eq!(pairs, want.concat());
        assert_eq!(board.versus[4].difference.middle, 0.5);
    }

    #[test]
    fn starved_flows_and_missed_lines_are_listed() {
        let mut rows = vec![row("x", "a", 1, 1.0), row("x", "a", 2, 1.0), row("x", "b", 1, 1.0)];
        for row in &mut rows[..2] {
            row.starved = "neighbour".to_owned();
            row.starved_by = "a".to_owned();
            row.starved_drivers = "cubic".to_owned();
            row.share = Some(1.9);
        }
        rows[2].missed = "jain >= 0.7 (0.5)".to_owned();
        rows[2].expected = 2;
        let board = Board::of(&Matrix { rows, about: BTreeMap::new() });
        let [it] = &board.starved[..] else { panic!("{:?}", board.starved) };
        assert_eq!((it.driver.as_str(), it.role.as_str(), it.seeds), ("a", "neighbour", 2));
        assert_eq!((it.loser.as_str(), it.winner.as_str(), it.share), ("cubic", "a", Some(1.9)));
        let [it] = &board.missed[..] else { panic!("{:?}", board.missed) };
        assert_eq!((it.driver.as_str(), it.lines.as_str()), ("b", "jain >= 0.7 (0.5)"));
        assert_eq!(board.expected, 2);
    }
}
