//! One flow: report → measurement → controller → guard → order. The switch is switch.rs.

mod driver;
mod intervention;
mod jump;
mod life;
mod obey;
mod remembering;
mod response;
mod row;
mod settings;
mod stages;
mod switch;
mod timer;
mod totals;

use crate::Setup;
use crate::decode;
use crate::events::{Event, Recorder};
use crate::guard::Guard;
use crate::prefer::{By, Wants, Wish};
use crate::programs::Installed;
use crate::rules::Ruled;
use intervention::Intervention;
use life::Noted;
use remuda_algorithms::units::{Bytes, Time};
use remuda_algorithms::{
    Abilities, Decision, Measurement, PathState, Preference, ProgramId, Proposal, Readiness,
    Registers, Why,
};
use remuda_selector::antelope::memory::Remote;
use remuda_wire::to_agent::{FlowInfo, Origin, Signals, State};
use remuda_wire::{Order, Report};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use totals::Totals;

pub use driver::Driver;
pub use intervention::Guarded;
pub use life::{LIMITS, Life, Limit, Lossy, PathSeen};
pub use row::Row;
pub use timer::WAKE_INTERVAL_US_MIN;
pub use totals::ArmTotals;

/// libccp's word for an unknown threshold; and of a report that was never.
const NONE: u32 = 0;
/// The round trip of a flow that has not measured one, and the least that counts, for how often it
/// needs to report.
const REPORT_NEED_RTT: Duration = Duration::from_millis(100);
const REPORT_NEED_RTT_MIN: Duration = Duration::from_micros(10);

/// Takes what flows want of their datapath, at once.
pub type Orders<'a> = dyn FnMut(&Order<'_>) + 'a;

/// What is known of a flow when it starts, or is taken over.
#[derive(Clone, Debug)]
pub struct Start {
    /// The agent's number of the flow, never used twice.
    pub id: u32,
    /// The datapath's number of it.
    pub sid: u32,
    pub info: FlowInfo,
    pub cwnd: Bytes,
    pub mss: Bytes,
    /// What its datapath can do.
    pub abilities: Abilities,
    /// What it finds out is remembered.
    pub is_believed: bool,
    /// The datapath's monotonic clock, in microseconds: the flow's time counts from here.
    pub at_us: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReportNeed {
    /// As often as its arm asks for.
    pub wanted: f64,
    /// Once a round trip: a window that changes more rarely does not see what it does.
    pub least: f64,
}

pub struct Flow {
    /// The agent's number of it, never used twice.
    id: u32,
    /// The datapath's number of it.
    sid: u32,
    info: FlowInfo,
    /// What it finds out is remembered.
    is_believed: bool,
    /// The name of what drives it: an arm or a policy.
    driver: String,
    /// What is known of its path.
    path: PathState,
    /// The last decision, as the guard let it pass.
    decision: Decision,
    /// Why it has the arm it has.
    why: Why,
    totals: Totals,
    noted: Noted,
    /// It runs the datapath's own control.
    fell_back: bool,
    last: Measurement,
    /// Optional primitives that came before the report now due.
    signals: Option<Signals>,
    /// Those of the report before.
    last_signals: Option<Signals>,
    /// [`Signals::delivered_pkts`] of the last report of the program that runs.
    delivered_pkts: Option<u32>,
    /// An operator wants it driven by this.
    wanted: Option<(String, Why)>,
    /// What it is wanted to be good at: [`PathState::wants`], as people write it.
    wants: Wants,
    /// Who has said so.
    preferred_by: By,
    /// What its application has said.
    wish: Option<Wish>,
    /// The rule that counts for it.
    ruled: Option<Ruled>,
    /// Another rule, or no rule, counted for the flow earlier.
    rule_changed: bool,
    /// `remuda set` chose this flow's driver; rules no longer apply to the flow.
    is_pinned: bool,
    /// It was restored, and must be told everything again.
    restored: bool,
    /// Its datapath did not let it run what it was told to.
    refused: bool,
    /// A policy of it has had something to sample.
    is_sampled: bool,
    controller: Driver,
    guard: Guard,
    started_us: u64,
    /// The moment of the step under way, by the datapath's monotonic clock, in microseconds.
    at_us: u64,
    program: Option<ProgramId>,
    /// The same, as the datapath has it.
    running: Option<Arc<Installed>>,
    /// The algorithm of its host's own that it was told to run.
    native: Option<&'static str>,
    /// What drove it before the last switch, and which arm that was.
    before: Option<(String, &'static str)>,
    sent: Option<(u32, u32)>,
    reporting: (u32, u32),
    registers: Registers,
    /// Those that the arm wants now; a buffer, so that a report takes no memory.
    next_registers: Registers,
    vetoed: Option<(&'static str, &'static str)>,
    /// A proposal that the moment does not suit, and since when.
    deferred: Option<(Proposal, Time)>,
    clamp_recorded: Option<Time>,
    /// When its arm took it.
    arm_since: Time,
    /// What the guard did last.
    last_intervention: Option<Intervention>,
    /// When it reported last.
    reported_at: Time,
    remembering: remembering::Remembering,
    jump: jump::Jump,
    timer: timer::Timer,
    stages: stages::Stages,
}

/// What a flow needs of its surroundings for one step.
pub struct Context<'a> {
    /// The configuration in force, and what is loaded and connected.
    pub setup: &'a Setup,
    pub recorder: &'a mut dyn Recorder,
    pub orders: &'a mut Orders<'a>,
    /// The monotonic clock, in microseconds; a report counts as of its own moment.
    pub now_us: u64,
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
    /// A flow that nothing drives yet: see [`Self::start`].
    pub fn new(start: Start, driver: String, controller: Driver) -> Self {
        let Start { id, sid, info, cwnd, mss, abilities, is_believed, at_us } = start;
        let mut path = path_of(&info, cwnd, mss);
        path.datapath = abilities;
        Self {
            id,
            sid,
            info,
            is_believed,
            driver,
            decision: Decision { cwnd, rate: None },
            why: Why::because("the agent's default"),
            noted: Noted::new(),
            totals: Totals::default(),
            fell_back: false,
            last: Measurement::QUIET,
            signals: None,
            last_signals: None,
            delivered_pkts: None,
            wanted: None,
            wants: Wants::DEFAULT,
            preferred_by: By::Default,
            wish: None,
            ruled: None,
            rule_changed: false,
            is_pinned: false,
            restored: false,
            refused: false,
            is_sampled: false,
            guard: Guard::new(cwnd, Time::ZERO),
            controller,
            path,
            started_us: at_us,
            at_us,
            program: None,
            running: None,
            native: None,
            before: None,
            sent: None,
            reporting: (0, 0),
            registers: Registers::NONE,
            next_registers: Registers::NONE,
            vetoed: None,
            deferred: None,
            clamp_recorded: None,
            arm_since: Time::ZERO,
            last_intervention: None,
            reported_at: Time::ZERO,
            remembering: remembering::Remembering::default(),
            jump: jump::Jump::of(cwnd, mss),
            timer: timer::Timer::default(),
            stages: stages::Stages::new(at_us),
        }
    }

    /// The arm that has the flow.
    pub fn arm(&self) -> &'static str {
        self.controller.arm()
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn info(&self) -> &FlowInfo {
        &self.info
    }

    /// Its remote end, as the memory of destinations knows it.
    pub fn remote(&self) -> Remote {
        let Origin { uid, netns, is_of_host } = self.info.origin;
        Remote { address: self.info.remote.0, netns, follows_host: is_of_host, uid }
    }

    /// The name of what drives it: an arm or a policy.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// How many reports it has taken in.
    pub fn reports(&self) -> u64 {
        self.totals.reports
    }

    /// What its last report adds to the totals of its arm.
    pub fn last_report(&self) -> ArmTotals {
        let (rtt_us, rtts) = self.last.rtt.map_or((0, 0), |rtt| (rtt.sum_us, rtt.count));
        let Measurement { acked, lost, .. } = self.last;
        ArmTotals { reports: 1, acked_bytes: acked.0, lost_pkts: lost.0, rtt_us, rtts }
    }

    /// The least round trip of its last report, in microseconds, if it has one.
    pub fn last_rtt_us_min(&self) -> Option<u64> {
        self.last.rtt.map(|rtt| rtt.min.as_micros() as u64)
    }

    /// Whether it runs its datapath's own control.
    pub fn fell_back(&self) -> bool {
        self.fell_back
    }

    /// Whether a policy of it has had something to sample.
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// The least time between two reports, in microseconds, as its datapath has been told.
    pub fn report_us(&self) -> u32 {
        self.reporting.0
    }

    /// Whether it runs the program of that number.
    pub fn runs(&self, uid: u32) -> bool {
        self.running.as_ref().is_some_and(|program| program.uid == uid)
    }

    /// How often it reports if it is alone, and how often it must at least.
    pub fn report_need(&self, interval_us_min: u64) -> ReportNeed {
        let rtt = self.path.srtt.unwrap_or(REPORT_NEED_RTT).max(REPORT_NEED_RTT_MIN);
        let rounds_per_sec = 1e6 / rtt.as_micros() as f64;
        let most = 1e6 / interval_us_min.max(1) as f64;
        let wanted = rounds_per_sec * f64::from(self.controller.reports_per_round());
        ReportNeed { wanted: wanted.min(most), least: rounds_per_sec.min(most) }
    }

    /// The moment of the step under way: a queued report is as old as it is.
    fn now(&self) -> Time {
        Time(Duration::from_micros(self.at_us.saturating_sub(self.started_us)))
    }

    /// What is wanted of it, before it starts.
    pub fn prefer_from_start(&mut self, wants: Wants, by: By) {
        (self.wants, self.preferred_by) = (wants, by);
        self.path.wants = wants.preference();
    }

    /// The rule that counts for it before it starts, and why it has its driver.
    pub fn rule_from_start(&mut self, ruled: Option<Ruled>, why: Why) {
        (self.ruled, self.why) = (ruled, why);
    }

    /// The rule that counts for it.
    pub fn ruled(&self) -> Option<&Ruled> {
        self.ruled.as_ref()
    }

    /// Another rule counts for it from now on, or none.
    pub fn set_ruled(&mut self, ruled: Option<Ruled>) {
        (self.ruled, self.rule_changed) = (ruled, true);
    }

    /// What drives it, or will from its next poke on.
    pub fn next_driver(&self) -> &str {
        self.wanted.as_ref().map_or(&self.driver, |(wanted, _)| wanted)
    }

    /// An operator has given the flow its driver, so no rule counts for the flow any more.
    pub fn pin(&mut self) {
        self.is_pinned = true;
        if self.ruled.is_some() {
            self.set_ruled(None);
        }
    }

    pub fn is_pinned(&self) -> bool {
        self.is_pinned
    }

    /// What is wanted of it, before it starts, where no rule says so by name.
    pub fn prefer_silently(&mut self, preference: Preference) {
        self.path.wants = preference;
    }

    pub fn preference(&self) -> Preference {
        self.path.wants
    }

    /// What its application has said it wants.
    pub fn set_wish(&mut self, wish: Option<Wish>) {
        self.wish = wish;
    }

    pub fn wish(&self) -> Option<Wish> {
        self.wish
    }

    pub fn wants(&self) -> Wants {
        self.wants
    }

    pub fn preferred_by(&self) -> By {
        self.preferred_by
    }

    /// An operator wants it driven by `name`, from its next poke on.
    pub fn want(&mut self, name: String, why: Why) {
        self.wanted = Some((name, why));
    }

    /// Its datapath did not let it run what it was ordered to: the next poke answers that.
    pub fn refuse_last_order(&mut self) {
        self.refused = true;
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
        self.at_us = ctx.now_us;
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
            uid: self.info.origin.uid,
            rule: self.ruled.as_ref().map(|ruled| ruled.name.to_string()),
            group: self.ruled.as_ref().map(|ruled| ruled.group),
        };
        recorder.record(Some(self.id), &created);
        if self.wants != Wants::DEFAULT {
            self.record_preferred(Wants::DEFAULT, recorder);
        }
        self.record_recalled(recorder);
    }

    /// Takes in one report. `companions` is [`Measurement::companions`]. False: the report is of
    /// another program than the flow runs, or lacks fields, and changes nothing.
    pub fn on_report(
        &mut self,
        report: &Report<'_>,
        companions: u32,
        ctx: &mut Context<'_>,
    ) -> bool {
        let program = match &self.running {
            Some(program) if program.uid == report.uid => program,
            _ => return false,
        };
        let m = if self.controller.is_foreign() {
            let Some((own, count)) = program.own_fields(report.fields) else { return false };
            self.controller.take_fields(&own[..count]);
            decode::foreign(report.signals.as_ref(), self.last_signals.as_ref())
        } else {
            let m = program.measurement(report.fields, report.signals.as_ref());
            let Some(m) = m else { return false };
            m
        };
        self.signals = report.signals;
        let reported_us = report.signals.map_or(ctx.now_us, |signals| signals.now_us);
        self.at_us = reported_us.max(self.not_before_us());
        self.take_in(&Measurement { companions, ..m }, ctx);
        true
    }

    fn take_in(&mut self, m: &Measurement, ctx: &mut Context<'_>) {
        let now = self.now();
        let since = now - self.reported_at;
        self.reported_at = now;
        let m = &Measurement { delivered: self.delivered(m), ..*m };
        self.totals.reports += 1;
        self.totals.acked_bytes += m.acked.0;
        self.totals.lost_pkts += m.lost.0;
        if let Some(rtt) = m.rtt {
            self.totals.rtt_us = self.totals.rtt_us.saturating_add(rtt.sum_us);
            self.totals.rtts = self.totals.rtts.saturating_add(rtt.count);
        }
        if m.acked > Bytes(0) {
            self.totals.acked_at = now;
        }
        if let Some(signals) = self.signals.filter(|s| s.mss_bytes > 0) {
            self.path.mss = Bytes(signals.mss_bytes.into());
        }
        let of_path = (self.path.rtt_min_long(), self.decision.rate.is_some());
        self.noted.report((m, self.signals.as_ref()), (now.0, since), of_path);
        self.last = *m;
        self.path.observe(m, now);
        self.path.cwnd = m.cwnd.max(self.path.cwnd_floor());
        if m.has_loss() || m.timed_out {
            self.guard.forget_above(self.decision.cwnd, now);
        }
        if m.undone {
            self.guard.follow(self.path.cwnd, now);
        }
        if m.restarted {
            self.guard.forget_above(self.path.cwnd, now);
        }
        let decision = self.controller.on_measurement(m, now);
        if self.failed(now, ctx) {
            self.last_signals = self.signals.take();
            return;
        }
        self.record_stages(ctx);
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
        self.at_us = ctx.now_us;
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
            let (first, _) = self.guard.switched(first, &self.path, now, &ctx.setup.config.guard);
            self.obey(first, now, ctx);
        }
        if let Some((name, why)) = self.wanted.take() {
            match Driver::build(&name, ctx.setup) {
                Ok(next) => self.take_over(name, next, why, ctx),
                Err(error) => self.veto(name, error.to_string(), ctx),
            }
        }
    }

    fn veto(&mut self, to: String, reason: String, ctx: &mut Context<'_>) {
        let vetoed = Event::Vetoed { to: to.clone(), reason: reason.clone() };
        ctx.recorder.record(Some(self.id), &vetoed);
        let (at, undone) = (self.now(), false);
        self.last_intervention = Some(Intervention { at, against: to, undone, reason });
    }

    /// Notes that the flow changed hands between us and its datapath, and when by the monotonic
    /// clock (us). Says whether it needs a poke.
    pub fn on_state(
        &mut self,
        state: State,
        at_monotonic_us: u64,
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

    /// The event of its end.
    pub fn end(&self, recorder: &mut dyn Recorder) {
        let Totals { reports, switches, acked_bytes, lost_pkts, rtt_us, rtts, acked_at } =
            self.totals;
        let closed = Event::Closed {
            reports,
            switches,
            acked_bytes,
            lost_pkts,
            arm: self.arm().to_owned(),
            controller: self.driver.clone(),
            local: socket_name(self.info.local).to_string(),
            remote: socket_name(self.info.remote).to_string(),
            duration_ms: acked_at.0.as_secs_f64() * 1e3,
            rtt_ms: (rtts > 0).then(|| rtt_us as f64 / rtts as f64 / 1e3),
            mss_bytes: self.path.mss.0,
            path: self.noted.path(self.path.rtt_min_long()),
            rule: self.ruled.as_ref().map(|ruled| ruled.name.to_string()),
            rule_use: self.ruled.as_ref().map(|ruled| ruled.used.to_string()),
            rule_on: self.ruled.as_ref().map(|ruled| ruled.on.to_string()),
            group: self.ruled.as_ref().map(|ruled| ruled.group),
            rule_changed: self.rule_changed,
        };
        recorder.record(Some(self.id), &closed);
    }
}

/// An address and port as people write them.
pub fn socket_name((address, port): (std::net::IpAddr, u16)) -> std::net::SocketAddr {
    (address, port).into()
}

#[cfg(test)]
mod tests;
