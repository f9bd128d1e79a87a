//! Signals that a poll can wait for.

use crate::error::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use std::io::Read;
use std::os::unix::net::UnixStream;

/// How often `wait` returns to check for events that send no signal.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Writes signals as bytes into pipes, so that one poll waits for them and for a timeout.
pub(crate) struct Signals {
    ended: UnixStream,
    asked: UnixStream,
}

impl Signals {
    /// From now on, SIGINT, SIGTERM and SIGHUP do not end the process.
    pub(crate) fn catch() -> Result<Self, Error> {
        let doing = || Error::doing("catch signals");
        let (ended, child_ended) = UnixStream::pair().map_err(doing())?;
        let (asked, asked_to_end) = UnixStream::pair().map_err(doing())?;
        signal_hook::low_level::pipe::register(SIGCHLD, child_ended).map_err(doing())?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let asked_to_end = asked_to_end.try_clone().map_err(doing())?;
            signal_hook::low_level::pipe::register(signal, asked_to_end).map_err(doing())?;
        }
        for stream in [&ended, &asked] {
            stream.set_nonblocking(true).map_err(doing())?;
        }
        Ok(Self { ended, asked })
    }

    /// Sleeps until a child ends, a signal asks this process to end, or, with `looks`, the interval
    /// has passed. Returns whether a signal asked to end.
    pub(crate) fn wait(&mut self, looks: bool) -> bool {
        let timeout = looks.then_some(&LOOK);
        let mut fds = [&self.ended, &self.asked].map(|it| PollFd::new(it, PollFlags::IN));
        // If a signal interrupts the poll, its byte is in the pipe by now.
        let _ = poll(&mut fds, timeout);
        drain(&mut self.ended);
        drain(&mut self.asked)
    }
}

/// Empties a pipe of signals. Returns whether it held any.
fn drain(stream: &mut UnixStream) -> bool {
    let mut buffer = [0; 64];
    let mut any = false;
    while stream.read(&mut buffer).is_ok_and(|length| length > 0) {
        any = true;
    }
    any
}
