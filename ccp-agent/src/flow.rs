//! One flow: report → measurement → controller → guard → registers, and the switch.

use crate::clock;
use crate::config::Config;
use crate::decode;
use crate::events::{Event, Recorder};
use crate::guard::{Guard, Rule};
use remuda_algorithms::signals::{REPORT_INTERVAL, REPORTS_PER_ROUND};
use remuda_algorithms::units::{Bytes, Time};
use remuda_algorithms::{
    Controller, Decision, Measurement, PathState, ProgramId, Proposal, Readiness, Why,
};
use remuda_wire::to_agent::{FlowInfo, Signals, State};
use std::time::Duration;

/// At most one clamp is recorded per flow in this time.
const CLAMP_RECORD_INTERVAL: Duration = Duration::from_secs(1);
/// libccp's word for an unknown threshold; and of a report that was never.
const NONE: u32 = 0;

/// How a flow reaches its datapath.
pub trait Actuator {
    /// The flow runs this program, with these values of its registers.
    fn set_program(&mut self, program: ProgramId, fields: &[(&str, u32)]);
    /// New values of registers of the program that runs.
    fn update(&mut self, fields: &[(&str, u32)]);
}

/// What happened, for `remuda flows` and the event of the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Reports decoded.
    pub reports: u64,
    /// Switches carried out.
    pub switches: u64,
    /// Payload acknowledged, in bytes.
    pub acked_bytes: u64,
    /// Segments marked lost.
    pub lost_pkts: u64,
}

/// One live flow.
pub struct Flow {
    /// The agent's number of it, never used twice.
    pub id: u32,
    /// Who it is.
    pub info: FlowInfo,
    /// The name of what drives it: an arm or a policy.
    pub driver: String,
    /// What is known of its path.
    pub path: PathState,
    /// The last decision, as the guard let it pass.
    pub decision: Decision,
    /// Why it has the arm it has.
    pub why: Why,
    /// Counts.
    pub totals: Totals,
    /// It runs the datapath's own control.
    pub fell_back: bool,
    /// The last measurement.
    pub last: Measurement,
    /// Optional primitives that came before the report now due.
    pub signals: Option<Signals>,
    /// [`Signals::delivered_pkts`] of the last report of the program that runs.
    delivered_pkts: Option<u32>,
    /// An operator wants it driven by this.
    pub wanted: Option<(String, Why)>,
    /// It was restored, and must be told everything again.
    pub restored: bool,
    controller: Box<dyn Controller>,
    guard: Guard,
    started_us: u64,
    program: Option<ProgramId>,
    sent: Option<(u32, u32)>,
    reporting: (u32, u32),
    vetoed: Option<(&'static str, &'static str)>,
    clamp_recorded: Option<Time>,
}

/// What a flow needs of its surroundings for one step.
pub struct Context<'a> {
    /// The configuration in force.
    pub config: &'a Config,
    /// Where events go.
    pub recorder: &'a mut dyn Recorder,
    /// Where decisions go.
    pub actuator: &'a mut dyn Actuator,
    /// No program reports more often than this, in microseconds.
    pub report_us: u32,
}

fn path_of(info: &FlowInfo, cwnd: Bytes, mss: Bytes) -> PathState {
    let mut path = PathState::new(mss, cwnd);
    path.ecn = info.ecn;
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
            signals: None,
            delivered_pkts: None,
            wanted: None,
            restored: false,
            guard: Guard::new(cwnd, Time::ZERO),
            controller,
            path,
            started_us,
            program: None,
            sent: None,
            reporting: (0, 0),
            vetoed: None,
            clamp_recorded: None,
        }
    }

    /// The arm that has the flow.
    pub fn arm(&self) -> &'static str {
        self.controller.arm()
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

    /// The controller takes the flow.
    pub fn start(&mut self, ctx: &mut Context<'_>) {
        ctx.recorder.record(
            Some(self.id),
            &Event::Created {
                local: format!("{}", socket_name(self.info.local)),
                remote: format!("{}", socket_name(self.info.remote)),
                controller: self.driver.clone(),
                arm: self.arm().to_owned(),
                cwnd_bytes: self.path.cwnd.0,
                mss_bytes: self.path.mss.0,
                mark: self.info.mark,
                cgroup_id: self.info.cgroup_id,
            },
        );
        let now = self.now();
        let first = self.controller.resume(&self.path, now);
        self.obey(first, now, ctx);
    }

    /// Takes in one report.
    pub fn on_report(&mut self, m: &Measurement, ctx: &mut Context<'_>) {
        let now = self.now();
        let m = &Measurement { delivered: self.delivered(m), ..*m };
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
        let decision = match self.controller.proposal() {
            Some(proposal) => self.consider(proposal, decision, now, ctx),
            None => decision,
        };
        self.signals = None;
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
        if std::mem::take(&mut self.restored) {
            self.program = None; // whatever it ran, tell it all again
            let first = self.controller.resume(&self.path, now);
            let (first, _) = self.guard.switched(first, &self.path, now);
            self.obey(first, now, ctx);
        }
        if let Some((name, why)) = self.wanted.take() {
            match crate::catalogue::build(&name, &ctx.config.policy) {
                Ok(next) => self.take_over(name, next, why, ctx),
                Err(error) => {
                    let vetoed = Event::Vetoed { to: name, reason: error.to_string() };
                    ctx.recorder.record(Some(self.id), &vetoed);
                }
            }
        }
    }

    /// Notes that the flow changed hands between us and its datapath, and when by the monotonic
    /// clock (us). Says whether it needs a poke.
    pub fn on_state(
        &mut self,
        (state, at_monotonic_us): (State, u64),
        cwnd: Bytes,
        recorder: &mut dyn Recorder,
    ) -> bool {
        self.fell_back = state == State::FellBack;
        self.path.cwnd = cwnd.max(self.path.cwnd_floor());
        let event = match state {
            State::FellBack => Event::FellBack { cwnd_bytes: cwnd.0, at_monotonic_us },
            State::Restored => Event::Restored { cwnd_bytes: cwnd.0, at_monotonic_us },
        };
        recorder.record(Some(self.id), &event);
        self.restored = state == State::Restored;
        self.restored
    }

    /// The switch: hand off, resume, set the program, in this order.
    fn take_over(
        &mut self,
        name: String,
        mut next: Box<dyn Controller>,
        why: Why,
        ctx: &mut Context<'_>,
    ) {
        let now = self.now();
        self.controller.hand_off(&mut self.path);
        if let Readiness::Refuse(reason) = next.can_resume(&self.path) {
            let vetoed = Event::Vetoed { to: name, reason: reason.to_owned() };
            ctx.recorder.record(Some(self.id), &vetoed);
            return;
        }
        let first = next.resume(&self.path, now);
        let from = std::mem::replace(&mut self.controller, next).arm();
        self.driver = name;
        self.switched(from, why, first, now, ctx);
    }

    /// A policy wants another arm, or says why it stays.
    fn consider(
        &mut self,
        Proposal { to, why }: Proposal,
        decision: Decision,
        now: Time,
        ctx: &mut Context<'_>,
    ) -> Decision {
        if to == self.arm() {
            let features = why.features.iter().cloned().collect();
            let stays = Event::Stays { arm: to.to_owned(), why: why.text.clone(), features };
            ctx.recorder.record(Some(self.id), &stays);
            self.why = why;
            return decision;
        }
        let verdict = self.guard.may_switch(to, &self.path, now, &ctx.config.guard);
        if let Readiness::Defer(reason) | Readiness::Refuse(reason) = verdict {
            if self.vetoed.replace((to, reason)) != Some((to, reason)) {
                let vetoed = Event::Vetoed { to: to.to_owned(), reason: reason.to_owned() };
                ctx.recorder.record(Some(self.id), &vetoed);
            }
            return decision;
        }
        let from = self.arm();
        let mut path = self.path.clone();
        self.controller.hand_off(&mut path);
        let Some(first) = self.controller.switch_to(to, &path, now) else {
            return decision;
        };
        self.path = path;
        self.switched(from, why, first, now, ctx);
        self.decision
    }

    fn switched(
        &mut self,
        from: &'static str,
        why: Why,
        first: Decision,
        now: Time,
        ctx: &mut Context<'_>,
    ) {
        self.vetoed = None;
        self.totals.switches += 1;
        let event = Event::Switched {
            from: from.to_owned(),
            to: self.arm().to_owned(),
            why: why.text.clone(),
            features: why.features.iter().cloned().collect(),
        };
        ctx.recorder.record(Some(self.id), &event);
        self.why = why;
        let (first, raised) = self.guard.switched(first, &self.path, now);
        if raised {
            self.record_clamps(vec![Rule::RaisedBySwitch], first, now, ctx);
        }
        self.obey(first, now, ctx);
    }

    /// Guards a decision and sends what is new of it.
    fn obey(&mut self, decision: Decision, now: Time, ctx: &mut Context<'_>) {
        let (decision, rules) = self.guard.pass(decision, &self.path, now, &ctx.config.guard);
        if !rules.is_empty() {
            self.record_clamps(rules, decision, now, ctx);
        }
        self.decision = decision;
        self.path.rate = decision.rate;
        let (cwnd, rate) = decode::registers(decision);
        let reporting = (ctx.report_us, self.controller.reports_per_round());
        let fields = [
            ("Cwnd", cwnd),
            ("Rate", rate),
            (REPORT_INTERVAL, reporting.0),
            (REPORTS_PER_ROUND, reporting.1),
        ];
        let program = self.controller.program();
        if self.program != Some(program) {
            self.program = Some(program);
            self.delivered_pkts = None; // what was before it starts is none of its reports'
            ctx.actuator.set_program(program, &fields);
        } else if self.reporting != reporting {
            ctx.actuator.update(&fields);
        } else if self.sent != Some((cwnd, rate)) || !self.in_force(cwnd) {
            ctx.actuator.update(&fields[..2]);
        }
        self.sent = Some((cwnd, rate));
        self.reporting = reporting;
        self.path.cwnd = decision.cwnd;
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
mod tests {
    use super::*;
    use remuda_algorithms::RttSamples;
    use remuda_algorithms::units::{Packets, Rate};
    use std::net::{IpAddr, Ipv4Addr};

    const MSS: Bytes = Bytes(1_000);

    #[derive(Default)]
    struct Notes(Vec<String>);

    impl Recorder for Notes {
        fn record(&mut self, _flow: Option<u32>, event: &Event) {
            self.0.push(format!("{event:?}"));
        }
    }

    /// A program, if it was set, and fields.
    type Sent = (Option<&'static str>, Vec<(String, u32)>);

    #[derive(Default)]
    struct Wire(Vec<Sent>);

    fn owned(fields: &[(&str, u32)]) -> Vec<(String, u32)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    impl Actuator for Wire {
        fn set_program(&mut self, program: ProgramId, fields: &[(&str, u32)]) {
            self.0.push((Some(program.0), owned(fields)));
        }
        fn update(&mut self, fields: &[(&str, u32)]) {
            self.0.push((None, owned(fields)));
        }
    }

    struct Rig {
        flow: Flow,
        wire: Wire,
        notes: Notes,
        config: Config,
    }

    fn info() -> FlowInfo {
        FlowInfo {
            local: (IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
            remote: (IpAddr::V4(Ipv4Addr::LOCALHOST), 2),
            mark: 0,
            cgroup_id: 0,
            ssthresh_bytes: 0,
            srtt_us: 0,
            rtt_min_us: 0,
            ecn: false,
            requested: String::new(),
        }
    }

    impl Rig {
        fn new(driver: &str) -> Self {
            let config = Config::default();
            let controller = crate::catalogue::build(driver, &config.policy).expect("a name");
            let window = Packets(20).to_bytes(MSS);
            let driven = (driver.to_owned(), controller);
            let flow = Flow::new(1, info(), (window, MSS), driven, clock::monotonic_us());
            let mut rig = Self { flow, wire: Wire::default(), notes: Notes::default(), config };
            rig.step(|flow, ctx| flow.start(ctx));
            rig
        }

        fn step(&mut self, act: impl FnOnce(&mut Flow, &mut Context<'_>)) {
            let mut ctx = Context {
                config: &self.config,
                recorder: &mut self.notes,
                actuator: &mut self.wire,
                report_us: 10_000,
            };
            act(&mut self.flow, &mut ctx);
        }

        fn report(&mut self, at_ms: u64, change: impl FnOnce(&mut Measurement)) {
            self.flow.signals = Some(Signals {
                now_us: self.flow.started_us + at_ms * 1_000,
                cwnd_full: true,
                ..Signals::default()
            });
            let mut m = Measurement {
                acked: self.flow.decision.cwnd,
                in_flight: self.flow.decision.cwnd,
                cwnd: self.flow.decision.cwnd,
                rtt: Some(RttSamples::one(Duration::from_millis(40))),
                delivery_rate: Rate::from_bytes_per_sec(3_000_000),
                ..Measurement::QUIET
            };
            change(&mut m);
            self.step(|flow, ctx| flow.on_report(&m, ctx));
        }

        fn want(&mut self, name: &str) {
            self.flow.wanted = Some((name.to_owned(), Why::because("test")));
            self.step(|flow, ctx| flow.on_poke(ctx));
        }

        fn noted(&self, part: &str) -> usize {
            self.notes.0.iter().filter(|note| note.contains(part)).count()
        }
    }

    #[test]
    fn a_flow_starts_with_its_arms_program_and_its_own_window() {
        let rig = Rig::new("cubic");
        let (program, fields) = &rig.wire.0[0];
        assert_eq!(*program, Some("cubic/report"));
        assert_eq!(fields[0], ("Cwnd".to_owned(), 20_000));
        assert_eq!(fields[1], ("Rate".to_owned(), 0));
        assert_eq!(rig.noted("Created"), 1);
    }

    #[test]
    fn only_what_is_new_is_sent() {
        let mut rig = Rig::new("fixed");
        let before = rig.wire.0.len();
        rig.report(40, |_| {});
        rig.report(80, |_| {});
        assert_eq!(rig.wire.0.len(), before, "fixed says nothing new");
        rig.report(120, |m| m.cwnd = Bytes(2_000));
        assert_eq!(rig.wire.0.len(), before + 1, "the datapath's own change is undone");
    }

    #[test]
    fn a_switch_sets_the_program_and_does_not_raise_the_window() {
        let mut rig = Rig::new("reno");
        rig.report(40, |_| {});
        rig.report(80, |m| m.lost = Packets(1));
        let window = rig.flow.decision.cwnd;
        rig.want("bbr");
        assert_eq!((rig.flow.arm(), rig.flow.driver.as_str()), ("bbr", "bbr"));
        let (program, fields) = rig.wire.0.last().expect("a message");
        assert_eq!(*program, Some("bbr/report"));
        assert!(u64::from(fields[0].1) <= window.0);
        assert_eq!(rig.noted("Switched"), 1);
        let rate = rig.flow.decision.rate.expect("bbr paces").bytes_per_sec();
        assert!(rate <= 3_150_000, "the first rates settle: {rate}");
    }

    #[test]
    fn an_unknown_name_is_vetoed_and_changes_nothing() {
        let mut rig = Rig::new("reno");
        let before = rig.wire.0.len();
        rig.want("renno");
        assert_eq!((rig.flow.arm(), rig.wire.0.len()), ("reno", before));
        assert_eq!(rig.noted("Vetoed"), 1);
    }

    #[test]
    fn a_restored_flow_is_told_everything_again() {
        let mut rig = Rig::new("cubic");
        rig.report(40, |_| {});
        let flow = &mut rig.flow;
        assert!(!flow.on_state((State::FellBack, 1), Bytes(9_000), &mut rig.notes));
        assert!(flow.on_state((State::Restored, 2), Bytes(9_000), &mut rig.notes));
        rig.step(|flow, ctx| flow.on_poke(ctx));
        let (program, fields) = rig.wire.0.last().expect("a message");
        assert_eq!(*program, Some("cubic/report"));
        assert!(fields[0].1 <= 9_000, "it goes on from the window it has: {fields:?}");
    }

    #[test]
    fn what_is_delivered_during_a_fallback_is_no_measurement() {
        let mut rig = Rig::new("westwood");
        let after = |rig: &mut Rig, delivered_pkts| {
            rig.flow.signals =
                Some(Signals { mss_bytes: 1_000, delivered_pkts, ..Signals::default() });
            let m = Measurement { acked: Bytes(7), ..Measurement::QUIET };
            rig.step(|flow, ctx| flow.on_report(&m, ctx));
            rig.flow.last.delivered
        };
        assert_eq!(after(&mut rig, u32::MAX), Bytes(7), "the first has none before it");
        assert_eq!(after(&mut rig, 4), Bytes(5_000), "modulo 2^32");
        rig.flow.on_state((State::FellBack, 1), Bytes(9_000), &mut rig.notes);
        rig.flow.on_state((State::Restored, 2), Bytes(9_000), &mut rig.notes);
        rig.step(|flow, ctx| flow.on_poke(ctx));
        assert_eq!(after(&mut rig, 90_000), Bytes(7));
        assert_eq!(after(&mut rig, 90_003), Bytes(3_000));
    }

    #[test]
    fn policies_and_arms_replace_each_other() {
        let mut rig = Rig::new("rein");
        rig.report(40, |_| {});
        rig.want("westwood");
        rig.want("rein");
        assert_eq!((rig.flow.arm(), rig.flow.driver.as_str()), ("cubic", "rein"));
        assert_eq!(rig.flow.totals.switches, 2);
    }
}
