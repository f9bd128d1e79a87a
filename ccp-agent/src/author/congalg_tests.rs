//! An algorithm built on portus, in a thread of the agent: what it decides at each report, and what
//! happens when it fails.

use super::*;
use crate::Setup;
use crate::flow::Driver;
use portus::lang::Scope;
use portus::{DatapathTrait, Report};
use remuda_algorithms::units::Time;
use remuda_algorithms::{Measurement, PathState};
use std::net::SocketAddr;

const MSS: u64 = 1_000;

/// Halves the window at a loss and adds a segment at each report; counts its flows.
struct Halving;

struct HalvingFlow<I: Ipc> {
    control: Datapath<I>,
    scope: Scope,
    window: u32,
    info: DatapathInfo,
}

const PROGRAM: &str = "
    (def (Report (volatile acked 0) (volatile lost 0)) (gain 7) (unused 3))
    (when true # at each ACK
        (:= Report.acked (+ Report.acked Ack.bytes_acked)) # so far
        (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
        (fallthrough))
    (when (> Micros 10000) (report) (:= Micros 0))";
const OTHER: &str = "(def (Report (volatile late 0)))
    (when (> Micros 20000) (:= Report.late 1) (report) (:= Micros 0))";

impl<I: Ipc> CongAlg<I> for Halving {
    type Flow = HalvingFlow<I>;

    fn name() -> &'static str {
        "Halving!"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        HashMap::from([("one", PROGRAM.to_owned()), ("two", OTHER.to_owned())])
    }

    fn new_flow(&self, mut control: Datapath<I>, info: DatapathInfo) -> Self::Flow {
        assert_ne!(info.dst_port, 666, "not this one");
        let window = info.init_cwnd;
        let scope = control.set_program("one", Some(&[("gain", 9)])).expect("it is installed");
        HalvingFlow { control, scope, window, info }
    }
}

impl<I: Ipc> portus::Flow for HalvingFlow<I> {
    fn on_report(&mut self, _: u32, report: Report) {
        if self.window > 100_000 {
            self.scope = self.control.set_program("two", None).expect("it is installed");
            return;
        }
        let lost = report.get_field("Report.lost", &self.scope).expect("it is a field");
        self.window = if lost > 0 { self.window / 2 } else { self.window + self.info.mss };
        let set = [("Cwnd", self.window), ("Rate", self.info.dst_port)];
        self.control.update_field(&self.scope, &set).expect("the datapath listens");
    }
}

fn brought<A: CongAlg<Loopback> + 'static>(
    name: &str,
    make: impl Fn() -> A + Send + Sync + 'static,
) -> Result<Setup, Error> {
    let setup = Setup::default();
    let make = Arc::new(make);
    let own = name.to_owned();
    let start: Start = Box::new(move || start(&own, Arc::clone(&make)));
    add(&setup.authors, &start, Served::Simulator)?;
    Ok(setup)
}

fn path(cwnd: u64, port: u16) -> PathState {
    let mut path = PathState::new(Bytes(MSS), Bytes(cwnd));
    let ends = [([10, 0, 0, 1], 1), ([10, 0, 0, 2], port)].map(SocketAddr::from);
    path.ends = Some((ends[0], ends[1]));
    path
}

fn registers(driver: &Driver) -> remuda_algorithms::Registers {
    let mut registers = remuda_algorithms::Registers::NONE;
    driver.registers(&mut registers);
    registers
}

fn report(controller: &mut Driver, fields: &[u64]) -> Decision {
    controller.take_fields(fields);
    controller.on_measurement(&Measurement::QUIET, Time::ZERO)
}

#[test]
fn each_report_is_answered_before_the_next_and_the_program_changes() {
    let setup = brought("halving", || Halving).expect("it is added");
    let mut flow = Driver::build("halving", &setup).expect("it is an arm");
    let first = flow.resume(&path(20_000, 443), Time::ZERO);
    assert_eq!(first, Decision { cwnd: Bytes(20_000), rate: None });
    assert_eq!(flow.program().0, "halving/one");
    assert_eq!(flow.own_fields(), ["Report.acked", "Report.lost"]);
    assert_eq!(registers(&flow).as_slice(), [("gain", 9)], "what was never set stays as declared");
    let rate = Some(Rate::from_bytes_per_sec(443));
    assert_eq!(report(&mut flow, &[5, 0]), Decision { cwnd: Bytes(21_000), rate });
    assert_eq!(report(&mut flow, &[5, 1]).cwnd, Bytes(10_500));
    let mut other = Driver::build("halving", &setup).expect("it is an arm");
    other.resume(&path(101_000, 80), Time::ZERO);
    assert_eq!(report(&mut other, &[5, 0]).cwnd, Bytes(101_000), "flows are apart");
    assert_eq!(other.program().0, "halving/two");
    assert_eq!(other.own_fields(), ["Report.late"]);
    assert!(registers(&other).as_slice().is_empty(), "those were the other program's");
    assert_eq!(report(&mut flow, &[5, 0]).cwnd, Bytes(11_500));
    let mut handed = path(11_500, 443);
    flow.hand_off(&mut handed);
    assert_eq!((handed.cwnd, handed.ssthresh), (Bytes(11_500), None));
}

#[test]
fn a_panic_costs_its_flows_a_fallback_and_later_flows_nothing() {
    let setup = brought("halving", || Halving).expect("it is added");
    let build = || Driver::build("halving", &setup).expect("it is an arm");
    let (mut well, mut ill) = (build(), build());
    well.resume(&path(20_000, 443), Time::ZERO);
    ill.resume(&path(20_000, 666), Time::ZERO);
    let why = ill.failure().expect("it failed");
    assert!(why.contains("not this one"), "{why}");
    report(&mut well, &[5, 0]);
    assert!(well.failure().expect("its state is gone").contains("panicked"));
    let mut later = build();
    later.resume(&path(20_000, 443), Time::ZERO);
    assert_eq!(report(&mut later, &[5, 0]).cwnd, Bytes(21_000));
    assert_eq!(later.failure(), None);
}

/// An algorithm with one fault: an invalid program, or a panic.
struct Wrong(&'static str);

struct NoFlow;

impl portus::Flow for NoFlow {
    fn on_report(&mut self, _: u32, _: Report) {}
}

impl<I: Ipc> CongAlg<I> for Wrong {
    type Flow = NoFlow;

    fn name() -> &'static str {
        "wrong"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        assert_ne!(self.0, "panics", "on purpose");
        HashMap::from([("p", self.0.to_owned())])
    }

    fn new_flow(&self, _: Datapath<I>, _: DatapathInfo) -> NoFlow {
        NoFlow
    }
}

#[test]
fn what_no_datapath_would_run_is_refused_with_its_place() {
    let refused = |name, text| brought(name, move || Wrong(text)).err().map(|e| e.to_string());
    let said = refused("wrong", "(def (Report (volatile a 0)))\n(when true (:= Report.b 1))");
    assert!(said.as_deref().is_some_and(|said| said.contains("wrong/p, line 2")), "{said:?}");
    let said = refused("wrong", "panics");
    assert!(said.as_deref().is_some_and(|said| said.contains("on purpose")), "{said:?}");
    let said = refused("cubic", "(def (Report (volatile a 0)))\n(when true (report))");
    assert!(said.as_deref().is_some_and(|said| said.contains("there already")), "{said:?}");
    let many = (0..17).map(|n| format!("(r{n} 0)")).collect::<String>();
    let text = format!("(def (Report (volatile a 0)) {many})\n(when true (report))");
    let said = refused("wrong", Box::leak(text.into_boxed_str()));
    assert!(said.is_some());
}

#[test]
fn a_flow_without_a_program_fails_and_says_why() {
    let program = "(def (Report (volatile a 0)))\n(when true (report))";
    let setup = brought("idle", move || Wrong(program)).expect("it is added");
    let mut flow = Driver::build("idle", &setup).expect("it is an arm");
    flow.resume(&path(20_000, 443), Time::ZERO);
    assert!(flow.failure().expect("it failed").contains("did not set a datapath program"));
}

#[test]
fn its_thread_ends_with_its_last_user() {
    let dropped = Arc::new(AtomicBool::new(false));
    struct Watched(Arc<AtomicBool>);
    impl Drop for Watched {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    impl<I: Ipc> CongAlg<I> for Watched {
        type Flow = NoFlow;
        fn name() -> &'static str {
            "watched"
        }
        fn datapath_programs(&self) -> HashMap<&'static str, String> {
            let program = "(def (Report (volatile a 0)))\n(when true (report))";
            HashMap::from([("p", program.to_owned())])
        }
        fn new_flow(&self, _: Datapath<I>, _: DatapathInfo) -> NoFlow {
            NoFlow
        }
    }
    let seen = Arc::clone(&dropped);
    drop(brought("watched", move || Watched(Arc::clone(&seen))).expect("it is added"));
    for _ in 0..1_000 {
        if dropped.load(Ordering::SeqCst) {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("the thread goes on");
}
