//! One agent for each named driver, so that flows of several drivers may start at any time.

use crate::real::Error;
use crate::real::plan::Reached;
use ccp_agent::author::Process;
use ccp_agent::author::door::{self, Lease};
use ccp_agent::catalogue::{self, Kind};
use ccp_agent::child::AgentChild;
use ccp_agent::host::Target;
use ccp_agent::run_dir;
use remuda_scenarios::{Driver, Scenario};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The arms and policies that the scenarios name. Each needs an agent.
pub fn named_drivers<'a>(scenarios: impl IntoIterator<Item = &'a Scenario>) -> BTreeSet<String> {
    let flows = scenarios.into_iter().flat_map(|scenario| &scenario.flows);
    let named = flows.filter_map(|flow| match &flow.driver {
        Driver::Named(name) => Some(name.clone()),
        _ => None,
    });
    named.collect()
}

/// The arm that drives new flows until the Python arm has joined the agent.
const BEFORE_AUTHOR: &str = "reno";

#[derive(Debug)]
struct Agent {
    /// The congestion control that a socket requests with `TCP_CONGESTION`.
    name: String,
    child: AgentChild,
    /// The process of a Python arm. The agent has the arm as long as this is kept.
    _author: Option<(Lease, Process)>,
}

/// Files with arms in Python, and the Python that runs them.
#[derive(Clone, Debug, Default)]
pub struct AuthorsFiles {
    /// A Python that has the package `remuda`.
    pub python: PathBuf,
    pub files: Vec<PathBuf>,
    /// Further arguments of each agent, such as weights that are arms.
    pub arguments: Vec<String>,
}

impl AuthorsFiles {
    /// Starts the file that defines this arm; `None` if no file does.
    fn start(&self, arm: &str) -> Result<Option<Process>, Error> {
        for file in &self.files {
            let process = Process::start(&self.python, file)?;
            if process.hello.arms.iter().any(|it| it.name == arm) {
                return Ok(Some(process));
            }
        }
        Ok(None)
    }
}

/// Agents with their own names and run directories. They end with the thread that started them.
#[derive(Debug)]
pub struct Agents {
    by_driver: BTreeMap<String, Agent>,
    // Must be dropped after the agents, which have files in it.
    folder: TempDir,
}

impl Agents {
    /// Starts an agent for each of these arms and policies; `remuda` is the path of the command. A
    /// name that is neither must be an arm of `authors`.
    ///
    /// # Errors
    ///
    /// A name is unknown, or an agent or an author's process does not start.
    pub fn start(
        remuda: &Path,
        drivers: &BTreeSet<String>,
        authors: &AuthorsFiles,
    ) -> Result<Self, Error> {
        let folder = tempfile::tempdir().map_err(Error::doing("make a folder for the agents"))?;
        let mut by_driver = BTreeMap::new();
        for (index, driver) in drivers.iter().enumerate() {
            let kind = catalogue::kind(driver);
            let author = if kind.is_err() { authors.start(driver)? } else { None };
            let arguments = match (&author, kind) {
                (Some(_), _) => ["--arm", BEFORE_AUTHOR],
                (None, Ok(Kind::Arm)) => ["--arm", driver],
                (None, Ok(Kind::Policy)) => ["--policy", driver],
                (None, Err(error)) => return Err(error.into()),
            };
            let name = format!("real{}x{index}", std::process::id());
            let run_dir = folder.path().join(driver);
            let more: Vec<&str> = authors.arguments.iter().map(String::as_str).collect();
            let arguments = [&["--name", &name], &arguments[..], &more].concat();
            let child = AgentChild::start(remuda, &run_dir, &arguments)?;
            let join = |mut process| Ok::<_, Error>((door::join(&run_dir, &mut process)?, process));
            let author = author.map(join).transpose()?;
            if author.is_some() {
                child.set(Target::New, driver)?;
            }
            by_driver.insert(driver.clone(), Agent { name, child, _author: author });
        }
        Ok(Self { by_driver, folder })
    }

    /// How an application reaches the agent of `driver`; `None` if no agent was started for it.
    pub fn reached(&self, driver: &str) -> Option<Reached> {
        let algorithm = self.by_driver.get(driver)?.name.clone();
        let door = run_dir::application_socket(&self.folder.path().join(driver));
        Some(Reached { algorithm, door })
    }

    /// Clears what the agents remember of destinations. All runs use the same addresses for
    /// different paths, so no run may learn from an earlier one.
    ///
    /// # Errors
    ///
    /// An agent does not answer.
    pub fn forget(&self) -> Result<(), Error> {
        for agent in self.by_driver.values() {
            agent.child.forget()?;
        }
        Ok(())
    }

    /// The events that the driver's agent has recorded so far; empty if no agent was started for
    /// it.
    ///
    /// # Errors
    ///
    /// The event log cannot be read.
    pub fn events(&self, driver: &str) -> Result<Vec<serde_json::Value>, Error> {
        let agent = self.by_driver.get(driver);
        Ok(agent.map(|agent| agent.child.events()).transpose()?.unwrap_or_default())
    }

    /// How many flows the arm has failed on so far, and the reason of the last failure: an
    /// exception, or no answer. Reno takes over such a flow, so its results do not describe the
    /// arm.
    ///
    /// # Errors
    ///
    /// The agent's event log cannot be read.
    pub fn given_up(&self, driver: &str) -> Result<(usize, String), Error> {
        let events = self.events(driver)?;
        let failed = || events.iter().filter(|event| event["event"] == "failed");
        let why = failed().next_back().and_then(|event| event["reason"].as_str());
        Ok((failed().count(), why.unwrap_or_default().to_owned()))
    }

    /// Stops the agents, as an operator would.
    ///
    /// # Errors
    ///
    /// The first agent that does not end properly.
    pub fn stop(self) -> Result<(), Error> {
        self.by_driver.into_values().try_for_each(|agent| Ok(agent.child.stop()?))
    }
}
