//! The flags that select flows.

use crate::Failure;
use ccp_agent::select::Parts;
use clap::Args;
use std::path::Path;

/// The name of the group of flags of which a command may ask for at least one.
pub const WHICH: &str = "which";

/// Flags that select flows. A flow must match all that are given.
#[derive(Debug, Args)]
#[group(skip)]
pub struct SelectArgs {
    /// The local port, or a range such as 8000-8099
    #[arg(long, value_name = "PORT", group = WHICH)]
    local_port: Option<String>,
    /// The cgroup of the process that creates the sockets: a v2 directory, or its id
    #[arg(long, value_name = "DIR|ID", group = WHICH)]
    cgroup: Option<String>,
    /// SO_MARK of the sockets, or a value with a mask such as 0x10/0xff
    #[arg(long, value_name = "MARK", group = WHICH)]
    mark: Option<String>,
    /// The remote address, or a prefix such as 10.0.0.0/8
    #[arg(long, value_name = "PREFIX", group = WHICH)]
    destination: Option<String>,
    /// The user of the sockets, by name or number
    #[arg(long, value_name = "USER", group = WHICH)]
    uid: Option<String>,
    /// The network namespace: `own` (the agent's), or its cookie (netns in `remuda flows --json`)
    #[arg(long, value_name = "NETNS", group = WHICH)]
    netns: Option<String>,
}

/// Makes the path absolute, because the agent has another working directory. A directory that does
/// not exist is left to the agent.
fn absolute(cgroup: &str) -> Result<String, Failure> {
    if cgroup.parse::<u64>().is_ok() {
        return Ok(cgroup.to_owned());
    }
    let path = std::path::absolute(Path::new(cgroup))
        .map_err(|error| format!("--cgroup {cgroup}: {error}\nfix: a directory of cgroup v2"))?;
    let path = path.canonicalize().unwrap_or(path);
    Ok(path.to_str().ok_or("--cgroup: the path must be Unicode")?.to_owned())
}

impl SelectArgs {
    /// Whether no flag was given.
    pub fn is_empty(&self) -> bool {
        let Self { local_port, cgroup, mark, destination, uid, netns } = self;
        [local_port, cgroup, mark, destination, uid, netns].iter().all(|it| it.is_none())
    }

    /// What was given, as text.
    pub fn parts(&self) -> Result<Parts, Failure> {
        Ok(Parts {
            local_port: self.local_port.clone(),
            cgroup: self.cgroup.as_deref().map(absolute).transpose()?,
            mark: self.mark.clone(),
            destination: self.destination.clone(),
            uid: self.uid.clone(),
            netns: self.netns.clone(),
        })
    }
}
