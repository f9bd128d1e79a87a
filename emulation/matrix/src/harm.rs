//! Harm: what a driver takes from its neighbours beyond what a driver of the neighbours' own kind
//! takes.
//!
//! Ware, Mukerjee, Seshan and Sherry, "Beyond Jain's Fairness Index" (HotNets 2019): a neighbour
//! has a figure x beside a flow of its own kind, and y beside the tested driver. **Harm** is (x -
//! y) / x for a figure where more is better, such as goodput, and (y - x) / y where less is better,
//! such as delay. 0 is no harm, 1 is complete harm, and a value below 0 means that the neighbour
//! does better than beside its own kind. The paper compares with a neighbour that is alone. We
//! compare with the run of the same environment and seed in which the tested driver is the
//! neighbours' own, because the harm of that driver is already accepted.

use crate::row::Row;
use serde::Serialize;
use std::collections::BTreeMap;

/// The harm of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Harm {
    pub suite: String,
    pub environment: String,
    pub driver: String,
    /// The driver of the neighbours.
    pub neighbour: String,
    pub seed: u64,
    pub goodput: Option<f64>,
    /// Harm by the 95th percentile of one-way delay, which all flows on the path share.
    pub delay: f64,
}

fn key(row: &Row) -> (&str, &str, u64) {
    (&row.suite, &row.environment, row.seed)
}

/// The harm of every run whose neighbours are of one kind and for which a run exists that tests
/// that kind.
pub fn harms(rows: &[Row]) -> Vec<Harm> {
    let own = rows.iter().filter(|row| row.driver == row.neighbours);
    let own: BTreeMap<_, &Row> = own.map(|row| (key(row), row)).collect();
    let beside = rows.iter().filter(|row| row.driver != row.neighbours);
    let harm = |row: &Row| {
        let baseline = own.get(&key(row)).filter(|it| it.neighbours == row.neighbours)?;
        let [x, y] = [baseline.neighbour_mbit_per_sec, row.neighbour_mbit_per_sec];
        let goodput = x.zip(y).filter(|(x, _)| *x > 0.0).map(|(x, y)| (x - y) / x);
        let [x, y] = [baseline.delay_p95_ms, row.delay_p95_ms];
        Some(Harm {
            suite: row.suite.clone(),
            environment: row.environment.clone(),
            driver: row.driver.clone(),
            neighbour: row.neighbours.clone(),
            seed: row.seed,
            goodput,
            delay: if y > 0.0 { (y - x) / y } else { 0.0 },
        })
    };
    beside.filter_map(harm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(environment: &str, driver: &str, neighbours: &str, mbit: f64, delay_ms: f64) -> Row {
        Row {
            environment: environment.to_owned(),
            driver: driver.to_owned(),
            neighbours: neighbours.to_owned(),
            neighbour_mbit_per_sec: Some(mbit),
            delay_p95_ms: delay_ms,
            ..Row::default()
        }
    }

    #[test]
    fn harm_is_what_is_taken_beyond_what_its_own_kind_takes() {
        let rows = [
            row("x", "cubic", "cubic", 20.0, 50.0),
            row("x", "bbr", "cubic", 5.0, 100.0),
            row("x", "vegas", "cubic", 30.0, 40.0),
            row("y", "bbr", "cubic", 5.0, 100.0),
            row("x", "rein", "bbr,cubic", 5.0, 100.0),
        ];
        let all = harms(&rows);
        let said: Vec<_> =
            all.iter().map(|it| (it.driver.as_str(), it.goodput, it.delay)).collect();
        assert_eq!(said, [("bbr", Some(0.75), 0.5), ("vegas", Some(-0.5), -0.25)]);
    }
}
