//! One TCP flow from end to end: application, sender, control, receiver, and its timers.

use crate::control::Control;
use crate::delays::Delays;
use crate::handshake::Handshake;
use crate::packet::{Kind, Packet};
use crate::tcp::receiver::{Receiver, Reply};
use crate::tcp::sender::Sender;
use crate::timers::{Event, Timers};
use remuda_scenarios::FlowSpec;
use std::collections::VecDeque;

/// An application with a rate writes at most this often.
const WRITE_INTERVAL_NS: u64 = 1_000_000;
const NEVER: u64 = u64::MAX;

/// When each of its timers is due. One that was put off is met early, and set again then; one that
/// was brought forward leaves its old entry behind, which is not the one set and is passed over.
#[derive(Clone, Copy, Debug)]
struct Armed {
    loss_ns: u64,
    pace_ns: u64,
    ack_ns: u64,
    /// The timer of its arm.
    wake_ns: u64,
}

/// What its application has left to write, and how fast it does.
#[derive(Clone, Copy, Debug)]
pub struct Application {
    left_pkts: u32,
    pkts_per_write: u32,
    interval_ns: u64,
}

#[derive(Debug)]
pub struct TcpFlow {
    /// What the scenario says of it.
    pub spec: FlowSpec,
    pub sender: Sender,
    pub control: Control,
    pub receiver: Receiver,
    /// The links data crosses, by index.
    pub route: Box<[u16]>,
    /// The links ACKs cross, by index.
    pub back: Box<[u16]>,
    /// When it started, in nanoseconds: when its handshake was over; before that, when it begins.
    pub start_ns: u64,
    /// When it was told to stop.
    pub stop_ns: Option<u64>,
    /// When all was acknowledged.
    pub end_ns: Option<u64>,
    pub rtts: Delays,
    /// From the sender to the receiver: each segment that arrived.
    pub one_ways: Delays,
    /// What it sends has an end.
    finite: bool,
    application: Option<Application>,
    extra_ns: u64,
    access: VecDeque<(u64, Packet)>,
    armed: Armed,
    /// While it shakes hands.
    handshake: Option<Handshake>,
    has_started: bool,
}

/// Segments of `bytes`, rounded up; what 32 bits do not count has no end.
fn segments(bytes: u64, mss_bytes: u32) -> u32 {
    u32::try_from(bytes.div_ceil(u64::from(mss_bytes.max(1)))).unwrap_or(u32::MAX)
}

impl Application {
    fn new(spec: &FlowSpec) -> Option<Self> {
        let rate = spec.app_rate_mbit_per_sec? * 1e6 / 8.0;
        let segment_ns = f64::from(spec.mss_bytes) / rate * 1e9;
        let pkts_per_write = (WRITE_INTERVAL_NS as f64 / segment_ns).ceil().max(1.0);
        Some(Self {
            left_pkts: spec.bytes.map_or(u32::MAX, |bytes| segments(bytes, spec.mss_bytes)),
            pkts_per_write: pkts_per_write as u32,
            interval_ns: (pkts_per_write * segment_ns) as u64,
        })
    }
}

impl TcpFlow {
    /// A flow that has not started.
    pub fn new(
        spec: FlowSpec,
        (sender, control): (Sender, Control),
        (route, back): (Box<[u16]>, Box<[u16]>),
        rtt_ns: u64,
    ) -> Self {
        Self {
            receiver: Receiver::new(rtt_ns, spec.delayed_acks, spec.mss_bytes),
            start_ns: (spec.start_s * 1e9) as u64,
            stop_ns: None,
            end_ns: None,
            rtts: Delays::new(),
            one_ways: Delays::new(),
            finite: spec.bytes.is_some(),
            application: Application::new(&spec),
            extra_ns: (spec.extra_delay_ms * 1e6) as u64,
            access: VecDeque::new(),
            armed: Armed { loss_ns: NEVER, pace_ns: NEVER, ack_ns: NEVER, wake_ns: NEVER },
            handshake: None,
            has_started: false,
            spec,
            sender,
            control,
            route,
            back,
        }
    }

    /// Payload that has arrived in order, in bytes.
    pub fn delivered_bytes(&self) -> u64 {
        let bytes = u64::from(self.receiver.expected()) * u64::from(self.sender.mss_bytes);
        self.spec.bytes.map_or(bytes, |all| all.min(bytes))
    }

    /// Whether it has shaken hands before the scenario.
    pub fn is_established_before(&self) -> bool {
        self.spec.start_s <= 0.0
    }

    /// Whether it has shaken hands, and sends.
    pub fn has_started(&self) -> bool {
        self.has_started
    }

    /// The receiver asks for the connection: the SYN that it sends.
    pub fn ask(&mut self, now_ns: u64, timers: &mut Timers) -> Packet {
        let (handshake, syn) = Handshake::begin(self.sender.flow, now_ns);
        timers.set(handshake.due_ns(), Event::Handshake, self.sender.flow);
        self.handshake = Some(handshake);
        syn
    }

    /// The SYN has come to the sender; `Some` is its SYN-ACK.
    pub fn asked(&mut self, now_ns: u64, timers: &mut Timers) -> Option<Packet> {
        self.shake(timers, |handshake| handshake.asked(now_ns))
    }

    /// The timer of the handshake; `Some` is what goes again.
    pub fn handshake_timer(&mut self, now_ns: u64, timers: &mut Timers) -> Option<Packet> {
        self.shake(timers, |handshake| handshake.again(now_ns))
    }

    fn shake(
        &mut self,
        timers: &mut Timers,
        act: impl FnOnce(&mut Handshake) -> Option<Packet>,
    ) -> Option<Packet> {
        let handshake = self.handshake.as_mut()?;
        let packet = act(handshake)?;
        timers.set(handshake.due_ns(), Event::Handshake, self.sender.flow);
        Some(packet)
    }

    /// The ACK of its SYN-ACK has come: it knows a round trip, and starts.
    pub fn established(
        &mut self,
        ack: &Packet,
        now_ns: u64,
        timers: &mut Timers,
        out: impl FnMut(Packet),
    ) {
        if self.handshake.take().is_some() {
            self.start_ns = now_ns;
            self.sender.note_handshake(ack.took_us(now_ns) * 1_000);
            self.start(now_ns, timers, out);
        }
    }

    /// It starts: the application writes.
    pub fn start(&mut self, now_ns: u64, timers: &mut Timers, out: impl FnMut(Packet)) {
        self.has_started = true;
        self.control.begin(&mut self.sender, now_ns);
        if self.application.is_some() {
            self.write(now_ns, timers, out);
            return;
        }
        let mss = self.sender.mss_bytes;
        self.sender.write(self.spec.bytes.map_or(u32::MAX, |bytes| segments(bytes, mss)));
        self.send(now_ns, timers, out);
    }

    /// An application with a rate writes its next part.
    pub fn write(&mut self, now_ns: u64, timers: &mut Timers, out: impl FnMut(Packet)) {
        let Some(application) = self.application.as_mut().filter(|_| self.stop_ns.is_none()) else {
            return;
        };
        let pkts = application.pkts_per_write.min(application.left_pkts);
        application.left_pkts -= pkts;
        if application.left_pkts > 0 {
            timers.set(now_ns + application.interval_ns, Event::App, self.sender.flow);
        }
        self.sender.write(pkts);
        self.send(now_ns, timers, out);
    }

    /// It sends nothing new any more.
    pub fn stop(&mut self, now_ns: u64) {
        self.stop_ns = Some(now_ns);
        self.handshake = None;
        self.finite = true;
        self.sender.stop();
        self.note_end(now_ns);
    }

    /// A segment has crossed the links; `Some` is its ACK.
    pub fn arrive(&mut self, packet: &Packet, now_ns: u64, timers: &mut Timers) -> Option<Packet> {
        if self.extra_ns > 0 {
            self.access.push_back((now_ns + self.extra_ns, *packet));
            timers.set(now_ns + self.extra_ns, Event::Access, self.sender.flow);
            return None;
        }
        self.receive(packet, now_ns, timers)
    }

    /// A segment has crossed the flow's own delay; `Some` is its ACK.
    pub fn leave_access(&mut self, now_ns: u64, timers: &mut Timers) -> Option<Packet> {
        let (_, packet) = self.access.pop_front()?;
        self.receive(&packet, now_ns, timers)
    }

    fn receive(&mut self, packet: &Packet, now_ns: u64, timers: &mut Timers) -> Option<Packet> {
        if packet.kind == Kind::SynAck {
            return Some(packet.established());
        }
        self.one_ways.record(packet.took_us(now_ns));
        let smoothed_ns = || self.sender.rtt().smoothed_ns();
        match self.receiver.receive(packet.seq, packet.ce, now_ns, smoothed_ns) {
            Reply::Now => Some(self.receiver.ack(self.sender.flow)),
            Reply::At(at_ns) => {
                if at_ns < self.armed.ack_ns {
                    self.armed.ack_ns = at_ns;
                    timers.set(at_ns, Event::Ack, self.sender.flow);
                }
                None
            }
            Reply::Nothing => None,
        }
    }

    /// The receiver's timer; `Some` is the ACK that waited.
    pub fn delayed_ack(&mut self, now_ns: u64, timers: &mut Timers) -> Option<Packet> {
        if self.armed.ack_ns != now_ns {
            return None;
        }
        self.armed.ack_ns = NEVER;
        let due_ns = self.receiver.due_ns()?;
        if due_ns <= now_ns {
            return Some(self.receiver.ack(self.sender.flow));
        }
        self.armed.ack_ns = due_ns;
        timers.set(due_ns, Event::Ack, self.sender.flow);
        None
    }

    /// An ACK has come back.
    pub fn acknowledge(
        &mut self,
        ack: &Packet,
        now_ns: u64,
        timers: &mut Timers,
        out: impl FnMut(Packet),
    ) {
        let sample = self.sender.acknowledge(ack, now_ns);
        if let Some(rtt_ns) = sample.rtt_ns {
            self.rtts.record(rtt_ns / 1_000);
        }
        self.control.on_ack(&mut self.sender, &sample, now_ns);
        self.send(now_ns, timers, out);
        self.note_end(now_ns);
    }

    /// The sender's retransmission timer.
    pub fn loss_timer(&mut self, now_ns: u64, timers: &mut Timers, mut out: impl FnMut(Packet)) {
        if self.armed.loss_ns != now_ns {
            return;
        }
        self.armed.loss_ns = NEVER;
        let before = self.sender.cwnd_pkts;
        if self.sender.alarm_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            let recovery_began = self.sender.alarm(now_ns, &mut out);
            if recovery_began {
                self.control.on_recovery(now_ns);
            }
            if self.control.keeps_window() {
                self.sender.cwnd_pkts = before;
            }
        }
        self.send(now_ns, timers, out);
    }

    /// A paced sender may go on.
    pub fn pace_timer(&mut self, now_ns: u64, timers: &mut Timers, out: impl FnMut(Packet)) {
        if self.armed.pace_ns != now_ns {
            return;
        }
        self.armed.pace_ns = NEVER;
        self.send(now_ns, timers, out);
    }

    /// Sends what may go, and sets the timers that follow from it.
    pub fn send(&mut self, now_ns: u64, timers: &mut Timers, out: impl FnMut(Packet)) {
        self.sender.send(now_ns, out);
        let flow = self.sender.flow;
        if let Some(at_ns) = self.sender.alarm_ns().filter(|at_ns| *at_ns < self.armed.loss_ns) {
            self.armed.loss_ns = at_ns;
            timers.set(at_ns, Event::Loss, flow);
        }
        if let Some(at_ns) = self.sender.resumes_ns(now_ns).filter(|at| *at < self.armed.pace_ns) {
            self.armed.pace_ns = at_ns;
            timers.set(at_ns, Event::Pace, flow);
        }
        self.set_wake(now_ns, timers);
    }

    fn set_wake(&mut self, now_ns: u64, timers: &mut Timers) {
        let at_ns = self.control.wake_ns().map(|at_ns| at_ns.max(now_ns));
        if let Some(at_ns) = at_ns.filter(|at| *at < self.armed.wake_ns) {
            self.armed.wake_ns = at_ns;
            timers.set(at_ns, Event::Wake, self.sender.flow);
        }
    }

    /// The timer of the flow's arm.
    pub fn wake_timer(&mut self, now_ns: u64, timers: &mut Timers) {
        if self.armed.wake_ns != now_ns {
            return;
        }
        self.armed.wake_ns = NEVER;
        if self.control.wake_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            self.control.wake(now_ns);
        }
        self.set_wake(now_ns, timers);
    }

    fn note_end(&mut self, now_ns: u64) {
        let wrote_all = self.application.is_none_or(|a| a.left_pkts == 0 || self.stop_ns.is_some());
        if self.finite && self.end_ns.is_none() && wrote_all && self.sender.is_done() {
            self.end_ns = Some(now_ns);
        }
    }

    /// Whether nothing more will come of it.
    pub fn is_over(&self) -> bool {
        self.end_ns.is_some()
    }
}
