//! Runs the table's cases and collects their figures.

use crate::antelope::figures::Figures;
use crate::antelope::scene::{Extent, Scene};
use crate::antelope::{Error, live};
use ccp_agent::Setup;
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

    /// The name in scenarios and in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Throughput => "throughput",
            Self::Delay => "delay",
        }
    }
}

/// A run without its seed: the scene, the driver and the mode.
pub type Case = (Scene, String, Mode);

#[derive(Clone, Debug)]
pub struct Settings {
    /// The policy that the table measures.
    pub driver: String,
    /// The fixed arms to compare with.
    pub arms: Vec<String>,
    pub against: Vec<String>,
    /// Arms that use the memory of destinations ([`crate::only`]). They run in the scenes in which
    /// later flows go to the destination of earlier ones.
    pub remembering: Vec<String>,
    /// The seeds of every run.
    pub seeds: RangeInclusive<u64>,
    /// How long scenes last.
    pub extent: Extent,
}

impl Settings {
    /// All cases of the given scenes. On real TCP, which runs in real time, other policies are left
    /// out.
    pub fn cases(&self, scenes: &[Scene], engine: Engine) -> Vec<Case> {
        let is_sim = engine == Engine::Sim;
        let mut all = BTreeSet::new();
        for scene in scenes {
            let own = [self.driver.clone()];
            let others: &[&[String]] = match scene {
                Scene::Fairness | Scene::Friendliness => &[],
                Scene::CubicComes => &[&self.arms],
                Scene::Wan(_) | Scene::Datacenter(_) if is_sim => {
                    &[&self.arms, &self.against, &self.remembering]
                }
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

    pub fn seeds(&self) -> usize {
        self.seeds.clone().count()
    }
}

/// Where results of runs are kept, so that no run is made twice.
#[derive(Clone, Debug)]
pub struct Keep {
    /// The folder; `None`: nothing is kept.
    pub folder: Option<PathBuf>,
}

impl Keep {
    /// The store of this program's results under a name.
    pub fn store(&self, name: &str) -> Result<Option<Store>, Error> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let code = code_version().map_err(Error::Program)?;
        Ok(Some(Store::open(folder, code + name)?))
    }
}

/// The figures of all cases: those of each seed, in order, by case.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    by_case: BTreeMap<Case, Vec<Figures>>,
    seeds: usize,
}

/// Runs all cases in the simulator, `jobs` at a time.
///
/// # Errors
///
/// A run failed, or [`Error::Stopped`] if `stopped` was set before all runs were done.
pub fn simulate(
    settings: &Settings,
    keep: &Keep,
    (jobs, stopped): (usize, &AtomicBool),
    progress: impl FnMut(&Progress),
) -> Result<Measured, Error> {
    let cases = settings.cases(&Scene::all(), Engine::Sim);
    let plan = settings.plan(&cases)?;
    let store = keep.store("antelope-table")?;
    let with = (store.as_ref(), &Arc::new(Setup::default()));
    let of = |job: &_, outcome: &_| Ok(Figures::of(job, outcome));
    let done = remuda_matrix::measure(&plan, with, (jobs, stopped), progress, of);
    Measured::of(cases, done, settings.seeds())
}

/// Runs the live scenes' cases on real TCP, one after the other; `remuda` is the command.
///
/// # Errors
///
/// Those of [`simulate`], of agents and of the testbed.
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

    /// Whether this case was run.
    pub fn has(&self, scene: Scene, driver: &str) -> bool {
        self.by_case.contains_key(&(scene, driver.to_owned(), Mode::Default))
    }

    /// The figures by seed; empty if the case was not run.
    pub fn get(&self, scene: Scene, driver: &str, mode: Mode) -> &[Figures] {
        let case = (scene, driver.to_owned(), mode);
        self.by_case.get(&case).map_or(&[], Vec::as_slice)
    }

    /// The number of runs that other processes of the machine disturbed.
    pub fn disturbed(&self) -> usize {
        self.by_case.values().flatten().filter(|it| it.is_disturbed).count()
    }

    /// The value over all seeds, and its interval over draws of seeds. `of` computes a value from
    /// indices of seeds; it may look at several drivers, which all see the same draw because a seed
    /// means the same to each. `None` if `of` has no value for all seeds.
    pub fn interval(&self, of: impl Fn(&[usize]) -> Option<f64>) -> Option<Interval> {
        let every: Vec<usize> = (0..self.seeds).collect();
        of(&every)?;
        bootstrap(&[self.seeds], |sample| vec![of(&sample[0].seeds)]).pop()
    }
}

/// The mean of a figure over drawn seeds; `None` if a run does not have the figure.
pub fn mean_of(
    figures: &[Figures],
    seeds: &[usize],
    of: impl Fn(&Figures) -> Option<f64>,
) -> Option<f64> {
    let values: Option<Vec<f64>> = seeds.iter().map(|seed| of(figures.get(*seed)?)).collect();
    crate::antelope::figures::mean(&values?)
}

pub fn median_of(
    figures: &[Figures],
    seeds: &[usize],
    of: impl Fn(&Figures) -> Option<f64>,
) -> Option<f64> {
    let values: Option<Vec<f64>> = seeds.iter().map(|seed| of(figures.get(*seed)?)).collect();
    remuda_matrix::median(&values?)
}
