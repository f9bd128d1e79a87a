//! Arms that are Rust crates built on portus: each implements `portus::CongAlg`, unchanged.
//!
//! Only portus' run loop can create the `Datapath` that an algorithm needs. So each algorithm runs
//! in a thread under a run loop of its own, with [`Loopback`] as the loop's transport. The agent
//! treats the thread like the process of a Python file: both use the same frames over the same kind
//! of socket. So the same checks, limits, guard and fallback hold, and in the simulator the same
//! lock step.
//!
//! ```text
//! Line ── frames ── Loopback ── CREATE, MEASURE ──────────────▶ portus' run loop ─▶ CongAlg
//!                        ▲───── INSTALL, UPDATE_FIELDS, CHANGE_PROG ────┘
//! ```
//!
//! Differs from an algorithm under a portus agent:
//!   - what `new_flow` or `on_report` sets takes effect when that call returns, all at once;
//!   - what the algorithm sets for a flow other than the one in the call takes effect at that
//!     flow's next report;
//!   - after a panic its flows fall back to Reno and the algorithm is created anew; the agent goes
//!     on;
//!   - a flow taken over from another arm is a new flow to the algorithm, with the present window
//!     as its initial window.

use super::Authors;
use super::frame::{
    self, Answer, ArmSpec, FRAME_BYTES_MAX, Handed, Hello, PROTOCOL_VERSION, ProgramSpec, Resume,
    ToAuthor,
};
use super::line::Line;
use crate::error::on;
use crate::lock::lock;
use crate::{Error, programs};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, recv, send, setsockopt, socketpair, sockopt,
};
pub use portus::CongAlg;
use portus::ipc::{BackendBuilder, Ipc};
use portus::{Datapath, DatapathInfo, RunBuilder};
use remuda_algorithms::Decision;
use remuda_algorithms::units::{Bytes, Rate};
use remuda_wire::ToDatapath;
use remuda_wire::program::{CWND, Program, RATE, Register};
use remuda_wire::to_agent::{Create, encode_measure};
use remuda_wire::to_datapath::Update;
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// The agent does not wait for answers, but fails a flow whose answer takes longer than this.
const LIVE_ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// The simulator stops simulated time and waits for an answer, at most this long.
const SIMULATED_ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Socket buffer between the two threads, in bytes, because hundreds of flows may report at once.
const SOCKET_BYTES: usize = 1 << 20;

/// Starts a thread with a new instance of an algorithm.
type Start = Box<dyn Fn() -> Result<(Hello, OwnedFd), Error> + Send + Sync>;

/// The algorithms of this process, in the order of registration.
static REGISTERED: Mutex<Vec<Start>> = Mutex::new(Vec::new());

/// The caller: the simulator waits for an algorithm's answers, the agent does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    Agent,
    Simulator,
}

/// Registers an algorithm as an arm called `name`, for every [`Authors`] that [`join`] is called
/// with later. `make` is called once for each of these, and again after a panic of the algorithm.
pub fn bring<A, F>(name: &str, make: F) -> Result<(), Error>
where
    A: CongAlg<Loopback> + 'static,
    F: Fn() -> A + Send + Sync + 'static,
{
    let (name, make) = (name.to_owned(), Arc::new(make));
    let start: Start = Box::new(move || start(&name, Arc::clone(&make)));
    // Report a name in use, or a program that no datapath accepts, right here.
    let trial = Authors::default();
    join_all(&trial, Served::Agent)?;
    add(&trial, &start, Served::Agent)?;
    lock(&REGISTERED).push(start);
    Ok(())
}

/// Adds the registered algorithms as arms to `authors`.
pub fn join(authors: &Authors, served: Served) -> Result<(), Error> {
    join_all(authors, served)
}

fn join_all(authors: &Authors, served: Served) -> Result<(), Error> {
    lock(&REGISTERED).iter().try_for_each(|start| add(authors, start, served))
}

fn add(authors: &Authors, start: &Start, served: Served) -> Result<(), Error> {
    let (hello, socket) = start()?;
    let (waits, limit) = match served {
        Served::Agent => (false, LIVE_ANSWER_LIMIT),
        Served::Simulator => (true, SIMULATED_ANSWER_LIMIT),
    };
    authors.add(Arc::new(Line::new(socket, waits, limit)), &hello).map(|_| ())
}

fn start<A, F>(name: &str, make: Arc<F>) -> Result<(Hello, OwnedFd), Error>
where
    A: CongAlg<Loopback> + 'static,
    F: Fn() -> A + Send + Sync + 'static,
{
    let failed = |errno: Errno| on("a socket for an algorithm")(errno.into());
    let flags = SockFlag::SOCK_CLOEXEC;
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).map_err(failed)?;
    for end in [&ours, &theirs] {
        setsockopt(end, sockopt::SndBuf, &SOCKET_BYTES).map_err(failed)?;
    }
    let (say, described) = mpsc::sync_channel(1);
    let own = name.to_owned();
    thread::Builder::new()
        .name(format!("portus {name}"))
        .spawn(move || serve(&own, &*make, theirs, &say))
        .map_err(on("the thread of an algorithm"))?;
    let wrong = |why: String| Error::Author(format!("{name}: {why}"));
    let shapes = described.recv().map_err(|_| wrong("its thread has ended".to_owned()))?;
    let programs = shapes.map_err(wrong)?;
    let empty = String::new;
    let arm = ArmSpec {
        name: name.to_owned(),
        summary: format!("{}, an algorithm built on portus", A::name()),
        report: empty(),
        control: empty(),
        rules: empty(),
        report_rule: empty(),
        reports_per_round: 1, // its own programs decide that
        programs,
    };
    Ok((Hello { version: PROTOCOL_VERSION, arms: vec![arm] }, ours))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}

/// Runs the algorithm in its thread, until the other end of the socket is closed.
fn serve<A: CongAlg<Loopback> + 'static>(
    name: &str,
    make: &impl Fn() -> A,
    socket: OwnedFd,
    say: &mpsc::SyncSender<Result<Vec<ProgramSpec>, String>>,
) {
    // After a panic the algorithm is created anew, and nothing of the old one is used.
    let made = || catch_unwind(AssertUnwindSafe(|| Checked::new(name, make())));
    let (algorithm, shapes) = match made() {
        Ok(Ok(made)) => made,
        Ok(Err(why)) => return drop(say.send(Err(why))),
        Err(panic) => {
            return drop(say.send(Err(format!("its code panicked: {}", text_of(&*panic)))));
        }
    };
    let specs = shapes.iter().map(|shape| shape.spec.clone()).collect();
    if say.send(Ok(specs)).is_err() {
        return;
    }
    let (desk, socket) = (Arc::new(Mutex::new(Desk::new(name, shapes))), Arc::new(socket));
    let mut next = Some(algorithm);
    while let Some(algorithm) = next.take() {
        let go_on = Arc::new(AtomicBool::new(true));
        let (desk_of_loop, socket_of_loop) = (Arc::clone(&desk), Arc::clone(&socket));
        let sock = Loopback { desk: desk_of_loop, socket: socket_of_loop, go_on: go_on.clone() };
        let run = || {
            RunBuilder::new(BackendBuilder { sock })
                .default_alg(algorithm)
                .with_stop_handle(go_on)
                .run()
        };
        let why = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => return, // the other end is closed
            Ok(Err(error)) => format!("portus' run loop ended: {}", error.0),
            Err(panic) => format!("its code panicked: {}", text_of(&*panic)),
        };
        for flow in lock(&desk).forget_all() {
            post(&socket, &frame::failed(flow, &why));
        }
        next = made().ok().and_then(Result::ok).map(|(algorithm, _)| algorithm);
    }
}

/// Sends a frame. An error is ignored here: the next receive finds the socket closed.
fn post(socket: &OwnedFd, frame: &[u8]) {
    while send(socket.as_raw_fd(), frame, MsgFlags::MSG_NOSIGNAL) == Err(Errno::EINTR) {}
}

/// The algorithm with its checked programs. Comments are removed, because portus panics on them.
struct Checked<A> {
    algorithm: A,
    programs: HashMap<&'static str, String>,
}

impl<A: CongAlg<Loopback>> Checked<A> {
    fn new(name: &str, algorithm: A) -> Result<(Self, Vec<Shape>), String> {
        let given: BTreeMap<&'static str, String> =
            algorithm.datapath_programs().into_iter().collect();
        let shapes = given.iter().map(|(program, text)| Shape::new(name, program, text));
        let shapes = shapes.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let bare = |text: &str| programs::without_comments(text).into_owned();
        let programs = given.iter().map(|(program, text)| (*program, bare(text))).collect();
        Ok((Self { algorithm, programs }, shapes))
    }
}

impl<A: CongAlg<Loopback>> CongAlg<Loopback> for Checked<A> {
    type Flow = A::Flow;

    fn name() -> &'static str {
        A::name()
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        self.programs.clone()
    }

    fn new_flow(&self, control: Datapath<Loopback>, info: DatapathInfo) -> A::Flow {
        self.algorithm.new_flow(control, info)
    }
}

/// One program and the positions of its registers.
struct Shape {
    spec: ProgramSpec,
    /// The program as it is installed; its number does not matter.
    program: Program,
    /// For each report field, in the order of `spec.own`, its index in a report of portus.
    fields: Vec<usize>,
    /// For each control register, in the order of `spec.registers`, its index on the wire.
    registers: Vec<u32>,
}

impl Shape {
    fn new(arm: &str, name: &str, text: &str) -> Result<Self, Error> {
        let full = format!("{arm}/{name}");
        programs::check(&full, text)?;
        let compiled = programs::compiled(&full, text, 0)?;
        let rule = |rule: String| Error::Program { name: full.clone(), rule };
        let program = match ToDatapath::parse(&compiled.install) {
            Ok(ToDatapath::Install(program)) => program,
            Ok(_) => return Err(rule("it does not compile to a program".to_owned())),
            Err(error) => return Err(rule(error.to_string())),
        };
        let (mut own, mut registers) = (Vec::new(), Vec::new());
        let (mut fields, mut controls) = (Vec::new(), Vec::new());
        for declared in programs::declared(&full, text)? {
            match compiled.register(&declared) {
                Some(Register::Report(index)) => {
                    own.push(declared.trim_start_matches("Report.").to_owned());
                    fields.push(index as usize);
                }
                Some(Register::Control(index)) => {
                    registers.push(declared);
                    controls.push(index);
                }
                _ => {}
            }
        }
        let (name, text) = (name.to_owned(), text.to_owned());
        let spec = ProgramSpec { name, text, own, registers };
        Ok(Self { spec, program, fields, registers: controls })
    }

    fn is(&self, other: &Program) -> bool {
        self.program.defines == other.defines && self.program.events == other.events
    }

    /// Puts the fields of a report in portus' order.
    fn report(&self, own: &[u64]) -> Vec<u64> {
        let count = self.fields.iter().max().map_or(0, |most| most + 1);
        let mut report = vec![0; count];
        for (index, value) in self.fields.iter().zip(own) {
            report[*index] = *value;
        }
        report
    }
}

/// What an algorithm has set for a flow.
struct Flow {
    cwnd: Bytes,
    rate: Option<Rate>,
    /// `None` until the algorithm has set a program.
    program: Option<usize>,
    /// Values of the control registers of that program, by index on the wire.
    registers: HashMap<u32, u32>,
}

impl Flow {
    fn set(&mut self, updates: &[Update]) {
        for update in updates {
            match update.register {
                Register::Implicit(CWND) => self.cwnd = Bytes(update.value),
                Register::Implicit(RATE) => {
                    let rate = Rate::from_bytes_per_sec(update.value);
                    self.rate = (update.value > 0).then_some(rate);
                }
                Register::Control(index) => {
                    // portus holds 32-bit values.
                    let value = u32::try_from(update.value).unwrap_or(u32::MAX);
                    self.registers.insert(index, value);
                }
                _ => {}
            }
        }
    }
}

/// The state of the exchange. It survives a panic of the algorithm.
struct Desk {
    arm: String,
    shapes: Vec<Shape>,
    flows: HashMap<u32, Flow>,
    /// The numbers under which portus has installed the programs, by position in `shapes`.
    uids: HashMap<usize, u32>,
    /// Flow and sequence number of the frame that portus is working on.
    asked: Option<(u32, u32)>,
}

impl Desk {
    fn new(arm: &str, shapes: Vec<Shape>) -> Self {
        let (flows, uids) = (HashMap::new(), HashMap::new());
        Self { arm: arm.to_owned(), shapes, flows, uids, asked: None }
    }

    /// Removes all flows and program numbers after a panic. Returns the flows.
    fn forget_all(&mut self) -> Vec<u32> {
        self.uids.clear();
        self.asked = None;
        let mut flows: Vec<u32> = self.flows.drain().map(|(flow, _)| flow).collect();
        flows.sort_unstable();
        flows
    }

    /// The answer to the frame that portus has finished.
    fn answer(&mut self) -> Option<Vec<u8>> {
        let (number, seq) = self.asked.take()?;
        let flow = self.flows.get(&number)?;
        let Some(program) = flow.program else {
            return Some(frame::failed(number, "new_flow did not set a datapath program"));
        };
        let registers = self.shapes[program].registers.iter();
        let answer = Answer {
            flow: number,
            seq,
            decision: Decision { cwnd: flow.cwnd, rate: flow.rate },
            handed: Handed { cwnd: flow.cwnd, ssthresh: None, rate: flow.rate },
            program,
            registers: registers.map(|index| flow.registers.get(index).copied()).collect(),
        };
        Some(frame::decision(&answer))
    }

    /// Translates a frame into a CCP message; `None` if portus does not need it.
    fn message(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match ToAuthor::parse(frame)? {
            ToAuthor::Resume(resume) => self.create(&resume, &mut out),
            ToAuthor::Measure { flow, seq, program, own } => {
                let running = self.flows.get(&flow)?.program;
                self.asked = Some((flow, seq));
                let (shape, uid) = (self.shapes.get(program)?, *self.uids.get(&program)?);
                if running != Some(program) {
                    return None; // an old report, sent before the program changed
                }
                encode_measure(&mut out, flow, uid, &shape.report(&own));
            }
            ToAuthor::Close(flow) => {
                self.flows.remove(&flow)?;
                encode_measure(&mut out, flow, 0, &[]);
            }
        }
        Some(out)
    }

    fn create(&mut self, resume: &Resume, out: &mut Vec<u8>) {
        let (number, cwnd) = (resume.flow, resume.cwnd);
        self.asked = Some((number, resume.seq));
        let registers = HashMap::new();
        self.flows.insert(number, Flow { cwnd, rate: None, program: None, registers });
        let word = |bytes: Bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX);
        let create = Create {
            init_cwnd_bytes: word(cwnd),
            mss_bytes: word(resume.mss),
            addresses: resume.ends,
            cong_alg: self.arm.clone(),
        };
        create.encode(out, number);
    }

    /// Handles a message that portus sends to its datapath.
    fn take(&mut self, message: &ToDatapath) -> Result<(), String> {
        match message {
            ToDatapath::Install(program) => {
                // Programs with the same content count as one, whatever their names.
                let found = self.shapes.iter().position(|shape| shape.is(program));
                let place = found.ok_or("a program that the algorithm did not declare")?;
                self.uids.insert(place, program.uid);
            }
            ToDatapath::ChangeProg { sid, uid, updates } => {
                let place = self.uids.iter().find(|(_, known)| *known == uid);
                let place = *place.ok_or("a program that is not installed")?.0;
                if let Some(flow) = self.flows.get_mut(sid) {
                    flow.program = Some(place);
                    flow.registers.clear();
                    flow.set(updates);
                }
            }
            ToDatapath::UpdateFields { sid, updates } => {
                if let Some(flow) = self.flows.get_mut(sid) {
                    flow.set(updates);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The transport of an algorithm's run loop. Its only datapath is this agent.
pub struct Loopback {
    socket: Arc<OwnedFd>,
    desk: Arc<Mutex<Desk>>,
    go_on: Arc<AtomicBool>,
}

impl Ipc for Loopback {
    type Addr = ();

    fn name() -> String {
        "loopback".to_owned()
    }

    fn send(&self, message: &[u8], _to: &()) -> portus::Result<()> {
        let parsed = ToDatapath::parse(message).map_err(|error| error.to_string());
        let taken = parsed.and_then(|message| lock(&self.desk).take(&message));
        taken.map_err(portus::Error)
    }

    /// portus asks for the next message when it has finished the one before, so the answer is sent
    /// here.
    fn recv(&self, out: &mut [u8]) -> portus::Result<(usize, ())> {
        let mut frame = vec![0; FRAME_BYTES_MAX];
        loop {
            if let Some(answer) = lock(&self.desk).answer() {
                post(&self.socket, &answer);
            }
            let bytes = match recv(self.socket.as_raw_fd(), &mut frame, MsgFlags::empty()) {
                Err(Errno::EINTR) => continue,
                Ok(bytes) => bytes,
                Err(_) => 0,
            };
            if bytes == 0 {
                self.go_on.store(false, Ordering::SeqCst);
                return Err(portus::Error("the other end is closed".to_owned()));
            }
            let Some(message) = lock(&self.desk).message(&frame[..bytes]) else { continue };
            let room = out.get_mut(..message.len());
            let room = room.ok_or_else(|| {
                portus::Error("the message is larger than portus' buffer".to_owned())
            })?;
            room.copy_from_slice(&message);
            return Ok((message.len(), ()));
        }
    }

    fn close(&mut self) -> portus::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "congalg_tests.rs"]
mod tests;
