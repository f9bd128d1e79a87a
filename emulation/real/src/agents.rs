//! One agent for each of our drivers, so that flows of several drivers may start at any time.

use crate::Error;
use ccp_agent::catalogue::{self, Kind};
use ccp_agent::child::AgentChild;
use remuda_scenarios::{Driver, Scenario};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tempfile::TempDir;

/// The arms and policies that scenarios name: each needs an agent.
pub fn named_drivers<'a>(scenarios: impl IntoIterator<Item = &'a Scenario>) -> BTreeSet<String> {
    let flows = scenarios.into_iter().flat_map(|scenario| &scenario.flows);
    let named = flows.filter_map(|flow| match &flow.driver {
        Driver::Named(name) => Some(name.clone()),
        _ => None,
    });
    named.collect()
}

#[derive(Debug)]
struct Agent {
    /// What a socket asks for with `TCP_CONGESTION`.
    name: String,
    child: AgentChild,
}

/// Agents under names of their own, in run directories of their own. They end with the thread that
/// started them.
#[derive(Debug)]
pub struct Agents {
    by_driver: BTreeMap<String, Agent>,
    // After the agents, which hold files in it.
    _folder: TempDir,
}

impl Agents {
    /// Starts the agents of these arms and policies; `remuda` is the command.
    ///
    /// # Errors
    ///
    /// A name that is none, or an agent that does not start.
    pub fn start(remuda: &Path, drivers: &BTreeSet<String>) -> Result<Self, Error> {
        let folder = tempfile::tempdir().map_err(Error::doing("make a folder for the agents"))?;
        let mut by_driver = BTreeMap::new();
        for (index, driver) in drivers.iter().enumerate() {
            let flag = match catalogue::kind(driver)? {
                Kind::Arm => "--arm",
                Kind::Policy => "--policy",
            };
            let name = format!("real{}x{index}", std::process::id());
            let run_dir = folder.path().join(driver);
            let child = AgentChild::start(remuda, &run_dir, &["--name", &name, flag, driver])?;
            by_driver.insert(driver.clone(), Agent { name, child });
        }
        Ok(Self { by_driver, _folder: folder })
    }

    /// What a socket asks for to be driven by it; `None` if no agent was started for it.
    pub fn name(&self, driver: &str) -> Option<&str> {
        self.by_driver.get(driver).map(|agent| agent.name.as_str())
    }

    /// Ends them as an operator would.
    ///
    /// # Errors
    ///
    /// The first that does not end well.
    pub fn stop(self) -> Result<(), Error> {
        self.by_driver.into_values().try_for_each(|agent| Ok(agent.child.stop()?))
    }
}
