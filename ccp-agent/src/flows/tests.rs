//! Timers of arms, as the engine keeps them.

use super::*;
use crate::events::Event;
use crate::flow::{Driver, Start, WAKE_INTERVAL_US_MIN};
use remuda_algorithms::units::{Packets, Time};
use remuda_algorithms::{Abilities, Arm, ArmInfo, Decision, Measurement, PathState, reno};
use remuda_wire::to_agent::{FlowInfo, Signals};
use remuda_wire::{Order, Register, program::CWND};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MSS: Bytes = Bytes(1_000);

const INFO: ArmInfo =
    ArmInfo { name: "ticker", summary: "of a test", program: reno::ARM.program, ..reno::ARM };

/// An arm that adds a segment at each wake. `asks` says when the next one is to be.
struct Ticker {
    asks: fn(Time) -> Option<Time>,
    wake_at: Option<Time>,
    adds: Packets,
    decision: Decision,
    /// The moments at which it was called.
    calls: Arc<Mutex<Vec<Time>>>,
}

impl Ticker {
    fn boxed(asks: fn(Time) -> Option<Time>) -> Driver {
        Self::adding(Packets(1), asks, &Arc::default())
    }

    fn adding(
        adds: Packets,
        asks: fn(Time) -> Option<Time>,
        calls: &Arc<Mutex<Vec<Time>>>,
    ) -> Driver {
        let decision = Decision { cwnd: MSS, rate: None };
        let calls = Arc::clone(calls);
        Driver::Arm(Box::new(Self { asks, wake_at: None, adds, decision, calls }))
    }
}

impl Arm for Ticker {
    fn info(&self) -> &'static ArmInfo {
        &INFO
    }
    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        self.wake_at = (self.asks)(now);
        self.decision.cwnd = path.cwnd;
        self.decision
    }
    fn on_measurement(&mut self, _m: &Measurement, now: Time) -> Decision {
        self.calls.lock().expect("no test panics with it").push(now);
        self.decision
    }
    fn hand_off(&self, path: &mut PathState) {
        path.cwnd = self.decision.cwnd;
    }
    fn wake_at(&self) -> Option<Time> {
        self.wake_at
    }
    fn on_wake(&mut self, now: Time) -> Option<Decision> {
        self.calls.lock().expect("no test panics with it").push(now);
        self.wake_at = (self.asks)(now);
        self.decision.cwnd += self.adds.to_bytes(MSS);
        Some(self.decision)
    }
}

fn later(now: Time, ms: u64) -> Option<Time> {
    Some(now + Duration::from_millis(ms))
}

struct Nothing;

impl Recorder for Nothing {
    fn record(&mut self, _flow: Option<u32>, _event: &Event) {}
}

struct Rig {
    flows: Flows,
    setup: Setup,
    /// The windows that were ordered, by the datapath's number of the flow.
    cwnds: Vec<(u32, u64)>,
    /// The program that was ordered last.
    uid: u32,
}

impl Rig {
    fn new() -> Self {
        let setup = Setup::default();
        Self { flows: Flows::new(&setup.config), setup, cwnds: Vec::new(), uid: 0 }
    }

    fn step<T>(&mut self, now_us: u64, act: impl FnOnce(&mut Flows, Step<'_>) -> T) -> T {
        let Self { flows, setup, cwnds, uid } = self;
        let mut take = |order: &Order<'_>| {
            let (sid, updates) = match *order {
                Order::Run { sid, uid: of, updates } => {
                    *uid = of;
                    (sid, updates)
                }
                Order::Update { sid, updates } => (sid, updates),
                Order::Install(_) | Order::Native { .. } => return,
            };
            let cwnd = updates.iter().find(|it| it.register == Register::Implicit(CWND));
            cwnds.extend(cwnd.map(|it| (sid, it.value)));
        };
        act(flows, Step { setup, recorder: &mut Nothing, orders: &mut take, now_us })
    }

    fn start(&mut self, id: u32, driver: Driver, now_us: u64) {
        let info = FlowInfo::between(
            (IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
            (IpAddr::V4(Ipv4Addr::LOCALHOST), 2),
        );
        let cwnd = Packets(20).to_bytes(MSS);
        let abilities = Abilities::default();
        let start = Start {
            id,
            sid: id,
            info,
            cwnd,
            mss: MSS,
            abilities,
            is_believed: true,
            at_us: now_us,
        };
        let flow = Flow::new(start, "ticker".to_owned(), driver);
        self.step(now_us, |flows, step| flows.start(flow, step));
    }

    /// Wakes what is due; the flows, in their order.
    fn wake(&mut self, now_us: u64) -> Vec<u32> {
        let mut woken = Vec::new();
        while let Some(id) = self.flows.take_due(now_us) {
            self.step(now_us, |flows, step| flows.wake(id, step));
            woken.push(id);
        }
        woken
    }

    fn report(&mut self, id: u32, at_us: u64, now_us: u64) -> bool {
        let signals = Some(Signals { now_us: at_us, mss_bytes: 1_000, ..Signals::default() });
        let report = Report { sid: id, uid: self.uid, fields: &[0; 20], signals };
        self.step(now_us, |flows, step| flows.report(id, &report, step))
    }
}

#[test]
fn flows_are_woken_in_the_order_of_their_times() {
    let mut rig = Rig::new();
    rig.start(1, Ticker::boxed(|now| later(now, 30)), 1_000_000);
    rig.start(2, Ticker::boxed(|now| later(now, 20)), 1_000_000);
    rig.start(3, Ticker::boxed(|now| later(now, 10)), 1_000_000);
    assert_eq!(rig.flows.wake_us(), Some(1_010_000));
    assert_eq!(rig.wake(1_009_999), [0; 0]);
    rig.cwnds.clear();
    assert_eq!(rig.wake(1_025_000), [3, 2]);
    assert_eq!(rig.cwnds, [(3, 21_000), (2, 21_000)], "a wake is an order");
    assert_eq!(rig.flows.wake_us(), Some(1_030_000));
    assert_eq!(rig.wake(1_045_000), [1, 3, 2], "at 30, 35 and 45 ms");
}

#[test]
fn a_flow_without_a_timer_has_no_entry() {
    let mut rig = Rig::new();
    rig.start(1, Ticker::boxed(|_| None), 0);
    assert!(rig.report(1, 10_000, 10_000));
    assert_eq!((rig.flows.wake_us(), rig.wake(u64::MAX)), (None, vec![]));
}

#[test]
fn an_arm_that_asks_for_the_past_or_the_next_nanosecond_is_held_to_the_least_interval() {
    let past: fn(Time) -> Option<Time> = |_| Some(Time::ZERO);
    let next: fn(Time) -> Option<Time> = |now| Some(now + Duration::from_nanos(1));
    for asks in [past, next] {
        let mut rig = Rig::new();
        rig.start(1, Ticker::boxed(asks), 5_000_000);
        let mut wakes = 0;
        for now_us in 5_000_000..5_010_000 {
            wakes += rig.wake(now_us).len();
            rig.step(now_us, |flows, step| flows.wake(1, step));
        }
        assert_eq!(wakes, 10, "one each {WAKE_INTERVAL_US_MIN} us");
        let windows = rig.cwnds.len() - 1;
        assert_eq!(windows, 10, "the interval holds for a caller that does not ask, too");
    }
}

#[test]
fn a_flow_that_has_ended_is_never_woken() {
    let mut rig = Rig::new();
    rig.start(1, Ticker::boxed(|now| later(now, 10)), 0);
    assert_eq!(rig.wake(10_000), [1]);
    rig.flows.end(1, 15_000, &mut Nothing);
    assert_eq!((rig.flows.wake_us(), rig.wake(u64::MAX)), (None, vec![]));
}

#[test]
fn a_switch_drops_the_timer_of_the_old_arm() {
    let mut rig = Rig::new();
    rig.start(1, Ticker::boxed(|now| later(now, 10)), 0);
    rig.flows.want(1, "reno", &Why::because("of a test"));
    rig.step(5_000, |flows, step| flows.poke(1, step));
    assert_eq!(rig.flows.get(1).expect("it is there").arm(), "reno");
    assert_eq!((rig.flows.wake_us(), rig.wake(u64::MAX)), (None, vec![]));
}

#[test]
fn a_flow_in_its_datapaths_fallback_is_not_woken_until_it_is_restored() {
    let mut rig = Rig::new();
    rig.start(1, Ticker::boxed(|now| later(now, 10)), 0);
    assert!(!rig.flows.state(1, State::FellBack, 5_000, Bytes(9_000), &mut Nothing));
    assert_eq!(rig.wake(10_000), [0; 0]);
    assert!(rig.flows.state(1, State::Restored, 20_000, Bytes(9_000), &mut Nothing));
    rig.step(20_000, |flows, step| flows.poke(1, step));
    assert_eq!(rig.flows.wake_us(), Some(30_000), "the arm has taken the flow anew");
}

#[test]
fn what_an_arm_decides_at_a_wake_passes_the_guard() {
    let mut rig = Rig::new();
    let every_10_ms = |now| later(now, 10);
    let huge = Ticker::adding(Packets(1_000_000), every_10_ms, &Arc::default());
    rig.start(1, huge, 0);
    rig.cwnds.clear();
    assert_eq!(rig.wake(10_000), [1]);
    let most = rig.setup.config.guard.cwnd_pkts_max * MSS.0;
    assert!(matches!(rig.cwnds[..], [(1, cwnd)] if cwnd <= most), "{:?}", rig.cwnds);
}

#[test]
fn a_report_that_waited_while_the_timer_went_off_turns_no_time_back() {
    let mut rig = Rig::new();
    let calls = Arc::default();
    rig.start(1, Ticker::adding(Packets(1), |now| later(now, 10), &calls), 0);
    assert_eq!(rig.wake(12_000), [1]);
    assert!(rig.report(1, 11_000, 12_500) && rig.report(1, 13_000, 13_000));
    let ms = |at: &Time| at.0.as_millis();
    let calls: Vec<u128> = calls.lock().expect("no test panics with it").iter().map(ms).collect();
    assert_eq!(calls, [12, 12, 13]);
}
