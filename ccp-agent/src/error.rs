//! What ends or refuses an operation of the agent.

use std::fmt;
use std::io;
use thiserror::Error;

/// A position in a program's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    /// Counted in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// An operating error; it names the input and the rule.
#[derive(Debug, Error)]
pub enum Error {
    /// A file, a socket or a folder.
    #[error("{path}: {source}")]
    File {
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A configuration that does not parse or breaks a rule.
    #[error("{path}: {rule}")]
    Config {
        path: String,
        /// What is wrong in it.
        rule: String,
    },
    /// Neither an arm nor a policy.
    #[error("unknown arm or policy {name:?}\nfix: one of {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        known: String,
    },
    /// An arm where a policy was asked for, or the other way round.
    #[error("{name:?} is {is}, not {wanted}\nfix: --{flag} {name}")]
    Kind {
        /// What was asked for.
        name: String,
        is: &'static str,
        /// What it should be.
        wanted: &'static str,
        /// The flag that takes it.
        flag: &'static str,
    },
    /// A file of arms that an author runs, or what its process says.
    #[error("{0}")]
    Author(String),
    /// A datapath program that cannot be used.
    #[error("program {name}: {rule}")]
    Program { name: String, rule: String },
    /// A datapath program whose text is wrong in one place.
    #[error("program {name}, {place}: {rule}\n{excerpt}")]
    ProgramText {
        name: String,
        place: Place,
        /// What is wrong, and what to write instead.
        rule: String,
        /// The line, with a mark below the place; and what could stand there.
        excerpt: String,
    },
    /// Another agent has the run or state directory.
    #[error(
        "another agent runs in {0}\n\
         fix: stop it, or give this one another --run-dir, --state-dir and --name"
    )]
    AlreadyRunning(String),
    /// A run or state directory that others could write to.
    #[error(
        "{path}: {rule}\nfix: remove it, or give another --run-dir, --state-dir or event_log_dir"
    )]
    NotPrivate {
        path: String,
        /// What is wrong with it.
        rule: &'static str,
    },
    /// A run or state directory that this user cannot make or enter.
    #[error(
        "{path}: {source}\n\
         fix: run as root, or give directories that this user may make, with --run-dir and \
         --state-dir"
    )]
    NoFolder { path: String, source: io::Error },
    /// A folder in which this user may not make the socket for applications.
    #[error(
        "{path}: this user may not make the socket for applications there ({source})\n\
         fix: agent.application_socket = a path in a folder of this user's that others can enter \
         (mode 0755), or agent.applications = false"
    )]
    NoApplicationSocket { path: String, source: io::Error },
    /// The folder that the socket for applications would lie in.
    #[error(
        "{0}: others can replace what lies there, and would get applications' sockets\nfix: \
         another --run-dir, or agent.applications = false"
    )]
    OpenFolder(String),
    #[error(
        "no agent answers at {path} ({source})\n\
         fix: start one with `remuda agent --policy rein`, or name its --run-dir"
    )]
    NoAgent {
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The control socket of an agent of another user.
    #[error(
        "{path}: only root and the agent's own user may ask the agent\n\
         fix: run this command as root or as that user"
    )]
    NotAllowed { path: String },
    /// The agent exists and does not answer.
    #[error(
        "{path}: the agent (process {pid}) has not answered within {limit_s} s\n\
         fix: `kill -CONT {pid}` if it is stopped; else `kill -KILL {pid}` and start it again: its \
         flows run Reno until then"
    )]
    Hangs {
        path: String,
        /// The agent's process id; 0 if unknown.
        pid: i32,
        limit_s: u64,
    },
    /// The agent refused a request.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Datapath(#[from] remuda_bpf::Error),
    /// The kernel would not take flows back.
    #[error(
        "{flows} flows are not back with {native:?}: the kernel refused, and they run the \
         datapath's fallback (Reno)\nfix: start the agent again; it takes them over"
    )]
    FlowsLeft { flows: u64, native: String },
    /// The CCP run loop ended.
    #[error("the CCP run loop ended: {0}")]
    Portus(String),
}

impl Error {
    /// Of the number of a flow that is not there.
    pub(crate) fn no_flow(id: u32) -> Self {
        Self::Refused(format!("no flow {id}\nfix: `remuda flows` lists them"))
    }
}

/// Names the file when an I/O operation on it fails.
pub(crate) fn on(path: impl std::fmt::Display) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_string();
    move |source| Error::File { path, source }
}
