//! `remuda agent`

use crate::Failure;
use crate::drivers;
use crate::weights::WeightsArgs;
use ccp_agent::author::{Authors, congalg};
use ccp_agent::catalogue::{self, Kind};
use ccp_agent::{Config, Error, Setup};
use clap::Args;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Run the agent until Ctrl-C or SIGTERM.
///
/// The agent drives TCP sockets that name it (TCP_CONGESTION=remuda), those of a cgroup, or all new
/// sockets of the host if it is the default. When the agent ends, its sockets return to the
/// kernel's own algorithm. If it dies or hangs, its sockets fall back to Reno with their current
/// window, and the agent takes them back when it returns.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Drive new flows by this policy (see `remuda programs`)
    #[arg(long, value_name = "NAME", conflicts_with = "arm")]
    policy: Option<String>,
    /// Drive new flows by this one algorithm (see `remuda programs`)
    #[arg(long, value_name = "NAME")]
    arm: Option<String>,
    /// Configuration file (TOML); flags override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The name that sockets give to TCP_CONGESTION; at most 15 characters
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A private directory for the sockets, the lock and the event log
    #[arg(long, value_name = "DIR", env = "REMUDA_RUN_DIR")]
    run_dir: Option<PathBuf>,
    /// A private directory for what the agent remembers of destinations
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Drive every new TCP socket of this cgroup (v2 directory); may be given several times
    #[arg(long, value_name = "DIR")]
    cgroup: Vec<PathBuf>,
    /// Make the agent the default algorithm of this network namespace until it ends
    #[arg(long)]
    take_default: bool,
    /// Use the kernel module (datapath/kernel) for this host's TCP instead of BPF
    #[arg(long)]
    no_bpf: bool,
    #[command(flatten)]
    weights: WeightsArgs,
    /// Print the configuration in force as TOML, and exit
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

/// The settings that are not the default, a line each.
fn changed(config: &Config) -> Result<String, Failure> {
    let (now, usual) = (toml::Table::try_from(config)?, toml::Table::try_from(Config::default())?);
    let mut text = String::new();
    for (section, value) in now {
        let usual = usual.get(&section);
        match value {
            toml::Value::Table(keys) => {
                for (key, value) in keys {
                    if usual.and_then(|it| it.get(&key)) != Some(&value) {
                        let _ = writeln!(text, "remuda: {section}.{key} = {value}");
                    }
                }
            }
            other if usual != Some(&other) => {
                let _ = writeln!(text, "remuda: {section} = {other}");
            }
            _ => {}
        }
    }
    Ok(text)
}

impl AgentArgs {
    fn setup(self) -> Result<(Setup, bool), Failure> {
        let config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        let mut setup = Setup::from(config);
        self.weights.configure(&mut setup.config)?;
        setup.file = self.config.clone();
        congalg::join(&setup.authors, congalg::Served::Agent)?;
        let authors = setup.authors.clone();
        let of_kind = |name, kind| of_kind(name, kind, &authors);
        let agent = &mut setup.config.agent;
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
        setup.validate()?;
        setup.load()?;
        drivers::check(&setup.config.agent.default, &setup)?;
        Ok((setup, self.print_config))
    }

    pub fn run(self) -> Result<(), Failure> {
        let (setup, print_only) = self.setup()?;
        let text = toml::to_string(&setup.config)?;
        if print_only {
            print!("{text}");
            return Ok(());
        }
        eprint!("{}", changed(&setup.config)?);
        let agent = &setup.config.agent;
        let (name, run_dir) = (agent.name.clone(), agent.run_dir.clone());
        let default = agent.default.clone();
        let ended = ccp_agent::agent::run(setup, move || {
            let log = ccp_agent::run_dir::event_log(&run_dir);
            eprintln!("remuda: ready; TCP_CONGESTION={name} is driven by {default}");
            let log = log.canonicalize().unwrap_or(log);
            eprintln!("remuda: events go to {}; `remuda flows` shows the flows", log.display());
        })?;
        match ended.flows_handed_over {
            0 => eprintln!("remuda: every flow is back with the kernel's own algorithm"),
            flows => eprintln!("remuda: {flows} flows run Reno until the next agent comes"),
        }
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
            args.setup().map_err(|error| error.to_string())
        };
        assert!(config("cubic").is_ok());
        assert!(config("remy").unwrap_err().contains("set arms.remy_table"));
    }
}
