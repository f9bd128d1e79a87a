//! The gain from learning from live flows, on hosts whose paths are not in the training data.
//!
//! In each world ([`WORLDS`]) flows run under the policy, which also tries other arms as an
//! operator may configure it to. Its samples are written as the agent writes them. The trainer that
//! an operator runs (`python -m remuda.training.online`) corrects the model or keeps it, and the
//! flows of the next round run under the result. Then other flows, from which nothing was learned
//! and which try no other arms, run on the same paths under the shipped model and under the last
//! one. Every fixed arm runs there too, to show the largest possible gain.
//!
//! Unlike in the agent, no shadow evaluation precedes a model's use: the last model drives all
//! flows, better or not. So these figures measure the trainer alone.

mod page;
mod worlds;

pub use page::text;
pub use worlds::{WORLDS, World};

use crate::antelope::Error;
use crate::antelope::figures::Figures;
use crate::antelope::measure::{Keep, Settings};
use crate::antelope::pairs::{Pairs, interval, means, ratio};
use crate::antelope::scene::Extent;
use ccp_agent::Setup;
use ccp_agent::samples::SampleFiles;
use remuda_algorithms::Sample;
use remuda_matrix::{Interval, Job, Plan, Progress};
use remuda_scenarios::outcome::Outcome;
use remuda_selector::antelope::model::Model;
use remuda_selector::antelope::policy::MODEL;
use remuda_sim::Simulation;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// The policy that learns.
const DRIVER: &str = "antelope";
/// How often the trainer runs.
const ROUNDS: u64 = 2;
/// Seconds between two trials of other arms in a flow that lives as long.
const EXPLORE_EVERY_S: u64 = 10;
/// The first seed of the flows on which models are compared.
const JUDGED_FROM: u64 = 1_000_000;
/// Limit for all samples of a world.
const BYTES_MAX: u64 = 1 << 30;

/// The amount of runs: number and seconds of the flows of a round, and number and seconds of the
/// flows on which models are compared.
#[derive(Clone, Copy, Debug)]
struct Amount {
    learn: (u64, f64),
    judge: (u64, f64),
}

impl Amount {
    const fn of(extent: Extent) -> Self {
        match extent {
            Extent::Smoke => Self { learn: (30, 20.0), judge: (6, 10.0) },
            Extent::Full | Extent::Live => Self { learn: (200, 40.0), judge: (100, 30.0) },
        }
    }
}

/// The result for a world.
#[derive(Clone, Debug)]
pub struct Finding {
    pub world: usize,
    /// The trainer's output after each round, in one line.
    pub said: Vec<String>,
    /// Number of flows on which the models were compared.
    pub flows: usize,
    /// The last model over the shipped one; `None` if the trainer kept the shipped model.
    pub learned: Option<Learned>,
    /// Power of the best fixed arm of each flow over that of the shipped model.
    pub room: Interval,
    /// Power of flows that try other arms over that of flows that do not, both with the shipped
    /// model.
    pub explored: Interval,
    /// Each arm's share of the flows' time, with the shipped model and with the last one.
    pub arms: [BTreeMap<String, f64>; 2],
}

/// Power, goodput and delay with the last model over those with the shipped one.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Goodput over mean delay.
    pub power: Interval,
    pub goodput: Interval,
    pub delay: Interval,
    /// Share of segments sent again, in per cent: with the shipped and with the last model, and the
    /// difference.
    pub resent: ([f64; 2], Interval),
}

/// The trainer and its interpreter.
#[derive(Debug)]
pub struct Trainer {
    /// The Python interpreter that has `remuda.training`.
    pub python: PathBuf,
    pub seed: u64,
}

impl Trainer {
    /// Corrects the model by the samples, or keeps it; returns the trainer's output.
    fn run(&self, model: &Path, samples: &Path, out: &Path) -> Result<String, Error> {
        let mut command = Command::new(&self.python);
        command.args(["-P", "-m", "remuda.training.online", "--model"]).arg(model);
        command.arg("--samples").arg(samples).arg("--out").arg(out);
        command.args(["--seed", &self.seed.to_string()]).stdin(Stdio::null());
        let fix = "it needs remuda[train], which `make train-antelope-smoke` installs; or --python";
        let failed =
            |why: &dyn std::fmt::Display| Error::file(&self.python, format!("{why}; {fix}"));
        let output = command.output().map_err(|error| failed(&error))?;
        if output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            // The path of the output is of no interest on the page.
            Ok(said.replace(&format!(" {}:", out.display()), ""))
        } else {
            Err(failed(&String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

fn setup(model: Option<&Arc<Model>>, explores: bool) -> Arc<Setup> {
    let mut setup = Setup::default();
    if let Some(model) = model {
        setup.loaded.put(MODEL, Arc::clone(model));
    }
    setup.config.policy.antelope.explore_every_s = if explores { EXPLORE_EVERY_S } else { 0 };
    Arc::new(setup)
}

/// The samples that the policy took of a job's tested flow.
fn sampled(job: &Job, setup: &Arc<Setup>) -> Result<Vec<Sample>, Error> {
    let failed = |error| Error::file(Path::new(&job.name()), error);
    let mut simulation =
        Simulation::with_setup(&job.scenario, setup).map_err(|error| failed(error.to_string()))?;
    let end = simulation.end();
    simulation.run_until(end);
    let tested = simulation.outcome().flows.len().saturating_sub(1);
    Ok(simulation.samples(tested).to_vec())
}

/// The progress of the whole measurement, and whether to continue.
struct Course<'a> {
    threads: usize,
    stopped: &'a AtomicBool,
    so_far: Progress,
    told: &'a mut dyn FnMut(&Progress),
}

impl Course<'_> {
    fn stopped(&self) -> Result<(), Error> {
        let Progress { done, all, .. } = self.so_far;
        if self.stopped.load(Ordering::Relaxed) {
            Err(Error::Stopped { done, all })
        } else {
            Ok(())
        }
    }

    /// The samples of every job, in order.
    fn sample(&mut self, jobs: &[Job], setup: &Arc<Setup>) -> Result<Vec<Vec<Sample>>, Error> {
        let next = AtomicUsize::new(0);
        let stopped = self.stopped;
        let work = || {
            let mut own = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(place) else { break };
                own.push((place, sampled(job, setup)));
            }
            own
        };
        let mut all: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            let ended = threads.into_iter().map(|it| it.join());
            ended.flat_map(|own| own.unwrap_or_else(|it| std::panic::resume_unwind(it))).collect()
        });
        self.stopped()?;
        self.so_far.done += jobs.len();
        (self.told)(&self.so_far);
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, samples)| samples).collect()
    }

    fn measure(
        &mut self,
        jobs: Vec<Job>,
        setup: &Arc<Setup>,
        keep: (&Keep, &str),
    ) -> Result<Vec<Figures>, Error> {
        let store = keep.0.store(keep.1)?;
        let (before, told) = (self.so_far.clone(), &mut *self.told);
        let mut latest = before.clone();
        let done = remuda_matrix::measure(
            &Plan { jobs },
            (store.as_ref(), setup),
            (self.threads, self.stopped),
            |it| {
                (latest.done, latest.kept) = (before.done + it.done, before.kept + it.kept);
                (latest.failed, latest.unkept) = (before.failed + it.failed, it.unkept.clone());
                told(&latest);
            },
            |job: &Job, outcome: &Outcome| Ok(Figures::of(job, outcome)),
        );
        self.so_far = latest;
        self.stopped()?;
        Ok(done.into_iter().flatten().collect::<Result<Vec<_>, _>>()?)
    }
}

/// The settings that all worlds share.
struct Asked<'a> {
    settings: &'a Settings,
    amount: Amount,
    keep: &'a Keep,
    trainer: &'a Trainer,
}

/// A model with its text.
struct Version {
    text: String,
    model: Arc<Model>,
}

impl Asked<'_> {
    /// Jobs in a world: `count` flows of `s` seconds, with seeds from `from` on.
    fn jobs(&self, world: &World, driver: &str, (from, (count, s)): (u64, (u64, f64))) -> Jobs {
        let of = |seed| world.job(driver, seed, s).map_err(remuda_matrix::Error::from);
        Ok((from..from + count).map(of).collect::<Result<_, _>>()?)
    }

    /// Learns for some rounds. Returns the last model, if it is not the shipped one, and the
    /// trainer's outputs.
    fn learn(
        &self,
        world: &World,
        course: &mut Course<'_>,
    ) -> Result<(Option<Version>, Vec<String>), Error> {
        let folder = tempfile::tempdir().map_err(|it| Error::file(Path::new("a folder"), it))?;
        let failed = |error: std::io::Error| Error::file(folder.path(), error);
        let (samples, out) = (folder.path().join("samples"), folder.path().join("candidate.json"));
        let in_force = folder.path().join("model.json");
        std::fs::write(&in_force, Model::shipped_text()).map_err(failed)?;
        let (mut last, mut said, mut flow) = (None, Vec::new(), 0);
        for round in 0..ROUNDS {
            let seeds =
                (self.settings.seeds.start() + round * self.amount.learn.0, self.amount.learn);
            let model = last.as_ref().map(|version: &Version| &version.model);
            let all = course.sample(&self.jobs(world, DRIVER, seeds)?, &setup(model, true))?;
            let unkept = |error: ccp_agent::Error| Error::file(&samples, error);
            // Opened anew each round, so that the file is closed while the trainer reads it.
            let mut files = SampleFiles::simulated(&samples, BYTES_MAX).map_err(unkept)?;
            for of_flow in all {
                flow += 1;
                of_flow.iter().try_for_each(|it| files.put(flow, it)).map_err(unkept)?;
            }
            drop(files);
            let line = self.trainer.run(&in_force, &samples, &out)?;
            if line.starts_with("written") {
                let text = std::fs::read_to_string(&out).map_err(failed)?;
                let parsed = Model::parse(&text).map_err(|error| Error::file(&out, error))?;
                std::fs::rename(&out, &in_force).map_err(failed)?;
                last = Some(Version { text, model: Arc::new(parsed) });
            }
            said.push(line);
        }
        Ok((last, said))
    }

    fn find(&self, place: usize, course: &mut Course<'_>) -> Result<Finding, Error> {
        let world = &WORLDS[place];
        let (last, said) = self.learn(world, course)?;
        let judged = (JUDGED_FROM + self.settings.seeds.start(), self.amount.judge);
        let mut of = |driver: &str, setup: &Arc<Setup>, name: &str| {
            let name = format!("antelope-table online {name}");
            course.measure(self.jobs(world, driver, judged)?, setup, (self.keep, &name))
        };
        let shipped = of(DRIVER, &setup(None, false), "shipped")?;
        let tries = of(DRIVER, &setup(None, true), "tries")?;
        let after = match &last {
            Some(Version { text, model }) => {
                let name = remuda_selector::antelope::model::digest_of(text);
                of(DRIVER, &setup(Some(model), false), &name)?
            }
            None => shipped.clone(),
        };
        let mut best: Vec<Figures> = Vec::new();
        for arm in &self.settings.arms {
            let all = of(arm, &setup(None, false), "shipped")?;
            if best.is_empty() {
                best = all;
                continue;
            }
            for (best, it) in best.iter_mut().zip(all) {
                if it.power() > best.power() {
                    *best = it;
                }
            }
        }
        Ok(Finding {
            world: place,
            said,
            flows: shipped.len(),
            learned: last.is_some().then(|| learned(&shipped, &after)),
            room: power(&paired(&shipped, &best)),
            explored: power(&paired(&shipped, &tries)),
            arms: [shares(&shipped), shares(&after)],
        })
    }
}

type Jobs = Result<Vec<Job>, Error>;

fn paired(whole: &[Figures], variant: &[Figures]) -> Vec<Pairs> {
    whole.iter().zip(variant).map(|(a, b)| vec![(a.clone(), b.clone())]).collect()
}

fn power(pairs: &[Pairs]) -> Interval {
    interval(pairs, |it| ratio(it, Figures::power), libm::exp)
}

fn learned(shipped: &[Figures], after: &[Figures]) -> Learned {
    let pairs = paired(shipped, after);
    let resent: Vec<[f64; 2]> =
        pairs.iter().flatten().map(|(a, b)| [a.resent_percent, b.resent_percent]).collect();
    let more = |it: &(Figures, Figures)| Some(it.1.resent_percent - it.0.resent_percent);
    Learned {
        power: power(&pairs),
        goodput: interval(&pairs, |it| ratio(it, |of| of.goodput_mbit_per_sec), libm::exp),
        delay: interval(&pairs, |it| ratio(it, |of| of.delay_mean_ms), libm::exp),
        resent: (means(&resent), interval(&pairs, more, |mean| mean)),
    }
}

/// Mean over flows of each arm's share of the time.
fn shares(all: &[Figures]) -> BTreeMap<String, f64> {
    let mut shares = BTreeMap::new();
    for (arm, share) in all.iter().flat_map(|it| &it.arms) {
        *shares.entry(arm.clone()).or_default() += share / all.len() as f64;
    }
    shares
}

/// Learns in each of the worlds, and measures the gain.
///
/// # Errors
///
/// The trainer does not run, a run failed, or [`Error::Stopped`] if `stopped` was set.
pub fn run(
    (settings, worlds): (&Settings, &[usize]),
    keep: &Keep,
    trainer: &Trainer,
    (threads, stopped): (usize, &AtomicBool),
    mut progress: impl FnMut(&Progress),
) -> Result<Vec<Finding>, Error> {
    let amount = Amount::of(settings.extent);
    let judged = amount.judge.0 as usize * (3 + settings.arms.len());
    let all = worlds.len() * ((ROUNDS * amount.learn.0) as usize + judged);
    let so_far = Progress { all, ..Progress::default() };
    let mut course = Course { threads, stopped, so_far, told: &mut progress };
    let asked = Asked { settings, amount, keep, trainer };
    worlds.iter().map(|place| asked.find(*place, &mut course)).collect()
}
