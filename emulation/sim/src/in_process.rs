//! The agent in this process: its own decoding, controllers and guard, without a socket between.
//!
//! What it decides takes effect at the first ACK after the control delay, there and back, as the
//! BPF datapath's slots do. A report carries its own time, so a decision is the same whenever it
//! is made: it is made at once, and delayed.

use crate::Error;
use crate::decisions::Decisions;
use crate::destinations::Destination;
use ccp_agent::author;
use ccp_agent::flow::{Actuator, Context, Flow};
use ccp_agent::programs::{Compiled, installed_as};
use ccp_agent::{Config, catalogue, decode, programs};
use remuda_algorithms::OWN_FIELDS_MAX;
use remuda_algorithms::signals::{FIELDS, REPORT_INTERVAL, REPORTS_PER_ROUND};
use remuda_algorithms::units::Bytes;
use remuda_algorithms::{ArmInfo, ProgramId, Registers, Sample, Why, arms};
use remuda_scenarios::{FlowSpec, SwitchOrder};
use remuda_vm::Program;
use remuda_wire::program::{REPORT_REGISTERS, Register};
use remuda_wire::to_agent::{FlowInfo, Signals};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};

/// A program of an arm, decoded, with the places of the registers that every program has.
#[derive(Debug)]
pub struct Installed {
    pub program: Program,
    compiled: Arc<Compiled>,
    report_us: Option<u32>,
    per_round: Option<u32>,
    /// Where in a report the program's own fields stand, in the order that its controller knows.
    own: Box<[usize]>,
}

/// What the agent wants of a datapath.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// A program to run, by its place in [`Programs`].
    pub program: Option<usize>,
    /// The window, in bytes.
    pub cwnd_bytes: Option<u32>,
    /// The rate, in bytes per second; 0 leaves pacing to the datapath.
    pub rate_bytes_per_sec: Option<u32>,
    /// [`REPORT_INTERVAL`].
    report_us: Option<u32>,
    /// [`REPORTS_PER_ROUND`].
    per_round: Option<u32>,
    own: Registers,
}

impl Orders {
    /// Control registers to set, by index, with their values.
    pub fn controls(&self, installed: &Installed) -> impl Iterator<Item = (u32, u64)> {
        let pairs = [(installed.report_us, self.report_us), (installed.per_round, self.per_round)];
        let own = self.own.as_slice().iter();
        let own = own.map(|(name, value)| (installed.control(name), Some(*value)));
        pairs.into_iter().chain(own).filter_map(|(index, value)| Some((index?, u64::from(value?))))
    }
}

impl Installed {
    fn control(&self, name: &str) -> Option<u32> {
        match self.compiled.register(name) {
            Some(Register::Control(index)) => Some(index),
            _ => None,
        }
    }

    /// The program's own fields of a report, and how many they are.
    fn own(&self, fields: &[u64]) -> ([u64; REPORT_REGISTERS as usize], usize) {
        let mut own = [0; REPORT_REGISTERS as usize];
        for (value, place) in own.iter_mut().zip(&self.own) {
            *value = fields.get(*place).copied().unwrap_or(0);
        }
        (own, self.own.len())
    }
}

/// The programs of all arms: ours, compiled once in a process, and then those of authors.
#[derive(Clone, Debug)]
pub struct Programs {
    ours: &'static [Installed],
    authored: Arc<[Installed]>,
}

impl Programs {
    /// Those that flows of this configuration may run.
    pub fn of(config: &Config) -> Result<Self, Error> {
        static OURS: OnceLock<Result<Vec<Installed>, String>> = OnceLock::new();
        let refuse = |rule: String| Error::Program { rule };
        let ours = OURS.get_or_init(|| arms().iter().enumerate().map(install).collect());
        let ours = ours.as_deref().map_err(|rule| refuse(rule.clone()))?;
        let authored = config.authors.programs();
        let authored = authored.iter().map(|program| install_authored(program));
        Ok(Self { ours, authored: authored.collect::<Result<_, String>>().map_err(refuse)? })
    }

    /// The one at that place.
    pub fn at(&self, place: usize) -> &Installed {
        self.ours.get(place).unwrap_or_else(|| &self.authored[place - self.ours.len()])
    }

    /// Where a program stands: one place for those that a datapath has one of.
    fn place(config: &Config, id: ProgramId) -> Option<usize> {
        let authored = || {
            let programs = config.authors.programs();
            programs.iter().position(|program| program.id == id).map(|at| arms().len() + at)
        };
        let name = installed_as(id);
        arms().iter().position(|arm| arm.program.0 == name).or_else(authored)
    }
}

fn install((index, arm): (usize, &&ArmInfo)) -> Result<Installed, String> {
    let id = arm.program;
    let uid = u32::try_from(index + 1).map_err(|_| "there are too many arms".to_owned())?;
    let compiled = programs::compiled(id.0, arm.program_text, uid).map_err(|e| e.to_string())?;
    let mut installed = install_compiled(&Arc::new(compiled))?;
    // An arm declares the shared signals first, and then its own.
    installed.own = (FIELDS.len()..FIELDS.len() + OWN_FIELDS_MAX).collect();
    Ok(installed)
}

fn install_authored(program: &author::Program) -> Result<Installed, String> {
    let mut installed = install_compiled(&program.compiled)?;
    let place = |name: &&'static str| match program.compiled.register(name) {
        Some(Register::Report(index)) => Some(index as usize),
        _ => None,
    };
    installed.own = program.own.iter().filter_map(place).collect();
    Ok(installed)
}

fn install_compiled(compiled: &Arc<Compiled>) -> Result<Installed, String> {
    let program =
        Program::from_install(&compiled.install).map_err(|refusal| refusal.to_string())?;
    let (compiled, own) = (Arc::clone(compiled), Box::default());
    let mut installed = Installed { program, compiled, report_us: None, per_round: None, own };
    installed.report_us = installed.control(REPORT_INTERVAL);
    installed.per_round = installed.control(REPORTS_PER_ROUND);
    Ok(installed)
}

#[derive(Debug)]
struct Wire<'a>(Orders, bool, &'a Config);

impl Wire<'_> {
    fn note(&mut self, fields: &[(&'static str, u32)]) {
        self.1 = true;
        for (name, value) in fields {
            let field = match *name {
                "Cwnd" => &mut self.0.cwnd_bytes,
                "Rate" => &mut self.0.rate_bytes_per_sec,
                REPORT_INTERVAL => &mut self.0.report_us,
                REPORTS_PER_ROUND => &mut self.0.per_round,
                own => {
                    self.0.own.push(own, *value);
                    continue;
                }
            };
            *field = Some(*value);
        }
    }
}

impl Actuator for Wire<'_> {
    fn set_program(&mut self, program: ProgramId, fields: &[(&'static str, u32)]) {
        self.0.program = Programs::place(self.2, program);
        self.note(fields);
    }

    fn update(&mut self, fields: &[(&'static str, u32)]) {
        self.note(fields);
    }

    /// Refused before: a simulated host has no algorithms of its own (`Abilities::native`).
    fn run_native(&mut self, _name: &'static str, _ssthresh_bytes: u32) {}
}

fn seconds(ns: u64) -> u64 {
    ns / 1_000_000_000
}

/// The agent's side of one flow.
pub struct InProcess {
    flow: Flow,
    config: Arc<Config>,
    decisions: Decisions,
    to: Destination,
    /// The program that it was told to run, by its place in [`Programs`].
    running: Option<usize>,
    /// What is to drive the flow later, the next one last.
    ordered: Vec<SwitchOrder>,
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").field("arm", &self.flow.arm()).finish_non_exhaustive()
    }
}

fn info(ecn: bool, remote: IpAddr, signals: &Signals) -> FlowInfo {
    FlowInfo {
        local: (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        remote: (remote, 0),
        mark: 0,
        cgroup_id: 0,
        ssthresh_bytes: 0,
        srtt_us: signals.srtt_us,
        rtt_min_us: signals.rtt_min_us,
        ecn,
        requested: String::new(),
        cookie: 0,
    }
}

impl InProcess {
    /// `driver` takes a new flow, which is as `spec` says, and later others do. Nothing happens
    /// until it begins, at the moment of `signals`.
    pub fn new(
        (driver, spec): (&str, &FlowSpec),
        (config, to): (&Arc<Config>, Destination),
        (cwnd_pkts, mss_bytes): (u32, u32),
        signals: Signals,
    ) -> Result<Self, Error> {
        let controller = catalogue::build(driver, config)
            .map_err(|error| Error::Driver { rule: error.to_string() })?;
        let mss = Bytes(mss_bytes.into());
        let cwnd = Bytes(u64::from(cwnd_pkts) * mss.0);
        let driven = (driver.to_owned(), controller);
        let info = info(spec.ecn, to.address, &signals);
        let mut flow = Flow::new(to.flow, info, (cwnd, mss), driven, signals.now_us);
        flow.path.wants = spec.wants.preference();
        let ordered = spec.switches.iter().rev().cloned().collect();
        let decisions = Decisions::default();
        let config = Arc::clone(config);
        Ok(Self { flow, config, decisions, to, running: None, ordered })
    }

    /// Before it begins, at the moment of `signals`: what its handshake has told.
    pub fn established(&mut self, signals: &Signals) {
        self.flow.established((signals.srtt_us, signals.rtt_min_us), signals.now_us);
    }

    /// The initial window that the flow's destination has, if it has one.
    pub fn initial_cwnd_pkts(&self, now_ns: u64) -> Option<u32> {
        let beginning = self.to.memory().beginning(self.to.address, seconds(now_ns));
        Some(beginning.initial_cwnd_pkts).filter(|pkts| *pkts > 0)
    }

    /// Before it begins: that is its window.
    pub fn begin_with(&mut self, cwnd_pkts: u32, mss_bytes: u32) {
        self.flow.begin_with(Bytes(u64::from(cwnd_pkts) * u64::from(mss_bytes)));
    }

    /// The flow begins; its first orders.
    pub fn begin(&mut self, signals: Signals) -> Orders {
        self.flow.recall(&mut self.to.memory(), signals.now_us / 1_000_000);
        self.step(signals, |flow, ctx| flow.start(ctx)).unwrap_or_default()
    }

    /// The flow is over.
    pub fn end(&mut self, now_ns: u64) {
        self.flow.leave_for_good(&mut self.to.memory(), seconds(now_ns), &mut self.decisions);
        self.to.companions().ended(self.to.address, self.flow.id);
    }

    /// The arm that has the flow.
    pub fn arm(&self) -> &'static str {
        self.flow.arm()
    }

    pub fn reports(&self) -> u64 {
        self.flow.totals.reports
    }

    /// What was decided so far.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// What its policy saw of the arms.
    pub fn samples(&self) -> &[Sample] {
        &self.decisions.samples
    }

    /// Takes in a report of that program; what it wants, if anything is new. A report of another
    /// program than the flow is to run was under way when it changed: nobody reads it.
    pub fn report(
        &mut self,
        (place, installed): (usize, &Installed),
        fields: &[u64],
        signals: Signals,
    ) -> Option<Orders> {
        let now_s = signals.now_us as f64 / 1e6;
        let due = self.ordered.pop_if(|order| order.at_s <= now_s);
        let is_stale = self.running != Some(place);
        if is_stale && due.is_none() {
            return None;
        }
        let (to, now_us) = (self.to.address, signals.now_us);
        let (driver, id) = (&self.flow.driver, self.flow.id);
        self.flow.companions = self.to.companions().beside(to, driver, id, now_us);
        let (own, count) = installed.own(fields);
        let shared = fields.first_chunk::<{ FIELDS.len() }>().filter(|_| !self.flow.is_foreign());
        let m = shared.map(|values| decode::fields(values, &own[..count], Some(&signals)));
        let to = self.to.clone();
        let orders = self.step(signals, |flow, ctx| {
            match &m {
                _ if is_stale => {}
                Some(m) => flow.on_report(m, ctx),
                None => flow.on_foreign_report(&own[..count], ctx),
            }
            if !is_stale {
                flow.jump_in_time(&mut to.memory(), signals.now_us / 1_000_000, ctx);
            }
            if let Some(order) = due {
                flow.signals = Some(signals);
                flow.wanted = Some((order.to, Why::because("ordered by the scenario")));
                flow.on_poke(ctx);
            }
        });
        if !is_stale {
            let now_s = signals.now_us / 1_000_000;
            self.flow.leave_in_time(&mut self.to.memory(), now_s, &mut self.decisions);
        }
        orders
    }

    fn step(
        &mut self,
        signals: Signals,
        act: impl FnOnce(&mut Flow, &mut Context<'_>),
    ) -> Option<Orders> {
        let mut wire = Wire(Orders::default(), false, &self.config);
        self.decisions.now_ns = signals.now_us * 1_000;
        self.flow.signals = Some(signals);
        let report_us = u32::try_from(self.config.agent.report_interval_ms_min * 1_000);
        let mut ctx = Context {
            config: &self.config,
            recorder: &mut self.decisions,
            actuator: &mut wire,
            report_us: report_us.unwrap_or(u32::MAX),
        };
        act(&mut self.flow, &mut ctx);
        self.flow.signals = None;
        self.running = wire.0.program.or(self.running);
        wire.1.then_some(wire.0)
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
        let config = Arc::new(Config::default());
        let to = Destinations::new(&config).of(&Default::default(), "cubic");
        let agent = InProcess::new(("rein", &spec), (&config, to), (10, 1_448), signals);
        let agent = agent.expect("rein takes any flow");
        assert_eq!(
            agent.flow.path.wants,
            remuda_algorithms::Preference { throughput: 0.25, delay: 1.0 }
        );
    }
}
