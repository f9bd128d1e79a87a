//! Runs every side of every scenario, in rounds.
//!
//! A round runs a scenario three times with one seed: on real TCP with the kernel's own algorithms,
//! on real TCP with ours under the agent, and in the simulator with ours. With two live runs at a
//! time, the two real sides of a round share the machine, so other work affects both. On every side
//! the host's sending is delayed by about a microsecond at random, differently in each round; the
//! simulator's figure of a round is the median over several such hosts.

use crate::sim_to_real::Error;
use crate::sim_to_real::guests::{self, Guests};
use crate::stats::RoundsOf;
use crate::stats::Spread;
use remuda_link::LinkSpec;
use remuda_live::STOLEN_MAX;
use remuda_live::real::{Agents, AuthorsFiles, named_drivers};
use remuda_scenarios::outcome::Outcome;
use remuda_scenarios::{Driver, Scenario};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Whose algorithms drive the flows, and on which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The kernel's own algorithms, on real TCP.
    Kernel,
    /// Our algorithms under the agent, on real TCP.
    Ours,
    /// Our algorithms in the simulator.
    Sim,
}

impl Side {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Ours => "ours",
            Self::Sim => "sim",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Goodput of all flows, over their lives.
    pub goodput_mbit_per_sec: f64,
    /// The 95th percentile over the packets at the bottleneck, which is the first flow's first
    /// link.
    pub queueing_p95_ms: f64,
    /// Segments that all flows sent again.
    pub retransmitted_pkts: u64,
}

impl Figures {
    /// The figures of an outcome; `bottleneck` is the name of a link.
    pub fn of(outcome: &Outcome, bottleneck: &str) -> Self {
        let link = outcome.links.iter().find(|link| link.name == bottleneck);
        Self {
            goodput_mbit_per_sec: outcome.goodput_mbit_per_sec(),
            queueing_p95_ms: link.map_or(0.0, |link| link.queueing_p95_ms),
            retransmitted_pkts: outcome.flows.iter().map(|flow| flow.retransmitted_pkts).sum(),
        }
    }

    /// The median of each figure; zeros for an empty slice.
    fn median(all: &[Self]) -> Self {
        let middle = |value: fn(&Self) -> f64| {
            Spread::of_any(all.iter().map(value)).map_or(0.0, |spread| spread.median)
        };
        Self {
            goodput_mbit_per_sec: middle(|it| it.goodput_mbit_per_sec),
            queueing_p95_ms: middle(|it| it.queueing_p95_ms),
            retransmitted_pkts: middle(|it| it.retransmitted_pkts as f64) as u64,
        }
    }
}

#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Key {
    pub scenario: String,
    pub duration_s: f64,
    pub seed: u64,
    pub side: Side,
    /// Whether the run was in a virtual machine instead of on this machine's kernel.
    pub in_guest: bool,
}

/// One run and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    #[serde(flatten)]
    pub key: Key,
    #[serde(flatten)]
    pub ran: Ran,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    #[serde(flatten)]
    pub figures: Figures,
    /// Packets that the host lost and the links did not; above zero, other work disturbed the run.
    pub lost_by_host: u64,
    /// Processor time that a hypervisor took during the run, as a part of one processor.
    pub stolen: f64,
}

impl Ran {
    /// Whether other work disturbed the run.
    pub fn is_disturbed(&self) -> bool {
        self.lost_by_host > 0 || self.stolen > STOLEN_MAX
    }
}

#[derive(Debug)]
pub struct Settings {
    /// Number of rounds of each scenario.
    pub rounds: u64,
    /// Number of rounds of the scenarios whose name contains a text; the last match counts.
    pub rounds_of: Vec<RoundsOf>,
    /// Seed of the first round; each further round has the next.
    pub seed: u64,
    /// Number of live runs at a time on this machine's kernel.
    pub jobs: usize,
    /// Most attempts at a live run of which a hypervisor took too much.
    pub tries: u32,
    pub sim_only: bool,
    pub remuda: PathBuf,
    /// Makes the live runs of suitable scenarios; without it, all live runs are on this machine's
    /// kernel.
    pub guests: Option<Guests>,
    /// A live run that has a line in this file is not repeated; new runs are added to the file.
    pub keep: Option<PathBuf>,
}

/// How often the simulator runs a scenario in a round; odd.
pub const SIM_DRAWS: u64 = 9;
/// Standard deviation of the delay that the host adds on the links other than the bottleneck.
///
/// Without this delay a flow in the simulator, or in a guest, falls into step with its own queue
/// and stays in it. Which packet finds the queue full is then decided once for the whole run (phase
/// effects: Floyd and Jacobson, "On traffic phase effects in packet-switched gateways", 1992), and
/// the next round in a guest repeats the run to the packet. No real host is that exact: its own
/// delays are a hundred times larger than this one.
pub const HOST_LATE_STD_MS: f64 = 0.001;

impl Settings {
    /// The number of rounds of a scenario of that name.
    pub fn rounds_of(&self, name: &str) -> u64 {
        RoundsOf::rounds(name, &self.rounds_of, self.rounds)
    }

    /// Whether live runs of a scenario are in guests.
    fn is_for_guest(&self, scenario: &Scenario) -> bool {
        self.guests.is_some() && guests::fits(scenario)
    }

    fn seeds(&self, name: &str) -> std::ops::Range<u64> {
        self.seed..self.seed + self.rounds_of(name)
    }
}

/// The link whose queueing delay is compared.
pub fn bottleneck(scenario: &Scenario) -> &str {
    let link = scenario.flows.first().and_then(|flow| flow.route.first());
    link.map_or("down", String::as_str)
}

/// The scenario in the form that one side runs.
fn of_side(scenario: &Scenario, side: Side, seed: u64) -> Scenario {
    let mut scenario = with_late_host(&Scenario { seed, ..scenario.clone() });
    if side == Side::Kernel {
        for flow in &mut scenario.flows {
            if let Driver::Named(name) = &flow.driver {
                flow.driver = Driver::Native(name.clone());
            }
        }
    }
    scenario
}

fn key(scenario: &Scenario, side: Side, in_guest: bool) -> Key {
    let Scenario { name, duration_s, seed, .. } = scenario;
    Key { scenario: name.clone(), duration_s: *duration_s, seed: *seed, side, in_guest }
}

/// A flag that is never set: no run is stopped early.
pub(crate) static NEVER: AtomicBool = AtomicBool::new(false);

/// Live runs of earlier calls, from the lines of a file.
fn kept(path: &Path) -> Result<Vec<Measured>, Error> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|error| Error::file(path, error))?,
    };
    let line = |line| serde_json::from_str(line).map_err(|error| Error::file(path, error));
    text.lines().map(line).collect()
}

/// Makes all runs. `note` gets every run as it ends.
pub fn run(
    scenarios: &[Scenario],
    settings: &Settings,
    note: impl Fn(&Measured) + Sync,
) -> Result<Vec<Measured>, Error> {
    let mut measured = match &settings.keep {
        Some(path) if !settings.sim_only => kept(path)?,
        _ => Vec::new(),
    };
    let mut wanted = Vec::new();
    for scenario in scenarios {
        for side in [Side::Kernel, Side::Ours] {
            let of_seed = |seed| (of_side(scenario, side, seed), side);
            wanted.extend(settings.seeds(&scenario.name).map(of_seed));
        }
    }
    let key_of = |(task, side): &(Scenario, Side)| key(task, *side, settings.is_for_guest(task));
    measured.retain(|it| wanted.iter().any(|task| key_of(task) == it.key));
    let is_new = |task: &(Scenario, Side)| measured.iter().all(|it| it.key != key_of(task));
    let mut tasks: VecDeque<_> = wanted.into_iter().filter(is_new).collect();
    // The sides of a round are next to each other in the queue, so that they run at the same time.
    tasks.make_contiguous().sort_by_cached_key(|(task, side)| {
        let place = scenarios.iter().position(|scenario| scenario.name == task.name);
        (place, task.seed, *side)
    });
    if !settings.sim_only {
        let (in_guests, here): (VecDeque<_>, VecDeque<_>) =
            tasks.into_iter().partition(|(task, _)| settings.is_for_guest(task));
        // Agents are started before guests, which take long, so that a host where no agent can run
        // fails at once.
        let scenarios: Vec<Scenario> = here.iter().map(|(task, _)| task.clone()).collect();
        let agents =
            Agents::start(&settings.remuda, &named_drivers(&scenarios), &AuthorsFiles::default())?;
        if let Some(guests) = &settings.guests {
            let in_guest = |scenario: &Scenario| guests.run(scenario);
            let jobs = remuda_guest::at_once();
            measured.extend(run_live(in_guests, (settings, jobs), in_guest, &note)?);
        }
        let on_host = |scenario: &Scenario| run_here(scenario, settings.tries, &agents);
        measured.extend(run_live(here, (settings, settings.jobs), on_host, &note)?);
        agents.stop()?;
    }
    for scenario in scenarios {
        for seed in settings.seeds(&scenario.name) {
            measured.push(run_sim(&of_side(scenario, Side::Sim, seed), &note)?);
        }
    }
    Ok(measured)
}

/// All links but the bottleneck.
fn others(scenario: &mut Scenario) -> impl Iterator<Item = &mut LinkSpec> {
    let bottleneck = bottleneck(scenario).to_owned();
    let links = scenario.links.iter_mut();
    links.filter(move |(name, _)| **name != bottleneck).map(|(_, link)| link)
}

/// A scenario with a host that adds a small delay. The bottleneck is unchanged, so the loss of the
/// nth packet is, too.
fn with_late_host(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    for link in others(&mut scenario) {
        link.jitter_std_ms = link.jitter_std_ms.max(HOST_LATE_STD_MS);
    }
    scenario
}

/// The same scenario with another draw of that delay.
fn with_draw(scenario: &Scenario, draw: u64) -> Scenario {
    let mut scenario = scenario.clone();
    for link in others(&mut scenario) {
        link.seed += draw;
    }
    scenario
}

fn run_sim(scenario: &Scenario, note: &impl Fn(&Measured)) -> Result<Measured, Error> {
    let mut draws = Vec::new();
    for draw in 0..SIM_DRAWS {
        let outcome = remuda_sim::run(&with_draw(scenario, draw))
            .map_err(|source| Error::sim(&scenario.name, source))?;
        draws.push(Figures::of(&outcome, bottleneck(scenario)));
    }
    let figures = Figures::median(&draws);
    let ran = Ran { figures, lost_by_host: 0, stolen: 0.0 };
    let measured = Measured { key: key(scenario, Side::Sim, false), ran };
    note(&measured);
    Ok(measured)
}

/// Runs a scenario on this machine's kernel; repeats the run if a hypervisor took too much.
fn run_here(scenario: &Scenario, tries: u32, agents: &Agents) -> Result<Ran, Error> {
    let again = |stolen: f64| {
        eprintln!("{:.1} % of a processor was stolen: run again", stolen * 100.0);
    };
    let work = || remuda_live::real::run(scenario, agents, &NEVER);
    let (run, stolen) = remuda_live::least_disturbed(tries, work, again)?;
    let run = run.expect("nobody stops it");
    let figures = Figures::of(&run.outcome, bottleneck(scenario));
    Ok(Ran { figures, lost_by_host: run.lost_by_host, stolen })
}

fn run_live(
    tasks: VecDeque<(Scenario, Side)>,
    (settings, jobs): (&Settings, usize),
    live: impl Fn(&Scenario) -> Result<Ran, Error> + Sync,
    note: &(impl Fn(&Measured) + Sync),
) -> Result<Vec<Measured>, Error> {
    let (tasks, results) = (Mutex::new(tasks), Mutex::new(Vec::new()));
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> Result<(), Error> {
        while let Some((scenario, side)) = next() {
            // After an error no further run starts.
            let stop = |_: &Error| tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
            let ran = live(&scenario).inspect_err(stop)?;
            let key = key(&scenario, side, settings.is_for_guest(&scenario));
            let measured = Measured { key, ran };
            note(&measured);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(path) = &settings.keep {
                append(path, &measured)?;
            }
            results.push(measured);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn append(path: &Path, measured: &Measured) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::file(path, error);
    let line = serde_json::to_string(measured).map_err(|error| Error::file(path, error))?;
    let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
    writeln!(file, "{line}").map_err(failed)
}

/// The figures of one side of one scenario, by seed.
pub fn of<'a>(
    measured: &'a [Measured],
    scenario: &Scenario,
    side: Side,
) -> BTreeMap<u64, &'a Figures> {
    let is_of = |it: &&Measured| {
        it.key.scenario == scenario.name
            && it.key.side == side
            && it.key.duration_s == scenario.duration_s
    };
    measured.iter().filter(is_of).map(|it| (it.key.seed, &it.ran.figures)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        let text = "duration_s = 2\n[links.down]\nrate_mbit_per_sec = 12\ndelay_ms = 5\n\
                    queue = { kind = 'droptail', limit_bdp = 1 }\n[links.up]\ndelay_ms = 5\n\
                    [[flows]]\ndriver = 'reno'\n";
        Scenario::parse(text, "small").expect("a scenario")
    }

    #[test]
    fn the_kernels_side_has_the_kernels_own_algorithms() {
        let kernel = of_side(&scenario(), Side::Kernel, 7);
        assert_eq!((kernel.flows[0].driver.to_string().as_str(), kernel.seed), ("native:reno", 7));
        assert_eq!(of_side(&scenario(), Side::Sim, 7).flows, scenario().flows);
    }

    #[test]
    fn the_simulators_side_needs_no_root_and_is_the_same_twice() {
        let settings = Settings {
            rounds: 2,
            rounds_of: vec!["large=9".parse().expect("it is right")],
            seed: 4,
            jobs: 1,
            tries: 1,
            sim_only: true,
            remuda: PathBuf::new(),
            guests: None,
            keep: None,
        };
        let once = run(&[scenario()], &settings, |_| ()).expect("it runs");
        let again = run(&[scenario()], &settings, |_| ()).expect("it runs");
        assert_eq!(once, again);
        let sim = of(&once, &scenario(), Side::Sim);
        assert_eq!(sim.keys().collect::<Vec<_>>(), [&4, &5]);
        assert!(sim[&4].goodput_mbit_per_sec > 9.0, "{sim:?}");
    }

    #[test]
    fn hosts_are_late_each_otherwise_and_the_bottleneck_is_not_touched() {
        let sides = [Side::Kernel, Side::Ours, Side::Sim].map(|side| of_side(&scenario(), side, 7));
        for late in &sides {
            assert_eq!(late.links["down"], scenario().links["down"]);
            assert_eq!(late.links["up"].jitter_std_ms, HOST_LATE_STD_MS);
        }
        let [one, other] = [0, 2].map(|draw| with_draw(&sides[2], draw));
        assert_eq!(one, sides[2]);
        assert_eq!(other.links["down"], scenario().links["down"]);
        assert_ne!(other.links["up"].seed, one.links["up"].seed);
    }

    #[test]
    fn the_median_is_of_each_figure() {
        let figures = |goodput_mbit_per_sec, queueing_p95_ms, retransmitted_pkts| Figures {
            goodput_mbit_per_sec,
            queueing_p95_ms,
            retransmitted_pkts,
        };
        let all = [figures(1.0, 30.0, 200), figures(2.0, 10.0, 300), figures(3.0, 20.0, 100)];
        assert_eq!(Figures::median(&all), figures(2.0, 20.0, 200));
    }

    #[test]
    fn a_kept_run_is_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("live.jsonl");
        assert_eq!(kept(&path).expect("no file: nothing kept"), []);
        let figures =
            Figures { goodput_mbit_per_sec: 11.25, queueing_p95_ms: 3.5, retransmitted_pkts: 17 };
        let key = key(&scenario(), Side::Ours, true);
        let ran = Ran { figures, lost_by_host: 1, stolen: 0.5 };
        let measured = Measured { key, ran };
        append(&path, &measured).expect("it is written");
        append(&path, &measured).expect("it is added");
        assert_eq!(kept(&path).expect("it is read"), [measured.clone(), measured]);
    }
}
