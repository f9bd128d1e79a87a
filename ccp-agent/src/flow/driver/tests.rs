use super::*;
use crate::Setup;
use crate::events::{Event, Recorder};
use crate::flow::{Context, Flow, Start};
use remuda_algorithms::units::{Bytes, Packets, Rate};
use remuda_algorithms::{ArmInfo, RttSamples};
use remuda_wire::Order;
use remuda_wire::to_agent::{FlowInfo, Signals};
use std::time::Duration;

const MSS: Bytes = Bytes(1_448);
/// An arm of [`Pair`] has the flow for so long.
const TURN: Duration = Duration::from_secs(1);

const INFO: ArmInfo = ArmInfo { name: "pair", summary: "of a test", ..ArmInfo::DEFAULT };

/// An arm that owns two others, and gives the flow to each in turn, by a timer.
struct Pair {
    arms: [Box<dyn Arm>; 2],
    running: usize,
    path: PathState,
    next_turn: Time,
}

impl Pair {
    fn of(first: &str, second: &str) -> Self {
        let built = |name| remuda_algorithms::arm(name).and_then(ArmInfo::build).expect("an arm");
        let path = PathState::new(MSS, MSS);
        Self { arms: [built(first), built(second)], running: 0, path, next_turn: Time::ZERO }
    }
}

impl Arm for Pair {
    fn info(&self) -> &'static ArmInfo {
        &INFO
    }
    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        (self.path, self.running, self.next_turn) = (path.clone(), 0, now + TURN);
        self.arms[0].resume(path, now)
    }
    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.path.observe(m, now);
        self.arms[self.running].on_measurement(m, now)
    }
    fn hand_off(&self, path: &mut PathState) {
        self.arms[self.running].hand_off(path);
    }
    fn wake_at(&self) -> Option<Time> {
        Some(self.arms[self.running].wake_at().map_or(self.next_turn, |at| at.min(self.next_turn)))
    }
    fn on_wake(&mut self, now: Time) -> Option<Decision> {
        if now < self.next_turn {
            return self.arms[self.running].on_wake(now);
        }
        self.next_turn = now + TURN;
        self.arms[self.running].hand_off(&mut self.path);
        self.running = 1 - self.running;
        Some(self.arms[self.running].resume(&self.path, now))
    }
    fn program(&self) -> ProgramId {
        self.arms[self.running].program()
    }
    fn own_fields(&self) -> &[&'static str] {
        self.arms[self.running].own_fields()
    }
    fn reports_per_round(&self) -> u32 {
        self.arms[self.running].reports_per_round()
    }
    fn registers(&self, registers: &mut Registers) {
        self.arms[self.running].registers(registers);
    }
}

struct Nothing;

impl Recorder for Nothing {
    fn record(&mut self, _flow: Option<u32>, _event: &Event) {}
}

/// The programs that were set, and whether each got a value of its register `interval`.
#[derive(Default)]
struct Set(Vec<(&'static str, bool)>);

fn at(ms: u64) -> Time {
    Time(Duration::from_millis(ms))
}

fn started(driver: Driver, set: &mut Set) -> Flow {
    let info =
        FlowInfo::between(("192.0.2.1".parse().unwrap(), 1), ("192.0.2.2".parse().unwrap(), 2));
    let window = Packets(20).to_bytes(MSS);
    let start = Start {
        is_believed: true,
        id: 1,
        sid: 1,
        info,
        cwnd: window,
        mss: MSS,
        abilities: Default::default(),
        at_us: 0,
    };
    let mut flow = Flow::new(start, "of a test".to_owned(), driver);
    flow.signals = Some(Signals::default());
    step(&mut flow, set, |flow, ctx| flow.start(ctx));
    flow
}

fn step(flow: &mut Flow, set: &mut Set, act: impl FnOnce(&mut Flow, &mut Context<'_>)) {
    step_at(flow, set, flow.at_us, act);
}

fn wake(flow: &mut Flow, set: &mut Set, at: Time) {
    let now_us = at.0.as_micros() as u64;
    step_at(flow, set, now_us, |flow, ctx| flow.on_wake(ctx));
}

fn step_at(
    flow: &mut Flow,
    set: &mut Set,
    now_us: u64,
    act: impl FnOnce(&mut Flow, &mut Context<'_>),
) {
    let mut runs = Vec::new();
    let mut ctx = Context {
        setup: &Setup::default(),
        recorder: &mut Nothing,
        orders: &mut |order| {
            if let Order::Run { updates, .. } = order {
                runs.push(updates.iter().map(|update| update.register).collect::<Vec<_>>());
            }
        },
        now_us,
        report_us: 10_000,
    };
    act(flow, &mut ctx);
    for registers in runs {
        let program = flow.running.as_ref().expect("it runs one");
        let interval = program.settable("interval");
        let has_interval = interval.is_some_and(|it| registers.contains(&it));
        set.0.push((flow.program.expect("the same").0, has_interval));
    }
}

fn report(flow: &mut Flow, set: &mut Set, ms: u64) {
    flow.signals = Some(Signals { now_us: ms * 1_000, cwnd_full: true, ..Signals::default() });
    let rate = Rate::from_bytes_per_sec(3_000_000);
    let m = Measurement {
        acked: rate * Duration::from_millis(10),
        in_flight: flow.decision.cwnd,
        cwnd: flow.decision.cwnd,
        rtt: Some(RttSamples::one(Duration::from_millis(40))),
        send_rate: rate,
        delivery_rate: rate,
        ..Measurement::QUIET
    };
    flow.at_us = ms * 1_000;
    step(flow, set, |flow, ctx| flow.take_in(&m, ctx));
}

#[test]
fn an_arm_of_two_arms_changes_program_registers_and_pacing_with_them() {
    let mut set = Set::default();
    let mut flow = started(Driver::Arm(Box::new(Pair::of("cubic", "vivace"))), &mut set);
    assert!(flow.controller.own_fields().is_empty());
    for ms in (10..1_000).step_by(10) {
        report(&mut flow, &mut set, ms);
    }
    assert_eq!(flow.decision.rate, None, "CUBIC has a window alone");
    let before = flow.decision.cwnd;
    wake(&mut flow, &mut set, at(1_000));
    let rate = flow.decision.rate.expect("Vivace paces").bytes_per_sec();
    assert!((2_500_000..3_000_000).contains(&rate), "what CUBIC was delivered: {rate}");
    assert!(flow.decision.cwnd <= before, "a switch inside an arm raises nothing either");
    assert_eq!(flow.controller.own_fields(), ["Report.crossed_bytes"]);
    assert_eq!(flow.arm(), "pair", "the flow has not changed hands");
    wake(&mut flow, &mut set, at(2_000));
    let programs: Vec<&str> = set.0.iter().map(|(program, _)| *program).collect();
    assert_eq!(programs, ["cubic/report", "vivace/intervals", "cubic/report"]);
    let has_interval = set.0.iter().map(|(_, has)| *has);
    assert_eq!(has_interval.collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn a_timer_before_its_time_does_nothing_and_an_arm_without_one_has_none() {
    let mut set = Set::default();
    let mut flow = started(Driver::Arm(Box::new(Pair::of("cubic", "bbr"))), &mut set);
    assert_eq!(flow.wake_at(), Some(at(1_000)));
    wake(&mut flow, &mut set, at(999));
    assert_eq!((set.0.len(), flow.wake_at()), (1, Some(at(1_000))));
    wake(&mut flow, &mut set, at(1_000));
    assert_eq!((set.0.len(), flow.wake_at()), (2, Some(at(2_000))));
    for driver in ["reno", "rein"] {
        let driver = Driver::build(driver, &Setup::default()).expect("a name");
        let mut flow = started(driver, &mut set);
        let orders = set.0.len();
        wake(&mut flow, &mut set, at(5_000));
        assert_eq!((flow.wake_at(), set.0.len()), (None, orders));
    }
}
