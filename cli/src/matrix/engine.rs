//! What runs a matrix: this process, a Ray cluster, or real TCP.

use super::live;
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
    /// Simulated, in this process
    Local,
    /// Simulated, on a Ray cluster, by the Python package's extra `remuda[ray]`
    Ray,
    /// On real TCP, in real time, one after the other (needs root)
    Live,
}

/// Where runs run, and how many at a time.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// What runs them; `local` and `ray` give the same table
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
    pub fn check(&self) -> Result<(), Failure> {
        if self.ray_address.is_some() && self.engine != Engine::Ray {
            return Err("--ray-address is of --engine ray; add that, or leave it out".into());
        }
        if self.is_live() && self.jobs.is_some() {
            let rule = "live runs share processors, and are run one after the other";
            return Err(format!("--jobs is not of --engine live: {rule}").into());
        }
        Ok(())
    }

    /// Whether runs are on real TCP.
    pub fn is_live(&self) -> bool {
        self.engine == Engine::Live
    }

    /// Leaves out what it cannot run, and says so.
    pub fn fit(&self, plan: &mut Plan) -> Result<Option<String>, Failure> {
        if self.is_live() { live::fit(plan) } else { Ok(None) }
    }

    /// Runs all of a plan.
    pub fn run(
        &self,
        (plan, authors): (&Plan, &AuthorArgs),
        (store, config): (Option<&Store>, &Arc<Config>),
        stopped: &AtomicBool,
        progress: impl FnMut(&Progress),
    ) -> Result<Ran, Failure> {
        let cores = || thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        if self.engine == Engine::Local {
            let threads = self.jobs.unwrap_or_else(cores).get();
            let rows = run(plan, (store, config), (threads, stopped), progress);
            return Ok(Ran { rows, broken: None });
        }
        if self.is_live() {
            return live::run((plan, &authors.named()), store, stopped, progress);
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
        let files = authors.files()?;
        Ok(run_remotely((plan, &files), store, (&mut command, stopped), progress))
    }
}
