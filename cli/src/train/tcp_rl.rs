//! `remuda train tcp_rl`: trains the two networks of the policy `tcp_rl`.

use super::network::NetworkArgs;
use crate::Failure;
use ccp_agent::{Config, Setup};
use clap::Args;
use std::path::PathBuf;

/// Train the networks of the policy tcp_rl: the actor, and the one that tells changes.
///
/// Runs each arm on some hundred simulated paths and in a thousand environments, some with
/// neighbours, trains both networks on the results, and goes on with them on paths that change.
/// Writes the actor's weights to --out, and those of the other network beside it, with _change in
/// the name, each with its card. On a CPU, the same settings give the same weights.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Train the networks that come with the program again
    remuda train tcp_rl
  See in a minute that training works
    remuda train tcp_rl --smoke --out out/smoke.safetensors
  Make an agent use the networks
    [policy.tcp_rl] in its configuration: weights = \"out/tcp_rl/tcp_rl.safetensors\" and
    change_weights = \"out/tcp_rl/tcp_rl_change.safetensors\"

Training needs Python 3.11 with remuda[networks]; --python or $REMUDA_PYTHON chooses the Python.")]
pub struct TcpRlArgs {
    /// The file of the actor's weights; the card gets the same name with .json
    #[arg(long, value_name = "FILE", default_value = "out/tcp_rl/tcp_rl.safetensors")]
    out: PathBuf,
    #[command(flatten)]
    network: NetworkArgs,
}

impl TcpRlArgs {
    pub fn run(&self) -> Result<(), Failure> {
        if !self.network.train("remuda.training.tcp_rl", &self.out)? {
            return Ok(());
        }
        let stem = self.out.file_stem().unwrap_or_default().to_string_lossy();
        let change = self.out.with_file_name(format!("{stem}_change.safetensors"));
        // As the agent reads them.
        let mut config = Config::default();
        config.policy.tcp_rl.weights = Some(self.out.clone());
        config.policy.tcp_rl.change_weights = Some(change);
        let setup = Setup::from(config);
        setup.load()?;
        for (name, digest) in setup.loaded.list().iter().filter(|(name, _)| name == "tcp_rl") {
            println!("{}: {name} {digest}", self.out.display());
        }
        Ok(())
    }
}
