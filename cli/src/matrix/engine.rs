//! The engines of a matrix: this process, a Ray cluster, or real TCP.

use super::live;
use crate::Failure;
use crate::author::AuthorArgs;
use crate::weights::WeightsArgs;
use ccp_agent::Setup;
use clap::{Args, ValueEnum};
use remuda_live::real::AuthorsFiles;
use remuda_matrix::{Plan, Progress, Ran, Store, run, run_remotely};
use std::num::NonZero;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

/// The engine that executes runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// The simulator in this process
    Local,
    /// The simulator on a Ray cluster, through the Python extra `remuda[ray]`
    Ray,
    /// Real TCP in real time, one run after the other (needs root)
    Live,
}

/// The engine, and how many runs it executes at a time.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// What executes the runs; `local` and `ray` give the same table
    #[arg(long, value_enum, default_value = "local")]
    engine: Engine,
    /// The Ray cluster, as HOST:PORT, ray://HOST:PORT or `auto` [default: a new local cluster]
    #[arg(long, value_name = "ADDR")]
    ray_address: Option<String>,
    /// How many runs at a time [default: one for each core of this machine or of the cluster]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
}

impl EngineArgs {
    /// Refuses combinations of options that make no sense.
    pub fn check(&self) -> Result<(), Failure> {
        if self.ray_address.is_some() && self.engine != Engine::Ray {
            return Err(
                "--ray-address needs --engine ray; add that, or leave out the address".into()
            );
        }
        if self.is_live() && self.jobs.is_some() {
            let rule = "live runs share the processors, so they run one after the other";
            return Err(format!("--jobs cannot be used with --engine live: {rule}").into());
        }
        Ok(())
    }

    /// Refuses weights where they would not reach the simulators.
    pub fn check_weights(&self, weights: &WeightsArgs) -> Result<(), Failure> {
        if self.engine == Engine::Ray && !weights.is_empty() {
            let rule = "its workers have the arms that are built in";
            return Err(format!("--weights cannot be used with --engine ray: {rule}").into());
        }
        Ok(())
    }

    /// Whether the runs use real TCP.
    pub fn is_live(&self) -> bool {
        self.engine == Engine::Live
    }

    /// Removes runs that the engine cannot execute. Returns a message if there were any.
    pub fn fit(&self, plan: &mut Plan) -> Result<Option<String>, Failure> {
        if self.is_live() { live::fit(plan) } else { Ok(None) }
    }

    /// Executes all runs of a plan.
    pub fn run(
        &self,
        (plan, authors, weights): (&Plan, &AuthorArgs, &WeightsArgs),
        (store, setup): (Option<&Store>, &Arc<Setup>),
        stopped: &AtomicBool,
        progress: impl FnMut(&Progress),
    ) -> Result<Ran, Failure> {
        let cores = || thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        if self.engine == Engine::Local {
            let threads = self.jobs.unwrap_or_else(cores).get();
            let rows = run(plan, (store, setup), (threads, stopped), progress);
            return Ok(Ran { rows, broken: None });
        }
        if self.is_live() {
            let own = AuthorsFiles { arguments: weights.arguments(), ..authors.named() };
            return live::run((plan, &own), store, stopped, progress);
        }
        let mut command = Command::new(authors.python());
        command.args(["-P", "-m", "remuda._ray"]);
        if let Some(address) = &self.ray_address {
            command.args(["--address", address]);
        }
        // The size of a new local cluster is not known yet.
        let jobs = self.jobs.or_else(|| self.ray_address.is_none().then(cores));
        if let Some(jobs) = jobs {
            command.args(["--jobs", &jobs.to_string()]);
        }
        let files = authors.files()?;
        Ok(run_remotely((plan, &files), store, (&mut command, stopped), progress))
    }
}
