//! `remuda train lingbo`

use super::network::NetworkArgs;
use crate::Failure;
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
  Run an agent with it
    remuda agent --arm lingbo --weights lingbo=out/lingbo/lingbo.safetensors

Training needs Python 3.11 with remuda[networks]; --python or $REMUDA_PYTHON chooses the Python.")]
pub struct LingboArgs {
    /// The file of the weights; the card gets the same name with .json
    #[arg(long, value_name = "FILE", default_value = "out/lingbo/lingbo.safetensors")]
    out: PathBuf,
    #[command(flatten)]
    network: NetworkArgs,
}

impl LingboArgs {
    pub fn run(&self) -> Result<(), Failure> {
        if !self.network.train("remuda.training.lingbo", &self.out)? {
            return Ok(());
        }
        let network = network(&self.out, "--out")?;
        remuda_algorithms::lingbo::check(&network)?;
        println!("{}: {} weights", self.out.display(), network.parameters());
        Ok(())
    }
}
