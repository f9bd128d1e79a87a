//! The connection to an author's process, with the frames that wait to be sent.
//!
//! In the simulator, time stops until the author has answered. The agent does not wait: it sends a
//! report if the previous one has been answered, and merges it with the next one otherwise. It
//! picks up answers when they arrive. So a slow author gets fewer reports, each about a longer
//! time, and delays only its own flows. Own fields of the program are merged in the way in which
//! the program updates them ([`Fold`]): counts are added, extremes stay the most extreme, and other
//! values are the last.
//!
//! A frame that does not fit into the socket's buffer is stored until there is room. Each flow has
//! at most one such frame; of a flow that has ended, only the number is stored.

use super::frame::{self, Answer, FRAME_BYTES_MAX, FromAuthor};
use crate::clock;
use crate::programs::Fold;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{MsgFlags, recv, send};
use remuda_algorithms::units::Time;
use remuda_algorithms::{Measurement, PathState};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most frames read before the agent does other work.
const RECEIVE_FRAMES_MAX: usize = 256;
/// The most bytes read before the agent does other work.
const RECEIVE_BYTES_MAX: usize = 256 << 10;
/// The most flows whose frames may wait for room in the socket; eight times the default limit on
/// flows of the BPF datapath.
const QUEUED_MAX: usize = 65_536;

/// The fields that a program reports beside the shared signals.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// The arm's program, by its number.
    pub program: usize,
    pub fields: &'a [u64],
    /// How to merge each field with that of the report before.
    pub folds: &'a [Fold],
}

/// A report that is not sent yet.
#[derive(Clone, Debug)]
struct Pending {
    m: Measurement,
    program: usize,
    own: Vec<u64>,
    now: Time,
}

/// The exchange between one flow and its author.
#[derive(Debug, Default)]
struct Exchange {
    seq: u32,
    /// Since when a frame waits for its answer, by the monotonic clock. The time includes waiting
    /// for room in the socket.
    asked_us: Option<u64>,
    /// That frame, until it is sent.
    unsent: Option<Vec<u8>>,
    pending: Option<Pending>,
    answer: Option<Answer>,
    failed: Option<String>,
}

/// The flows of an author, and what is still to be sent about them.
#[derive(Debug, Default)]
struct Flows {
    open: HashMap<u32, Exchange>,
    /// Flows whose frame waits for room, in order. Some of them may have ended since.
    waiting: VecDeque<u32>,
    /// Flows that have ended, and whose end is not sent yet.
    closed: VecDeque<u32>,
}

#[derive(Debug)]
pub struct Line {
    socket: OwnedFd,
    waits: bool,
    /// A flow fails if its answer takes longer than this.
    limit: Duration,
    flows: Mutex<Flows>,
    /// Held by the thread that waits for an answer, so that no other one reads the socket.
    waiting_thread: Mutex<()>,
    next: AtomicU32,
    over: Mutex<Option<String>>,
    buffer: Mutex<Box<[u8]>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pending {
    /// A new report, merged with the unsent one before it.
    fn after(before: Option<Self>, m: &Measurement, own: Own<'_>, now: Time) -> Self {
        let mut next = Self { m: *m, program: own.program, own: own.fields.to_vec(), now };
        let Some(before) = before else { return next };
        next.m = before.m.and(m);
        if before.program == next.program {
            let folded = next.own.iter_mut().zip(before.own).zip(own.folds);
            folded.for_each(|((next, before), fold)| *next = fold.of(before, *next));
        }
        next
    }
}

impl Exchange {
    /// The frame of the waiting report; `None` while the answer to another frame is due.
    fn next(&mut self, flow: u32) -> Option<Vec<u8>> {
        if self.asked_us.is_some() || self.failed.is_some() {
            return None;
        }
        let Pending { m, program, own, now } = self.pending.take()?;
        self.seq = self.seq.wrapping_add(1);
        Some(frame::measure((flow, self.seq), &m, (program, &own), now))
    }

    /// Marks the flow as failed. The first reason counts.
    fn fail(&mut self, why: String) {
        self.asked_us = None;
        self.unsent = None;
        self.failed.get_or_insert(why);
    }
}

impl Line {
    /// A line over a SOCK_SEQPACKET socket whose other end has announced its arms.
    pub fn new(socket: OwnedFd, waits: bool, limit: Duration) -> Self {
        Self {
            socket,
            waits,
            limit,
            flows: Mutex::default(),
            waiting_thread: Mutex::default(),
            next: AtomicU32::new(1),
            over: Mutex::default(),
            buffer: Mutex::new(vec![0; FRAME_BYTES_MAX].into_boxed_slice()),
        }
    }

    /// The descriptor, for `poll`.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Why the connection has ended; `None` while it works.
    pub fn over(&self) -> Option<String> {
        lock(&self.over).clone()
    }

    /// Marks the connection as ended. The first reason counts.
    pub fn end(&self, why: impl Into<String>) {
        lock(&self.over).get_or_insert_with(|| why.into());
    }

    /// A new number for a flow.
    pub fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Gives a flow to the author's arm number `arm`.
    pub fn resume(&self, flow: u32, arm: u32, path: &PathState, now: Time) {
        let exchange = Exchange { seq: 1, ..Exchange::default() };
        lock(&self.flows).open.insert(flow, exchange);
        self.ask(flow, frame::resume((flow, 1, arm), path, now));
    }

    /// Sends a report, or merges it with the report that waits.
    pub fn measure(&self, flow: u32, m: &Measurement, own: Own<'_>, now: Time) {
        {
            let mut flows = lock(&self.flows);
            let Some(exchange) = flows.open.get_mut(&flow) else { return };
            if exchange.failed.is_some() {
                return;
            }
            exchange.pending = Some(Pending::after(exchange.pending.take(), m, own, now));
        }
        self.go_on(flow);
    }

    /// Sends the report that waits, unless an answer is due.
    fn go_on(&self, flow: u32) {
        let frame = lock(&self.flows).open.get_mut(&flow).and_then(|it| it.next(flow));
        match frame {
            Some(frame) => self.ask(flow, frame),
            None => self.flush(),
        }
    }

    fn too_late(&self) -> String {
        format!("no answer within {} ms", self.limit.as_millis())
    }

    /// Sends a frame that needs an answer. In the simulator it also waits for the answer.
    fn ask(&self, flow: u32, frame: Vec<u8>) {
        let _guard = self.waits.then(|| lock(&self.waiting_thread));
        {
            let mut flows = lock(&self.flows);
            let Some(exchange) = flows.open.get_mut(&flow) else { return };
            exchange.asked_us = Some(clock::monotonic_us());
            exchange.unsent = Some(frame);
            flows.waiting.push_back(flow);
        }
        self.flush();
        if self.waits {
            self.wait(flow);
        }
    }

    /// Sends waiting frames while the socket has room.
    fn flush(&self) {
        let mut flows = lock(&self.flows);
        while let Some(flow) = flows.closed.front() {
            if !self.send(&frame::close(*flow)) {
                break;
            }
            flows.closed.pop_front();
        }
        while let Some(&flow) = flows.waiting.front() {
            if let Some(exchange) = flows.open.get_mut(&flow)
                && let Some(frame) = exchange.unsent.take()
                && !self.send(&frame)
            {
                exchange.unsent = Some(frame);
                break;
            }
            flows.waiting.pop_front();
        }
        if flows.waiting.len() + flows.closed.len() > QUEUED_MAX {
            self.end("the author's process does not read its messages");
        }
    }

    /// Sends a frame. Returns false if the socket has no room, or if the other end is closed.
    fn send(&self, frame: &[u8]) -> bool {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
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

    /// Waits until the flow's frame is answered, or time is up.
    fn wait(&self, flow: u32) {
        while self.over().is_none() {
            let (asked_us, queued) = {
                let flows = lock(&self.flows);
                let asked_us = flows.open.get(&flow).and_then(|exchange| exchange.asked_us);
                (asked_us, !flows.waiting.is_empty() || !flows.closed.is_empty())
            };
            let Some(asked_us) = asked_us else { return };
            let Some(left) = self.left(asked_us) else {
                return self.fail(flow, self.too_late());
            };
            let room = if queued { PollFlags::POLLOUT } else { PollFlags::empty() };
            let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN | room)];
            let left_ms = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
            // If the wait is interrupted, the loop waits again.
            let _ = poll(&mut fds, left_ms);
            self.receive();
        }
    }

    /// The time left for an answer; `None` if it is over.
    fn left(&self, asked_us: u64) -> Option<Duration> {
        let waited = Duration::from_micros(clock::monotonic_us().saturating_sub(asked_us));
        self.limit.checked_sub(waited)
    }

    /// Marks the flow as failed.
    pub fn fail(&self, flow: u32, why: String) {
        if let Some(exchange) = lock(&self.flows).open.get_mut(&flow) {
            exchange.fail(why);
        }
    }

    /// Reads the frames that have arrived, and sends those that wait. Returns the flows of the
    /// frames read.
    pub fn receive(&self) -> Vec<u32> {
        let mut buffer = lock(&self.buffer);
        let (mut about, mut read) = (Vec::new(), 0);
        for _ in 0..RECEIVE_FRAMES_MAX {
            if read >= RECEIVE_BYTES_MAX || self.over().is_some() {
                break;
            }
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => self.end("the author's process has ended"),
                Ok(bytes) => {
                    read += bytes;
                    about.extend(self.take(&buffer[..bytes]));
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(errno) => self.end(format!("the author's process has ended ({errno})")),
            }
        }
        drop(buffer);
        self.flush();
        about
    }

    fn take(&self, bytes: &[u8]) -> Option<u32> {
        if frame::is_hello(bytes) {
            self.end("the author's process announced its arms twice");
            return None;
        }
        let mut flows = lock(&self.flows);
        match FromAuthor::parse(bytes) {
            Ok(FromAuthor::Answer(answer)) => {
                let flow = answer.flow;
                let exchange = flows.open.get_mut(&flow)?;
                if answer.seq == exchange.seq {
                    exchange.asked_us = None;
                    exchange.answer = Some(answer);
                }
                Some(flow)
            }
            Ok(FromAuthor::Failed(flow, text)) => {
                flows.open.get_mut(&flow)?.fail(text);
                Some(flow)
            }
            Ok(FromAuthor::Hello(_)) => None,
            Err(error) => {
                self.end(format!("the author's process sent an invalid message: {error}"));
                None
            }
        }
    }

    /// Takes the newest answer, if there is one, and sends the report that waits.
    pub fn answer(&self, flow: u32) -> Option<Answer> {
        let answer = lock(&self.flows).open.get_mut(&flow)?.answer.take()?;
        self.go_on(flow);
        Some(answer)
    }

    /// Why the flow has failed; `None` while it works.
    pub fn failure(&self, flow: u32) -> Option<String> {
        let is_late = || {
            let flows = lock(&self.flows);
            let asked_us = flows.open.get(&flow).and_then(|exchange| exchange.asked_us);
            asked_us.is_some_and(|asked_us| self.left(asked_us).is_none())
        };
        if is_late() {
            self.receive(); // the answer may have arrived without being read
            if is_late() {
                self.fail(flow, self.too_late());
            }
        }
        let failed = lock(&self.flows).open.get(&flow).and_then(|it| it.failed.clone());
        failed.or_else(|| self.over())
    }

    /// Ends the exchange about a flow that has ended, or that another arm drives.
    pub fn close(&self, flow: u32) {
        {
            let mut flows = lock(&self.flows);
            let Some(exchange) = flows.open.remove(&flow) else { return };
            if !exchange.unsent.is_some_and(|frame| frame::is_resume(&frame)) {
                flows.closed.push_back(flow);
            }
        }
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::author::fake::{
        CLOSE, Fake, MEASURE, RESUME, acked, decision, failed, flow_of, line, word,
    };
    use remuda_algorithms::units::Bytes;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(30);

    fn resume(line: &Line, flow: u32) {
        let path = PathState::new(Bytes(1_448), Bytes(14_480));
        line.resume(flow, 0, &path, Time::ZERO);
    }

    /// A report of a program with two own fields: a count, and a value of which the last one
    /// counts.
    fn measure(line: &Line, acked: u64, fields: [u64; 2]) {
        let m = Measurement { acked: Bytes(acked), ..Measurement::QUIET };
        let own = Own { program: 0, fields: &fields, folds: &[Fold::Sum, Fold::Newest] };
        line.measure(1, &m, own, Time::ZERO);
    }

    fn kinds(author: &Fake) -> Vec<(u8, u32)> {
        std::iter::from_fn(|| author.hear()).map(|frame| (frame[0], flow_of(&frame))).collect()
    }

    #[test]
    fn one_question_is_open_and_what_comes_meanwhile_is_added_up() {
        let (line, author) = line(false, LONG);
        resume(&line, 1);
        assert_eq!(kinds(&author), [(RESUME, 1)]);
        measure(&line, 100, [5, 7]);
        measure(&line, 50, [3, 2]);
        assert!(kinds(&author).is_empty());
        assert!(author.say(&decision(1, 1, 20_000)));
        assert_eq!(line.receive(), [1]);
        assert_eq!(line.answer(1).expect("it is there").decision.cwnd, Bytes(20_000));
        let frame = author.hear().expect("what had come meanwhile");
        assert_eq!((frame[0], acked(&frame)), (MEASURE, 150));
        let end = frame.len();
        assert_eq!((word(&frame, end - 16), word(&frame, end - 8)), (8, 2));
        assert_eq!((line.answer(1), line.failure(1)), (None, None));
    }

    #[test]
    fn an_answer_that_takes_too_long_is_none() {
        let (line, author) = line(false, SHORT);
        resume(&line, 1);
        resume(&line, 2);
        assert!(author.say(&decision(2, 1, 20_000)));
        thread::sleep(SHORT * 2);
        let late = line.failure(1).expect("it is late");
        assert_eq!(late, "no answer within 30 ms");
        assert_eq!(line.failure(2), None, "it was there, and we late to look");
        assert!(line.answer(2).is_some());
    }

    #[test]
    fn without_room_frames_wait_and_none_is_lost() {
        const FLOWS: u32 = 2_000;
        let (line, author) = line(false, LONG);
        (1..=FLOWS).for_each(|flow| resume(&line, flow));
        assert!(!lock(&line.flows).waiting.is_empty(), "the socket has less room");
        line.close(1);
        line.close(FLOWS);
        let mut heard = Vec::new();
        while heard.len() < FLOWS as usize {
            heard.extend(kinds(&author));
            line.receive();
        }
        let resumed = heard.iter().filter(|(kind, _)| *kind == RESUME).map(|(_, flow)| *flow);
        assert!(resumed.eq(1..FLOWS), "the last one ended before anybody knew of it");
        assert!(heard.contains(&(CLOSE, 1)));
        assert!(kinds(&author).is_empty());
    }

    #[test]
    fn the_time_counts_while_there_is_no_room() {
        let (line, _author) = line(false, SHORT);
        (1..=2_000).for_each(|flow| resume(&line, flow));
        assert!(lock(&line.flows).open[&2_000].unsent.is_some());
        thread::sleep(SHORT * 2);
        assert_eq!(line.failure(2_000).expect("late"), "no answer within 30 ms");
    }

    #[test]
    fn the_first_failure_is_kept_and_ends_the_talk() {
        let (line, author) = line(false, LONG);
        resume(&line, 1);
        assert!(author.say(&failed(1, "ValueError: first")));
        line.receive();
        measure(&line, 100, [0, 0]);
        assert!(author.say(&failed(1, "KeyError: 1")));
        line.receive();
        assert_eq!(line.failure(1).expect("it has failed"), "ValueError: first");
        assert_eq!(kinds(&author), [(RESUME, 1)]);
    }

    #[test]
    fn a_frame_that_makes_no_sense_ends_the_line() {
        for (frame, why) in [
            (&[9, 9][..], "an invalid message"),
            (&[2, 1, 0], "an invalid message"),
            (b"\x01{}", "announced its arms twice"),
        ] {
            let (line, author) = line(false, LONG);
            resume(&line, 1);
            assert!(author.say(frame));
            line.receive();
            assert!(line.over().is_some_and(|said| said.contains(why)), "{frame:?}");
            assert!(line.failure(1).is_some(), "its flows have nobody");
        }
    }

    #[test]
    fn an_author_that_ends_is_over() {
        let (line, author) = line(false, LONG);
        resume(&line, 1);
        drop(author);
        line.receive();
        let why = line.failure(1).expect("gone");
        assert!(why.starts_with("the author's process has ended"), "{why}");
    }

    #[test]
    fn in_the_simulator_a_flow_waits_for_its_answer() {
        let (line, author) = line(true, LONG);
        thread::scope(|scope| {
            scope.spawn(|| {
                author.wait().expect("the flow");
                author.say(&decision(1, 1, 30_000));
            });
            resume(&line, 1);
        });
        assert_eq!(line.answer(1).expect("it has waited").decision.cwnd, Bytes(30_000));
    }

    #[test]
    fn in_the_simulator_other_frames_do_not_make_it_wait_longer() {
        let (line, author) = line(true, Duration::from_millis(100));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let chatty = scope.spawn(|| {
                for _ in 0..600 {
                    author.say(&decision(5, 1, 30_000));
                    thread::sleep(Duration::from_millis(5));
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            resume(&line, 1);
            assert!(!chatty.is_finished(), "it has given up before");
            done.store(true, Ordering::Relaxed);
            assert_eq!(line.failure(1).expect("late"), "no answer within 100 ms");
        });
    }
}
