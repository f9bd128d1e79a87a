//! Live runs in virtual machines, each in its own, so that other work on this machine does not
//! change them.

use crate::sim_to_real::Error;
use crate::sim_to_real::measure::{Figures, NEVER, Ran, bottleneck};
use remuda_guest::Guest;
use remuda_live::real::{Agents, AuthorsFiles, named_drivers};
use remuda_scenarios::Scenario;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Path of the scenario in a guest.
const SCENARIO: &str = "/scenario.toml";
/// Time for an agent to start and to stop.
const AGENT_MAX: Duration = Duration::from_secs(5);
/// A guest's single processor of 1 GHz cannot carry more.
pub const RATE_MAX_MBIT_PER_SEC: f64 = 100.0;

/// Whether a guest is fast enough for a scenario. The rates of traces are not checked.
pub fn fits(scenario: &Scenario) -> bool {
    let rates = scenario.links.values().filter_map(|link| link.rate_mbit_per_sec);
    rates.max_by(f64::total_cmp).is_none_or(|rate| rate <= RATE_MAX_MBIT_PER_SEC)
}

/// Runs scenarios in guests.
#[derive(Debug)]
pub struct Guests {
    guest: Guest,
    remuda: String,
}

impl Guests {
    /// Guests with the kernel of a folder that `tools/guest.sh` made, this program and `remuda`.
    pub fn new(kernel: &Path, remuda: &Path) -> Result<Self, Error> {
        let this = std::env::current_exe()
            .map_err(|error| Error::file(Path::new("/proc/self/exe"), error))?;
        let name = remuda.file_name().unwrap_or_default().display();
        Ok(Self { guest: Guest::new(kernel, &[&this, remuda])?, remuda: format!("/bin/{name}") })
    }

    /// The release of the guests' kernel.
    pub fn kernel(&self) -> Result<String, Error> {
        Ok(self.guest.kernel_release()?)
    }

    /// Runs a scenario in its own guest.
    pub fn run(&self, scenario: &Scenario) -> Result<Ran, Error> {
        let mut guest =
            self.guest.with_file(Path::new(SCENARIO), scenario.to_toml()?.as_bytes())?;
        for trace in scenario.links.values().filter_map(|link| link.trace.as_ref()) {
            let steps = fs::read(trace).map_err(|error| Error::file(trace, error))?;
            guest = guest.with_file(trace, &steps)?;
        }
        let command = ["remuda-sim-to-real", "--alone", SCENARIO, "--remuda", &self.remuda];
        let own = Duration::from_secs_f64(scenario.duration_s) + AGENT_MAX;
        guest.run_json(&command, own).map_err(|source| Error::Guest {
            scenario: scenario.name.clone(),
            source: Box::new(source),
        })
    }
}

/// The program inside a guest: runs the scenario of a file and prints its [`Ran`].
pub fn run_alone(file: &Path, remuda: &Path) -> Result<(), Error> {
    let scenario = Scenario::load(file)?;
    let agents = Agents::start(remuda, &named_drivers([&scenario]), &AuthorsFiles::default())?;
    let run = remuda_live::real::run(&scenario, &agents, &NEVER)?.expect("nobody stops it");
    agents.stop()?;
    let figures = Figures::of(&run.outcome, bottleneck(&scenario));
    let ran = Ran { figures, lost_by_host: run.lost_by_host, stolen: 0.0 };
    let line = serde_json::to_string(&ran).map_err(|error| Error::file(file, error))?;
    println!("{line}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_carries_100_mbit_per_sec_and_no_more() {
        for (rate, want) in [(1, true), (100, true), (101, false)] {
            let text = format!(
                "duration_s = 1\n[links.down]\nrate_mbit_per_sec = {rate}\ndelay_ms = 1\n\
                 [links.up]\n[[flows]]\n"
            );
            let scenario = Scenario::parse(&text, "x").expect("a scenario");
            assert_eq!(fits(&scenario), want, "{rate} Mbit/s");
        }
    }
}
