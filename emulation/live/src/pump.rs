//! Moves packets between two devices, as the link model says and when it says.
//!
//! One thread serves both directions. Two were measured (2 cores, 12 to 1000 Mbit/s): no faster,
//! no more punctual, and more processor time at low rates.

use crate::capture::{Capture, Edge};
use crate::clock::Clock;
use crate::error::Error;
use crate::frame::Frame;
use crate::priority::RealTime;
use remuda_link::{Direction, Link, LogWriter, Nanos, Packet};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
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

/// Deliveries closer together than this share a wake-up. The delay it adds, to a packet on a busy
/// link only, is a tenth of the error allowed.
const COALESCE: Nanos = Nanos(50_000);

/// The most that a timer is set early, and so the longest spin. A virtual machine's idle processor
/// was seen to wake 0.2 to 0.3 ms late.
const LEAD_MAX: Nanos = Nanos(400_000);

/// How fast the lead follows: to a new quartile within some dozens of wake-ups.
const LEAD_STEP: Nanos = Nanos(1_000);
const LEAD_DOWN: Nanos = Nanos(3 * LEAD_STEP.0);

/// A link, and what only real devices need beside it.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) link: Link<Frame>,
    /// Packets the receiving device did not take.
    pub(crate) refused: u64,
    log: Option<LogWriter<BufWriter<File>>>,
    log_error: Option<io::Error>,
    tap: Option<Tap>,
}

/// Where one direction's packets are captured.
#[derive(Clone, Debug)]
pub(crate) struct Tap {
    pub(crate) capture: Arc<Mutex<Capture>>,
    pub(crate) direction: Direction,
}

impl Wire {
    pub(crate) fn new(
        mut link: Link<Frame>,
        log: Option<LogWriter<BufWriter<File>>>,
        tap: Option<Tap>,
    ) -> Self {
        if log.is_some() {
            link.enable_log();
        }
        Self { link, refused: 0, log, log_error: None, tap }
    }

    #[inline]
    fn capture(&self, edge: Edge, at: Nanos, frame: &Frame) {
        let Some(Tap { capture, direction }) = &self.tap else { return };
        lock(capture).write(*direction, edge, at, frame.as_bytes());
    }

    /// The error that ended the log early, if one did.
    pub(crate) fn take_log_error(&mut self) -> Option<io::Error> {
        self.log_error.take()
    }

    /// Names a packet's flow in the log, if it is the first of it.
    fn name_flow(&mut self, frame: &Frame) {
        let Some(log) = &mut self.log else { return };
        if let Err(error) = log.name_flow(frame.flow(), || frame.flow_name()) {
            self.give_up_log(error);
        }
    }

    /// A full disk must not stop the network; the run is told at its end.
    fn give_up_log(&mut self, error: io::Error) {
        self.log_error = Some(error);
        self.log = None;
        self.link.disable_log();
    }

    fn write_log(&mut self) {
        let Some(log) = &mut self.log else { return };
        let result = self.link.drain_log().try_for_each(|event| log.write(&event));
        if let Err(error) = result {
            self.give_up_log(error);
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

/// A timer that allows for its own lateness.
///
/// A sleeper is woken tens to hundreds of microseconds after its time. So the timer is set earlier
/// by the lower quartile of its lateness; when that is too early, the rest is spun.
#[derive(Debug)]
struct Alarm {
    clock: Clock,
    timer: OwnedFd,
    /// What it was set for, and when it should have rung.
    due: Option<(Nanos, Nanos)>,
    lead: Nanos,
}

impl Alarm {
    fn new(clock: Clock) -> Result<Self, Error> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(Error::doing("make a timer"))?;
        Ok(Self { clock, timer, due: None, lead: Nanos::ZERO })
    }

    /// Rings at `at`, or never.
    fn set(&mut self, at: Option<Nanos>) {
        // Setting a timer is dear on a virtual machine; most packets that come change nothing.
        if self.due.map(|(at, _)| at) == at {
            return;
        }
        let now = self.clock.now();
        // Zero would stop the timer.
        let wait = at.map(|at| (at - now - self.lead).max(COALESCE));
        self.due = at.zip(wait.map(|wait| now + wait));
        let wait = wait.unwrap_or_default();
        let value = Timespec {
            tv_sec: (wait.0 / 1_000_000_000) as i64,
            tv_nsec: (wait.0 % 1_000_000_000) as i64,
        };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: never, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec)
            .expect("the timer and its time are valid");
    }

    /// It rang: learns from how late, and waits out what it came too early.
    fn rang(&mut self) {
        // What it says is how often it rang; unread, the timer would go on being ready.
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        let Some((at, rings)) = self.due.take() else { return };
        let late = self.clock.now() - rings;
        // One step up to three down: a quarter of the wake-ups comes before its time and spins.
        let lead = if late > self.lead { self.lead + LEAD_STEP } else { self.lead - LEAD_DOWN };
        self.lead = lead.min(LEAD_MAX);
        while self.clock.now() < at && at - self.clock.now() < LEAD_MAX {
            std::hint::spin_loop();
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
            let frame = Frame::new(&buffer[..length]);
            let now = clock.now();
            wire.name_flow(&frame);
            wire.capture(Edge::In, now, &frame);
            wire.link.push(frame, now);
        }
        true
    }

    /// Hands over what is due; returns when more will be.
    fn deliver(&self, wire: &mut Wire, clock: Clock) -> Option<Nanos> {
        let now = clock.now();
        while let Some(outcome) = wire.link.pop(now) {
            let Some(packet) = outcome.delivered() else { continue };
            wire.capture(Edge::Out, now, &packet);
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
        let alarm = Alarm::new(clock)?;
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("remuda-link".to_owned())
            .spawn(move || run(&lanes, stopped.as_fd(), clock, alarm))
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

pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(lanes: &[Lane], stop: BorrowedFd<'_>, clock: Clock, mut alarm: Alarm) {
    let mut priority = RealTime::start(clock);
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    let mut readable = vec![true; lanes.len()];
    loop {
        let mut next = None;
        for (lane, readable) in lanes.iter().zip(&mut readable) {
            let mut wire = lock(&lane.wire);
            *readable = *readable && lane.read(&mut wire, clock, &mut buffer);
            next = [next, lane.deliver(&mut wire, clock)].into_iter().flatten().min();
        }
        alarm.set(next.filter(|_| !readable.contains(&true)));
        priority.look(clock);
        if is_stopped(lanes, &mut readable, stop, &mut alarm) {
            break;
        }
    }
    for lane in lanes {
        lock(&lane.wire).end_log(clock.now());
    }
}

/// Sleeps until a device is readable (or at once, if one still is), the alarm goes off, or the
/// pump is to stop (then true).
fn is_stopped(
    lanes: &[Lane],
    readable: &mut [bool],
    stop: BorrowedFd<'_>,
    alarm: &mut Alarm,
) -> bool {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds: Vec<PollFd<'_>> =
        lanes.iter().map(|lane| PollFd::new(&lane.from, PollFlags::IN)).collect();
    fds.push(PollFd::new(&alarm.timer, PollFlags::IN));
    fds.push(PollFd::from_borrowed_fd(stop, PollFlags::IN));
    // A signal ends the sleep early: then nothing is ready, and the loop comes back here.
    let timeout = readable.contains(&true).then_some(&AT_ONCE);
    if poll(&mut fds, timeout).is_err() {
        return false;
    }
    let ready = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::IN);
    for (readable, fd) in readable.iter_mut().zip(&fds) {
        *readable |= ready(fd);
    }
    let (rings, stops) = (ready(&fds[lanes.len()]), ready(&fds[lanes.len() + 1]));
    if rings {
        alarm.rang();
    }
    stops
}
