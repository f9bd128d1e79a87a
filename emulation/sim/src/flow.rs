//! One TCP flow from end to end: application, sender, control, receiver, and its timers.

use crate::control::Control;
use crate::delays::Delays;
use crate::external::External;
use crate::handshake::Handshake;
use crate::packet::{Kind, Packet};
use crate::tcp::receiver::{Receiver, Reply};
use crate::tcp::sender::Sender;
use crate::timers::{Event, Timers};
use remuda_scenarios::FlowSpec;
use std::collections::VecDeque;

/// How often an application with a rate writes, at most.
const WRITE_INTERVAL_NS: u64 = 1_000_000;
const NEVER: u64 = u64::MAX;

/// When each timer is due. If a timer is postponed, its old entry fires early and the timer is set
/// again then. If a timer is brought forward, its old entry stays behind: it does not match the
/// time stored here, and is ignored.
#[derive(Clone, Copy, Debug)]
struct Armed {
    loss_ns: u64,
    pace_ns: u64,
    ack_ns: u64,
    /// The timer of its arm.
    wake_ns: u64,
}

/// The bytes that an application has left to write, and how fast it writes.
#[derive(Clone, Copy, Debug)]
pub struct Application {
    left_pkts: u32,
    pkts_per_write: u32,
    interval_ns: u64,
}

#[derive(Debug)]
pub struct TcpFlow {
    /// The flow as the scenario describes it.
    pub spec: FlowSpec,
    pub sender: Sender,
    pub control: Control,
    pub receiver: Receiver,
    /// The links data crosses, by index.
    pub route: Box<[u16]>,
    /// The links ACKs cross, by index.
    pub back: Box<[u16]>,
    /// The flow's start in nanoseconds: the end of its handshake, or before that the start in the
    /// scenario.
    pub start_ns: u64,
    /// When the flow was stopped.
    pub stop_ns: Option<u64>,
    /// When all bytes were acknowledged.
    pub end_ns: Option<u64>,
    pub rtts: Delays,
    /// One-way delays of the segments that arrived at the receiver.
    pub one_ways: Delays,
    /// Whether the flow has a byte limit.
    finite: bool,
    application: Option<Application>,
    extra_ns: u64,
    access: VecDeque<(u64, Packet)>,
    armed: Armed,
    /// The handshake while it is under way.
    handshake: Option<Handshake>,
    has_started: bool,
    /// What an outside caller sees of a flow that an arm drives.
    pub watch: Option<Box<External>>,
}

/// The number of segments for `bytes`, rounded up. More than 32 bits can count means no limit.
fn segments(bytes: u64, mss_bytes: u32) -> u32 {
    u32::try_from(bytes.div_ceil(u64::from(mss_bytes.max(1)))).unwrap_or(u32::MAX)
}

impl Application {
    fn new(spec: &FlowSpec) -> Option<Self> {
        let rate = spec.app_rate_mbit_per_sec? * 1e6 / 8.0;
        let segment_ns = f64::from(spec.mss_bytes) / rate * 1e9;
        let pkts_per_write = match spec.app_write_bytes {
            Some(bytes) => f64::from(segments(bytes, spec.mss_bytes)),
            None => (WRITE_INTERVAL_NS as f64 / segment_ns).ceil().max(1.0),
        };
        Some(Self {
            left_pkts: spec.bytes.map_or(u32::MAX, |bytes| segments(bytes, spec.mss_bytes)),
            pkts_per_write: pkts_per_write as u32,
            interval_ns: (pkts_per_write * segment_ns) as u64,
        })
    }
}

impl TcpFlow {
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
            watch: None,
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

    /// Whether the handshake was over before the scenario began.
    pub fn is_established_before(&self) -> bool {
        self.spec.start_s <= 0.0
    }

    /// Whether the handshake is over and the flow sends.
    pub fn has_started(&self) -> bool {
        self.has_started
    }

    /// Starts the handshake. Returns the SYN, which the receiver sends.
    pub fn ask(&mut self, now_ns: u64, timers: &mut Timers) -> Packet {
        let (handshake, syn) = Handshake::begin(self.sender.flow, now_ns);
        timers.set(handshake.due_ns(), Event::Handshake, self.sender.flow);
        self.handshake = Some(handshake);
        syn
    }

    /// The SYN has arrived at the sender. Returns the SYN-ACK, or `None` for a repeated SYN.
    pub fn asked(&mut self, now_ns: u64, timers: &mut Timers) -> Option<Packet> {
        self.shake(timers, |handshake| handshake.asked(now_ns))
    }

    /// The timer of the handshake. Returns the packet to retransmit.
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

    /// The ACK of the SYN-ACK has arrived at the sender: it knows the round trip, and the flow
    /// starts.
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

    /// Starts the flow: the application writes.
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

    /// The application writes its next part, if it has a rate.
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

    /// Stops the flow: it sends no new data.
    pub fn stop(&mut self, now_ns: u64) {
        self.stop_ns = Some(now_ns);
        self.handshake = None;
        self.finite = true;
        self.sender.stop();
        self.note_end(now_ns);
    }

    /// A segment has crossed the links. Returns its ACK, if one is due.
    pub fn arrive(&mut self, packet: &Packet, now_ns: u64, timers: &mut Timers) -> Option<Packet> {
        if self.extra_ns > 0 {
            self.access.push_back((now_ns + self.extra_ns, *packet));
            timers.set(now_ns + self.extra_ns, Event::Access, self.sender.flow);
            return None;
        }
        self.receive(packet, now_ns, timers)
    }

    /// A segment has passed the flow's extra delay. Returns its ACK, if one is due.
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
        match self.receiver.receive(packet, now_ns, smoothed_ns) {
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

    /// The timer of delayed ACKs. Returns the delayed ACK, if it is due.
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

    /// An ACK has arrived at the sender.
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
        if let Some(watch) = &mut self.watch {
            watch.note(&self.sender, &sample);
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

    /// The timer of the pacer: the sender may continue.
    pub fn pace_timer(&mut self, now_ns: u64, timers: &mut Timers, out: impl FnMut(Packet)) {
        if self.armed.pace_ns != now_ns {
            return;
        }
        self.armed.pace_ns = NEVER;
        self.send(now_ns, timers, out);
    }

    /// Sends what the window and the pacer allow, and sets the timers.
    pub fn send(&mut self, now_ns: u64, timers: &mut Timers, out: impl FnMut(Packet)) {
        if let Some(idle_ns) = self.sender.idle_ns(now_ns) {
            self.control.on_restart(&mut self.sender, idle_ns);
        }
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

    /// Whether the flow has finished.
    pub fn is_over(&self) -> bool {
        self.end_ns.is_some()
    }
}
