//! Says to Remuda's agent what an application wants of a TCP socket: delay, throughput, or weights
//! between. A policy that reads it picks the congestion control by it.
//!
//! ```no_run
//! use remuda_client::Preference;
//! use std::net::TcpStream;
//!
//! let stream = TcpStream::connect("example.org:443")?;
//! if let Err(error) = remuda_client::prefer(&stream, Preference::DELAY) {
//!     eprintln!("the connection goes on without it: {error}");
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! It may be said before the socket connects, after it, and again. The socket's descriptor is
//! passed to the agent, which looks at whose it is and closes its copy: the socket must be of the
//! caller's user, or the caller root. Nothing of the connection changes when there is no agent, or
//! it refuses; so an error is something to note, not to end by.
//!
//! `include/remuda.h` is the same call for C, and `remuda.prefer` for Python.

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, sendmsg, socket_with,
};
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// Where an agent of this host listens, unless its run directory is another one.
pub const SOCKET: &str = "/run/remuda.sock";
/// An environment variable with another path.
pub const SOCKET_VARIABLE: &str = "REMUDA_SOCKET";
/// An agent that does not take or answer a request for so long has none of it.
const TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 1_024;
/// A weight of 1 on the wire.
const WEIGHT_MAX: f64 = 1_000.0;

/// How much throughput and delay count for a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preference {
    /// The weight of throughput: 0 to 1, in steps of a thousandth.
    pub throughput: f64,
    /// The weight of delay: 0 to 1, in steps of a thousandth.
    pub delay: f64,
}

impl Preference {
    pub const DEFAULT: Self = Self { throughput: 1.0, delay: 1.0 };
    pub const DELAY: Self = Self { throughput: 0.0, delay: 1.0 };
    pub const THROUGHPUT: Self = Self { throughput: 1.0, delay: 0.0 };

    fn request(self) -> Result<String> {
        let Self { throughput, delay } = self;
        let valid = [throughput, delay].iter().all(|weight| (0.0..=1.0).contains(weight));
        let thousandths = |weight: f64| (weight * WEIGHT_MAX).round() as u16;
        let (whole, part) = (thousandths(throughput), thousandths(delay));
        if !valid || (whole, part) == (0, 0) {
            let rule = "weights are 0 to 1, and not both below a thousandth";
            let why = format!("throughput = {throughput}, delay = {delay}: {rule}");
            return Err(Error::new(ErrorKind::InvalidInput, why));
        }
        Ok(format!("prefer {whole} {part}"))
    }
}

/// Says what is wanted of a TCP socket to the agent at [`SOCKET_VARIABLE`] or [`SOCKET`]. A program
/// that runs with another user's rights (setuid) does not let who started it choose.
///
/// # Errors
///
/// [`ErrorKind::PermissionDenied`] for another user's socket; [`ErrorKind::InvalidInput`] for
/// weights out of range; [`ErrorKind::WouldBlock`] if the agent is asked too often, or hangs; what
/// connecting fails with if there is none; and what else it refuses, such as a socket that is not
/// TCP or that listens. It waits for four seconds at most.
pub fn prefer(socket: impl AsFd, wants: Preference) -> Result<()> {
    // SAFETY: a look-up in what the kernel gave this process; 0 if it is not there.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let path = std::env::var_os(SOCKET_VARIABLE).filter(|_| !secure);
    prefer_at(path.as_deref().unwrap_or(SOCKET.as_ref()), socket, wants)
}

/// As [`prefer`], to the agent whose socket for applications is `path`.
///
/// # Errors
///
/// As [`prefer`].
pub fn prefer_at(path: impl AsRef<Path>, socket: impl AsFd, wants: Preference) -> Result<()> {
    let (path, request) = (path.as_ref(), wants.request()?);
    let named = |error: Error| Error::new(error.kind(), format!("{}: {error}", path.display()));
    let answer = ask(path, &request, &socket).map_err(named)?;
    match answer.split_once(' ') {
        Some(("0", _)) => Ok(()),
        Some((errno, why)) if errno.parse::<i32>().is_ok_and(|errno| errno > 0) => {
            let errno = Error::from_raw_os_error(errno.parse().unwrap_or(0));
            Err(named(Error::new(errno.kind(), why.to_owned())))
        }
        _ => Err(named(Error::new(ErrorKind::InvalidData, "it is no agent of Remuda"))),
    }
}

/// One request with one descriptor, one answer.
fn ask(path: &Path, request: &str, passed: &impl AsFd) -> Result<String> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let agent = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&agent, Timeout::Send, Some(TIMEOUT))?;
    set_socket_timeout(&agent, Timeout::Recv, Some(TIMEOUT))?;
    connect(&agent, &SocketAddrUnix::new(path)?)?;
    let passed = [passed.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    if !rights.push(SendAncillaryMessage::ScmRights(&passed)) {
        return Err(Error::other("no room for a descriptor"));
    }
    let parts = [IoSlice::new(request.as_bytes())];
    let mut answer = [0; ANSWER_BYTES_MAX];
    let said = sendmsg(&agent, &parts, &mut rights, SendFlags::NOSIGNAL)
        .and_then(|_| recv(&agent, &mut answer, RecvFlags::empty()));
    let turned_away = [rustix::io::Errno::CONNRESET, rustix::io::Errno::PIPE];
    match said {
        Ok((bytes, _)) if bytes > 0 => Ok(String::from_utf8_lossy(&answer[..bytes]).into_owned()),
        Err(errno) if !turned_away.contains(&errno) => Err(errno.into()),
        _ => {
            let why = "the agent hung up: it is asked too often";
            Err(Error::new(ErrorKind::WouldBlock, why))
        }
    }
}

#[cfg(test)]
mod tests;
