//! Runs what the table is made of, and finds what came of it.

use crate::figures::Figures;
use crate::scene::{Extent, Scene};
use crate::{Error, live};
use ccp_agent::Config;
use remuda_matrix::{Done, Interval, Plan, Progress, Store, bootstrap, code_version};
use remuda_scenarios::outcome::Engine;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What the application of the tested flows wants: A8's modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    Default,
    Throughput,
    Delay,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Throughput, Self::Default, Self::Delay];

    /// As scenarios and the table name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Throughput => "throughput",
            Self::Delay => "delay",
        }
    }
}

/// A run, but for its seed: where, who, and what for.
pub type Case = (Scene, String, Mode);

#[derive(Clone, Debug)]
pub struct Settings {
    /// What the table is about.
    pub driver: String,
    /// The fixed arms that it is held to.
    pub arms: Vec<String>,
    pub against: Vec<String>,
    /// Every run with each of these.
    pub seeds: RangeInclusive<u64>,
    /// How much of everything.
    pub extent: Extent,
}

impl Settings {
    /// All that is to be run. Real time does not allow other policies.
    pub fn cases(&self, scenes: &[Scene], engine: Engine) -> Vec<Case> {
        let is_sim = engine == Engine::Sim;
        let mut all = BTreeSet::new();
        for scene in scenes {
            let own = [self.driver.clone()];
            let others: &[&[String]] = match scene {
                Scene::Fairness | Scene::Friendliness => &[],
                Scene::CubicComes => &[&self.arms],
                _ if is_sim => &[&self.arms, &self.against],
                _ => &[&self.arms],
            };
            let drivers = own.iter().chain(others.iter().copied().flatten());
            all.extend(drivers.map(|driver| (*scene, driver.clone(), Mode::Default)));
            if matches!(scene, Scene::Wan(_) | Scene::Cell(_)) {
                all.extend(Mode::ALL.map(|mode| (*scene, self.driver.clone(), mode)));
            }
        }
        all.into_iter().collect()
    }

    fn plan(&self, cases: &[Case]) -> Result<Plan, Error> {
        let mut jobs = Vec::new();
        for (scene, driver, mode) in cases {
            for seed in self.seeds.clone() {
                let wants = format!("\"{}\"", mode.name());
                let job = scene.job((driver, &wants), seed, self.extent);
                jobs.push(job.map_err(remuda_matrix::Error::from)?);
            }
        }
        Ok(Plan { jobs })
    }

    /// How many seeds there are.
    pub fn seeds(&self) -> usize {
        self.seeds.clone().count()
    }
}

/// Where what has been run is kept: nothing is run twice.
#[derive(Clone, Debug)]
pub struct Keep {
    /// The folder; `None`: nothing is kept.
    pub folder: Option<PathBuf>,
}

impl Keep {
    /// What of this program is kept there under that name.
    pub fn store(&self, name: &str) -> Result<Option<Store>, Error> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let code = code_version().map_err(Error::Program)?;
        Ok(Some(Store::open(folder, code + name)?))
    }
}

/// What came of all cases: by case, the figures of each seed, in their order.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    by_case: BTreeMap<Case, Vec<Figures>>,
    seeds: usize,
}

/// Runs all cases in the simulator, so many at a time.
///
/// # Errors
///
/// A run that failed; [`Error::Stopped`] if `stopped` was set before all was done.
pub fn simulate(
    settings: &Settings,
    keep: &Keep,
    (jobs, stopped): (usize, &AtomicBool),
    progress: impl FnMut(&Progress),
) -> Result<Measured, Error> {
    let cases = settings.cases(&Scene::all(), Engine::Sim);
    let plan = settings.plan(&cases)?;
    let store = keep.store("antelope-table")?;
    let with = (store.as_ref(), &Arc::new(Config::default()));
    let of = |job: &_, outcome: &_| Ok(Figures::of(job, outcome));
    let done = remuda_matrix::measure(&plan, with, (jobs, stopped), progress, of);
    Measured::of(cases, done, settings.seeds())
}

/// Runs those on real TCP that it is asked of, one after the other; `remuda` is the command.
///
/// # Errors
///
/// As [`simulate`], and what agents and testbed say.
pub fn live(
    settings: &Settings,
    keep: &Keep,
    (remuda, stopped): (&Path, &AtomicBool),
    progress: impl FnMut(&Progress),
) -> Result<Measured, Error> {
    let cases = settings.cases(&live::SCENES, Engine::Live);
    let plan = settings.plan(&cases)?;
    let store = keep.store(&format!("antelope-table live on {}", live::kernel()))?;
    let done = live::run(&plan, store.as_ref(), (remuda, stopped), progress)?;
    Measured::of(cases, done, settings.seeds())
}

impl Measured {
    fn of(cases: Vec<Case>, done: Done<Figures>, seeds: usize) -> Result<Self, Error> {
        let all = done.len();
        let figures = done.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
        if figures.len() < all {
            return Err(Error::Stopped { done: figures.len(), all });
        }
        let mut figures = figures.into_iter();
        let of_case = |case| (case, figures.by_ref().take(seeds).collect());
        Ok(Self { by_case: cases.into_iter().map(of_case).collect(), seeds })
    }

    /// Whether that was run.
    pub fn has(&self, scene: Scene, driver: &str) -> bool {
        self.by_case.contains_key(&(scene, driver.to_owned(), Mode::Default))
    }

    /// By seed; nothing of what was not run.
    pub fn get(&self, scene: Scene, driver: &str, mode: Mode) -> &[Figures] {
        let case = (scene, driver.to_owned(), mode);
        self.by_case.get(&case).map_or(&[], Vec::as_slice)
    }

    /// The runs that others on the machine disturbed.
    pub fn disturbed(&self) -> usize {
        self.by_case.values().flatten().filter(|it| it.is_disturbed).count()
    }

    /// The value of all seeds, and its interval over draws of them: the same draw wherever `of`
    /// looks, as drivers share what a seed decides. `of` has places of seeds; `None` where it has
    /// nothing to say of all of them.
    pub fn interval(&self, of: impl Fn(&[usize]) -> Option<f64>) -> Option<Interval> {
        let every: Vec<usize> = (0..self.seeds).collect();
        of(&every)?;
        bootstrap(&[self.seeds], |sample| vec![of(&sample[0].seeds)]).pop()
    }
}

/// The mean over drawn seeds of a figure; `None` if a run has none.
pub fn mean_of(
    figures: &[Figures],
    seeds: &[usize],
    of: impl Fn(&Figures) -> Option<f64>,
) -> Option<f64> {
    let values: Option<Vec<f64>> = seeds.iter().map(|seed| of(figures.get(*seed)?)).collect();
    crate::figures::mean(&values?)
}

pub fn median_of(
    figures: &[Figures],
    seeds: &[usize],
    of: impl Fn(&Figures) -> Option<f64>,
) -> Option<f64> {
    let values: Option<Vec<f64>> = seeds.iter().map(|seed| of(figures.get(*seed)?)).collect();
    remuda_matrix::median(&values?)
}
