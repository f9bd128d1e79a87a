//! The datapath of a simulated sender. At every ACK it computes the primitives, runs the program in
//! the VM and sets the window.
//!
//! Does for a simulated sender what `run_program()` of the BPF datapath does for a socket
//! (datapath/bpf/src/bpf/program.h and datapath/tcp).

use crate::Error;
use crate::cwnd::CwndSetter;
use crate::destinations::Destination;
use crate::in_process::{InProcess, Orders, Programs};
use crate::recording::Recording;
use crate::tcp::sender::{AckSample, Sender, State};
use ccp_agent::Setup;
use remuda_scenarios::FlowSpec;
use remuda_vm::{Machine, Primitives};
use remuda_wire::to_agent::Signals;
use std::collections::VecDeque;
use std::sync::Arc;

/// The RTT sample that means "no sample" in libccp.
const RTT_INVALID: u64 = 0xffff_ffff;
/// A rate near 0 would bring no ACKs, and so no report that could raise it.
const RATE_MIN_SEGMENTS_PER_SEC: u64 = 10;
/// `IW_STANDARD_PKTS`: an initial window above it is paced.
const IW_STANDARD_PKTS: u32 = 10;
/// `PACING_SS_PERCENT`, the pace of a slow start, as a factor.
const PACING_SLOW_START: u64 = 2;

/// Flags of the next report.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    app_limited: bool,
    cwnd_full: bool,
    cwnd_half: bool,
    undone: bool,
    restarted: bool,
}

/// One flow's datapath, and the agent behind it.
#[derive(Debug)]
pub struct Datapath {
    machine: Machine,
    primitives: Primitives,
    programs: Programs,
    /// The uid of the program that runs; `None` before the agent's first order.
    running: Option<u32>,
    agent: InProcess,
    delay_ns: u64,
    orders: VecDeque<(u64, Orders)>,
    cwnd: CwndSetter,
    sacked_pkts: u32,
    lost_pkts: u64,
    timed_out: bool,
    flags: Flags,
    /// Until the first ACK, the sender is paced because of its initial window.
    paces_first_window: bool,
}

impl Datapath {
    /// A datapath for a flow that begins at `start_ns`. Orders take effect `delay_ns` after the
    /// report that they answer.
    pub fn new(
        driver: &str,
        (setup, to): (&Arc<Setup>, Destination),
        (sender, spec): (&Sender, &FlowSpec),
        (delay_ns, start_ns): (u64, u64),
    ) -> Result<Self, Error> {
        let agent = InProcess::new(
            (driver, spec),
            (setup, to),
            (sender.cwnd_pkts, sender.mss_bytes),
            Self::signals_at_start(sender, start_ns),
        )?;
        Ok(Self {
            machine: Machine::new(),
            primitives: Primitives::default(),
            programs: Programs::of(setup)?,
            running: None,
            agent,
            delay_ns,
            orders: VecDeque::new(),
            cwnd: CwndSetter::new(sender.cwnd_pkts),
            sacked_pkts: 0,
            lost_pkts: 0,
            timed_out: false,
            flags: Flags::default(),
            paces_first_window: false,
        })
    }

    fn signals_at_start(sender: &Sender, now_ns: u64) -> Signals {
        Signals {
            now_us: now_ns / 1_000,
            mss_bytes: sender.mss_bytes,
            srtt_us: micros(sender.rtt().smoothed_ns()),
            rtt_min_us: micros(sender.rtt().min_ns()),
            ..Signals::default()
        }
    }

    /// Begins the flow, with the initial window remembered for its destination, if there is one.
    pub fn begin(&mut self, sender: &mut Sender, now_ns: u64) {
        self.agent.established(&Self::signals_at_start(sender, now_ns));
        if let Some(pkts) = self.agent.initial_cwnd_pkts(now_ns) {
            sender.cwnd_pkts = pkts;
            self.cwnd = CwndSetter::new(pkts);
            self.agent.begin_with(pkts, sender.mss_bytes);
            self.pace_first_window(sender);
        }
        let orders = self.agent.begin(Self::signals_at_start(sender, now_ns));
        self.orders.push_back((now_ns + self.delay_ns, orders));
    }

    /// `pace_first_window()`, but for the first ten segments, which the stack does not pace.
    fn pace_first_window(&mut self, sender: &mut Sender) {
        let srtt_ns = sender.rtt().smoothed_ns().filter(|srtt_ns| *srtt_ns > 0);
        if let Some(srtt_ns) = srtt_ns
            && sender.cwnd_pkts > IW_STANDARD_PKTS
        {
            let bytes = u64::from(sender.cwnd_pkts) * u64::from(sender.mss_bytes);
            pace_at(sender, bytes * PACING_SLOW_START * 1_000_000_000 / srtt_ns);
            self.paces_first_window = true;
        }
    }

    /// The flow is over.
    pub fn end(&mut self, now_ns: u64) {
        self.agent.end(now_ns);
    }

    pub fn agent(&self) -> &InProcess {
        &self.agent
    }

    /// See [`crate::Simulation::order`].
    pub fn order(&mut self, to: &str) {
        self.agent.order(to);
    }

    /// See [`InProcess::record`].
    pub fn record(&mut self, recording: Recording) {
        self.agent.record(recording);
    }

    /// Handles an ACK or an alarm of the sender: runs the program, takes due orders, sets window
    /// and rate.
    pub fn on_ack(&mut self, sender: &mut Sender, sample: &AckSample, now_ns: u64) {
        if sample.undone {
            self.cwnd.undo(sender, sender.pacer.rate().is_some());
            self.flags.undone = true;
        }
        if sample.recovery_began {
            self.cwnd.begin(now_ns);
        }
        if std::mem::take(&mut self.paces_first_window) {
            sender.pacer.set_rate(None);
        }
        self.timed_out |= sender.take_timed_out();
        self.cwnd.note(sender);
        self.take_orders(sender, now_ns);
        if self.running.is_some() {
            self.load(sender, sample, now_ns);
            self.run(sender, now_ns);
        } else if sender.used_half() && sender.state() < State::Cwr {
            // Until the agent's first order: slow start, as Reno in the BPF datapath.
            self.cwnd.want(u64::from(self.cwnd.wanted_pkts() + sample.delivered_pkts));
        }
        let paced = sender.pacer.rate().is_some();
        self.cwnd.settle(sender, sample, paced, now_ns);
    }

    /// `note_transmission()`: the sender begins to send again after it was idle for `idle_ns`,
    /// which is longer than its timeout.
    pub fn on_restart(&mut self, sender: &mut Sender, idle_ns: u64) {
        if sender.pacer.rate().is_none() {
            sender.restart(idle_ns);
            self.cwnd = CwndSetter::new(sender.cwnd_pkts);
            self.flags.restarted = true;
        }
    }

    /// When the flow's arm wants to be woken.
    pub fn wake_ns(&self) -> Option<u64> {
        self.agent.wake_us().map(|at_us| at_us.saturating_mul(1_000))
    }

    /// The timer of the flow's arm goes off. Its decision takes effect like one that answers a
    /// report: at the first ACK after the control delay.
    pub fn wake(&mut self, now_ns: u64) {
        if let Some(orders) = self.agent.wake(now_ns / 1_000) {
            self.orders.push_back((now_ns + self.delay_ns, orders));
        }
    }

    /// The sender's timer found a loss.
    pub fn on_recovery(&mut self, now_ns: u64) {
        self.cwnd.begin(now_ns);
    }

    /// `take_slot()`.
    fn take_orders(&mut self, sender: &mut Sender, now_ns: u64) {
        while self.orders.front().is_some_and(|(at_ns, _)| *at_ns <= now_ns) {
            let Some((_, orders)) = self.orders.pop_front() else { break };
            if let Some((uid, program)) =
                orders.program.and_then(|uid| Some((uid, self.programs.of_uid(uid)?)))
            {
                self.running = Some(uid);
                self.machine.change(program, &[], now_ns);
            }
            for (index, value) in orders.controls.iter().filter(|_| self.running.is_some()) {
                self.machine.set_control(*index, *value);
            }
            // An order made before the agent learnt of the restart must not raise the restart
            // window.
            let most_pkts = if self.flags.restarted { self.cwnd.wanted_pkts() } else { u32::MAX };
            if let Some(cwnd_bytes) = orders.cwnd_bytes {
                let pkts = cwnd_bytes / u64::from(sender.mss_bytes);
                self.cwnd.want(pkts.min(most_pkts.into()));
            }
            if let Some(rate) = orders.rate_bytes_per_sec {
                pace_at(sender, rate);
                self.paces_first_window = false;
            }
        }
    }

    /// `load_primitives()`.
    fn load(&mut self, sender: &Sender, sample: &AckSample, now_ns: u64) {
        let mss = u64::from(sender.mss_bytes);
        let sacked = sender.sacked_pkts();
        let misordered = u64::from(sacked.saturating_sub(self.sacked_pkts));
        self.sacked_pkts = sacked;
        let in_flight = u64::from(sender.in_flight_pkts());
        let p = &mut self.primitives;
        p.bytes_acked = u64::from(sample.acked_pkts) * mss;
        p.packets_acked = u64::from(sample.delivered_pkts).saturating_sub(misordered);
        p.packets_misordered = misordered;
        p.bytes_misordered = misordered * mss;
        p.lost_pkts_sample = sender.counts.lost_pkts - self.lost_pkts;
        self.lost_pkts = sender.counts.lost_pkts;
        p.ecn_packets = sample.ce_pkts.into();
        p.ecn_bytes = u64::from(sample.ce_pkts) * mss;
        if let Some(rate) = sample.rate.filter(|rate| rate.delivered_pkts > 0) {
            let bytes_ns = u64::from(rate.delivered_pkts) * mss * 1_000_000_000;
            p.rate_outgoing = bytes_ns.checked_div(rate.send_ns).unwrap_or(p.rate_outgoing);
            p.rate_incoming = bytes_ns.checked_div(rate.ack_ns).unwrap_or(p.rate_incoming);
            self.flags.app_limited |= rate.is_app_limited;
        }
        self.flags.cwnd_full |= sender.is_cwnd_limited();
        self.flags.cwnd_half |= sender.used_half();
        p.now_us = now_ns / 1_000;
        p.packets_in_flight = in_flight;
        p.bytes_in_flight = in_flight * mss;
        p.bytes_pending = u64::from(sender.pending_pkts()) * mss;
        p.rtt_sample_us = sample.rtt_ns.map_or(RTT_INVALID, |rtt_ns| (rtt_ns / 1_000).max(1));
        p.was_timeout = std::mem::take(&mut self.timed_out).into();
    }

    fn run(&mut self, sender: &mut Sender, now_ns: u64) {
        let mss = u64::from(sender.mss_bytes);
        let cwnd_bytes = u64::from(self.cwnd.wanted_pkts()) * mss;
        let rate = sender.pacer.rate().unwrap_or(0);
        let ran = self.machine.run(&self.primitives, cwnd_bytes, rate, now_ns);
        if let Some(cwnd_bytes) = ran.cwnd_bytes.filter(|bytes| *bytes > 0) {
            self.cwnd.want(cwnd_bytes / mss);
        }
        if let Some(rate) = ran.rate.filter(|rate| *rate > 0) {
            pace_at(sender, rate);
        }
        if let (true, Some(uid)) = (ran.reported, self.running) {
            let signals = self.signals(sender, now_ns);
            if let Some(orders) = self.agent.report(uid, self.machine.report(), signals) {
                self.orders.push_back((now_ns + self.delay_ns, orders));
            }
        }
    }

    fn signals(&mut self, sender: &Sender, now_ns: u64) -> Signals {
        let flags = std::mem::take(&mut self.flags);
        Signals {
            now_us: now_ns / 1_000,
            srtt_us: micros(sender.rtt().smoothed_ns()),
            rtt_min_us: micros(sender.rtt().min_ns()),
            delivered_pkts: sender.delivered_pkts(),
            lost_pkts: sender.counts.lost_pkts as u32,
            cwnd_pkts: self.cwnd.wanted_pkts(),
            mss_bytes: sender.mss_bytes,
            app_limited: flags.app_limited,
            in_recovery: sender.state() >= State::Recovery,
            cwnd_full: flags.cwnd_full,
            cwnd_half: flags.cwnd_half,
            undone: flags.undone,
            restarted: flags.restarted,
            // A simulated receiver reads at once, and an application's writes have room.
            rwnd_limited: false,
            sndbuf_limited: false,
        }
    }
}

fn micros(ns: Option<u64>) -> u32 {
    u32::try_from(ns.unwrap_or(0) / 1_000).unwrap_or(u32::MAX)
}

/// `pace_at()`; a rate of 0 turns pacing off.
fn pace_at(sender: &mut Sender, rate: u64) {
    let least = u64::from(sender.mss_bytes) * RATE_MIN_SEGMENTS_PER_SEC;
    sender.pacer.set_rate((rate > 0).then_some(rate.max(least)));
}
