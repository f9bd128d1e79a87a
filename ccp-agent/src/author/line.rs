//! The connection to the process of an author's arms, and what waits for it.
//!
//! In the simulator time stands still until the author has answered. In the agent nobody waits: a
//! report is sent if the one before is answered, and is added to the next one otherwise; answers
//! are picked up when they come. So an author who takes long gets fewer and longer reports, and
//! delays its own flows alone. The program's own fields are added up as the program itself gathers
//! them ([`Fold`]): counts are summed, extremes stay the most extreme, and the rest is as of last.
//!
//! A frame for which the socket has no room is kept until it has: a flow has one at most, and of
//! those that have ended only the number is kept.

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

/// Frames read before the agent looks elsewhere.
const RECEIVE_FRAMES_MAX: usize = 256;
/// Bytes read before it does.
const RECEIVE_BYTES_MAX: usize = 256 << 10;
/// What waits for room in the socket; eight times the flows that a datapath has.
const QUEUED_MAX: usize = 65_536;

/// What a program reports beside the shared signals.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// Which of the arm's programs.
    pub program: usize,
    pub fields: &'a [u64],
    /// How each becomes one with that of the report before.
    pub folds: &'a [Fold],
}

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
    /// Since when a frame waits for its answer, by the monotonic clock; also while it waits for
    /// room in the socket.
    asked_us: Option<u64>,
    /// That frame, until there is room for it.
    unsent: Option<Vec<u8>>,
    pending: Option<Pending>,
    answer: Option<Answer>,
    failed: Option<String>,
}

/// The flows of an author, and what is still to be said of them.
#[derive(Debug, Default)]
struct Flows {
    open: HashMap<u32, Exchange>,
    /// Those whose frame waits for room, in order; and some that have ended since.
    waiting: VecDeque<u32>,
    /// Those that have ended, which the author does not know yet.
    closed: VecDeque<u32>,
}

#[derive(Debug)]
pub struct Line {
    socket: OwnedFd,
    /// Whether a flow waits for its answer.
    waits: bool,
    /// An answer that takes longer is none.
    limit: Duration,
    flows: Mutex<Flows>,
    /// The thread that waits has the socket for itself.
    turn: Mutex<()>,
    next: AtomicU32,
    over: Mutex<Option<String>>,
    buffer: Mutex<Box<[u8]>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pending {
    /// A report, with those before it that nobody has seen.
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
    /// The frame of the report that waits, if nothing else is asked.
    fn next(&mut self, flow: u32) -> Option<Vec<u8>> {
        if self.asked_us.is_some() || self.failed.is_some() {
            return None;
        }
        let Pending { m, program, own, now } = self.pending.take()?;
        self.seq = self.seq.wrapping_add(1);
        Some(frame::measure((flow, self.seq), &m, (program, &own), now))
    }

    /// It cannot go on; what was wrong first is why.
    fn fail(&mut self, why: String) {
        self.asked_us = None;
        self.unsent = None;
        self.failed.get_or_insert(why);
    }
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
            buffer: Mutex::new(vec![0; FRAME_BYTES_MAX].into_boxed_slice()),
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
        let exchange = Exchange { seq: 1, ..Exchange::default() };
        lock(&self.flows).open.insert(flow, exchange);
        self.ask(flow, frame::resume((flow, 1, arm), path, now));
    }

    /// Sends a report, or adds it to what waits to be sent.
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

    /// Sends what waits, if it may.
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

    /// Sends a frame that wants an answer, and waits for it if that is how it is.
    fn ask(&self, flow: u32, frame: Vec<u8>) {
        let _turn = self.waits.then(|| lock(&self.turn));
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

    /// Sends what there is room for.
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

    /// Whether a frame was sent: there may be no room for it now, or nobody to read it.
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

    /// Until the flow's frame is answered.
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
            // An interrupted wait is a short wait.
            let _ = poll(&mut fds, left_ms);
            self.receive();
        }
    }

    /// How much of the time for an answer is left, if any is.
    fn left(&self, asked_us: u64) -> Option<Duration> {
        let waited = Duration::from_micros(clock::monotonic_us().saturating_sub(asked_us));
        self.limit.checked_sub(waited)
    }

    /// The flow cannot go on with its author.
    pub fn fail(&self, flow: u32, why: String) {
        if let Some(exchange) = lock(&self.flows).open.get_mut(&flow) {
            exchange.fail(why);
        }
    }

    /// Takes in what is there, and sends what waited for room. Returns the flows it is about.
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
            self.end("the author's process says twice what its arms are");
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
                self.end(format!("the author's process makes no sense: {error}"));
                None
            }
        }
    }

    /// The newest answer, if there is one; what waited to be sent goes out.
    pub fn answer(&self, flow: u32) -> Option<Answer> {
        let answer = lock(&self.flows).open.get_mut(&flow)?.answer.take()?;
        self.go_on(flow);
        Some(answer)
    }

    /// Why the flow cannot go on with its author, if so.
    pub fn failure(&self, flow: u32) -> Option<String> {
        let is_late = || {
            let flows = lock(&self.flows);
            let asked_us = flows.open.get(&flow).and_then(|exchange| exchange.asked_us);
            asked_us.is_some_and(|asked_us| self.left(asked_us).is_none())
        };
        if is_late() {
            self.receive(); // it may be here, and we late to look
            if is_late() {
                self.fail(flow, self.too_late());
            }
        }
        let failed = lock(&self.flows).open.get(&flow).and_then(|it| it.failed.clone());
        failed.or_else(|| self.over())
    }

    /// The flow has ended, or gone to someone else.
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

    /// A report of a program with a field that counts and one that is as of last.
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
            (&[9, 9][..], "makes no sense"),
            (&[2, 1, 0], "makes no sense"),
            (b"\x01{}", "says twice"),
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
