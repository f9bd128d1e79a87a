//! Files over QUIC: a server of one folder, and its client.
//!
//! The protocol is `hq-interop`, which QUIC stacks test each other with: on a stream of its own a
//! client says `GET /FILE`, and the server sends the file and ends the stream, or resets it with
//! the number of a [`Refusal`]. noq runs on tokio, so this crate is the one of this project that is
//! asynchronous inside; its functions block.

mod address;
mod contain;
mod get;
mod serve;
mod tls;

pub use address::Target;
pub use get::{Fetched, Get};
pub use serve::{Controller, Serve, Served, Server};
pub use tls::Fingerprint;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;

const ALPN: &[u8] = b"hq-interop";
/// Of a stream, what may be on its way. noq ends a connection with more than 1,024 gaps in a stream
/// ("too many gaps in stream buffer"); so much in datagrams of 1,200 bytes has no more, whatever is
/// lost. It fills 190 Mbit/s times 100 ms.
const WINDOW_BYTES: u32 = 2 * 1_024 * 1_200;
/// Of a socket's buffers; the system gives at most `net.core.rmem_max` and `wmem_max`. With Linux'
/// default of 208 KiB a burst on a fast path is lost in the receiver's own host.
const SOCKET_BYTES: usize = 4 << 20;
/// Bytes of a file, or of a stream, that are handled at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Ctrl-C is noticed within this.
const LOOK: Duration = Duration::from_millis(50);
/// A connection without a packet for so long is over.
const IDLE: Duration = Duration::from_secs(30);

/// Why a server does not send a file; the number resets the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Refusal {
    /// It is no `GET /FILE`.
    Request = 1,
    /// There is no such file in the folder.
    NoFile = 2,
    /// It cannot be read.
    Unreadable = 3,
    /// The client takes none of it.
    Stalled = 4,
}

impl Refusal {
    fn of(code: u64) -> &'static str {
        match code {
            1 => "the server does not understand the request",
            2 => "the server has no such file",
            3 => "the server cannot read the file",
            4 => "the server has waited for too long for the client to read",
            _ => "the server has stopped the transfer",
        }
    }
}

/// Why a transfer, or a server, did not come about.
#[derive(Debug, Error)]
pub enum Error {
    /// Not an address of a file.
    #[error("{address:?}: {rule}\nfix: HOST:PORT/FILE, such as 192.0.2.1:4433/movie.mkv")]
    Address {
        address: String,
        /// What is wrong with it.
        rule: &'static str,
    },
    #[error("{0:?} is no fingerprint\nfix: the 64 hexadecimal digits that quic-serve has printed")]
    Fingerprint(String),
    /// The client was not told whom to trust.
    #[error("whose certificate?\nfix: --pin FINGERPRINT, as quic-serve has printed it")]
    NoPin,
    /// A file or a folder.
    #[error("{path}: {source}", path = path.display())]
    File {
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    #[error("{address}: {source}\nfix: another --listen, or end who has the port")]
    Socket {
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The other end is not there, or not who it should be.
    #[error("{address}: {why}")]
    Connection {
        address: String,
        /// What was seen, and the fix.
        why: String,
    },
    #[error("{address}: {why}")]
    Refused { address: String, why: &'static str },
    /// Two connections brought different bytes.
    #[error("{0}: two connections brought different bytes: the file has changed, or is damaged")]
    Differs(String),
    #[error("stopped")]
    Stopped,
    /// No certificate, thread or datapath.
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

/// Windows of flow control that leave the path to congestion control.
fn transport() -> noq::TransportConfig {
    let mut transport = noq::TransportConfig::default();
    transport.stream_receive_window(WINDOW_BYTES.into());
    transport.send_window(WINDOW_BYTES.into());
    transport.max_idle_timeout(noq::IdleTimeout::try_from(IDLE).ok());
    transport
}

/// A UDP socket with larger buffers, as far as the system gives them.
fn socket(address: SocketAddr) -> Result<UdpSocket, Error> {
    let failed = |source| Error::Socket { address, source };
    let socket = UdpSocket::bind(address).map_err(failed)?;
    // Less is slower, and no error.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES);
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_BYTES);
    Ok(socket)
}

/// An error with what is behind it, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

async fn stopped(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}
