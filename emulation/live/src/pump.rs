//! Moves packets between two devices, when the link model says so.
//!
//! One thread serves both directions. Two threads were measured (2 cores, 12 to 1000 Mbit/s): they
//! were no faster and no more punctual, and used more processor time at low rates.

use crate::capture::{Capture, Edge};
use crate::clock::Clock;
use crate::error::Error;
use crate::frame::Frame;
use crate::priority::RealTime;
use remuda_link::{Delays, Direction, Link, LogWriter, Nanos, Packet};
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

/// Packets read from one device before the other device's turn.
const BATCH_PACKETS: usize = 64;

/// The largest IP packet. A device of MTU 1500 returns no packet above 1500 bytes.
const PACKET_BYTES_MAX: usize = 65_536;

/// Deliveries closer together than this share a wake-up. The added delay, which only a busy link
/// has, is a tenth of the allowed error.
const COALESCE: Nanos = Nanos(50_000);

/// The most that a timer is set early, and so the longest spin. An idle processor of a virtual
/// machine was measured to wake 0.2 to 0.3 ms late.
const LEAD_MAX: Nanos = Nanos(400_000);

/// How fast the lead follows a change: within some dozens of wake-ups.
const LEAD_STEP: Nanos = Nanos(1_000);
const LEAD_DOWN: Nanos = Nanos(3 * LEAD_STEP.0);

/// A link, and the state that only real devices need.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) link: Link<Frame>,
    /// Packets that the receiving device refused.
    pub(crate) refused: u64,
    /// From a packet's arrival to its delivery.
    pub(crate) delays: Delays,
    log: Option<LogWriter<BufWriter<File>>>,
    log_error: Option<io::Error>,
    tap: Option<Tap>,
}

/// The capture of one direction's packets.
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
        Self { link, refused: 0, delays: Delays::new(), log, log_error: None, tap }
    }

    #[inline]
    fn capture(&self, edge: Edge, at: Nanos, frame: &Frame) {
        let Some(Tap { capture, direction }) = &self.tap else { return };
        lock(capture).write(*direction, edge, at, frame.as_bytes());
    }

    /// The error that ended the log early, if there was one.
    pub(crate) fn take_log_error(&mut self) -> Option<io::Error> {
        self.log_error.take()
    }

    /// Writes the flow's name to the log before its first packet.
    fn name_flow(&mut self, frame: &Frame) {
        let Some(log) = &mut self.log else { return };
        if let Err(error) = log.name_flow(frame.flow(), || frame.flow_name()) {
            self.give_up_log(error);
        }
    }

    /// Ends the log after an error. A full disk must not stop the network; `Testbed::close` reports
    /// it.
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

/// A timer that corrects for late wake-ups.
///
/// A sleeping thread wakes tens to hundreds of microseconds late. So the timer is set earlier by
/// the lower quartile of that lateness. If the thread then wakes too early, it spins until the
/// time.
#[derive(Debug)]
struct Alarm {
    clock: Clock,
    timer: OwnedFd,
    /// The time it was set for, and the time at which the timer should ring.
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

    /// Sets the alarm to `at`; `None` stops it.
    fn set(&mut self, at: Option<Nanos>) {
        // Setting a timer is expensive on a virtual machine, and most packets do not change the
        // time.
        if self.due.map(|(at, _)| at) == at {
            return;
        }
        let now = self.clock.now();
        // Zero would stop the timer, so wait at least `COALESCE`.
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

    /// Called when the timer rang: adjusts the lead, and spins if the timer rang early.
    fn rang(&mut self) {
        // The timer stays readable until its count is read.
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        let Some((at, rings)) = self.due.take() else { return };
        let late = self.clock.now() - rings;
        // One step up, three down: a quarter of the wake-ups is early and spins.
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
    /// Pushes the device's packets into the link. Returns whether the device may have more.
    fn read(&self, wire: &mut Wire, clock: Clock, buffer: &mut [u8]) -> bool {
        for _ in 0..BATCH_PACKETS {
            let Ok(length) = rustix::io::read(&self.from, &mut *buffer) else { return false };
            let mut frame = Frame::new(&buffer[..length]);
            let now = clock.now();
            frame.arrived = now;
            wire.name_flow(&frame);
            wire.capture(Edge::In, now, &frame);
            wire.link.push(frame, now);
        }
        true
    }

    /// Delivers packets that are due. Returns when the next packet may be due.
    fn deliver(&self, wire: &mut Wire, clock: Clock) -> Option<Nanos> {
        let now = clock.now();
        while let Some(outcome) = wire.link.pop(now) {
            let Some(packet) = outcome.delivered() else { continue };
            wire.capture(Edge::Out, now, &packet);
            wire.delays.add(now - packet.arrived);
            if rustix::io::write(&self.to, packet.as_bytes()).is_err() {
                wire.refused += 1;
            }
        }
        wire.write_log();
        wire.link.next_event()
    }
}

/// The thread that moves the packets. Dropping it stops the thread.
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

    pub(crate) fn cpu(&self) -> Duration {
        self.thread.as_ref().map(crate::clock::thread_cpu).unwrap_or_default()
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        // The write fails only if the counter is full; the eventfd is then readable anyway.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already, and `drop` has no caller to pass it
            // to.
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
        priority.check(clock);
        if is_stopped(lanes, &mut readable, stop, &mut alarm) {
            break;
        }
    }
    for lane in lanes {
        lock(&lane.wire).end_log(clock.now());
    }
}

/// Sleeps until a device is readable (returns at once if one already is), the alarm rings, or the
/// pump stops. Returns whether it stops.
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
    // A signal interrupts the poll. Then nothing is ready, and the caller's loop calls again.
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
