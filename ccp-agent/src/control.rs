//! The control socket: each line is one JSON object, a request in and an answer out. Only root and
//! the agent's own user may connect.
//!
//! Clients have threads of their own. They hold the host's lock only to copy state or to note an
//! order, so a slow or hostile client delays no report.

use crate::admission::RefusedRow;
use crate::author::{AuthorArm, Authors};
use crate::clock;
use crate::error::on;
use crate::flow::Row;
use crate::host::{Counts, Host, NotLearned, Target};
use crate::lock::lock;
use crate::online::{Online, Report, hosted};
use crate::prefer::{self, Order};
use crate::{Error, catalogue, programs, run_dir};
use nix::sys::socket::{MsgFlags, getsockopt, send, sockopt};
use remuda_algorithms::Slot;
use remuda_selector::antelope::memory::{self, Network};
use remuda_selector::antelope::model::Model;
use remuda_selector::antelope::policy::MODEL;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const REQUEST_BYTES_MAX: u64 = 64 << 10;
/// Clients at once; the agent hangs up on further ones.
const CLIENTS_MAX: usize = 16;
/// The agent hangs up on a client that is silent for this long.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request. Variants without fields still have braces: only then does serde refuse unknown keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    Flows {},
    /// Gives some flows another arm or policy.
    Set {
        target: Target,
        to: String,
    },
    /// Sets the preference of some flows.
    Prefer {
        order: Order,
    },
    /// Lists the preferences in force.
    Preferences {},
    /// Removes one preference set by `Prefer`, or all.
    PreferNoMore {
        /// The number of the order; `None` removes all orders.
        order: Option<u32>,
    },
    /// Lists the arms with their programs, and the policies.
    Programs {},
    Status {},
    Memory {},
    Forget {
        /// Destinations in this network; `None` means all.
        #[serde(default)]
        of: Option<Network>,
    },
    /// Sets the initial window of flows to a destination.
    InitialCwnd {
        /// An address, or a network of 24 (IPv4) or 56 (IPv6) bits.
        of: Network,
        /// In segments; 0 removes the setting.
        pkts: u32,
    },
    /// Shows Antelope's model and how well it predicts.
    Model {},
    /// Puts the previous model back in force.
    ModelBack {},
    /// Puts the configured or shipped model back in force.
    ModelBase {},
}

/// One arm and its program, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRow {
    pub arm: String,
    /// One line that describes the arm.
    pub summary: String,
    pub program: String,
    /// The most instructions that the program runs for one ACK.
    pub instructions: usize,
    /// The number of fields in a report.
    pub fields: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    pub pid: u32,
    /// The arm or policy that drives new flows.
    pub default: String,
    /// The name that sockets select with `TCP_CONGESTION`.
    pub name: String,
    pub flows: usize,
    pub counts: Counts,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    Flows {
        /// In the order in which the flows started.
        flows: Vec<Row>,
        /// Sockets that did not become flows, by user, cgroup and reason.
        #[serde(default)]
        refused: Vec<RefusedRow>,
    },
    Set {
        /// How many running flows change.
        flows: usize,
    },
    Preferred {
        order: u32,
        /// How many running flows follow this order now.
        flows: usize,
    },
    Preferences {
        /// The first one that matches a flow counts.
        preferences: Vec<prefer::Row>,
    },
    PreferredNoMore {
        /// How many orders were removed.
        orders: usize,
        /// How many running flows have another preference now.
        flows: usize,
    },
    Programs {
        programs: Vec<ProgramRow>,
        policies: Vec<(String, String)>,
    },
    Status(Box<Status>),
    Memory {
        /// The most recently used first.
        destinations: Vec<memory::Row>,
        #[serde(default)]
        not_learned: NotLearned,
    },
    Forgot {
        /// How many addresses and networks were deleted.
        destinations: usize,
    },
    InitialCwndSet {},
    /// To `Model`, `ModelBack` and `ModelBase`.
    Model(Box<Report>),
    /// The request was refused or failed.
    Error {
        /// The reason, and the fix where there is one.
        error: String,
    },
}

/// The built-in arms with their programs.
pub fn program_rows() -> Result<Vec<ProgramRow>, Error> {
    remuda_algorithms::arms()
        .iter()
        .map(|arm| {
            let (instructions, fields) = programs::size(arm.program, arm.program_text)?;
            Ok(ProgramRow {
                arm: arm.name.to_owned(),
                summary: arm.summary.to_owned(),
                program: arm.program.0.to_owned(),
                instructions,
                fields,
            })
        })
        .collect()
}

/// The arms of authors, each with the program that a flow starts with.
pub fn authored_rows(authors: &Authors) -> Vec<ProgramRow> {
    let row = |arm: &Arc<AuthorArm>| {
        let program = arm.programs().first()?;
        let (instructions, fields) = program.compiled.size();
        Some(ProgramRow {
            arm: arm.info.name.to_owned(),
            summary: arm.info.summary.to_owned(),
            program: program.id.0.to_owned(),
            instructions,
            fields,
        })
    };
    authors.arms().iter().filter_map(row).collect()
}

/// Name and one-line description of each policy.
pub fn policy_rows() -> Vec<(String, String)> {
    remuda_selector::POLICIES
        .iter()
        .map(|policy| (policy.name.to_owned(), policy.summary.to_owned()))
        .collect()
}

fn answer(request: &Request, host: &Mutex<Host>) -> Result<Answer, Error> {
    Ok(match request {
        Request::Flows {} => {
            let host = lock(host);
            Answer::Flows { flows: host.rows(), refused: host.refused_sockets() }
        }
        Request::Set { target, to } => {
            // Before the lock: to ask the kernel for an algorithm may load a module.
            let authors = lock(host).setup.authors.clone();
            catalogue::kind_of(to, &authors.names())?;
            Answer::Set { flows: lock(host).set(*target, to)? }
        }
        Request::Prefer { order } => {
            order.check()?; // before the lock, as it looks at a file
            let (order, flows) = lock(host).prefer(order.clone())?;
            Answer::Preferred { order, flows }
        }
        Request::Preferences {} => Answer::Preferences { preferences: lock(host).preferences() },
        Request::PreferNoMore { order } => {
            let (orders, flows) = lock(host).prefer_no_more(*order)?;
            Answer::PreferredNoMore { orders, flows }
        }
        Request::Programs {} => {
            let authors = lock(host).setup.authors.clone();
            let mut programs = program_rows()?;
            programs.extend(authored_rows(&authors));
            Answer::Programs { programs, policies: policy_rows() }
        }
        Request::Status {} => {
            let host = lock(host);
            Answer::Status(Box::new(Status {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                default: host.setup.config.agent.default.clone(),
                name: host.setup.config.agent.name.clone(),
                flows: host.rows().len(),
                counts: host.counts,
            }))
        }
        Request::Memory {} => {
            let (memory, not_learned) = {
                let host = lock(host);
                (host.memory().clone(), host.not_learned())
            };
            Answer::Memory { destinations: memory.rows(clock::monotonic_s()), not_learned }
        }
        Request::Forget { of } => Answer::Forgot { destinations: lock(host).forget(of.as_ref()) },
        Request::InitialCwnd { of, pkts } => {
            lock(host).set_initial_cwnd(*of, *pkts)?;
            Answer::InitialCwndSet {}
        }
        Request::Model {} => Answer::Model(Box::new(report(host))),
        Request::ModelBack {} => Answer::Model(Box::new(order(host, Online::back)?)),
        Request::ModelBase {} => Answer::Model(Box::new(order(host, Online::back_to_base)?)),
    })
}

fn report(host: &Mutex<Host>) -> Report {
    let online = lock(host).online.clone();
    if let Some(online) = online {
        return hosted::with(&online, host, |online| online.report());
    }
    let slot = lock(host).setup.loaded.slot(MODEL);
    Report::unwatched(&slot.as_ref().map_or_else(Model::shipped, Slot::get))
}

fn order(
    host: &Mutex<Host>,
    act: impl FnOnce(&mut Online) -> Result<Report, Error>,
) -> Result<Report, Error> {
    let online = lock(host).online.clone();
    let Some(online) = online else {
        let fix = "fix: online.enabled and samples.enabled must be true, and the event log says \
                   why models cannot be replaced";
        let is = "this agent does not replace models, so there is no other model to go back to";
        return Err(Error::Refused(format!("{is}\n{fix}")));
    };
    hosted::with(&online, host, act)
}

fn refused(error: String) -> Answer {
    Answer::Error { error }
}

fn answer_line(line: &[u8], host: &Mutex<Host>) -> Answer {
    match serde_json::from_slice::<Request>(line) {
        Ok(request) => answer(&request, host).unwrap_or_else(|error| refused(error.to_string())),
        Err(error) => refused(format!("not a request: {error}")),
    }
}

/// Serves clients until the process ends. Requests wait until `ready` has a value. The socket lies
/// in a private directory, and each client's user is checked.
pub fn serve(
    run_dir: &Path,
    host: Arc<Mutex<Host>>,
    ready: mpsc::Receiver<()>,
) -> Result<Listener, Error> {
    let path = run_dir::control_socket(run_dir);
    let _ = fs::remove_file(&path); // safe: the run directory's lock is ours
    let listener = UnixListener::bind(&path).map_err(on(path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(on(path.display()))?;
    let clients = Arc::new(AtomicUsize::new(0));
    thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || {
            if ready.recv().is_err() {
                return; // the agent failed to start
            }
            for stream in listener.incoming().flatten() {
                admit(stream, &host, &clients);
            }
        })
        .map_err(on("the control thread"))?;
    Ok(Listener { path })
}

/// Removes the socket file when dropped.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn admit(stream: UnixStream, host: &Arc<Mutex<Host>>, clients: &Arc<AtomicUsize>) {
    let own = nix::unistd::geteuid().as_raw();
    let trusted = getsockopt(&stream, sockopt::PeerCredentials)
        .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own);
    if !trusted || clients.load(Ordering::Relaxed) >= CLIENTS_MAX {
        return; // dropping the stream hangs up
    }
    clients.fetch_add(1, Ordering::Relaxed);
    let (host, clients) = (Arc::clone(host), Arc::clone(clients));
    let served = thread::Builder::new().name("control client".to_owned()).spawn({
        let clients = Arc::clone(&clients);
        move || {
            if let Err(error) = converse(&stream, &host) {
                tracing::debug!(%error, "control client");
            }
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    });
    if served.is_err() {
        clients.fetch_sub(1, Ordering::Relaxed);
    }
}

fn converse(stream: &UnixStream, host: &Mutex<Host>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut writer = stream;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let read = reader.by_ref().take(REQUEST_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        let is_whole = line.ends_with(b"\n");
        let answer = match (is_whole, read as u64) {
            (true, _) => answer_line(&line, host),
            (false, REQUEST_BYTES_MAX) => {
                refused(format!("a request has at most {REQUEST_BYTES_MAX} bytes"))
            }
            (false, _) => refused("a request ends with a newline".to_owned()),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        writer.write_all(text.as_bytes())?;
        if !is_whole {
            return Ok(());
        }
    }
}

/// Sends a request to the agent of `run_dir`. An error answer becomes an `Err`.
pub fn ask(run_dir: &Path, request: &Request) -> Result<Answer, Error> {
    let path = run_dir::control_socket(run_dir);
    let named = || path.display().to_string();
    let stream =
        UnixStream::connect(&path).map_err(|source| Error::NoAgent { path: named(), source })?;
    stream.set_read_timeout(Some(CLIENT_TIMEOUT)).map_err(on(named()))?;
    let mut line = serde_json::to_string(request).expect("requests are plain data");
    line.push('\n');
    // `write` would raise SIGPIPE if the agent hung up; `send` returns an error instead.
    let sent = send(stream.as_raw_fd(), line.as_bytes(), MsgFlags::MSG_NOSIGNAL);
    if sent.map_err(std::io::Error::from).map_err(on(named()))? < line.len() {
        return Err(Error::Refused(format!(
            "{}: the agent does not read its control socket",
            named()
        )));
    }
    let mut reply = String::new();
    BufReader::new(&stream).read_line(&mut reply).map_err(on(named()))?;
    match serde_json::from_str(&reply) {
        Ok(Answer::Error { error }) => Err(Error::Refused(error)),
        Ok(answer) => Ok(answer),
        Err(error) => Err(Error::Refused(format!("{}: not an answer: {error}", named()))),
    }
}
