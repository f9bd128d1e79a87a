//! The host's default algorithm, `net.ipv4.tcp_congestion_control` of this network namespace.
//!
//! The kernel keeps a pointer, not a name: a default that a dead agent left keeps its dead ops
//! alive. So it is set on start, and set back on exit, and after a crash by the next agent.

use crate::Error;
use std::fs;

const PATH: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// What a namespace other than the first may choose from.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// The default while the agent has it; dropping gives it back.
#[derive(Debug)]
pub struct DefaultAlgorithm {
    before: String,
}

fn failed(source: std::io::Error) -> Error {
    Error::File { path: PATH.to_owned(), source }
}

impl DefaultAlgorithm {
    /// Which algorithm new sockets get.
    pub fn current() -> Result<String, Error> {
        Ok(fs::read_to_string(PATH).map_err(failed)?.trim().to_owned())
    }

    /// Makes `name` the default.
    pub fn take(name: &str) -> Result<Self, Error> {
        let before = Self::current()?;
        fs::write(PATH, name).map_err(failed)?;
        Ok(Self { before })
    }

    /// Replaces a default that a former agent named `name` left: by `native`, or where this
    /// namespace may not choose that, by the first it may. Says by which.
    pub fn mend(name: &str, native: &str) -> Result<Option<String>, Error> {
        if Self::current()? != name {
            return Ok(None);
        }
        let allowed = fs::read_to_string(ALLOWED).map_err(failed)?;
        let others = allowed.split_whitespace().filter(|other| *other != name);
        let mut refused = None;
        for candidate in std::iter::once(native).chain(others) {
            match fs::write(PATH, candidate) {
                Ok(()) => return Ok(Some(candidate.to_owned())),
                Err(source) => refused = refused.or(Some(source)),
            }
        }
        Err(failed(refused.expect("at least the native one was tried")))
    }
}

impl Drop for DefaultAlgorithm {
    fn drop(&mut self) {
        // An error leaves the default as it is, which the next start mends.
        let _ = fs::write(PATH, &self.before);
    }
}
