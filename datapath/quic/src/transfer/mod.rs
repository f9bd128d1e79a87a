//! File transfer over QUIC: a server for one folder, and its client.
//!
//! The protocol is `hq-interop`, which QUIC stacks use to test each other. A client opens a stream
//! and sends `GET /FILE`. The server sends the file and ends the stream, or resets the stream with
//! the number of a [`Refusal`]. noq runs on tokio, so this module is asynchronous inside; its
//! functions block.

mod address;
mod contain;
mod get;
mod quota;
mod serve;
mod tls;
mod user;

pub use address::Target;
pub use get::{Fetched, Get};
pub use serve::{Controller, Serve, Served, Server};
pub use tls::Fingerprint;
pub use user::{User, UserError};

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;

const ALPN: &[u8] = b"hq-interop";
/// Flow-control window of a stream, in bytes. noq ends a connection with more than 1,024 gaps in a
/// stream ("too many gaps in stream buffer"). This window in datagrams of 1,200 bytes cannot have
/// more gaps, whatever is lost. It allows 190 Mbit/s at 100 ms.
const WINDOW_BYTES: u32 = 2 * 1_024 * 1_200;
/// Size of a socket's buffers, in bytes; the system gives at most `net.core.rmem_max` and
/// `wmem_max`. With Linux' default of 208 KiB, a burst on a fast path overflows the buffer of the
/// receiving host.
const SOCKET_BYTES: usize = 4 << 20;
/// Bytes of a file or a stream that are read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// How often the program checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// A connection ends after this long without a packet.
const IDLE: Duration = Duration::from_secs(30);

/// Why the server does not send a file; the stream is reset with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Refusal {
    /// The request is not `GET /FILE`.
    Request = 1,
    /// There is no such file in the folder.
    NoFile = 2,
    Unreadable = 3,
    /// The client did not read for too long.
    Stalled = 4,
    /// This client, or all clients together, fetch as many files as the server sends at once.
    Busy = 5,
}

impl Refusal {
    fn of(code: u64) -> &'static str {
        match code {
            1 => "the server does not understand the request",
            2 => "the server has no such file",
            3 => "the server cannot read the file",
            4 => "the server has waited for too long for the client to read",
            5 => "the server already sends as many files as it can, to this client or to all",
            _ => "the server has stopped the transfer",
        }
    }
}

/// Why a transfer failed, or a server did not start.
#[derive(Debug, Error)]
pub enum Error {
    #[error("{address:?}: {rule}\nfix: HOST:PORT/FILE, such as 192.0.2.1:4433/movie.mkv")]
    Address { address: String, rule: &'static str },
    #[error("{0:?} is no fingerprint\nfix: give the 64 hexadecimal digits that quic-serve prints")]
    Fingerprint(String),
    /// The client has no fingerprint to check the server's certificate with.
    #[error("no fingerprint to check the server by\nfix: give --pin with what quic-serve prints")]
    NoPin,
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{address}: {source}\nfix: choose another --listen, or end the program on that port")]
    Socket { address: SocketAddr, source: io::Error },
    /// The server did not answer, ended the connection, or has another certificate.
    #[error("{address}: {why}")]
    Connection {
        address: String,
        /// The reason, and the fix where there is one.
        why: String,
    },
    #[error("{address}: {why}")]
    Refused { address: String, why: &'static str },
    #[error("{0}: two connections received different bytes; the file may have changed")]
    Differs(String),
    #[error("stopped")]
    Stopped,
    #[error(transparent)]
    User(#[from] UserError),
    /// The user that serves may not open the files of the folder.
    #[error(
        "{folder}: user {user} may not open files in this folder\nfix: chmod o+x {folder}, or name \
         a user that may with --user",
        folder = folder.display()
    )]
    Closed { folder: PathBuf, user: String },
    #[error(
        "the system refuses openat2, without which the server cannot keep to its folder\nfix: \
         Linux 5.6 or later, and a container whose seccomp filter allows openat2"
    )]
    NoOpenat2,
    /// A certificate, thread or datapath could not be created.
    #[error("{0}")]
    Start(String),
}

fn on(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
    let path = path.into();
    move |source| Error::File { path, source }
}

fn start(error: impl ToString) -> Error {
    Error::Start(error.to_string())
}

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(start)
}

/// Flow-control windows large enough that congestion control sets the speed.
fn transport() -> noq::TransportConfig {
    let mut transport = noq::TransportConfig::default();
    transport.stream_receive_window(WINDOW_BYTES.into());
    transport.send_window(WINDOW_BYTES.into());
    transport.max_idle_timeout(noq::IdleTimeout::try_from(IDLE).ok());
    transport
}

/// A UDP socket with larger buffers, as far as the system allows.
fn socket(address: SocketAddr) -> Result<UdpSocket, Error> {
    let failed = |source| Error::Socket { address, source };
    let socket = UdpSocket::bind(address).map_err(failed)?;
    // Smaller buffers are slower, but not an error.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES);
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_BYTES);
    Ok(socket)
}

/// An error and its causes in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

async fn stopped(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}
