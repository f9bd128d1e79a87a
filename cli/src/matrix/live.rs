//! Runs on real TCP: one scenario at a time between network namespaces, each driver with its own
//! agent.

use crate::Failure;
use remuda_live::STOLEN_MAX;
use remuda_live::real::{Agents, AuthorsFiles, check, named_drivers};
use remuda_matrix::{Plan, Progress, Ran, Store, Watched, run_each};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

/// How often a run is repeated, at most, if a hypervisor took too much time from it.
const TRIES: u32 = 3;

/// This kernel's release. Another kernel may give other results.
pub fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Removes the runs that real TCP does not support. Returns how many, and why. Fails if it supports
/// none.
pub fn fit(plan: &mut Plan) -> Result<Option<String>, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err("--engine live makes network namespaces and loads BPF: run it as root".into());
    }
    let all = plan.jobs.len();
    let mut reasons = BTreeSet::new();
    plan.jobs.retain(|job| match check(&job.scenario) {
        Ok(()) => true,
        Err(error) => {
            reasons.insert(error.to_string());
            false
        }
    });
    let left_out = all - plan.jobs.len();
    let Some(first) = reasons.first().filter(|_| left_out > 0) else { return Ok(None) };
    if plan.jobs.is_empty() {
        return Err(format!("real TCP supports none of these runs, as {first}").into());
    }
    Ok(Some(format!("{left_out} of {all} runs left out that real TCP cannot have, as {first}")))
}

/// Executes all runs of a plan.
pub fn run(
    (plan, authors): (&Plan, &AuthorsFiles),
    store: Option<&Store>,
    stopped: &AtomicBool,
    progress: impl FnMut(&Progress),
) -> Result<Ran, Failure> {
    let agents = named_drivers(plan.jobs.iter().map(|job| &job.scenario));
    let agents = Agents::start(&std::env::current_exe()?, &agents, authors)?;
    let rows = run_each(plan, store, stopped, progress, |job| {
        let given_up = || agents.given_up(&job.driver).map_err(|error| error.to_string());
        let (before, _) = given_up()?;
        let work = || remuda_live::real::run(&job.scenario, &agents, stopped);
        let ran = remuda_live::least_disturbed(TRIES, work, |_| {});
        let (ran, stolen) = ran.map_err(|error| error.to_string())?;
        let (after, why) = given_up()?;
        if after > before {
            return Err(format!("{} lost its flow to another arm: {why}", job.driver));
        }
        Ok(ran.map(|ran| Watched {
            outcome: ran.outcome,
            is_disturbed: ran.lost_by_host > 0 || stolen > STOLEN_MAX,
        }))
    });
    agents.stop()?;
    Ok(Ran { rows, broken: None })
}
