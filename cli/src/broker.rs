//! `remuda broker`: the privileges, for an agent that has none.

use crate::Failure;
use crate::stop::stop_flag;
use ccp_agent::{Config, agent, clock, service};
use clap::Args;
use nix::unistd::User;
use remuda_bpf::broker::{Broker, Notice};
use remuda_bpf::{Datapath, Plan, Settings, Walked};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Hold the privileges for an agent of another user, until Ctrl-C or SIGTERM.
///
/// The broker loads the BPF datapath, registers the algorithm, attaches cgroups and visits the
/// sockets of other network namespaces, as its own configuration says. An agent with
/// `agent.broker` in its configuration asks it for descriptors of the datapath's maps, and then
/// needs no privilege. No report passes the broker. It checks and compiles each program itself, and
/// no request names a file or a process. If the agent goes, its flows run Reno until the next agent
/// comes. If the broker goes, they run on under the agent, which finds the next broker by itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  The agent of the user remuda, without a privilege
    remuda broker --user remuda --config /etc/remuda/remuda.toml
    sudo -u remuda remuda agent --config /etc/remuda/remuda.toml
  Give all flows back to the kernel after agent and broker were removed
    remuda broker --give-back --config /etc/remuda/remuda.toml")]
pub struct BrokerArgs {
    /// The agent's user, by name or number; root may connect as well
    #[arg(long, value_name = "USER", required_unless_present = "give_back")]
    user: Option<String>,
    /// Configuration file (TOML) of the agent; only root may be able to write it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The socket for the agent; its directory must be writable by root alone
    #[arg(long, value_name = "FILE", default_value = "/run/remuda-broker/agent.sock")]
    socket: PathBuf,
    /// Give the flows to the kernel's own algorithm if no agent comes for so many seconds; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    patience: u32,
    /// Give the flows that an agent has left behind to the kernel's own algorithm, and end. No
    /// agent or broker of the same name may run
    #[arg(long, conflicts_with = "user")]
    give_back: bool,
}

fn user(text: &str) -> Result<u32, Failure> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let found = User::from_name(text)?;
    let missing = || format!("there is no user {text:?}\nfix: adduser --system {text}").into();
    found.map(|user| user.uid.as_raw()).ok_or_else(missing)
}

/// Refuses a file or directory that another user could change under us.
fn check_own(path: &Path) -> Result<(), Failure> {
    let about = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let own = nix::unistd::geteuid().as_raw();
    if (about.uid() == own || about.uid() == 0) && about.mode() & 0o022 == 0 {
        return Ok(());
    }
    let path = path.display();
    Err(format!(
        "{path}: other users can write it, and the broker would act for them\n\
         fix: chown root {path}; chmod go-w {path}"
    )
    .into())
}

impl BrokerArgs {
    /// clap asks for it wherever it is used.
    fn user(&self) -> &str {
        self.user.as_deref().unwrap_or("root")
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let config = match &self.config {
            Some(path) => {
                check_own(path)?;
                Config::read(path)?
            }
            None => Config::default(),
        };
        Ok(agent::plan(&config)?)
    }

    /// Takes over what an agent has left, in order to give it back.
    fn give_back(&self) -> Result<(), Failure> {
        let plan = Plan { cgroups: Vec::new(), takes_default: false, ..self.plan()? };
        let (mut datapath, started) = Datapath::start(&plan, clock::monotonic_ns())?;
        if let Some(name) = started.mended {
            eprintln!("remuda broker: {}", Notice::Mended(name));
        }
        // First, so that no new flow comes.
        let Settings { name, native, .. } = &plan.settings;
        let (mended, failed) = remuda_bpf::mend_defaults(name, native);
        if mended + failed > 0 {
            eprintln!(
                "remuda broker: {mended} network namespaces had {name} as their default algorithm, \
                 and have another one now; {failed} could not be looked at"
            );
        }
        started.warnings.iter().for_each(|warning| eprintln!("remuda broker: {warning}"));
        let Walked { changed, refused, missed } = datapath.let_go()?;
        eprintln!("remuda broker: {}", Notice::LetGo { changed, refused });
        match missed {
            Some(error) => Err(error.into()),
            None if failed > 0 => Err(format!(
                "the default algorithm of {failed} network namespaces may be ours still"
            )
            .into()),
            None if refused > 0 => Err(format!("the kernel refused {refused} flows").into()),
            None => Ok(()),
        }
    }

    fn bind(&self) -> Result<Broker, Failure> {
        let plan = self.plan()?;
        let folder = self.socket.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        check_own(folder)?;
        let patience = (self.patience > 0).then(|| Duration::from_secs(self.patience.into()));
        Ok(Broker::bind(&self.socket, plan, user(self.user())?, patience)?)
    }

    pub fn run(self) -> Result<(), Failure> {
        if self.give_back {
            return self.give_back();
        }
        let stopped = stop_flag()?;
        let mut broker = self.bind()?;
        let say = |notice: Notice| eprintln!("remuda broker: {notice}");
        let (socket, user) = (self.socket.display(), self.user());
        eprintln!("remuda broker: waits at {socket} for the agent of user {user}; Ctrl-C ends it");
        service::ready();
        while !stopped.load(Ordering::Relaxed) {
            broker.turn(clock::monotonic_ns, &mut |notice| say(notice));
        }
        service::stopping();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_user_is_a_name_or_a_number() {
        assert_eq!(user("root").expect("every host has it"), 0);
        assert_eq!(user("65534").expect("a number"), 65_534);
        let error = user("no-such-user").expect_err("nobody").to_string();
        assert!(error.contains("no-such-user") && error.contains("fix:"), "{error}");
    }

    #[test]
    fn what_others_can_write_is_refused_with_the_fix() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("remuda.toml");
        fs::write(&file, "").expect("a file");
        for (mode, is_own) in [(0o644, true), (0o600, true), (0o664, false), (0o646, false)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).expect("chmod");
            assert_eq!(check_own(&file).is_ok(), is_own, "{mode:o}");
        }
        let error = check_own(&file).expect_err("it is refused").to_string();
        assert!(error.contains("remuda.toml") && error.contains("fix: chown root"), "{error}");
    }
}
