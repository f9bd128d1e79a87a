//! `remuda train learned`: trains the network of the arm `learned`.

use super::network::NetworkArgs;
use crate::Failure;
use crate::weights::WeightsArgs;
use clap::Args;
use std::path::PathBuf;

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
    #[command(flatten)]
    network: NetworkArgs,
}

impl LearnedArgs {
    pub fn run(&self) -> Result<(), Failure> {
        if !self.network.train("remuda.training.ppo", &self.out)? {
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
