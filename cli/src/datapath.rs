//! `remuda datapath`: this kernel's TCP as the datapath of a portus agent.

mod agent_socket;
mod bridge;

pub use agent_socket::AgentSocket;
pub use bridge::Bridge;

use crate::Failure;
use crate::stop::stop_flag;
use bridge::{Counts, Notice};
use ccp_agent::clock;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use remuda_bpf::{Datapath, Plan, Settings, Walked};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// How often the progress line is redrawn.
const REDRAW_INTERVAL_NS: u64 = 200_000_000;

/// Let an agent built on portus drive this kernel's TCP, until Ctrl-C.
///
/// The agent runs unchanged: it finds a CCP datapath at its Unix socket, like those of libccp. This
/// command may start before the agent. Flows run Reno while no agent listens, and when the agent
/// has read nothing for half a second. A new agent gets all live flows announced. The command obeys
/// only agents of root or of your own user. When it ends, every flow returns to the kernel's own
/// algorithm.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Serve an agent at portus' default socket, and start a transfer that it drives
    remuda datapath
    iperf3 -c HOST -C ccp
  Let an agent with the socket name \"mine\" drive every new connection of a service
    remuda datapath --socket /tmp/ccp/mine --cgroup /sys/fs/cgroup/system.slice/nginx.service")]
pub struct DatapathArgs {
    /// The agent's socket; portus uses /tmp/ccp/NAME with the agent's name
    #[arg(long, value_name = "FILE", default_value = "/tmp/ccp/portus")]
    socket: PathBuf,
    /// The socket to which the agent sends [default: SOCKET.datapath]
    #[arg(long, value_name = "FILE")]
    own: Option<PathBuf>,
    /// The name that sockets give to TCP_CONGESTION; at most 15 characters
    #[arg(long, value_name = "NAME", default_value = "ccp")]
    name: String,
    /// Drive every new TCP socket of this cgroup (v2 directory); may be given several times
    #[arg(long, value_name = "DIR")]
    cgroup: Vec<PathBuf>,
}

/// Refuses a name that the kernel already has: the kernel rejects a second one without an error.
fn check_free(name: &str) -> Result<(), Failure> {
    remuda_bpf::check_name(name)?;
    if !remuda_bpf::registered().split_whitespace().any(|known| known == name) {
        return Ok(());
    }
    Err(format!(
        "this kernel already has an algorithm {name:?}: a module, an agent, or another `remuda \
         datapath`\nfix: end that one, or choose another name with --name"
    )
    .into())
}

fn default_own(socket: &Path) -> PathBuf {
    let mut own = socket.as_os_str().to_owned();
    own.push(".datapath");
    own.into()
}

impl DatapathArgs {
    fn load(&self) -> Result<Datapath, Failure> {
        let settings = Settings { name: self.name.clone(), ..Settings::default() };
        let plan = Plan { settings, cgroups: self.cgroup.clone(), takes_default: false };
        let (datapath, started) = Datapath::start(&plan, clock::monotonic_ns())?;
        for warning in &started.warnings {
            eprintln!("remuda: {warning}");
        }
        Ok(datapath)
    }

    pub fn run(self) -> Result<(), Failure> {
        let stopped = stop_flag()?;
        check_free(&self.name)?;
        let own = self.own.clone().unwrap_or_else(|| default_own(&self.socket));
        let socket = AgentSocket::bind(&own, &self.socket)?;
        let mut bridge = Bridge::new(self.load()?, socket);
        let (name, agent) = (&self.name, self.socket.display());
        eprintln!("remuda: TCP_CONGESTION={name} is for the agent at {agent}; Ctrl-C ends this");
        let progress = Progress::new();
        let mut drawn_ns = 0;
        while !stopped.load(Ordering::Relaxed) {
            bridge.turn(&mut |notice| progress.say(&notice), &mut |_| ())?;
            let now_ns = clock::monotonic_ns();
            if now_ns.saturating_sub(drawn_ns) > REDRAW_INTERVAL_NS {
                drawn_ns = now_ns;
                progress.draw(bridge.counts());
            }
        }
        progress.0.finish_and_clear();
        let counts = bridge.counts();
        let Walked { changed: let_go, refused: left, missed } = bridge.let_go()?;
        if let Some(error) = missed {
            eprintln!("remuda: {error}");
        }
        eprintln!("remuda: {}", summary(counts));
        eprintln!("remuda: {let_go} flows are back with the kernel's own algorithm");
        if left > 0 {
            return Err(format!(
                "the kernel keeps {left} flows in this datapath's Reno\n\
                 fix: `remuda datapath --name {name}` again takes them over; or end them"
            )
            .into());
        }
        Ok(())
    }
}

fn summary(counts: Counts) -> String {
    let Counts { flows, reports, orders, refused } = counts;
    format!("{flows} flows, {reports} reports sent, {orders} orders taken, {refused} refused")
}

/// A progress line on a terminal; nothing without one.
struct Progress(ProgressBar);

impl Progress {
    fn new() -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg}");
        let bar = ProgressBar::new_spinner();
        Self(bar.with_style(style.expect("a template without mistakes")))
    }

    fn draw(&self, counts: Counts) {
        self.0.tick();
        self.0.set_message(summary(counts));
    }

    fn say(&self, notice: &Notice) {
        self.0.suspend(|| eprintln!("remuda: {notice}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_datapath_s_own_address_lies_beside_the_agent_s() {
        assert_eq!(default_own(Path::new("/tmp/ccp/a")), PathBuf::from("/tmp/ccp/a.datapath"));
    }

    #[test]
    fn a_name_that_the_kernel_has_is_refused_with_the_fix() {
        let error = check_free("reno").expect_err("the kernel always has reno").to_string();
        assert!(error.contains("--name"), "{error}");
        assert!(check_free("a name that is too long").is_err());
    }
}
