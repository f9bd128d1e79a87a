//! `remuda train lingbo`

use super::python::{NETWORKS_FIX as FIX, is_help, module};
use crate::Failure;
use crate::author::PythonArgs;
use ccp_agent::setup::network;
use clap::Args;
use std::path::PathBuf;

/// Train lingbo's network from simulated paths, by imitation of an expert that knows them.
///
/// The same seed gives the same weights, byte for byte, on one machine's CPU. A card, with the same
/// name and .json, has every setting and the scores.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Train the network
    remuda train lingbo
  Make an agent use it
    [arms] in its configuration: lingbo_weights = \"out/lingbo/lingbo.safetensors\"

Training needs Python 3.11 with remuda[networks]; --python or $REMUDA_PYTHON chooses the Python.")]
pub struct LingboArgs {
    /// The file of the weights; the card gets the same name with .json
    #[arg(long, value_name = "FILE", default_value = "out/lingbo/lingbo.safetensors")]
    out: PathBuf,
    /// Train for some seconds only, to see that training works
    #[arg(long)]
    smoke: bool,
    #[command(flatten)]
    python: PythonArgs,
    /// Arguments for the training program: `-- --help` lists them
    #[arg(last = true, value_name = "ARGS")]
    training: Vec<String>,
}

impl LingboArgs {
    pub fn run(&self) -> Result<(), Failure> {
        let python = self.python.path();
        let mut command = module(&python, "remuda.training.lingbo");
        command.arg("--out").arg(&self.out).args(self.smoke.then_some("--smoke"));
        let python = python.display();
        let status = command.args(&self.training).status();
        let status = status.map_err(|error| format!("{python}: {error}\n{FIX}"))?;
        if !status.success() {
            return Err(format!("{python} -m remuda.training.lingbo: {status}\n{FIX}").into());
        }
        if is_help(&self.training) {
            return Ok(());
        }
        let network = network(&self.out, "--out")?;
        remuda_algorithms::lingbo::check(&network)?;
        println!("{}: {} weights", self.out.display(), network.parameters());
        Ok(())
    }
}
