//! The run loop: it waits for datapaths, and lets the host answer what they say.
//!
//! One thread, which never waits for a datapath, a disk or an author.

use crate::author::{Authors, Line};
use crate::clock;
use crate::datapath::{Datapath, LetGo};
use crate::host::Host;
use crate::ipc::{DATAPATHS, Datapaths};
use crate::lock::lock;
use crate::memory::InKernel;
use nix::poll::{PollFd, PollFlags, ppoll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The heartbeat is written at least this often; by default it may be three times as old.
const WAIT_MS_MAX: u16 = 50;
/// All datapaths are looked at this often, also those that have nothing: one may have room again
/// for what waits.
const LOOK_NS: u64 = 5_000_000;
/// Lost lifecycle events are found this often.
const HOUSEKEEPING_NS: u64 = 200_000_000;

/// Waits until a datapath or an author has something, a heartbeat is due, or a flow is to be woken:
/// at `wake_us` of the monotonic clock. Returns which datapaths have something, in their order.
pub fn wait<'a>(
    datapaths: impl IntoIterator<Item = &'a dyn Datapath>,
    authors: &[Arc<Line>],
    wake_us: Option<u64>,
) -> [bool; DATAPATHS] {
    let mut polled: Vec<PollFd<'_>> = Vec::new();
    let mut ends = [0; DATAPATHS];
    let mut limit_ms = WAIT_MS_MAX;
    for (datapath, end) in datapaths.into_iter().zip(&mut ends) {
        limit_ms = limit_ms.min(datapath.wait_ms_max());
        let fds = datapath.poll_fds();
        polled.extend(fds.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        *end = polled.len();
    }
    polled.extend(authors.iter().map(|line| PollFd::new(line.as_fd(), PollFlags::POLLIN)));
    let mut limit = Duration::from_millis(limit_ms.into());
    if let Some(wake_us) = wake_us {
        let until_us = wake_us.saturating_sub(clock::monotonic_us());
        limit = limit.min(Duration::from_micros(until_us));
    }
    // An interrupted or failed wait is a short wait: the caller looks again.
    let _ = ppoll(&mut polled, Some(limit.into()), None);
    let has_something = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
    let mut start = 0;
    ends.map(|end| {
        let own = polled.get(start..end).unwrap_or_default();
        start = end.max(start);
        own.iter().any(has_something)
    })
}

/// What the run loop works on.
pub struct RunLoop<'a> {
    pub datapaths: Datapaths,
    pub host: &'a Mutex<Host>,
    pub authors: Authors,
    housekept_ns: u64,
    /// Which datapaths have something, in the order of [`Datapaths::all`].
    ready: [bool; DATAPATHS],
    /// When all datapaths were looked at last.
    looked_ns: u64,
    /// When a flow is to be woken next, in microseconds of the monotonic clock.
    wake_us: Option<u64>,
    /// What the BPF datapath has of what is remembered.
    in_kernel: InKernel,
}

impl<'a> RunLoop<'a> {
    pub fn new(datapaths: Datapaths, host: &'a Mutex<Host>) -> Self {
        let authors = lock(host).setup.authors.clone();
        let in_kernel = InKernel::default();
        let ready = [true; DATAPATHS];
        let (housekept_ns, looked_ns) = (0, 0);
        Self { datapaths, host, authors, housekept_ns, ready, looked_ns, wake_us: None, in_kernel }
    }

    /// Runs until `stop`, then lets the flows go. `ready` is called once the kernel's datapaths
    /// have their programs and what is remembered.
    pub fn run(mut self, stop: &AtomicBool, ready: impl FnOnce()) -> LetGo {
        self.begin();
        ready();
        while !stop.load(Ordering::Relaxed) {
            if !self.turn() {
                self.ready = wait(self.datapaths.all(), &self.authors.lines(), self.wake_us);
            }
        }
        self.end()
    }

    fn begin(&mut self) {
        if let Some(module) = &mut self.datapaths.module {
            module.open(&mut *lock(self.host));
        }
        // The first turn answers the READY of the kernel's datapaths with every program.
        self.turn();
        while self.remember(clock::monotonic_ns()) {
            self.beat(clock::monotonic_ns());
        }
    }

    fn beat(&mut self, now_ns: u64) {
        self.datapaths.all_mut().for_each(|datapath| datapath.beat(now_ns));
    }

    /// Takes in what has come, and carries out what others have left. True: there may be more at
    /// once.
    pub fn turn(&mut self) -> bool {
        let now_ns = clock::monotonic_ns();
        self.beat(now_ns);
        let answered = self.authors.receive();
        let mut host = lock(self.host);
        if !answered.is_empty() {
            host.answered(&answered);
        }
        host.authors_went();
        let mut is_busy = !answered.is_empty();
        if now_ns.saturating_sub(self.looked_ns) > LOOK_NS {
            (self.looked_ns, self.ready) = (now_ns, [true; DATAPATHS]);
        }
        for (datapath, is_ready) in self.datapaths.all_mut().zip(&mut self.ready) {
            *is_ready = *is_ready && datapath.drain(&mut *host, now_ns);
            is_busy |= *is_ready;
        }
        let is_due = now_ns.saturating_sub(self.housekept_ns) > HOUSEKEEPING_NS;
        if is_due {
            self.housekept_ns = now_ns;
            self.datapaths.all_mut().for_each(|it| it.keep_house(&mut *host, now_ns));
        }
        // Reports come first: a report that has come says more than a timer.
        let datapaths = &mut self.datapaths;
        host.wake(|peer, act| datapaths.with(peer, act), clock::monotonic_us());
        host.poke(|peer, act| datapaths.with(peer, act), clock::monotonic_us());
        self.wake_us = host.wake_us();
        drop(host);
        if is_due {
            self.remember(now_ns);
        }
        is_busy
    }

    /// Brings what the BPF datapath knows of destinations a step nearer to what is remembered.
    /// True: there is more to do at once.
    fn remember(&mut self, now_ns: u64) -> bool {
        let Some(bpf) = &mut self.datapaths.bpf else { return false };
        self.in_kernel.follow(bpf.bpf(), self.host, now_ns).unwrap_or_else(|error| {
            tracing::warn!(%error, "the kernel does not get what is remembered");
            false
        })
    }

    fn end(mut self) -> LetGo {
        let mut all = LetGo::default();
        for datapath in self.datapaths.all_mut() {
            let LetGo { flows_let_go, flows_left } = datapath.let_go();
            all.flows_let_go += flows_let_go;
            all.flows_left += flows_left;
        }
        all
    }
}
