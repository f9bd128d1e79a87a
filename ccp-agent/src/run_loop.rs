//! The run loop: it waits for datapaths, and lets the host answer what they say.
//!
//! One thread, which never waits for a datapath, a disk or an author.

use crate::author::Authors;
use crate::clock;
use crate::datapath::{Datapath, LetGo};
use crate::host::Host;
use crate::ipc::{DATAPATHS, Datapaths};
use crate::lock::lock;
use crate::memory::InKernel;
use crate::service::Feeder;
use crate::trouble::Trouble;
use crate::waiter::Waiter;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The heartbeat is written at least this often; by default it may be three times as old.
const WAIT_MS_MAX: u16 = 50;
/// All datapaths are looked at this often, also those that have nothing: one may have room again
/// for what waits.
const LOOK_NS: u64 = 5_000_000;
/// Lost lifecycle events are found this often.
const HOUSEKEEPING_NS: u64 = 200_000_000;

/// How long the agent may wait for its datapaths: until the next heartbeat, until a datapath must
/// be looked at, or until a flow is to be woken, at `wake_us` of the monotonic clock.
pub fn limit<'a>(
    datapaths: impl IntoIterator<Item = &'a dyn Datapath>,
    wake_us: Option<u64>,
) -> Duration {
    let limits_ms = datapaths.into_iter().map(Datapath::wait_ms_max);
    let limit_ms = limits_ms.fold(WAIT_MS_MAX, u16::min);
    let limit = Duration::from_millis(limit_ms.into());
    match wake_us {
        Some(wake_us) => {
            let until_us = wake_us.saturating_sub(clock::monotonic_us());
            limit.min(Duration::from_micros(until_us))
        }
        None => limit,
    }
}

/// What the run loop works on.
pub struct RunLoop<'a> {
    pub datapaths: Datapaths,
    pub host: &'a Mutex<Host>,
    pub authors: Authors,
    waiter: Waiter,
    housekept_ns: u64,
    /// Which datapaths have something, in the order of [`Datapaths::all`].
    ready: [bool; DATAPATHS],
    /// When all datapaths were looked at last.
    looked_ns: u64,
    /// When a flow is to be woken next, in microseconds of the monotonic clock.
    wake_us: Option<u64>,
    /// For how long reports and timers may wait, so that several are answered at once.
    pause: Duration,
    /// What the BPF datapath has of what is remembered.
    in_kernel: InKernel,
    feeder: Feeder,
    /// Failures to give the BPF datapath what is remembered, for warnings.
    trouble: Trouble,
}

impl<'a> RunLoop<'a> {
    /// Fails if the process has no descriptor left.
    pub fn new(datapaths: Datapaths, host: &'a Mutex<Host>) -> io::Result<Self> {
        let authors = lock(host).setup.authors.clone();
        Ok(Self {
            datapaths,
            host,
            authors,
            waiter: Waiter::new()?,
            housekept_ns: 0,
            ready: [true; DATAPATHS],
            looked_ns: 0,
            wake_us: None,
            pause: Duration::ZERO,
            in_kernel: InKernel::default(),
            feeder: Feeder::from_environment(),
            trouble: Trouble::default(),
        })
    }

    /// Runs until `stop`, then lets the flows go. `ready` is called once the kernel's datapaths
    /// have their programs and what is remembered.
    pub fn run(mut self, stop: &AtomicBool, ready: impl FnOnce()) -> LetGo {
        self.begin();
        ready();
        while !stop.load(Ordering::Relaxed) {
            if !self.turn() {
                let limit = limit(self.datapaths.all(), self.wake_us);
                if !self.pause.is_zero() {
                    // A timer may go off as late as a report may be answered.
                    std::thread::sleep(self.pause);
                }
                self.ready = self.waiter.wait(limit.saturating_sub(self.pause));
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
        self.feeder.feed(now_ns);
        let answered = self.authors.receive();
        let mut host = lock(self.host);
        if !answered.is_empty() {
            host.answered(&answered);
        }
        host.authors_went();
        let mut is_busy = !answered.is_empty();
        if now_ns.saturating_sub(self.looked_ns) > LOOK_NS {
            (self.looked_ns, self.ready) = (now_ns, [true; DATAPATHS]);
            self.waiter.follow(self.datapaths.all(), &self.authors.lines());
        }
        for (datapath, is_ready) in self.datapaths.all_mut().zip(&mut self.ready) {
            *is_ready = *is_ready && datapath.drain(&mut *host, now_ns);
            is_busy |= *is_ready;
        }
        let is_due = now_ns.saturating_sub(self.housekept_ns) > HOUSEKEEPING_NS;
        if is_due {
            self.housekept_ns = now_ns;
            self.datapaths.all_mut().for_each(|it| it.keep_house(&mut *host, now_ns));
            host.keep_house();
        }
        // Reports come first: a report that has come says more than a timer.
        let datapaths = &mut self.datapaths;
        host.wake(|peer, act| datapaths.with(peer, act), clock::monotonic_us());
        host.poke(|peer, act| datapaths.with(peer, act), clock::monotonic_us());
        self.wake_us = host.wake_us();
        self.pause = host.pause(clock::monotonic_us());
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
        if bpf.take_is_new() {
            self.in_kernel = InKernel::default();
        }
        match self.in_kernel.follow(bpf.bpf(), self.host, now_ns) {
            Ok(has_more) => {
                if let Some(times) = self.trouble.over() {
                    tracing::warn!(times, "the kernel gets what is remembered again");
                }
                has_more
            }
            Err(error) => {
                if let Some(times) = self.trouble.again(now_ns) {
                    tracing::warn!(%error, times, "the kernel does not get what is remembered");
                }
                false
            }
        }
    }

    fn end(mut self) -> LetGo {
        let mut all = LetGo::default();
        for datapath in self.datapaths.all_mut() {
            let LetGo { flows_let_go, flows_left, flows_handed_over } = datapath.let_go();
            all.flows_let_go += flows_let_go;
            all.flows_left += flows_left;
            all.flows_handed_over += flows_handed_over;
        }
        all
    }
}
