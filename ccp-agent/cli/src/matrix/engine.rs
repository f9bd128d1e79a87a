//! What runs a matrix: this process, or a Ray cluster.

use crate::Failure;
use crate::author::AuthorArgs;
use ccp_agent::Config;
use clap::{Args, ValueEnum};
use remuda_matrix::{Plan, Progress, Ran, Store, run, run_remotely};
use std::num::NonZero;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

/// Where runs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// In this process
    Local,
    /// On a Ray cluster, by the Python package's extra `remuda[ray]`
    Ray,
}

/// Where runs run, and how many at a time.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// What runs them; the table is the same
    #[arg(long, value_enum, default_value = "local")]
    engine: Engine,
    /// The Ray cluster, as HOST:PORT, ray://HOST:PORT or `auto` [default: one of its own, here]
    #[arg(long, value_name = "ADDR")]
    ray_address: Option<String>,
    /// How many runs at a time [default: one for each core, of this machine or of the cluster]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
}

impl EngineArgs {
    /// Refuses what cannot be, before anything is done.
    pub fn check(&self, authors: &AuthorArgs) -> Result<(), Failure> {
        let is_ray = self.engine == Engine::Ray;
        if self.ray_address.is_some() && !is_ray {
            return Err("--ray-address is of --engine ray; add that, or leave it out".into());
        }
        if is_ray && !authors.is_empty() {
            let rule = "--author's files, and what they import, are on this machine alone";
            return Err(format!("{rule}: run their arms with --engine local").into());
        }
        Ok(())
    }

    /// Runs all of a plan.
    pub fn run(
        &self,
        (plan, authors): (&Plan, &AuthorArgs),
        (store, config): (Option<&Store>, &Arc<Config>),
        stopped: &AtomicBool,
        progress: impl FnMut(Progress),
    ) -> Ran {
        let cores = || thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        if self.engine == Engine::Local {
            let threads = self.jobs.unwrap_or_else(cores).get();
            let rows = run(plan, (store, config), (threads, stopped), progress);
            return Ran { rows, broken: None };
        }
        let mut command = Command::new(authors.python());
        command.args(["-P", "-m", "remuda._ray"]);
        if let Some(address) = &self.ray_address {
            command.args(["--address", address]);
        }
        // A cluster of one's own has no size yet.
        let jobs = self.jobs.or_else(|| self.ray_address.is_none().then(cores));
        if let Some(jobs) = jobs {
            command.args(["--jobs", &jobs.to_string()]);
        }
        run_remotely(plan, store, (&mut command, stopped), progress)
    }
}
