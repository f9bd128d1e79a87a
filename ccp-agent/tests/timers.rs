//! The timers of arms in the agent: in its run loop, and below a policy.

use ccp_agent::events::{Event, Recorder};
use ccp_agent::flow::{Driver, Flow, Start};
use ccp_agent::flows::{Flows, Step};
use ccp_agent::host::Host;
use ccp_agent::ipc::Datapaths;
use ccp_agent::ipc::UnixEnd;
use ccp_agent::run_loop::{self, RunLoop};
use ccp_agent::waiter::Waiter;
use ccp_agent::{Config, Setup};
use remuda_algorithms::units::{Bytes, Packets, Time};
use remuda_algorithms::{
    Abilities, Arm, ArmInfo, Decision, Loaded, Measurement, PathState, ProgramId, Proposal, Why,
    window,
};
use remuda_selector::{ArmRunner, Policy};
use remuda_wire::to_agent::{Create, FlowInfo, Signals};
use remuda_wire::{Event as Said, Order, Report, ToDatapath};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once};
use std::time::Duration;

/// How often the arm wants to be woken.
const EVERY: Duration = Duration::from_millis(5);
const MSS_BYTES: u32 = 1_000;
const MSS: Bytes = Bytes(MSS_BYTES as u64);
/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

static TICKER: ArmInfo = ArmInfo {
    name: "ticker",
    summary: "a segment more every 5 ms",
    program: ProgramId("ticker/report"),
    make: Some(|_| Box::new(Ticker::default())),
    ..ArmInfo::DEFAULT
};

struct Ticker {
    cwnd: Bytes,
    wake_at: Time,
}

impl Default for Ticker {
    fn default() -> Self {
        Self { cwnd: window::no_path().cwnd, wake_at: Time::ZERO }
    }
}

impl Arm for Ticker {
    fn info(&self) -> &'static ArmInfo {
        &TICKER
    }
    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        (self.cwnd, self.wake_at) = (path.cwnd, now + EVERY);
        Decision { cwnd: self.cwnd, rate: None }
    }
    fn on_measurement(&mut self, _m: &Measurement, _now: Time) -> Decision {
        Decision { cwnd: self.cwnd, rate: None }
    }
    fn hand_off(&self, path: &mut PathState) {
        path.cwnd = self.cwnd;
    }
    fn wake_at(&self) -> Option<Time> {
        Some(self.wake_at)
    }
    fn on_wake(&mut self, now: Time) -> Option<Decision> {
        self.cwnd += Packets(1).to_bytes(MSS);
        self.wake_at = now + EVERY;
        Some(Decision { cwnd: self.cwnd, rate: None })
    }
}

fn add_ticker() {
    static ADDED: Once = Once::new();
    ADDED.call_once(|| {
        remuda_algorithms::add(&TICKER).expect("nothing has asked for the list of arms");
    });
}

struct Nothing;

impl Recorder for Nothing {
    fn record(&mut self, _flow: Option<u32>, _event: &Event) {}
}

fn info() -> FlowInfo {
    FlowInfo::between((IpAddr::V4(Ipv4Addr::LOCALHOST), 1), (IpAddr::V4(Ipv4Addr::LOCALHOST), 2))
}

/// Says `event` to the agent's socket.
fn say(datapath: &UnixDatagram, agent: &std::path::Path, event: &Said<'_>) {
    event.encode(&mut Vec::new(), &mut |message| {
        datapath.send_to(message, agent).expect("the agent has room for a message");
    });
}

/// The window of the next order that sets one.
fn next_cwnd(datapath: &UnixDatagram) -> u64 {
    let mut buffer = vec![0; remuda_wire::MESSAGE_BYTES_MAX];
    loop {
        let bytes = datapath.recv(&mut buffer).expect("an order comes in time");
        let message = &buffer[..bytes];
        let parsed = ToDatapath::parse(message).expect("the agent's messages are sound");
        if let Some(Order::Run { updates, .. } | Order::Update { updates, .. }) =
            Order::of(message, &parsed)
            && let Some(update) = updates.first()
        {
            return update.value;
        }
    }
}

#[test]
fn the_run_loop_wakes_an_arm_while_its_datapath_is_silent() {
    add_ticker();
    let dir = tempfile::tempdir().expect("a directory");
    let [agent, ours] = ["agent", "datapath"].map(|name| dir.path().join(name));
    let mut config = Config::default();
    config.agent.default = "ticker".to_owned();
    let host = Mutex::new(Host::new(config, Box::new(Nothing)));
    let unix = UnixEnd::bind(&agent).expect("a socket");
    let datapath = UnixDatagram::bind(&ours).expect("another socket");
    datapath.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let stop = AtomicBool::new(false);
    let windows: Vec<u64> = std::thread::scope(|scope| {
        let datapaths = Datapaths { unix: Some(unix), ..Datapaths::default() };
        let run_loop = RunLoop::new(datapaths, &host).expect("there are descriptors");
        scope.spawn(|| run_loop.run(&stop, || ()));
        say(&datapath, &agent, &Said::Ready);
        let create =
            Create { init_cwnd_bytes: 10 * MSS_BYTES, mss_bytes: MSS_BYTES, ..Create::default() };
        say(&datapath, &agent, &Said::Created { sid: 7, create: &create, info: Some(&info()) });
        // Nothing is reported: what comes after the first order comes by the timer.
        let windows = (0..20).map(|_| next_cwnd(&datapath)).collect();
        say(&datapath, &agent, &Said::Closed { sid: 7 });
        while !host.lock().expect("nobody panics with it").rows().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(host.lock().expect("nobody panics with it").wake_us(), None);
        stop.store(true, Ordering::Relaxed);
        windows
    });
    let expected: Vec<u64> = (10..30).map(|pkts| pkts * u64::from(MSS_BYTES)).collect();
    assert_eq!(windows, expected);
}

#[test]
fn the_run_loop_waits_no_longer_than_until_the_next_wake() {
    let before = ccp_agent::clock::monotonic_us();
    let wake_us = before + 3_000;
    let waiter = Waiter::new().expect("there are descriptors");
    waiter.wait(run_loop::limit([], Some(wake_us)));
    let waited_us = ccp_agent::clock::monotonic_us() - before;
    assert!((3_000..40_000).contains(&waited_us), "50 ms without it: {waited_us} us");
    waiter.wait(run_loop::limit([], Some(before)));
}

/// Picks `ticker` first, and wants `reno` after its second report.
#[derive(Default)]
struct TickerThenReno {
    reports: u32,
}

impl Policy for TickerThenReno {
    fn begin(&mut self, _path: &PathState, _now: Time) -> &'static str {
        "ticker"
    }
    fn observe(&mut self, _m: &Measurement, _arm: &'static str, _now: Time) {
        self.reports += 1;
    }
    fn proposal(&mut self) -> Option<Proposal> {
        (self.reports == 2).then(|| Proposal::new("reno", Why::because("two reports")))
    }
    fn taken(&mut self, _arm: &'static str, _now: Time) {}
}

#[test]
fn a_policy_passes_on_the_timer_of_its_arm_and_a_switch_drops_it() {
    add_ticker();
    let setup = Setup::default();
    let mut flows = Flows::new(&setup.config);
    let (mut uid, mut orders) = (0, 0);
    let mut step = |flows: &mut Flows, now_us, act: &mut dyn FnMut(&mut Flows, u32, Step<'_>)| {
        let before = uid;
        let mut take = |order: &Order<'_>| {
            orders += 1;
            if let Order::Run { uid: of, .. } = order {
                uid = *of;
            }
        };
        let (setup, recorder) = (&setup, &mut Nothing);
        act(flows, before, Step { setup, recorder, orders: &mut take, now_us });
        orders
    };
    let start = Start {
        is_believed: true,
        id: 1,
        sid: 1,
        info: info(),
        cwnd: Packets(20).to_bytes(MSS),
        mss: MSS,
        abilities: Abilities::default(),
        at_us: 0,
    };
    let driver =
        Driver::Policy(Box::new(ArmRunner::new(TickerThenReno::default(), &Loaded::default())));
    let mut flow = Some(Flow::new(start, "of a test".to_owned(), driver));
    step(&mut flows, 0, &mut |flows, _, step| flows.start(flow.take().expect("once"), step));
    assert_eq!(flows.wake_us(), Some(5_000));
    let before = step(&mut flows, 5_000, &mut |_, _, _| ());
    assert_eq!(flows.take_due(5_000), Some(1));
    let after = step(&mut flows, 5_000, &mut |flows, _, step| flows.wake(1, step));
    assert_eq!((after, flows.wake_us()), (before + 1, Some(10_000)));
    for now_us in [6_000, 7_000] {
        step(&mut flows, now_us, &mut |flows, uid, step| {
            let signals = Some(Signals { now_us, mss_bytes: MSS_BYTES, ..Signals::default() });
            let report = Report { sid: 1, uid, fields: &[0; 20], signals };
            assert!(flows.report(1, &report, step));
        });
    }
    assert_eq!(flows.get(1).expect("it is there").arm(), "reno");
    assert_eq!((flows.wake_us(), flows.take_due(u64::MAX)), (None, None));
}
