//! Live runs in virtual machines, each in one of its own: what this machine does meanwhile changes
//! nothing in them.

use crate::agents::Agents;
use crate::measure::{Figures, Ran, bottleneck, drivers};
use crate::{Error, live};
use remuda_guest::{Ended, Guest};
use remuda_scenarios::Scenario;
use remuda_stats::Origin;
use std::fs;
use std::path::Path;
use std::slice;
use std::time::Duration;

/// Where a guest finds its scenario.
const SCENARIO: &str = "/scenario.toml";
/// In which it boots and starts an agent, and more.
const BEFORE_MAX: Duration = Duration::from_secs(10);

/// One processor of 1 GHz carries no more.
const RATE_MAX_MBIT_PER_SEC: f64 = 100.0;

/// Whether a guest is fast enough for a scenario.
pub fn fits(scenario: &Scenario) -> bool {
    let rates = scenario.links.values().filter_map(|link| link.rate_mbit_per_sec);
    rates.into_iter().all(|rate| rate <= RATE_MAX_MBIT_PER_SEC)
}

/// So many guests run at once.
pub fn at_once() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// What runs scenarios in guests.
#[derive(Debug)]
pub struct Guests {
    guest: Guest,
    remuda: String,
}

impl Guests {
    /// With the kernel of a folder that `tools/guest.sh` made, this program and `remuda`.
    pub fn new(kernel: &Path, remuda: &Path) -> Result<Self, Error> {
        let this = std::env::current_exe().map_err(Error::doing("find this program"))?;
        let name = remuda.file_name().unwrap_or_default().display();
        Ok(Self { guest: Guest::new(kernel, &[&this, remuda])?, remuda: format!("/bin/{name}") })
    }

    /// Where the figures come from.
    pub fn origin(&self) -> Result<Origin, Error> {
        Ok(Origin::here().in_guests(self.guest.kernel_release()?))
    }

    /// Runs a scenario in a guest of its own.
    pub fn run(&self, scenario: &Scenario) -> Result<Ran, Error> {
        let mut guest =
            self.guest.with_file(Path::new(SCENARIO), scenario.to_toml()?.as_bytes())?;
        for trace in scenario.links.values().filter_map(|link| link.trace.as_ref()) {
            let steps = fs::read(trace).map_err(|error| Error::file(trace, error))?;
            guest = guest.with_file(trace, &steps)?;
        }
        let command = ["remuda-sim-to-real", "--alone", SCENARIO, "--remuda", &self.remuda];
        let own_time = Duration::from_secs_f64(scenario.duration_s) + BEFORE_MAX;
        let ended = guest.run(&command, remuda_guest::limit(own_time))?;
        let failed = |problem| Error::Guest { scenario: scenario.name.clone(), problem };
        report(&ended).map_err(failed)
    }
}

fn report(ended: &Ended) -> Result<Ran, String> {
    if ended.status != 0 {
        return Err(ended.console.clone());
    }
    serde_json::from_str(&ended.output).map_err(|error| format!("{error}: {}", ended.output))
}

/// What a guest does: runs the scenario of a file, and prints its [`Ran`].
pub fn run_alone(file: &Path, remuda: &Path) -> Result<(), Error> {
    let scenario = Scenario::load(file)?;
    let agents = Agents::start(remuda, &drivers(slice::from_ref(&scenario)))?;
    let run = live::run(&scenario, &agents)?;
    agents.stop()?;
    let figures = Figures::of(&run.outcome, bottleneck(&scenario));
    let ran = Ran { figures, lost_by_host: run.lost_by_host, stolen: 0.0 };
    let line = serde_json::to_string(&ran).map_err(|error| Error::file(file, error))?;
    println!("{line}");
    Ok(())
}
