//! The agent in this process: its own decoding, controllers and guard, without a socket between.
//!
//! What it decides takes effect at the first ACK after the control delay, there and back, as the
//! BPF datapath's slots do. A report carries its own time, so a decision is the same whenever it
//! is made: it is made at once, and delayed.

use crate::Error;
use crate::decisions::{Decisions, Staged};
use crate::destinations::Destination;
use crate::recording::{Entered, Entry, Recording};
use ccp_agent::flow::Driver;
use ccp_agent::flow::{Flow, Start};
use ccp_agent::flows::{Flows, Step};
use ccp_agent::{Setup, programs};
use remuda_algorithms::units::Bytes;
use remuda_algorithms::{Abilities, Sample, Why};
use remuda_scenarios::{FlowSpec, SwitchOrder};
use remuda_vm::Program;
use remuda_wire::program::{CWND, RATE, Register};
use remuda_wire::to_agent::{Create, FlowInfo, Signals};
use remuda_wire::{Order, Report};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};

/// What the agent wants of a datapath, until it takes effect.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// The number of a program to run.
    pub program: Option<u32>,
    /// The window, in bytes.
    pub cwnd_bytes: Option<u64>,
    /// The rate, in bytes per second; 0 leaves pacing to the datapath.
    pub rate_bytes_per_sec: Option<u64>,
    /// Control registers by index, with their values.
    pub controls: Vec<(u32, u64)>,
}

impl Orders {
    fn add(&mut self, order: &Order<'_>) {
        let updates = match *order {
            Order::Run { uid, updates, .. } => {
                self.program = Some(uid);
                self.controls.clear(); // those were the old program's
                updates
            }
            Order::Update { updates, .. } => updates,
            // A program of an author's is known from the start. A native algorithm was refused
            // before: a simulated host has none (`Abilities::native`).
            Order::Install(_) | Order::Native { .. } => return,
        };
        for update in updates {
            match update.register {
                Register::Implicit(CWND) => self.cwnd_bytes = Some(update.value),
                Register::Implicit(RATE) => self.rate_bytes_per_sec = Some(update.value),
                Register::Control(index) => self.controls.push((index, update.value)),
                _ => {}
            }
        }
    }

    fn is_empty(&self) -> bool {
        let Self { program, cwnd_bytes, rate_bytes_per_sec, controls } = self;
        program.is_none()
            && cwnd_bytes.is_none()
            && rate_bytes_per_sec.is_none()
            && controls.is_empty()
    }
}

/// The programs of all arms by their numbers: ours, decoded once in a process, and those of
/// authors.
#[derive(Clone, Debug)]
pub struct Programs {
    ours: &'static [Program],
    authored: Arc<[(u32, Program)]>,
}

fn decode(install: &[u8]) -> Result<Program, String> {
    Program::from_install(install).map_err(|refusal| refusal.to_string())
}

impl Programs {
    /// Those that flows of this setup may run.
    pub fn of(setup: &Setup) -> Result<Self, Error> {
        static OURS: OnceLock<Result<Vec<Program>, String>> = OnceLock::new();
        let refuse = |rule: String| Error::Program { rule };
        let ours = OURS.get_or_init(|| {
            programs::installs().map_err(|error| error.to_string())?.map(decode).collect()
        });
        let ours = ours.as_deref().map_err(|rule| refuse(rule.clone()))?;
        let authored = setup.authors.programs();
        let authored = authored.iter().map(|it| Ok((it.uid, decode(&it.compiled.install)?)));
        Ok(Self { ours, authored: authored.collect::<Result<_, String>>().map_err(refuse)? })
    }

    /// The one of that number; ours are numbered from 1.
    pub fn of_uid(&self, uid: u32) -> Option<&Program> {
        let ours = self.ours.get((uid as usize).wrapping_sub(1));
        ours.or_else(|| self.authored.iter().find(|(of, _)| *of == uid).map(|(_, it)| it))
    }
}

fn seconds(ns: u64) -> u64 {
    ns / 1_000_000_000
}

/// The agent's side of one flow.
pub struct InProcess {
    /// Until it begins; then the engine of its destination has it.
    pending: Option<Flow>,
    setup: Arc<Setup>,
    decisions: Decisions,
    to: Destination,
    /// What is to drive the flow later, the next one last.
    ordered: Vec<SwitchOrder>,
    arm: &'static str,
    reports: u64,
    /// When its arm wants to be woken, in simulated microseconds.
    wake_us: Option<u64>,
    /// As the flow is announced.
    create: Create,
    recording: Option<Recording>,
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").field("arm", &self.arm).finish_non_exhaustive()
    }
}

fn info(ecn: bool, remote: IpAddr, signals: &Signals) -> FlowInfo {
    FlowInfo {
        srtt_us: signals.srtt_us,
        rtt_min_us: signals.rtt_min_us,
        ecn,
        ..FlowInfo::between((IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), (remote, 0))
    }
}

impl InProcess {
    /// `driver` takes a new flow, which is as `spec` says, and later others do. Nothing happens
    /// until it begins, at the moment of `signals`.
    pub fn new(
        (driver, spec): (&str, &FlowSpec),
        (setup, to): (&Arc<Setup>, Destination),
        (cwnd_pkts, mss_bytes): (u32, u32),
        signals: Signals,
    ) -> Result<Self, Error> {
        let controller = Driver::build(driver, setup)
            .map_err(|error| Error::Driver { rule: error.to_string() })?;
        let start = Start {
            is_believed: true,
            id: to.flow,
            sid: to.flow,
            info: info(spec.ecn, to.address, &signals),
            cwnd: Bytes(u64::from(cwnd_pkts) * u64::from(mss_bytes)),
            mss: Bytes(mss_bytes.into()),
            abilities: Abilities::default(),
            at_us: signals.now_us,
        };
        let mut flow = Flow::new(start, driver.to_owned(), controller);
        flow.prefer_silently(spec.wants.preference());
        Ok(Self {
            arm: flow.arm(),
            pending: Some(flow),
            setup: Arc::clone(setup),
            decisions: Decisions::default(),
            to,
            ordered: spec.switches.iter().rev().cloned().collect(),
            reports: 0,
            wake_us: None,
            create: Create {
                init_cwnd_bytes: cwnd_pkts.saturating_mul(mss_bytes),
                mss_bytes,
                cong_alg: driver.to_owned(),
                ..Create::default()
            },
            recording: None,
        })
    }

    /// Before it begins, at the moment of `signals`: what its handshake has told.
    pub fn established(&mut self, signals: &Signals) {
        if let Some(flow) = &mut self.pending {
            flow.established((signals.srtt_us, signals.rtt_min_us), signals.now_us);
        }
    }

    /// The initial window that the flow's destination has, if it has one.
    pub fn initial_cwnd_pkts(&self, now_ns: u64) -> Option<u32> {
        let beginning = self.to.engine().memory().start(self.to.address, seconds(now_ns));
        Some(beginning.initial_cwnd_pkts).filter(|pkts| *pkts > 0)
    }

    /// Before it begins: that is its window.
    pub fn begin_with(&mut self, cwnd_pkts: u32, mss_bytes: u32) {
        self.create.init_cwnd_bytes = cwnd_pkts.saturating_mul(mss_bytes);
        if let Some(flow) = &mut self.pending {
            flow.begin_with(Bytes(u64::from(cwnd_pkts) * u64::from(mss_bytes)));
        }
    }

    /// The flow begins; its first orders.
    pub fn begin(&mut self, signals: Signals) -> Orders {
        let mut orders = Orders::default();
        if let Some(flow) = self.pending.take() {
            let (create, info) = (self.create.clone(), flow.info().clone());
            let entered = || Entered::Created { create, info };
            self.step(signals.now_us, &mut orders, entered, |engine, step| {
                engine.start(flow, step);
            });
        }
        orders
    }

    /// The flow is over.
    pub fn end(&mut self, now_ns: u64) {
        let at_us = now_ns / 1_000;
        if let Some(recording) = &self.recording {
            let (entered, orders) = (Entered::Closed, Vec::new());
            recording.add(Entry { at_us, sid: self.to.flow, entered, orders });
        }
        self.wake_us = None;
        let Self { to, decisions, .. } = self;
        to.engine().end(to.flow, at_us, decisions);
    }

    /// The arm that has the flow.
    pub fn arm(&self) -> &'static str {
        self.arm
    }

    pub fn reports(&self) -> u64 {
        self.reports
    }

    /// What was decided so far.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// What its policy saw of the arms.
    pub fn samples(&self) -> &[Sample] {
        &self.decisions.samples
    }

    /// The stages that its arms entered.
    pub fn stages(&self) -> &[Staged] {
        &self.decisions.stages
    }

    /// Takes in a report of the program `uid`; what the agent wants, if anything is new.
    pub fn report(&mut self, uid: u32, fields: &[u64], signals: Signals) -> Option<Orders> {
        let mut orders = Orders::default();
        let sid = self.to.flow;
        let report = Report { sid, uid, fields, signals: Some(signals) };
        let entered = || Entered::Report { uid, fields: fields.to_vec(), signals };
        self.step(signals.now_us, &mut orders, entered, |engine, step| {
            engine.report(sid, &report, step);
        });
        let now_s = signals.now_us as f64 / 1e6;
        if let Some(order) = self.ordered.pop_if(|order| order.at_s <= now_s) {
            let by = if order.at_s < 0.0 { "a program" } else { "the scenario" };
            let why = Why::because(format!("ordered by {by}"));
            self.act(signals.now_us, &mut |order| orders.add(order), |engine, step| {
                engine.want(sid, &order.to, &why);
                engine.poke(sid, step);
            });
        }
        Some(orders).filter(|orders| !orders.is_empty())
    }

    /// The next report gives the flow to this arm or policy, before any that the scenario orders.
    pub fn order(&mut self, to: &str) {
        self.ordered.retain(|order| order.at_s >= 0.0);
        self.ordered.push(SwitchOrder { at_s: -1.0, to: to.to_owned() });
    }

    /// When its arm wants to be woken, in simulated microseconds.
    pub fn wake_us(&self) -> Option<u64> {
        self.wake_us
    }

    /// The timer of its arm goes off; what the agent wants, if anything is new.
    pub fn wake(&mut self, now_us: u64) -> Option<Orders> {
        let mut orders = Orders::default();
        let id = self.to.flow;
        self.step(now_us, &mut orders, || Entered::Wake, |engine, step| engine.wake(id, step));
        Some(orders).filter(|orders| !orders.is_empty())
    }

    /// Keeps what enters, and the orders that leave.
    pub fn record(&mut self, recording: Recording) {
        self.recording = Some(recording);
    }

    /// One event, which `entered` describes for a recording.
    fn step(
        &mut self,
        now_us: u64,
        orders: &mut Orders,
        entered: impl FnOnce() -> Entered,
        act: impl FnOnce(&mut Flows, Step<'_>),
    ) {
        let Some(recording) = self.recording.clone() else {
            return self.act(now_us, &mut |order| orders.add(order), act);
        };
        let mut left = Vec::new();
        let mut take = |order: &Order<'_>| {
            left.push(format!("{order:?}"));
            orders.add(order);
        };
        self.act(now_us, &mut take, act);
        let sid = self.to.flow;
        recording.add(Entry { at_us: now_us, sid, entered: entered(), orders: left });
    }

    fn act<'a>(
        &'a mut self,
        now_us: u64,
        orders: &'a mut ccp_agent::flow::Orders<'a>,
        act: impl FnOnce(&mut Flows, Step<'_>),
    ) {
        self.decisions.now_ns = now_us * 1_000;
        let mut engine = self.to.engine();
        let step = Step { setup: &self.setup, recorder: &mut self.decisions, orders, now_us };
        act(&mut engine, step);
        if let Some(flow) = engine.get(self.to.flow) {
            self.arm = flow.arm();
            self.reports = flow.reports();
            self.wake_us = flow.wake_us();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::Destinations;

    #[test]
    fn what_the_application_wants_is_known_of_the_path() {
        let wants = "throughput=0.25,delay=1".parse().expect("a preference");
        let spec = FlowSpec { wants, ..FlowSpec::default() };
        let signals = Signals { mss_bytes: 1_448, ..Signals::default() };
        let setup = Arc::new(Setup::default());
        let to = Destinations::new(&setup).of(&Default::default(), "cubic");
        let agent = InProcess::new(("rein", &spec), (&setup, to), (10, 1_448), signals);
        let agent = agent.expect("rein takes any flow");
        assert_eq!(
            agent.pending.expect("it has not begun").preference(),
            remuda_algorithms::Preference { throughput: 0.25, delay: 1.0 }
        );
    }
}
