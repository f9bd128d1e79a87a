use super::*;
use crate::programs;
use remuda_algorithms::RttSamples;
use remuda_algorithms::units::{Packets, Rate};
use std::net::{IpAddr, Ipv4Addr};

const MSS: Bytes = Bytes(1_000);
const NOW_US: u64 = 5_000_000;

#[derive(Default)]
struct Notes(Vec<String>);

impl Recorder for Notes {
    fn record(&mut self, _flow: Option<u32>, event: &Event) {
        self.0.push(format!("{event:?}"));
    }
}

/// A program, if it was set, and fields; a native algorithm is one with its threshold.
type Sent = (Option<&'static str>, Vec<(String, u32)>);

/// The names that a register may have.
const NAMES: [&str; 5] = ["Cwnd", "Rate", "report_us", "per_round", "interval"];

/// Keeps orders as people read them: programs and registers by name.
#[derive(Default)]
struct Wire(Vec<Sent>);

fn named(program: &Installed, updates: &[remuda_wire::to_datapath::Update]) -> Vec<(String, u32)> {
    let name = |register| {
        let found = NAMES.into_iter().find(|name| program.settable(name) == Some(register));
        found.map_or_else(|| format!("{register:?}"), str::to_owned)
    };
    updates.iter().map(|it| (name(it.register), it.value as u32)).collect()
}

impl Wire {
    fn take(&mut self, order: &Order<'_>, uids: &mut Option<u32>) {
        let of = |uid: u32| programs::ours().expect("they compile").iter().find(|it| it.uid == uid);
        match *order {
            Order::Run { uid, updates, .. } => {
                *uids = Some(uid);
                let program = of(uid).expect("it is installed");
                self.0.push((Some(program.id.0), named(program, updates)));
            }
            Order::Update { updates, .. } => {
                let program = uids.and_then(of).expect("it runs one");
                self.0.push((None, named(program, updates)));
            }
            Order::Native { name, ssthresh_bytes, .. } => {
                let name = remuda_algorithms::interned::interned_str(name);
                self.0.push((Some(name), vec![("ssthresh".to_owned(), ssthresh_bytes)]));
            }
            Order::Install(_) => {}
        }
    }
}

struct Rig {
    flow: Flow,
    wire: Wire,
    running: Option<u32>,
    notes: Notes,
    setup: Setup,
}

fn info() -> FlowInfo {
    FlowInfo::between((IpAddr::V4(Ipv4Addr::LOCALHOST), 1), (IpAddr::V4(Ipv4Addr::LOCALHOST), 2))
}

impl Rig {
    fn new(driver: &str) -> Self {
        let setup = Setup::default();
        let controller = Driver::build(driver, &setup).expect("a name");
        let window = Packets(20).to_bytes(MSS);
        let start = Start {
            is_believed: true,
            id: 1,
            sid: 7,
            info: info(),
            cwnd: window,
            mss: MSS,
            abilities: Abilities::default(),
            at_us: NOW_US,
        };
        let flow = Flow::new(start, driver.to_owned(), controller);
        let (wire, notes) = (Wire::default(), Notes::default());
        let mut rig = Self { flow, wire, running: None, notes, setup };
        rig.step(|flow, ctx| flow.start(ctx));
        rig
    }

    fn step(&mut self, act: impl FnOnce(&mut Flow, &mut Context<'_>)) {
        let Self { wire, running, .. } = self;
        let before = wire.0.len();
        let mut ctx = Context {
            setup: &self.setup,
            recorder: &mut self.notes,
            orders: &mut |order| wire.take(order, running),
            now_us: self.flow.at_us,
            report_us: 10_000,
        };
        act(&mut self.flow, &mut ctx);
        // Arms that share a text share a number: the flow knows by which name it runs the program.
        let is_of_an_arm =
            |name: &str| programs::ours().is_ok_and(|it| it.iter().any(|it| it.id.0 == name));
        for (name, _) in &mut self.wire.0[before..] {
            if name.is_some_and(is_of_an_arm) {
                *name = self.flow.program.map(|program| program.0);
            }
        }
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
        self.flow.at_us = self.flow.started_us + at_ms * 1_000;
        self.step(|flow, ctx| flow.take_in(&m, ctx));
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
    assert!(!flow.on_state(State::FellBack, 1, Bytes(9_000), &mut rig.notes));
    assert!(flow.on_state(State::Restored, 2, Bytes(9_000), &mut rig.notes));
    rig.step(|flow, ctx| flow.on_poke(ctx));
    let (program, fields) = rig.wire.0.last().expect("a message");
    assert_eq!(*program, Some("cubic/report"));
    assert!(fields[0].1 <= 9_000, "it goes on from the window it has: {fields:?}");
}

#[test]
fn what_is_delivered_during_a_fallback_is_no_measurement() {
    let mut rig = Rig::new("westwood");
    let after = |rig: &mut Rig, delivered_pkts| {
        rig.flow.signals = Some(Signals { mss_bytes: 1_000, delivered_pkts, ..Signals::default() });
        let m = Measurement { acked: Bytes(7), ..Measurement::QUIET };
        rig.step(|flow, ctx| flow.take_in(&m, ctx));
        rig.flow.last.delivered
    };
    assert_eq!(after(&mut rig, u32::MAX), Bytes(7), "the first has none before it");
    assert_eq!(after(&mut rig, 4), Bytes(5_000), "modulo 2^32");
    rig.flow.on_state(State::FellBack, 1, Bytes(9_000), &mut rig.notes);
    rig.flow.on_state(State::Restored, 2, Bytes(9_000), &mut rig.notes);
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

/// Known problem 7: pacing that the arm before turned on, or off.
#[test]
fn a_switch_turns_pacing_on_and_off_again() {
    let mut rig = Rig::new("bbr");
    rig.report(40, |_| {});
    rig.want("cubic");
    let (program, fields) = rig.wire.0.last().expect("a message");
    assert_eq!((*program, &fields[1]), (Some("cubic/report"), &("Rate".to_owned(), 0)));
    rig.want("bbr");
    let (_, fields) = rig.wire.0.last().expect("a message");
    assert!(fields[1].1 > 0, "{fields:?}");
}

/// Known problem 9: a program's own registers are those of its start after a change.
#[test]
fn a_switch_tells_the_new_program_its_own_registers() {
    let mut rig = Rig::new("cubic");
    rig.report(40, |_| {});
    rig.want("vivace");
    let (program, fields) = rig.wire.0.last().expect("a message");
    assert_eq!(*program, Some("vivace/intervals"));
    assert!(fields.iter().any(|(name, _)| name == "interval"), "{fields:?}");
    for at_ms in (80..2_000).step_by(20) {
        rig.report(at_ms, |_| {});
    }
    let numbers =
        rig.wire.0.iter().filter(|(_, fields)| fields[0].0 == "Cwnd" && fields.len() == 3);
    assert!(numbers.count() > 1, "an interval's number comes with its rate");
}

/// Known problem 6: DCTCP without ECN.
#[test]
fn what_the_path_lacks_is_refused_and_reno_takes_a_new_flow() {
    let mut rig = Rig::new("cubic");
    rig.want("dctcp");
    assert_eq!((rig.flow.arm(), rig.noted("Vetoed")), ("cubic", 1));
    let rig = Rig::new("dctcp");
    assert_eq!((rig.flow.arm(), rig.flow.driver.as_str()), ("reno", "reno"));
    assert_eq!(rig.noted("Vetoed"), 1);
}

#[test]
fn what_the_guard_did_last_is_told() {
    let mut rig = Rig::new("cubic");
    assert_eq!(rig.flow.row("bpf", rig.flow.at_us).guarded, None);
    rig.want("dctcp");
    let told = rig.flow.row("bpf", rig.flow.at_us).guarded.expect("it refused");
    assert_eq!((told.against.as_str(), told.undone), ("dctcp", false));
    assert!(told.reason.contains("ECN") && told.ago_s >= 0.0, "{told:?}");
    let mut rig = Rig::new("dctcp");
    assert_eq!(rig.flow.row("bpf", rig.flow.at_us).guarded.expect("it refused").against, "dctcp");
    rig.want("bbr");
    let arm_for_s = |later_us| rig.flow.row("bpf", rig.flow.at_us + later_us).arm_for_s;
    assert!(arm_for_s(2_000) > arm_for_s(0));
}

#[test]
fn a_cold_hand_off_tells_no_more_than_the_kernel_would() {
    let mut rig = Rig::new("cubic");
    rig.setup.config.guard.hand_off = crate::guard::HandOff::Cold;
    for at_ms in (40..400).step_by(40) {
        rig.report(at_ms, |m| m.lost = Packets(u64::from(at_ms == 200)));
    }
    rig.want("bbr");
    let rate = rig.flow.decision.rate.expect("bbr paces").bytes_per_sec();
    assert!(rate > 3_150_000, "it starts up anew, and nothing caps it: {rate}");
}

#[test]
fn a_datapath_that_does_not_pace_gets_the_window_that_the_rate_fills() {
    let mut rig = Rig::new("bbr");
    rig.flow.path.datapath.pacing = false;
    for at_ms in (40..400).step_by(40) {
        rig.report(at_ms, |_| ());
    }
    let (decision, srtt) = (rig.flow.decision, rig.flow.path.srtt.expect("round trips"));
    let rate = decision.rate.expect("bbr paces");
    let told = &rig.wire.0.last().expect("an order").1;
    assert!((rate * srtt) < decision.cwnd, "the ceiling is two BDPs: {decision:?}");
    let filled = u32::try_from((rate * srtt).0).expect("small");
    assert_eq!(told[..2], [("Cwnd".to_owned(), filled), ("Rate".to_owned(), 0)]);
}

/// A rig whose datapath can run the kernel's own algorithms.
fn with_native(driver: &str) -> Rig {
    let mut rig = Rig::new(driver);
    rig.flow.path.datapath.native = true;
    rig
}

#[test]
fn a_native_arm_is_a_program_and_then_the_kernels_name_and_nothing_after() {
    let mut rig = with_native("bbr");
    rig.want("native:reno");
    let sent = &rig.wire.0;
    assert_eq!(sent[sent.len() - 1].0, Some("reno"));
    assert_eq!(sent[sent.len() - 2].0, Some("reno/report"));
    let orders = sent.len();
    for ms in 1..50 {
        rig.report(ms * 10, |m| m.cwnd = Bytes(30_000));
    }
    assert_eq!(rig.wire.0.len(), orders, "the window is the kernel's");
    assert_eq!((rig.flow.arm(), rig.flow.decision.cwnd), ("native:reno", Bytes(30_000)));
    rig.want("reno");
    let last = rig.wire.0.last().expect("an order");
    assert_eq!(last.0, Some("reno/report"), "the same program again, as it ends the other's");
}

#[test]
fn a_datapath_without_the_kernels_algorithms_is_not_asked_for_them() {
    let mut rig = Rig::new("bbr");
    let orders = rig.wire.0.len();
    rig.want("native:reno");
    assert_eq!((rig.flow.arm(), rig.wire.0.len()), ("bbr", orders));
    assert!(rig.notes.0.iter().any(|note| note.contains("Vetoed")), "{:?}", rig.notes.0);
}

#[test]
fn what_the_kernel_refuses_is_undone() {
    for (from, to) in [("bbr", "native:reno"), ("native:reno", "bbr"), ("rein", "native:reno")] {
        let mut rig = with_native("cubic");
        rig.want(from);
        let arm = rig.flow.arm();
        rig.want(to);
        assert!(
            rig.flow.on_state(State::Refused, 0, Bytes(9_000), &mut rig.notes),
            "it wants a poke"
        );
        rig.step(|flow, ctx| flow.on_poke(ctx));
        assert_eq!((rig.flow.arm(), rig.flow.driver.as_str()), (arm, from), "{from} to {to}");
        assert!(rig.flow.why.text.contains("does not let"), "{}", rig.flow.why.text);
        let last = rig.wire.0.last().expect("an order").0;
        assert_eq!(last == Some("reno"), from == "native:reno", "{from} to {to}: {last:?}");
    }
}
