//! Waits for datapaths and authors. Their descriptors stay registered from one wait to the next, so
//! a wait does not become slower with their number, and allocates nothing.

use crate::author::Line;
use crate::clock;
use crate::datapath::Datapath;
use crate::ipc::DATAPATHS;
use crate::trouble::Trouble;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Descriptors that one wait tells of; the next wait tells of others.
const EVENTS_MAX: usize = 16;
/// What an author's descriptor is registered as.
const AUTHOR: u64 = u64::MAX;

pub struct Waiter {
    epoll: OwnedFd,
    trouble: Trouble,
}

impl Waiter {
    /// Fails if the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, trouble: Trouble::default() })
    }

    /// Registers the descriptors that are new. The kernel forgets one that is closed.
    pub fn follow<'a>(
        &mut self,
        datapaths: impl IntoIterator<Item = &'a dyn Datapath>,
        authors: &[Arc<Line>],
    ) {
        for (number, datapath) in (0..).zip(datapaths) {
            datapath.poll_fds().into_iter().for_each(|fd| self.add(fd, number));
        }
        authors.iter().for_each(|line| self.add(line.as_fd(), AUTHOR));
    }

    fn add(&mut self, fd: BorrowedFd<'_>, number: u64) {
        match epoll::add(&self.epoll, fd, EventData::new_u64(number), EventFlags::IN) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => {
                if let Some(times) = self.trouble.again(clock::monotonic_ns()) {
                    tracing::warn!(%errno, times, "a descriptor cannot be waited for");
                }
            }
        }
    }

    /// Waits until one of them has something, for `limit` at most. Returns which datapaths have, by
    /// their place in [`Self::follow`]. An interrupted wait is a short wait.
    pub fn wait(&self, limit: Duration) -> [bool; DATAPATHS] {
        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        let mut room = [MaybeUninit::<Event>::uninit(); EVENTS_MAX];
        let events = match epoll::wait(&self.epoll, &mut room[..], Some(&limit)) {
            Ok((events, _)) => events,
            Err(_) => return [false; DATAPATHS],
        };
        let mut ready = [false; DATAPATHS];
        for event in events {
            let number = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            if let Some(ready) = ready.get_mut(number) {
                *ready = true;
            }
        }
        ready
    }
}
