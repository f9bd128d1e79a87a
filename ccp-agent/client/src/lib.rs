//! Sets the preference of a TCP socket at Remuda's agent: low delay, high throughput, or weights
//! between. Policies that use preferences pick the congestion control accordingly.
//!
//! ```no_run
//! use remuda_client::Preference;
//! use std::net::TcpStream;
//!
//! let stream = TcpStream::connect("example.org:443")?;
//! if let Err(error) = remuda_client::prefer(&stream, Preference::DELAY) {
//!     eprintln!("the connection works as before, without a preference: {error}");
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Set the preference before or after the socket connects, and as often as you like. The call
//! passes the socket's descriptor to the agent, which checks the socket's user and closes its copy.
//! The socket must belong to the caller's user, unless the caller is root. If there is no agent, or
//! the agent refuses, the connection works as before; so log an error rather than abort.
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

/// Path of the agent's socket with the default run directory.
pub const SOCKET: &str = "/run/remuda.sock";
/// The environment variable that overrides [`SOCKET`].
pub const SOCKET_VARIABLE: &str = "REMUDA_SOCKET";
/// Time limit for sending the request, and again for the answer.
const TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 1_024;
/// The integer on the wire that stands for a weight of 1.
const WEIGHT_MAX: f64 = 1_000.0;

/// How much throughput and delay matter to a flow.
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

/// Sets the preference of a TCP socket at the agent named by [`SOCKET_VARIABLE`], or at [`SOCKET`].
/// In a setuid program the variable is ignored, because its user could set it.
///
/// # Errors
///
/// [`ErrorKind::PermissionDenied`] for another user's socket; [`ErrorKind::InvalidInput`] for
/// weights out of range; [`ErrorKind::WouldBlock`] if the agent refuses more requests for now, or
/// hangs; the error of `connect` if there is no agent; and an error for a socket that is not TCP,
/// or that listens. The call takes four seconds at most.
pub fn prefer(socket: impl AsFd, wants: Preference) -> Result<()> {
    // SAFETY: `getauxval` only reads values that the kernel gave this process; 0 means absent.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let path = std::env::var_os(SOCKET_VARIABLE).filter(|_| !secure);
    prefer_at(path.as_deref().unwrap_or(SOCKET.as_ref()), socket, wants)
}

/// Like [`prefer`], with the path of the agent's socket for applications.
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
        _ => Err(named(Error::new(
            ErrorKind::InvalidData,
            "the answer is not one of Remuda's agent",
        ))),
    }
}

/// Sends one request with one descriptor, and returns the answer.
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
    let received = sendmsg(&agent, &parts, &mut rights, SendFlags::NOSIGNAL)
        .and_then(|_| recv(&agent, &mut answer, RecvFlags::empty()));
    let turned_away = [rustix::io::Errno::CONNRESET, rustix::io::Errno::PIPE];
    match received {
        Ok((bytes, _)) if bytes > 0 => Ok(String::from_utf8_lossy(&answer[..bytes]).into_owned()),
        Err(errno) if !turned_away.contains(&errno) => Err(errno.into()),
        _ => {
            let why = "the agent hung up: too many requests; try again later";
            Err(Error::new(ErrorKind::WouldBlock, why))
        }
    }
}

#[cfg(test)]
mod tests;
