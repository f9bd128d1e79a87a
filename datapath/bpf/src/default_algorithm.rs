//! The host's default algorithm, `net.ipv4.tcp_congestion_control` of this network namespace.
//!
//! The kernel stores the default as a pointer, so a default that an agent leaves behind keeps that
//! agent's algorithm loaded. The agent therefore sets the default on start and restores it on exit.
//! After a crash, the next agent restores it.

use crate::Error;
use std::fs;

const PATH: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// The algorithms that a network namespace other than the first may choose.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Holds the default algorithm; dropping it restores the one before.
#[derive(Debug)]
pub struct DefaultAlgorithm {
    before: String,
}

fn failed(source: std::io::Error) -> Error {
    Error::File { path: PATH.to_owned(), source }
}

impl DefaultAlgorithm {
    /// The algorithm that new sockets get.
    pub fn current() -> Result<String, Error> {
        Ok(fs::read_to_string(PATH).map_err(failed)?.trim().to_owned())
    }

    /// Makes `name` the default until the result is dropped.
    pub fn take(name: &str) -> Result<Self, Error> {
        let before = Self::current()?;
        fs::write(PATH, name).map_err(failed)?;
        Ok(Self { before })
    }

    /// Replaces the default if a former agent named `name` left itself there. The new default is
    /// `native`, or the first algorithm that this namespace may choose. Returns the new default;
    /// `None` if nothing was replaced.
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
        // After an error the default stays `name`; the next agent's `mend` replaces it.
        let _ = fs::write(PATH, &self.before);
    }
}
