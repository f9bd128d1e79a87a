//! The client's side of the control socket.

use super::request::{Answer, CLIENT_TIMEOUT, Request};
use crate::error::on;
use crate::{Error, run_dir};
use nix::sys::socket::{MsgFlags, getsockopt, send, sockopt};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Sends a request to the agent of `run_dir`. An error answer becomes an `Err`.
pub fn ask(run_dir: &Path, request: &Request) -> Result<Answer, Error> {
    let path = run_dir::control_socket(run_dir);
    let named = || path.display().to_string();
    let stream = UnixStream::connect(&path).map_err(|source| match source.kind() {
        ErrorKind::PermissionDenied => Error::NotAllowed { path: named() },
        _ => Error::NoAgent { path: named(), source },
    })?;
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
    BufReader::new(&stream).read_line(&mut reply).map_err(|source| match source.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Hangs {
            path: named(),
            pid: getsockopt(&stream, sockopt::PeerCredentials).map_or(0, |agent| agent.pid()),
            limit_s: CLIENT_TIMEOUT.as_secs(),
        },
        _ => on(named())(source),
    })?;
    match serde_json::from_str(&reply) {
        Ok(Answer::Error { error }) => Err(Error::Refused(error)),
        Ok(answer) => Ok(answer),
        Err(_) if reply.is_empty() => Err(Error::Refused(format!(
            "{}: the agent hung up without an answer\nfix: try again; if it has ended, its error \
             output says why",
            named()
        ))),
        Err(error) => Err(Error::Refused(format!("{}: not an answer: {error}", named()))),
    }
}
