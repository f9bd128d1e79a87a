//! One flow: report → measurement → controller → guard → registers. The switch is switch.rs.

mod jump;
mod remembering;
mod switch;
mod told;

use crate::clock;
use crate::config::Config;
use crate::decode;
use crate::events::{Event, Recorder};
use crate::guard::{Guard, Rule};
use crate::prefer::{By, Wants, Wish};
use remuda_algorithms::controller::OWN_REGISTERS_MAX;
use remuda_algorithms::signals::{REPORT_INTERVAL, REPORTS_PER_ROUND};
use remuda_algorithms::units::{Bytes, Time};
use remuda_algorithms::{
    Controller, Decision, Measurement, PathState, ProgramId, Proposal, Readiness, Registers, Why,
};
use remuda_wire::to_agent::{FlowInfo, Signals, State};
use std::net::SocketAddr;
use std::time::Duration;
use told::Intervened;

pub use told::Guarded;

/// At most one clamp is recorded per flow in this time.
const CLAMP_RECORD_INTERVAL: Duration = Duration::from_secs(1);
/// libccp's word for an unknown threshold; and of a report that was never.
const NONE: u32 = 0;

/// How a flow reaches its datapath.
pub trait Actuator {
    /// The flow runs this program, with these values of its registers.
    fn set_program(&mut self, program: ProgramId, fields: &[(&'static str, u32)]);
    /// New values of registers of the program that runs.
    fn update(&mut self, fields: &[(&'static str, u32)]);
    /// The flow runs an algorithm of its host's own until its next program, from this slow-start
    /// threshold (bytes; 0 leaves it). The program set just before measures it.
    fn run_native(&mut self, name: &'static str, ssthresh_bytes: u32);
}

/// What happened, for `remuda flows` and the event of the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub reports: u64,
    pub switches: u64,
    /// Payload acknowledged, in bytes.
    pub acked_bytes: u64,
    pub lost_pkts: u64,
}

pub struct Flow {
    /// The agent's number of it, never used twice.
    pub id: u32,
    pub info: FlowInfo,
    /// The name of what drives it: an arm or a policy.
    pub driver: String,
    /// What is known of its path.
    pub path: PathState,
    /// The last decision, as the guard let it pass.
    pub decision: Decision,
    /// Why it has the arm it has.
    pub why: Why,
    pub totals: Totals,
    /// It runs the datapath's own control.
    pub fell_back: bool,
    pub last: Measurement,
    /// [`Measurement::companions`] of the report now due.
    pub companions: u32,
    /// Optional primitives that came before the report now due.
    pub signals: Option<Signals>,
    /// Those of the report before.
    last_signals: Option<Signals>,
    /// [`Signals::delivered_pkts`] of the last report of the program that runs.
    delivered_pkts: Option<u32>,
    /// An operator wants it driven by this.
    pub wanted: Option<(String, Why)>,
    /// What it is wanted to be good at: [`PathState::wants`], as people write it.
    pub wants: Wants,
    /// Who has said so.
    pub preferred_by: By,
    /// What its application has said.
    pub wish: Option<Wish>,
    /// It was restored, and must be told everything again.
    pub restored: bool,
    /// Its datapath did not let it run what it was told to.
    pub refused: bool,
    /// A policy of it has had something to sample.
    pub is_sampled: bool,
    controller: Box<dyn Controller>,
    guard: Guard,
    started_us: u64,
    program: Option<ProgramId>,
    /// The algorithm of its host's own that it was told to run.
    native: Option<&'static str>,
    /// What drove it before the last switch, and which arm that was.
    before: Option<(String, &'static str)>,
    sent: Option<(u32, u32)>,
    reporting: (u32, u32),
    registers: Registers,
    vetoed: Option<(&'static str, &'static str)>,
    /// A proposal that the moment does not suit, and since when.
    deferred: Option<(Proposal, Time)>,
    clamp_recorded: Option<Time>,
    /// When its arm took it.
    arm_since: Time,
    /// What the guard did last.
    intervened: Option<Intervened>,
    /// When it reported last.
    reported_at: Time,
    remembering: remembering::Remembering,
    jump: jump::Jump,
}

/// What a flow needs of its surroundings for one step.
pub struct Context<'a> {
    /// The configuration in force.
    pub config: &'a Config,
    pub recorder: &'a mut dyn Recorder,
    pub actuator: &'a mut dyn Actuator,
    /// No program reports more often than this, in microseconds.
    pub report_us: u32,
}

fn path_of(info: &FlowInfo, cwnd: Bytes, mss: Bytes) -> PathState {
    let mut path = PathState::new(mss, cwnd);
    path.ecn = info.ecn;
    let ends = [info.local, info.remote].map(SocketAddr::from);
    if ends.iter().all(|end| !end.ip().is_unspecified()) {
        path.ends = Some((ends[0], ends[1]));
    }
    if info.ssthresh_bytes != NONE {
        path.ssthresh = Some(Bytes(info.ssthresh_bytes.into()));
    }
    if info.srtt_us != NONE && info.rtt_min_us != NONE {
        let (srtt, min) = (info.srtt_us.into(), info.rtt_min_us.into());
        let (srtt, min) = (Duration::from_micros(srtt), Duration::from_micros(min));
        path.observe_rtt(srtt, min, srtt.max(min), 0);
    }
    path
}

impl Flow {
    /// A flow that nothing drives yet: see [`Self::start`]. Its time counts from `started_us` of
    /// the datapath's monotonic clock.
    pub fn new(
        id: u32,
        info: FlowInfo,
        (cwnd, mss): (Bytes, Bytes),
        (driver, controller): (String, Box<dyn Controller>),
        started_us: u64,
    ) -> Self {
        let path = path_of(&info, cwnd, mss);
        Self {
            id,
            info,
            driver,
            decision: Decision { cwnd, rate: None },
            why: Why::because("the agent's default"),
            totals: Totals::default(),
            fell_back: false,
            last: Measurement::QUIET,
            companions: 0,
            signals: None,
            last_signals: None,
            delivered_pkts: None,
            wanted: None,
            wants: Wants::DEFAULT,
            preferred_by: By::Default,
            wish: None,
            restored: false,
            refused: false,
            is_sampled: false,
            guard: Guard::new(cwnd, Time::ZERO),
            controller,
            path,
            started_us,
            program: None,
            native: None,
            before: None,
            sent: None,
            reporting: (0, 0),
            registers: Registers::NONE,
            vetoed: None,
            deferred: None,
            clamp_recorded: None,
            arm_since: Time::ZERO,
            intervened: None,
            reported_at: Time::ZERO,
            remembering: remembering::Remembering::default(),
            jump: jump::Jump::of(cwnd, mss),
        }
    }

    /// The arm that has the flow.
    pub fn arm(&self) -> &'static str {
        self.controller.arm()
    }

    /// The report fields of its program beside the shared ones.
    pub fn own_fields(&self) -> &[&'static str] {
        self.controller.own_fields()
    }

    /// Whether its program has none of the shared signals.
    pub fn is_foreign(&self) -> bool {
        self.controller.is_foreign()
    }

    /// Takes in one report of a foreign program, whose fields are `fields`; what else is known of
    /// it came with its signals.
    pub fn on_foreign_report(&mut self, fields: &[u64], ctx: &mut Context<'_>) {
        let m = decode::foreign(self.signals.as_ref(), self.last_signals.as_ref());
        self.controller.take_fields(fields);
        self.on_report(&m, ctx);
    }

    /// The datapath program it runs.
    pub fn program(&self) -> Option<ProgramId> {
        self.program
    }

    /// The moment of the datapath's report, or now: a queued report is as old as it is.
    fn now(&self) -> Time {
        let now_us = self.signals.map_or_else(clock::monotonic_us, |signals| signals.now_us);
        Time(Duration::from_micros(now_us.saturating_sub(self.started_us)))
    }

    /// What is wanted of it, before it starts.
    pub fn prefer_from_start(&mut self, wants: Wants, by: By) {
        (self.wants, self.preferred_by) = (wants, by);
        self.path.wants = wants.preference();
    }

    /// What is wanted of it is said, anew or again.
    pub fn prefer(&mut self, wants: Wants, by: By, recorder: &mut dyn Recorder) {
        let from = self.wants;
        self.prefer_from_start(wants, by);
        if from != wants {
            self.record_preferred(from, recorder);
            self.controller.prefer(self.path.wants);
        }
    }

    fn record_preferred(&self, from: Wants, recorder: &mut dyn Recorder) {
        let by = self.preferred_by.to_string();
        recorder.record(Some(self.id), &Event::Preferred { from, to: self.wants, by });
    }

    /// The controller takes the flow.
    pub fn start(&mut self, ctx: &mut Context<'_>) {
        let now = self.now();
        let first = match self.controller.can_resume(&self.path) {
            Readiness::Refuse(reason) => {
                self.record_created(ctx.recorder);
                self.refused(reason, ctx);
                self.controller.resume(&self.path, now)
            }
            // A policy knows its arm when it has the flow.
            Readiness::Ready | Readiness::Defer(_) => {
                let first = self.controller.resume(&self.path, now);
                self.record_created(ctx.recorder);
                first
            }
        };
        self.obey(first, now, ctx);
    }

    fn record_created(&self, recorder: &mut dyn Recorder) {
        let created = Event::Created {
            local: format!("{}", socket_name(self.info.local)),
            remote: format!("{}", socket_name(self.info.remote)),
            controller: self.driver.clone(),
            arm: self.arm().to_owned(),
            cwnd_bytes: self.path.cwnd.0,
            mss_bytes: self.path.mss.0,
            mark: self.info.mark,
            cgroup_id: self.info.cgroup_id,
        };
        recorder.record(Some(self.id), &created);
        if self.wants != Wants::DEFAULT {
            self.record_preferred(Wants::DEFAULT, recorder);
        }
        self.record_recalled(recorder);
    }

    /// Takes in one report.
    pub fn on_report(&mut self, m: &Measurement, ctx: &mut Context<'_>) {
        let now = self.now();
        self.reported_at = now;
        let (delivered, companions) = (self.delivered(m), self.companions);
        let m = &Measurement { delivered, companions, ..*m };
        self.totals.reports += 1;
        self.totals.acked_bytes += m.acked.0;
        self.totals.lost_pkts += m.lost.0;
        if let Some(signals) = self.signals.filter(|s| s.mss_bytes > 0) {
            self.path.mss = Bytes(signals.mss_bytes.into());
        }
        self.last = *m;
        self.path.observe(m, now);
        self.path.cwnd = m.cwnd.max(self.path.cwnd_floor());
        if m.lost.0 > 0 || m.timed_out {
            self.guard.lost(self.decision.cwnd, now);
        }
        let decision = self.controller.on_measurement(m, now);
        if self.failed(now, ctx) {
            self.last_signals = self.signals.take();
            return;
        }
        let decision = self.consider_switches(m, decision, now, ctx);
        if let Some(sample) = self.controller.sample() {
            self.is_sampled = true;
            ctx.recorder.sample(self.id, sample);
        }
        self.last_signals = self.signals.take();
        self.obey(decision, now, ctx);
    }

    /// What was delivered since the last report, by the datapath's count if it has one.
    fn delivered(&mut self, m: &Measurement) -> Bytes {
        let Some(signals) = self.signals.filter(|s| s.mss_bytes > 0) else { return m.acked };
        let before = self.delivered_pkts.replace(signals.delivered_pkts);
        before.map_or(m.acked, |before| decode::delivered_since(before, &signals))
    }

    /// Carries out what an operator asked for, or what a restored flow needs.
    pub fn on_poke(&mut self, ctx: &mut Context<'_>) {
        let now = self.now();
        if !self.failed(now, ctx)
            && let Some(decision) = self.controller.late()
        {
            self.obey(decision, now, ctx);
        }
        if std::mem::take(&mut self.refused) {
            self.stay(now, ctx);
        }
        if std::mem::take(&mut self.restored) {
            self.program = None; // whatever it ran, tell it all again
            self.begin_with_own_verdict();
            let first = self.controller.resume(&self.path, now);
            let (first, _) = self.guard.switched(first, &self.path, now, &ctx.config.guard);
            self.obey(first, now, ctx);
        }
        if let Some((name, why)) = self.wanted.take() {
            match crate::catalogue::build(&name, ctx.config) {
                Ok(next) => self.take_over(name, next, why, ctx),
                Err(error) => self.veto(name, error.to_string(), ctx),
            }
        }
    }

    fn veto(&mut self, to: String, reason: String, ctx: &mut Context<'_>) {
        let vetoed = Event::Vetoed { to: to.clone(), reason: reason.clone() };
        ctx.recorder.record(Some(self.id), &vetoed);
        self.intervened = Some(Intervened { at: self.now(), against: to, undone: false, reason });
    }

    /// Notes that the flow changed hands between us and its datapath, and when by the monotonic
    /// clock (us). Says whether it needs a poke.
    pub fn on_state(
        &mut self,
        (state, at_monotonic_us): (State, u64),
        cwnd: Bytes,
        recorder: &mut dyn Recorder,
    ) -> bool {
        self.path.cwnd = cwnd.max(self.path.cwnd_floor());
        let event = match state {
            State::Refused => {
                self.refused = true;
                return true;
            }
            State::FellBack => Event::FellBack { cwnd_bytes: cwnd.0, at_monotonic_us },
            State::Restored => Event::Restored { cwnd_bytes: cwnd.0, at_monotonic_us },
        };
        recorder.record(Some(self.id), &event);
        self.fell_back = state == State::FellBack;
        self.restored = state == State::Restored;
        self.restored
    }

    /// Guards a decision and sends what is new of it.
    fn obey(&mut self, decision: Decision, now: Time, ctx: &mut Context<'_>) {
        let native = self.controller.native();
        let reporting = (ctx.report_us, self.controller.reports_per_round());
        if native.is_some() && native == self.native && self.program.is_some() {
            self.decision = decision; // it is the kernel's
            self.guard.follow(decision.cwnd, now);
            if self.reporting != reporting {
                let (report_us, per_round) = reporting;
                let fields = [(REPORT_INTERVAL, report_us), (REPORTS_PER_ROUND, per_round)];
                ctx.actuator.update(&fields);
                self.reporting = reporting;
            }
            return;
        }
        let (decision, rules) = self.guard.pass(decision, &self.path, now, &ctx.config.guard);
        if !rules.is_empty() {
            self.record_clamps(rules, decision, now, ctx);
        }
        self.decision = decision;
        self.path.rate = decision.rate;
        let told = self.path.enforceable(self.paced_jump(decision));
        let (cwnd, rate) = decode::registers(told);
        let registers = self.controller.registers();
        let own = registers.as_slice();
        let mut fields = [("", 0); 4 + OWN_REGISTERS_MAX];
        fields[..2].copy_from_slice(&[("Cwnd", cwnd), ("Rate", rate)]);
        fields[2..2 + own.len()].copy_from_slice(own);
        fields[2 + own.len()] = (REPORT_INTERVAL, reporting.0);
        fields[3 + own.len()] = (REPORTS_PER_ROUND, reporting.1);
        let program = self.controller.program();
        if self.program != Some(program) || self.native != native {
            self.program = Some(program);
            self.native = native;
            self.delivered_pkts = None; // what was before it starts is none of its reports'
            ctx.actuator.set_program(program, &fields[..4 + own.len()]);
            if let Some(name) = native {
                let ssthresh = self.path.ssthresh.unwrap_or_default();
                let ssthresh = u32::try_from(ssthresh.0).unwrap_or(u32::MAX);
                ctx.actuator.run_native(name, ssthresh);
            }
        } else if self.controller.steers_itself() {
            self.send_news(&fields[..2 + own.len()], ctx);
        } else if self.reporting != reporting {
            ctx.actuator.update(&fields[..4 + own.len()]);
        } else if self.registers != registers {
            ctx.actuator.update(&fields[..2 + own.len()]);
        } else if self.sent != Some((cwnd, rate)) || !self.in_force(cwnd) {
            ctx.actuator.update(&fields[..2]);
        }
        self.sent = Some((cwnd, rate));
        self.reporting = reporting;
        self.registers = registers;
        self.path.cwnd = told.cwnd;
    }

    /// Of window, rate and registers those that are not as they were sent last.
    fn send_news(&self, fields: &[(&'static str, u32)], ctx: &mut Context<'_>) {
        let (cwnd, rate) = self.sent.unzip();
        let before = |name| match name {
            "Cwnd" => cwnd,
            "Rate" => rate,
            own => self.registers.as_slice().iter().find(|it| it.0 == own).map(|it| it.1),
        };
        let mut news = [("", 0); 2 + OWN_REGISTERS_MAX];
        let mut count = 0;
        for field in fields.iter().filter(|(name, value)| before(name) != Some(*value)) {
            news[count] = *field;
            count += 1;
        }
        if count > 0 {
            ctx.actuator.update(&news[..count]);
        }
    }

    /// Whether the datapath already had this window: it changes it by itself after a timeout.
    fn in_force(&self, cwnd: u32) -> bool {
        let mss = self.path.mss.0.max(1);
        u64::from(cwnd) / mss == self.last.cwnd.0 / mss
    }

    fn record_clamps(
        &mut self,
        rules: Vec<Rule>,
        decision: Decision,
        now: Time,
        ctx: &mut Context<'_>,
    ) {
        let due = self.clamp_recorded.is_none_or(|at| now - at >= CLAMP_RECORD_INTERVAL);
        if !due {
            return;
        }
        self.clamp_recorded = Some(now);
        let clamped = Event::Clamped {
            rules,
            cwnd_bytes: decision.cwnd.0,
            rate_bytes_per_sec: decision.rate.map(|rate| rate.bytes_per_sec()),
        };
        ctx.recorder.record(Some(self.id), &clamped);
    }

    /// The event of its end.
    pub fn end(&self, recorder: &mut dyn Recorder) {
        let Totals { reports, switches, acked_bytes, lost_pkts } = self.totals;
        let closed = Event::Closed { reports, switches, acked_bytes, lost_pkts };
        recorder.record(Some(self.id), &closed);
    }
}

/// An address and port as people write them.
pub fn socket_name((address, port): (std::net::IpAddr, u16)) -> std::net::SocketAddr {
    (address, port).into()
}

#[cfg(test)]
mod tests;
