//! The environments and seeds by which drivers can be compared: those that all of them ran.

use crate::interval::Drawn;
use crate::row::Row;
use ccp_agent::catalogue::{self, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// The figures of a row that are ranked: the merit, the former merit, and others.
pub(crate) const FIGURES: [fn(&Row) -> Option<f64>; 5] = [
    |row| Some(row.merit),
    |row| Some(row.former_merit),
    |row| row.utilisation,
    |row| Some(row.queueing_p95_ms),
    |row| Some(row.retransmitted_percent),
];

/// The runs of a driver in an environment, with the seeds that all drivers ran there.
pub(crate) type Runs<'a> = Vec<&'a Row>;

/// The environments in which all drivers ran at least one common seed.
pub(crate) struct Shared<'a> {
    pub(crate) drivers: Vec<&'a str>,
    /// Suite and name of each environment.
    pub(crate) names: Vec<(&'a str, &'a str)>,
    /// Indexed by environment, then driver.
    pub(crate) runs: Vec<Vec<Runs<'a>>>,
    /// Indexed by environment, driver, figure, seed.
    pub(crate) values: Vec<Vec<[Vec<Option<f64>>; FIGURES.len()]>>,
}

impl<'a> Shared<'a> {
    pub(crate) fn of(rows: &'a [Row]) -> Self {
        let names: BTreeSet<&str> = rows.iter().map(|row| row.driver.as_str()).collect();
        let drivers: Vec<&str> = names.into_iter().collect();
        let mut all: BTreeMap<_, BTreeMap<u64, BTreeMap<&str, &Row>>> = BTreeMap::new();
        for row in rows {
            let seeds = all.entry((&row.suite, &row.environment)).or_default();
            seeds.entry(row.seed).or_default().insert(&row.driver, row);
        }
        let of_environment = |seeds: &BTreeMap<u64, BTreeMap<&str, &'a Row>>| {
            let shared: Vec<_> = seeds.values().filter(|of| of.len() == drivers.len()).collect();
            let of_driver = |driver: &&str| shared.iter().map(|of| of[driver]).collect();
            (!shared.is_empty()).then(|| drivers.iter().map(of_driver).collect())
        };
        let named = |((suite, name), seeds): (&(&'a String, &'a String), _)| {
            Some(((suite.as_str(), name.as_str()), of_environment(seeds)?))
        };
        let (names, runs): (Vec<_>, Vec<Vec<Runs<'a>>>) = all.iter().filter_map(named).unzip();
        let figures = |rows: &Runs<'_>| {
            FIGURES.map(|figure| rows.iter().map(|row| figure(row)).collect::<Vec<_>>())
        };
        let values = runs.iter().map(|of| of.iter().map(figures).collect()).collect();
        Self { drivers, names, runs, values }
    }

    /// The medians of a driver's figure, one for each environment of the sample.
    pub(crate) fn medians<'b>(
        &'b self,
        sample: &'b [Drawn],
        driver: usize,
        figure: usize,
    ) -> impl Iterator<Item = Option<f64>> + 'b {
        sample.iter().map(move |it| it.median(&self.values[it.environment][driver][figure]))
    }

    /// Indexed by driver, then environment of the sample.
    pub(crate) fn merits(&self, sample: &[Drawn]) -> Vec<Vec<f64>> {
        self.each(sample, 0)
    }

    /// The same by the merit of commit b1bd1fe.
    pub(crate) fn former_merits(&self, sample: &[Drawn]) -> Vec<Vec<f64>> {
        self.each(sample, 1)
    }

    fn each(&self, sample: &[Drawn], figure: usize) -> Vec<Vec<f64>> {
        let of = |driver| self.medians(sample, driver, figure).map(|merit| merit.unwrap_or(0.0));
        (0..self.drivers.len()).map(|driver| of(driver).collect()).collect()
    }

    /// Whether the driver is an arm and not a policy.
    pub(crate) fn is_arm(&self, driver: usize) -> bool {
        !matches!(catalogue::kind(self.drivers[driver]), Ok(Kind::Policy))
    }

    /// The number of seeds of each environment.
    pub(crate) fn seeds(&self) -> Vec<usize> {
        self.runs.iter().map(|of| of.first().map_or(0, Vec::len)).collect()
    }

    /// The merit of the best arm in each environment, which an oracle picks; `None` without arms.
    pub(crate) fn oracle(&self, merits: &[Vec<f64>]) -> Option<Vec<f64>> {
        let arms = (0..merits.len()).filter(|driver| self.is_arm(*driver));
        let of_arms: Vec<Vec<f64>> = arms.map(|driver| merits[driver].clone()).collect();
        (!of_arms.is_empty()).then(|| best(&of_arms))
    }
}

/// The best merit in each environment of the sample.
pub(crate) fn best(merits: &[Vec<f64>]) -> Vec<f64> {
    let count = merits.first().map_or(0, Vec::len);
    (0..count).map(|place| merits.iter().map(|of| of[place]).fold(0.0, f64::max)).collect()
}

/// `own` as a share of `best`; 1 where no driver has any merit.
pub(crate) fn share(own: f64, best: f64) -> f64 {
    if best > 0.0 { own / best } else { 1.0 }
}
