//! `remuda train learned`: trains the network of the arm `learned`.

use super::python::{NETWORKS_FIX as FIX, is_help, module};
use crate::Failure;
use crate::author::PythonArgs;
use crate::weights::WeightsArgs;
use clap::Args;
use std::path::PathBuf;

/// The exit status of a training that Ctrl-C has stopped.
const STOPPED: i32 = 130;

/// Train the network of the arm learned, by recurrent PPO.
///
/// Simulates many flows at once, alone and beside others, and trains a network that sets their
/// windows. Writes the weights and their card. A training that was stopped with Ctrl-C continues
/// where it was. On a CPU, the same settings give the same weights.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Train the network that comes with the program again
    remuda train learned
  See in a minute that training works
    remuda train learned --smoke --out out/smoke.safetensors
  Train with another seed and without two families of environments
    remuda train learned --out out/mine.safetensors -- --seed 2 --without lossy,satellite
  Compare the weights as an arm of their own
    remuda matrix --weights mine=out/mine.safetensors --arm mine,learned,cubic

Training needs Python 3.11 with remuda[networks]; --python or $REMUDA_PYTHON chooses the Python.")]
pub struct LearnedArgs {
    /// The file of the weights; the card gets the same name with .json
    #[arg(long, value_name = "FILE", default_value = "out/learned/learned.safetensors")]
    out: PathBuf,
    /// Train for seconds only, to see that it works
    #[arg(long)]
    smoke: bool,
    #[command(flatten)]
    python: PythonArgs,
    /// Arguments for the training program: `-- --help` lists them
    #[arg(last = true, value_name = "ARGS")]
    training: Vec<String>,
}

impl LearnedArgs {
    pub fn run(&self) -> Result<(), Failure> {
        let python = self.python.path();
        let mut command = module(&python, "remuda.training.ppo");
        command.arg("--out").arg(&self.out).args(self.smoke.then_some("--smoke"));
        command.args(&self.training);
        let shown = python.display();
        let status = command.status().map_err(|error| format!("{shown}: {error}\n{FIX}"))?;
        if status.code() == Some(STOPPED) {
            return Err("stopped: the same command goes on where it was".into());
        }
        if !status.success() {
            return Err(format!("{shown} -m remuda.training.ppo: {status}\n{FIX}").into());
        }
        if is_help(&self.training) {
            return Ok(());
        }
        // As the agent reads them.
        let setup = WeightsArgs::of("trained", &self.out).setup()?;
        let loaded = setup.loaded.list();
        let digest = loaded.first().map_or("", |(_, digest)| digest.as_str());
        println!("{}: weights {digest}", self.out.display());
        Ok(())
    }
}
