//! Moves packets between two devices, as the link model says and when it says.

use crate::clock::Clock;
use crate::error::Error;
use crate::frame::Frame;
use remuda_link::{Link, LogWriter, Nanos, Outcome};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Packets read from one device before the other has its turn.
const BATCH_PACKETS: usize = 64;

/// The largest IP packet; a device of MTU 1500 gives none above 1500 bytes.
const PACKET_BYTES_MAX: usize = 65_536;

/// More often than ordinary programs, so that a busy machine does not make the link late.
const NICE: i32 = -10;

/// Deliveries closer together than this share a wake-up. The delay it adds, to a packet on a busy
/// link only, is a tenth of the error allowed.
const COALESCE: Nanos = Nanos(50_000);

/// A link, and what only real devices need beside it.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) link: Link<Frame>,
    /// Packets the receiving device did not take.
    pub(crate) refused: u64,
    log: Option<LogWriter<BufWriter<File>>>,
    log_error: Option<io::Error>,
}

impl Wire {
    pub(crate) fn new(mut link: Link<Frame>, log: Option<LogWriter<BufWriter<File>>>) -> Self {
        if log.is_some() {
            link.enable_log();
        }
        Self { link, refused: 0, log, log_error: None }
    }

    /// The error that ended the log early, if one did.
    pub(crate) fn take_log_error(&mut self) -> Option<io::Error> {
        self.log_error.take()
    }

    fn write_log(&mut self) {
        let Some(log) = &mut self.log else { return };
        let result = self.link.drain_log().try_for_each(|event| log.write(&event));
        if let Err(error) = result {
            // A full disk must not stop the network; the run is told at its end.
            self.log_error = Some(error);
            self.log = None;
        }
    }

    fn end_log(&mut self, now: Nanos) {
        self.link.advance(now);
        self.write_log();
        if let Some(Err(error)) = self.log.as_mut().map(LogWriter::flush) {
            self.log_error = Some(error);
        }
    }
}

/// One direction: from a device, over a link, to a device.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) wire: Arc<Mutex<Wire>>,
    pub(crate) from: Arc<OwnedFd>,
    pub(crate) to: Arc<OwnedFd>,
}

impl Lane {
    /// Takes in what the device has; whether it may have more.
    fn read(&self, wire: &mut Wire, clock: Clock, buffer: &mut [u8]) -> bool {
        for _ in 0..BATCH_PACKETS {
            let Ok(length) = rustix::io::read(&self.from, &mut *buffer) else { return false };
            wire.link.push(Frame::new(&buffer[..length]), clock.now());
        }
        true
    }

    /// Hands over what is due; returns when more will be.
    fn deliver(&self, wire: &mut Wire, clock: Clock) -> Option<Nanos> {
        let now = clock.now();
        while let Some(outcome) = wire.link.pop(now) {
            let Outcome::Delivered { packet, .. } = outcome else { continue };
            if rustix::io::write(&self.to, packet.as_bytes()).is_err() {
                wire.refused += 1;
            }
        }
        wire.write_log();
        wire.link.next_event()
    }
}

/// The thread that moves the packets. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Pump {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Pump {
    pub(crate) fn start(lanes: Vec<Lane>, clock: Clock) -> Result<Self, Error> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::doing("make an eventfd"))?;
        let stop = Arc::new(stop);
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("remuda-link".to_owned())
            .spawn(move || run(&lanes, stopped.as_fd(), clock))
            .map_err(Error::doing("start the link's thread"))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// The processor time it has used.
    pub(crate) fn cpu(&self) -> Duration {
        self.thread.as_ref().map(crate::clock::thread_cpu).unwrap_or_default()
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        // An eventfd takes eight bytes unless its counter is full, and then it is readable too.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened; there is nobody to pass it to.
            let _ = thread.join();
        }
    }
}

pub(crate) fn lock(wire: &Mutex<Wire>) -> MutexGuard<'_, Wire> {
    wire.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(lanes: &[Lane], stop: BorrowedFd<'_>, clock: Clock) {
    // Both make the link punctual; where they are refused, it is a little less so.
    let _ = rustix::process::setpriority_process(None, NICE);
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    let mut readable = vec![true; lanes.len()];
    loop {
        let mut next = None;
        for (lane, readable) in lanes.iter().zip(&mut readable) {
            let mut wire = lock(&lane.wire);
            *readable = *readable && lane.read(&mut wire, clock, &mut buffer);
            next = [next, lane.deliver(&mut wire, clock)].into_iter().flatten().min();
        }
        let wait = if readable.contains(&true) { Some(Nanos::ZERO) } else { wait(next, clock) };
        if is_stopped(lanes, &mut readable, stop, wait) {
            break;
        }
    }
    for lane in lanes {
        lock(&lane.wire).end_log(clock.now());
    }
}

/// How long to sleep until `next`; for ever if there is nothing to wait for.
fn wait(next: Option<Nanos>, clock: Clock) -> Option<Nanos> {
    let wait = next? - clock.now();
    Some(wait.max(COALESCE))
}

/// Sleeps until a device is readable, the time is over, or the pump is to stop (then true).
fn is_stopped(
    lanes: &[Lane],
    readable: &mut [bool],
    stop: BorrowedFd<'_>,
    wait: Option<Nanos>,
) -> bool {
    let timeout = wait.map(|wait| Timespec {
        tv_sec: (wait.0 / 1_000_000_000) as i64,
        tv_nsec: (wait.0 % 1_000_000_000) as i64,
    });
    let mut fds: Vec<PollFd<'_>> =
        lanes.iter().map(|lane| PollFd::new(&lane.from, PollFlags::IN)).collect();
    fds.push(PollFd::from_borrowed_fd(stop, PollFlags::IN));
    // A signal ends the sleep early: then nothing is ready, and the loop comes back here.
    if poll(&mut fds, timeout.as_ref()).is_err() {
        return false;
    }
    for (readable, fd) in readable.iter_mut().zip(&fds) {
        *readable |= fd.revents().contains(PollFlags::IN);
    }
    fds.last().is_some_and(|fd| fd.revents().contains(PollFlags::IN))
}
