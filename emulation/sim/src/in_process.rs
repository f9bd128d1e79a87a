//! The agent in this process: its own decoding, controllers and guard, without a socket between.
//!
//! What it decides takes effect at the first ACK after the control delay, there and back, as the
//! BPF datapath's slots do. A report carries its own time, so a decision is the same whenever it
//! is made: it is made at once, and delayed.

use crate::Error;
use ccp_agent::flow::{Actuator, Context, Flow};
use ccp_agent::programs::Compiled;
use ccp_agent::{Config, catalogue, decode, events, programs};
use remuda_algorithms::signals::{FIELDS, REPORT_INTERVAL, REPORTS_PER_ROUND};
use remuda_algorithms::units::Bytes;
use remuda_algorithms::{Arm, ProgramId, Registers, Why, arms};
use remuda_scenarios::SwitchOrder;
use remuda_scenarios::outcome::Switch;
use remuda_vm::Program;
use remuda_wire::program::Register;
use remuda_wire::to_agent::{FlowInfo, Signals};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};

/// A program of an arm, decoded, with the places of the registers that every program has.
#[derive(Debug)]
pub struct Installed {
    /// To run.
    pub program: Program,
    compiled: Arc<Compiled>,
    report_us: Option<u32>,
    per_round: Option<u32>,
}

/// What the agent wants of a datapath.
#[derive(Clone, Copy, Debug, Default)]
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
    /// The program's own.
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
        let authored = authored.iter().map(|program| install_compiled(&program.compiled));
        Ok(Self { ours, authored: authored.collect::<Result<_, String>>().map_err(refuse)? })
    }

    /// The one at that place.
    pub fn at(&self, place: usize) -> &Installed {
        self.ours.get(place).unwrap_or_else(|| &self.authored[place - self.ours.len()])
    }

    fn place(config: &Config, id: ProgramId) -> Option<usize> {
        let authored = || {
            let programs = config.authors.programs();
            programs.iter().position(|program| program.id == id).map(|at| arms().len() + at)
        };
        arms().iter().position(|arm| arm.program == id).or_else(authored)
    }
}

fn install((index, arm): (usize, &&Arm)) -> Result<Installed, String> {
    let id = arm.program;
    let uid = u32::try_from(index + 1).map_err(|_| "there are too many arms".to_owned())?;
    let compiled = programs::compiled(id.0, arm.program_text, uid).map_err(|e| e.to_string())?;
    install_compiled(&Arc::new(compiled))
}

fn install_compiled(compiled: &Arc<Compiled>) -> Result<Installed, String> {
    let program =
        Program::from_install(&compiled.install).map_err(|refusal| refusal.to_string())?;
    let compiled = Arc::clone(compiled);
    let mut installed = Installed { program, compiled, report_us: None, per_round: None };
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
                    self.0.own = self.0.own.with(own, *value);
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

    /// Refused before: a simulated host has no algorithms of its own (`PathState::has_native`).
    fn run_native(&mut self, _name: &'static str, _ssthresh_bytes: u32) {}
}

/// Keeps the switches, with their reasons.
#[derive(Debug, Default)]
struct Switches {
    now_ns: u64,
    made: Vec<Switch>,
}

impl events::Recorder for Switches {
    fn record(&mut self, _flow: Option<u32>, event: &events::Event) {
        if let events::Event::Switched { from, to, why, .. } = event {
            self.made.push(Switch {
                t_s: self.now_ns as f64 / 1e9,
                from: from.clone(),
                to: to.clone(),
                why: why.clone(),
            });
        }
    }
}

/// The agent's side of one flow.
pub struct InProcess {
    flow: Flow,
    config: Arc<Config>,
    switches: Switches,
    /// What is to drive the flow later, the next one last.
    ordered: Vec<SwitchOrder>,
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").field("arm", &self.flow.arm()).finish_non_exhaustive()
    }
}

fn info(ecn: bool, signals: &Signals) -> FlowInfo {
    let nobody = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    FlowInfo {
        local: nobody,
        remote: nobody,
        mark: 0,
        cgroup_id: 0,
        ssthresh_bytes: 0,
        srtt_us: signals.srtt_us,
        rtt_min_us: signals.rtt_min_us,
        ecn,
        requested: String::new(),
    }
}

impl InProcess {
    /// `driver` takes a new flow, and later others do; its first orders.
    pub fn start(
        (driver, ordered): (&str, &[SwitchOrder]),
        config: &Arc<Config>,
        (cwnd_pkts, mss_bytes, ecn): (u32, u32, bool),
        signals: Signals,
    ) -> Result<(Self, Orders), Error> {
        let controller = catalogue::build(driver, config)
            .map_err(|error| Error::Driver { rule: error.to_string() })?;
        let mss = Bytes(mss_bytes.into());
        let cwnd = Bytes(u64::from(cwnd_pkts) * mss.0);
        let driven = (driver.to_owned(), controller);
        let flow = Flow::new(1, info(ecn, &signals), (cwnd, mss), driven, signals.now_us);
        let ordered = ordered.iter().rev().cloned().collect();
        let switches = Switches::default();
        let mut agent = Self { flow, config: Arc::clone(config), switches, ordered };
        let orders = agent.step(signals, |flow, ctx| flow.start(ctx)).unwrap_or_default();
        Ok((agent, orders))
    }

    /// The arm that has the flow.
    pub fn arm(&self) -> &'static str {
        self.flow.arm()
    }

    /// Reports taken in.
    pub fn reports(&self) -> u64 {
        self.flow.totals.reports
    }

    /// The switches made.
    pub fn switches(&self) -> &[Switch] {
        &self.switches.made
    }

    /// Takes in a report; what it wants, if anything is new.
    pub fn report(&mut self, fields: &[u64], signals: Signals) -> Option<Orders> {
        let foreign = self.flow.is_foreign();
        let shared = fields.split_first_chunk::<{ FIELDS.len() }>().filter(|_| !foreign);
        let m = shared.map(|(values, own)| decode::fields(values, own, Some(&signals)));
        let now_s = signals.now_us as f64 / 1e6;
        let due = self.ordered.pop_if(|order| order.at_s <= now_s);
        self.step(signals, |flow, ctx| {
            match &m {
                Some(m) => flow.on_report(m, ctx),
                None => flow.on_foreign_report(fields, ctx),
            }
            if let Some(order) = due {
                flow.signals = Some(signals);
                flow.wanted = Some((order.to, Why::because("ordered by the scenario")));
                flow.on_poke(ctx);
            }
        })
    }

    fn step(
        &mut self,
        signals: Signals,
        act: impl FnOnce(&mut Flow, &mut Context<'_>),
    ) -> Option<Orders> {
        let mut wire = Wire(Orders::default(), false, &self.config);
        self.switches.now_ns = signals.now_us * 1_000;
        self.flow.signals = Some(signals);
        let report_us = u32::try_from(self.config.agent.report_interval_ms_min * 1_000);
        let mut ctx = Context {
            config: &self.config,
            recorder: &mut self.switches,
            actuator: &mut wire,
            report_us: report_us.unwrap_or(u32::MAX),
        };
        act(&mut self.flow, &mut ctx);
        self.flow.signals = None;
        wire.1.then_some(wire.0)
    }
}
