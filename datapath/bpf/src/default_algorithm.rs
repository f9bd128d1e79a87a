//! The host's default algorithm, `net.ipv4.tcp_congestion_control` of this network namespace.
//!
//! The kernel keeps a pointer, not a name: a default that a dead agent left keeps its dead ops
//! alive. So it is set on start, and set back on exit, and after a crash by the next agent.

use crate::Error;
use std::fs;

const PATH: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

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

    /// Puts `native` in place of a default that a former agent named `name` left. Says whether.
    pub fn mend(name: &str, native: &str) -> Result<bool, Error> {
        let left_over = Self::current()? == name;
        if left_over {
            fs::write(PATH, native).map_err(failed)?;
        }
        Ok(left_over)
    }
}

impl Drop for DefaultAlgorithm {
    fn drop(&mut self) {
        // An error leaves the default as it is, which the next start mends.
        let _ = fs::write(PATH, &self.before);
    }
}
