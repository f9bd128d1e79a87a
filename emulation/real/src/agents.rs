//! One agent for each of our drivers, so that flows of several drivers may start at any time.

use crate::Error;
use crate::plan::Reached;
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

/// The arms and policies that scenarios name: each needs an agent.
pub fn named_drivers<'a>(scenarios: impl IntoIterator<Item = &'a Scenario>) -> BTreeSet<String> {
    let flows = scenarios.into_iter().flat_map(|scenario| &scenario.flows);
    let named = flows.filter_map(|flow| match &flow.driver {
        Driver::Named(name) => Some(name.clone()),
        _ => None,
    });
    named.collect()
}

/// What an agent drives flows with before an author's arm is there.
const BEFORE_AUTHOR: &str = "reno";

#[derive(Debug)]
struct Agent {
    /// What a socket asks for with `TCP_CONGESTION`.
    name: String,
    child: AgentChild,
    /// Of an arm in Python: it is in the agent while these are here.
    _author: Option<(Lease, Process)>,
}

/// Files of arms in Python, and what runs them.
#[derive(Clone, Debug, Default)]
pub struct AuthorsFiles {
    /// The Python that has the package `remuda`.
    pub python: PathBuf,
    pub files: Vec<PathBuf>,
}

impl AuthorsFiles {
    /// A process of the file that has this arm.
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

/// Agents under names of their own, in run directories of their own. They end with the thread that
/// started them.
#[derive(Debug)]
pub struct Agents {
    by_driver: BTreeMap<String, Agent>,
    // After the agents, which hold files in it.
    folder: TempDir,
}

impl Agents {
    /// Starts the agents of these arms and policies; `remuda` is the command. What is no arm of its
    /// own is one of `authors`.
    ///
    /// # Errors
    ///
    /// A name that is none, or an agent or an author's process that does not start.
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
            let arguments = [&["--name", &name], &arguments[..]].concat();
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

    /// How a driver is reached; `None` if no agent was started for it.
    pub fn reached(&self, driver: &str) -> Option<Reached> {
        let algorithm = self.by_driver.get(driver)?.name.clone();
        let door = run_dir::application_socket(&self.folder.path().join(driver));
        Some(Reached { algorithm, door })
    }

    /// They forget what suited destinations: addresses are the same in each run, paths are not, and
    /// no run may know of another.
    ///
    /// # Errors
    ///
    /// An agent that does not answer.
    pub fn forget(&self) -> Result<(), Error> {
        for agent in self.by_driver.values() {
            agent.child.forget()?;
        }
        Ok(())
    }

    /// What the agent of a driver has recorded so far; nothing if none was started for it.
    ///
    /// # Errors
    ///
    /// The event log cannot be read.
    pub fn events(&self, driver: &str) -> Result<Vec<serde_json::Value>, Error> {
        let agent = self.by_driver.get(driver);
        Ok(agent.map(|agent| agent.child.events()).transpose()?.unwrap_or_default())
    }

    /// How many flows an arm has given up so far, and why it did the last: an exception, or no
    /// answer. Reno takes them, and what comes then is none of the arm's.
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

    /// Ends them as an operator would.
    ///
    /// # Errors
    ///
    /// The first that does not end well.
    pub fn stop(self) -> Result<(), Error> {
        self.by_driver.into_values().try_for_each(|agent| Ok(agent.child.stop()?))
    }
}
