//! Scenarios on this machine's kernel, one run at a time.

use crate::Args;
use crate::run::{How, Round, Scenario, Side};
use ccp_agent::child::AgentChild;
use ccp_agent::host::Target;
use remuda_bench::stats::Origin;
use std::time::Duration;

/// Runs them; `done` hears of each, by its number.
pub fn run(
    args: &Args,
    scenarios: &[Scenario],
    mut done: impl FnMut(usize, Vec<Round>),
) -> Result<Origin, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let name = format!("fid{}", std::process::id());
    let run_dir = folder.path().join("run");
    let agent = AgentChild::start(&args.remuda, &run_dir, &["--name", &name, "--arm", "cubic"])?;
    let seconds = Duration::from_secs(args.seconds);
    for (index, scenario) in scenarios.iter().enumerate() {
        agent.set(Target::New, &scenario.arm)?;
        let control = args.control.contains(&scenario.arm);
        let how = How { control, seconds, tries: args.tries };
        let mut rounds = Vec::new();
        for number in 0..args.rounds_of(scenario) {
            let seed = args.seed + number;
            let kernel = Side { scenario, algorithm: &scenario.arm, seed };
            let ours = Side { algorithm: &name, ..kernel };
            rounds.push(Round::run((&kernel, &ours), how, number + index as u64)?);
        }
        done(index, rounds);
    }
    agent.stop()?;
    Ok(Origin::here())
}
