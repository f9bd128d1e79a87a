//! `remuda agent`

use crate::Failure;
use crate::drivers;
use ccp_agent::author::{Authors, congalg};
use ccp_agent::catalogue::{self, Kind};
use ccp_agent::{Config, Error};
use clap::Args;
use std::path::PathBuf;

/// Run the agent until Ctrl-C or SIGTERM.
///
/// Sockets come to it by name (TCP_CONGESTION=remuda), by cgroup, or as the host's default. When it
/// ends they go back to the kernel's own algorithm; when it dies or hangs, they fall back to Reno
/// from the window they have, and are taken back when it returns.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Drive new flows by this policy (see `remuda programs`)
    #[arg(long, value_name = "NAME", conflicts_with = "arm")]
    policy: Option<String>,
    /// Drive new flows by this one algorithm
    #[arg(long, value_name = "NAME")]
    arm: Option<String>,
    /// Configuration (TOML); flags override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The name sockets ask for with TCP_CONGESTION; at most 15 characters
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where the sockets, the lock and the event log go; a private directory
    #[arg(long, value_name = "DIR", env = "REMUDA_RUN_DIR")]
    run_dir: Option<PathBuf>,
    /// Where what is remembered of destinations is kept; a private directory
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Take over every new TCP socket of this cgroup (v2 directory); may be given again
    #[arg(long, value_name = "DIR")]
    cgroup: Vec<PathBuf>,
    /// Be the default algorithm of this network namespace until the agent ends
    #[arg(long)]
    take_default: bool,
    /// Leave this host's TCP to the kernel module (datapath/kernel), which needs no BPF
    #[arg(long)]
    no_bpf: bool,
    /// Print the configuration in force, as TOML, and do not run
    #[arg(long)]
    print_config: bool,
}

fn of_kind(name: String, wanted: Kind, authors: &Authors) -> Result<String, Error> {
    let is_authored = authors.names().contains(&name.as_str());
    let is = if is_authored { Kind::Arm } else { catalogue::kind(&name)? };
    if is == wanted {
        return Ok(name);
    }
    let (is, wanted, flag) = match is {
        Kind::Arm => ("an arm", "a policy", "arm"),
        Kind::Policy => ("a policy", "an arm", "policy"),
    };
    Err(Error::Kind { name, is, wanted, flag })
}

impl AgentArgs {
    fn config(self) -> Result<(Config, bool), Failure> {
        let mut config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        congalg::join(&config.authors, congalg::Served::Agent)?;
        let authors = config.authors.clone();
        let of_kind = |name, kind| of_kind(name, kind, &authors);
        let agent = &mut config.agent;
        if let Some(policy) = self.policy {
            agent.default = of_kind(policy, Kind::Policy)?;
        }
        if let Some(arm) = self.arm {
            agent.default = of_kind(arm, Kind::Arm)?;
        }
        if let Some(name) = self.name {
            agent.name = name;
        }
        if let Some(run_dir) = self.run_dir {
            agent.run_dir = run_dir;
        }
        if let Some(state_dir) = self.state_dir {
            agent.state_dir = Some(state_dir);
        }
        agent.cgroups.extend(self.cgroup);
        agent.take_default |= self.take_default;
        agent.bpf &= !self.no_bpf;
        config.validate()?;
        config.load()?;
        drivers::check(&config.agent.default, &config)?;
        Ok((config, self.print_config))
    }

    /// Runs it.
    pub fn run(self) -> Result<(), Failure> {
        let (config, print_only) = self.config()?;
        let text = toml::to_string(&config)?;
        if print_only {
            print!("{text}");
            return Ok(());
        }
        eprintln!("{text}");
        let (name, run_dir) = (config.agent.name.clone(), config.agent.run_dir.clone());
        let default = config.agent.default.clone();
        ccp_agent::agent::run(config, move || {
            let log = ccp_agent::run_dir::event_log(&run_dir);
            eprintln!("remuda: ready; TCP_CONGESTION={name} is driven by {default}");
            eprintln!("remuda: events go to {}; `remuda flows` shows the flows", log.display());
        })?;
        eprintln!("remuda: every flow is back with the kernel's own algorithm");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        agent: AgentArgs,
    }

    #[test]
    fn an_arm_that_can_drive_no_flow_is_no_default() {
        let config = |arm: &str| {
            let args = Cli::try_parse_from(["agent", "--arm", arm]).unwrap().agent;
            args.config().map_err(|error| error.to_string())
        };
        assert!(config("cubic").is_ok());
        assert!(config("remy").unwrap_err().contains("set arms.remy_table"));
    }
}
