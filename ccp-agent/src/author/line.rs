//! The connection to the process of an author's arms, and who waits for it.
//!
//! In the simulator time stands still until the author has answered. In the agent nobody waits: a
//! report is sent if the one before is answered, and is added to the next one otherwise; answers are
//! picked up when they come. So an author who takes long gets fewer and longer reports, and delays
//! its own flows alone.

use super::frame::{self, Answer, FRAME_BYTES_MAX, FromAuthor};
use crate::clock;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{MsgFlags, recv, send};
use remuda_algorithms::units::Time;
use remuda_algorithms::{Measurement, PathState};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Frames read before the agent looks elsewhere.
const RECEIVE_MAX: usize = 256;

/// A report that waits to be sent.
#[derive(Clone, Debug)]
struct Pending {
    m: Measurement,
    program: usize,
    own: Vec<u64>,
    now: Time,
}

/// What one flow and its author have said to each other.
#[derive(Debug, Default)]
struct Exchange {
    seq: u32,
    /// When the frame was sent that is not answered yet, by the monotonic clock.
    asked_us: Option<u64>,
    pending: Option<Pending>,
    answer: Option<Answer>,
    failed: Option<String>,
}

/// The connection.
#[derive(Debug)]
pub struct Line {
    socket: OwnedFd,
    /// Whether a flow waits for its answer.
    waits: bool,
    /// An answer that takes longer is none.
    limit: Duration,
    flows: Mutex<HashMap<u32, Exchange>>,
    /// Who waits has the socket for itself.
    turn: Mutex<()>,
    next: AtomicU32,
    over: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Line {
    /// Over a SOCK_SEQPACKET socket whose other end has said hello.
    pub fn new(socket: OwnedFd, waits: bool, limit: Duration) -> Self {
        Self {
            socket,
            waits,
            limit,
            flows: Mutex::default(),
            turn: Mutex::default(),
            next: AtomicU32::new(1),
            over: Mutex::default(),
        }
    }

    /// Its descriptor, to wait for.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Why there is nobody at the other end, if so.
    pub fn over(&self) -> Option<String> {
        lock(&self.over).clone()
    }

    /// There is nobody at the other end from now on.
    pub fn end(&self, why: impl Into<String>) {
        lock(&self.over).get_or_insert_with(|| why.into());
    }

    /// A number for a flow.
    pub fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Hands a flow to the author's arm of that index.
    pub fn resume(&self, flow: u32, arm: u32, path: &PathState, now: Time) {
        let seq = {
            let mut flows = lock(&self.flows);
            let exchange = flows.entry(flow).or_default();
            *exchange = Exchange { seq: exchange.seq.wrapping_add(1), ..Exchange::default() };
            exchange.seq
        };
        self.ask(flow, &frame::resume(flow, seq, arm, path, now));
    }

    /// Sends a report, or adds it to what waits to be sent.
    pub fn measure(&self, flow: u32, m: &Measurement, (program, own): (usize, &[u64]), now: Time) {
        let report = {
            let mut flows = lock(&self.flows);
            let Some(exchange) = flows.get_mut(&flow) else { return };
            let mut report = Pending { m: *m, program, own: own.to_vec(), now };
            if let Some(before) = exchange.pending.take() {
                report.m = before.m.and(m);
            }
            if let Some(asked_us) = exchange.asked_us {
                let waited_us = clock::monotonic_us().saturating_sub(asked_us);
                if u128::from(waited_us) > self.limit.as_micros() {
                    exchange.failed = Some(self.too_late());
                }
                exchange.pending = Some(report);
                return;
            }
            exchange.seq = exchange.seq.wrapping_add(1);
            (frame::measure((flow, exchange.seq), &report.m, (program, own), now), report)
        };
        if !self.ask(flow, &report.0)
            && let Some(exchange) = lock(&self.flows).get_mut(&flow)
        {
            exchange.pending = Some(report.1);
        }
    }

    fn too_late(&self) -> String {
        format!("no answer within {} ms", self.limit.as_millis())
    }

    /// Sends a frame that wants an answer, and waits for it if that is how it is. False: there is
    /// no room for it now.
    fn ask(&self, flow: u32, frame: &[u8]) -> bool {
        let _turn = self.waits.then(|| lock(&self.turn));
        if let Some(exchange) = lock(&self.flows).get_mut(&flow) {
            exchange.asked_us = Some(clock::monotonic_us());
        }
        if !self.send(frame) {
            if let Some(exchange) = lock(&self.flows).get_mut(&flow) {
                exchange.asked_us = None;
            }
            return false;
        }
        if self.waits {
            self.wait(flow);
        }
        true
    }

    fn send(&self, frame: &[u8]) -> bool {
        let flags = if self.waits {
            MsgFlags::MSG_NOSIGNAL
        } else {
            MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT
        };
        loop {
            match send(self.socket.as_raw_fd(), frame, flags) {
                Ok(_) => return true,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN | Errno::ENOBUFS) => return false,
                Err(errno) => {
                    self.end(format!("the author's process has ended ({errno})"));
                    return false;
                }
            }
        }
    }

    /// Until the flow's frame is answered.
    fn wait(&self, flow: u32) {
        let asked = |line: &Self| {
            lock(&line.flows).get(&flow).is_some_and(|exchange| exchange.asked_us.is_some())
        };
        while self.over().is_none() && asked(self) {
            let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
            let limit_ms = u16::try_from(self.limit.as_millis()).unwrap_or(u16::MAX);
            match poll(&mut fds, limit_ms) {
                Ok(0) => {
                    self.fail(flow, self.too_late());
                    return;
                }
                _ => {
                    self.receive();
                }
            }
        }
    }

    fn fail(&self, flow: u32, why: String) {
        if let Some(exchange) = lock(&self.flows).get_mut(&flow) {
            exchange.asked_us = None;
            exchange.failed = Some(why);
        }
    }

    /// Takes in what is there. Returns the flows it is about.
    pub fn receive(&self) -> Vec<u32> {
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        let mut about = Vec::new();
        for _ in 0..RECEIVE_MAX {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => {
                    self.end("the author's process has ended");
                    break;
                }
                Ok(bytes) => about.extend(self.take(&buffer[..bytes])),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(errno) => {
                    self.end(format!("the author's process has ended ({errno})"));
                    break;
                }
            }
        }
        about
    }

    fn take(&self, bytes: &[u8]) -> Option<u32> {
        let mut flows = lock(&self.flows);
        match FromAuthor::parse(bytes) {
            Ok(FromAuthor::Answer(answer)) => {
                let flow = answer.flow;
                let exchange = flows.get_mut(&flow)?;
                if answer.seq == exchange.seq {
                    exchange.asked_us = None;
                    exchange.answer = Some(answer);
                }
                Some(flow)
            }
            Ok(FromAuthor::Failed(flow, text)) => {
                let exchange = flows.get_mut(&flow)?;
                exchange.asked_us = None;
                exchange.failed = Some(text);
                Some(flow)
            }
            Ok(FromAuthor::Hello(_)) => None,
            Err(error) => {
                self.end(format!("the author's process makes no sense: {error}"));
                None
            }
        }
    }

    /// The newest answer, if there is one; what waited to be sent goes out.
    pub fn answer(&self, flow: u32) -> Option<Answer> {
        let (answer, pending) = {
            let mut flows = lock(&self.flows);
            let exchange = flows.get_mut(&flow)?;
            let answer = exchange.answer.take()?;
            let free = exchange.asked_us.is_none();
            (answer, if free { exchange.pending.take() } else { None })
        };
        if let Some(Pending { m, program, own, now }) = pending {
            self.measure(flow, &m, (program, &own), now);
        }
        Some(answer)
    }

    /// Why the flow cannot go on with its author, if so.
    pub fn failure(&self, flow: u32) -> Option<String> {
        let failed = lock(&self.flows).get_mut(&flow).and_then(|exchange| exchange.failed.take());
        failed.or_else(|| self.over())
    }

    /// The flow has ended, or gone to someone else.
    pub fn close(&self, flow: u32) {
        lock(&self.flows).remove(&flow);
        self.send(&frame::close(flow));
    }
}
