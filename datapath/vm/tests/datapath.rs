//! The datapath around the VM: flows, messages both ways, fallback, resync.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

mod common;

use common::{
    UPDATE_CWND, UPDATE_RATE, WANTS_REPORT, always, attacks, bind, change_prog, code, constant,
    define, message, update_fields,
};
use remuda_vm::{
    Ack, Control, Datapath, Error, FLOWS, FlowStart, Ops, PROGRAMS, Primitives, Reason,
    SIGNAL_APP_LIMITED, SIGNAL_IN_RECOVERY, Settings,
};
use remuda_wire::to_agent::{FlowInfo, Origin, State};
use remuda_wire::{Kind, ToAgent};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const MSS: u32 = 1_000;
const MS: u64 = 1_000_000;

#[derive(Default)]
struct Host {
    now_ns: u64,
    deaf: bool,
    sent: Vec<Vec<u8>>,
    done: Vec<(usize, Done)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Cwnd(u64),
    Rate(u64),
    FellBack,
    Restored,
}

impl Ops for Host {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }
    fn send(&mut self, message: &[u8]) -> bool {
        if !self.deaf {
            self.sent.push(message.to_vec());
        }
        !self.deaf
    }
    fn set_cwnd(&mut self, flow: usize, cwnd_bytes: u64) {
        self.done.push((flow, Done::Cwnd(cwnd_bytes)));
    }
    fn set_rate(&mut self, flow: usize, rate: u64) {
        self.done.push((flow, Done::Rate(rate)));
    }
    fn fell_back(&mut self, flow: usize) {
        self.done.push((flow, Done::FellBack));
    }
    fn restored(&mut self, flow: usize) {
        self.done.push((flow, Done::Restored));
    }
}

fn built(settings: Settings) -> Datapath<Host> {
    Datapath::new(&settings, Host::default()).unwrap()
}

fn small() -> Datapath<Host> {
    let mut datapath = built(Settings {
        flows_max: 3,
        programs_max: 2,
        cwnd_pkts_max: 100,
        ..Settings::default()
    });
    datapath.attach();
    heard(&mut datapath);
    datapath
}

fn start() -> FlowStart {
    let info = FlowInfo {
        local: (Ipv4Addr::new(10, 0, 0, 1).into(), 5_001),
        remote: (Ipv4Addr::new(10, 0, 0, 2).into(), 80),
        mark: 7,
        cgroup_id: 1 << 40,
        ssthresh_bytes: 0,
        srtt_us: 20_000,
        rtt_min_us: 19_000,
        ecn: true,
        requested: "remuda".to_owned(),
        cookie: 1 << 33,
        origin: Origin::default(),
    };
    FlowStart { info, cwnd_bytes: 10_000, mss_bytes: MSS }
}

fn ack() -> Ack {
    let primitives = Primitives { bytes_acked: u64::from(MSS), ..Primitives::default() };
    Ack { primitives, cwnd_bytes: 10_000, mss_bytes: MSS, ..Ack::default() }
}

/// What the agent got since the last call, each of it well formed.
fn heard(datapath: &mut Datapath<Host>) -> Vec<ToAgent> {
    let sent = std::mem::take(&mut datapath.ops_mut().sent);
    sent.iter().map(|message| ToAgent::parse(message).unwrap()).collect()
}

fn done(datapath: &mut Datapath<Host>) -> Vec<(usize, Done)> {
    std::mem::take(&mut datapath.ops_mut().done)
}

fn refused(datapath: &mut Datapath<Host>, message: &[u8]) -> Reason {
    datapath.handle(message).unwrap_err().reason
}

/// A program that adds up what was acked, and reports at each ACK.
fn counting(uid: u32) -> Vec<u8> {
    let add = (code::ADD, (5, 0), (5, 0), (4, 0));
    always(uid, &[define((5, 0), 0), add, bind(WANTS_REPORT, constant(1))])
}

/// A program that reports a control register, and asks for a window and a rate.
fn asking(uid: u32) -> Vec<u8> {
    let records = [
        define((5, 0), 0),
        define((0, 0), 1),
        define((0, 1), 0),
        define((0, 2), 0),
        bind((5, 0), (0, 0)),
        bind((2, 4), (0, 1)),
        bind((2, 5), (0, 2)),
        bind(WANTS_REPORT, constant(1)),
    ];
    always(uid, &records)
}

/// A flow that runs that program; nothing of it is left to hear.
fn obeying(datapath: &mut Datapath<Host>, flow: usize, program: &[u8], uid: u32) -> u32 {
    datapath.handle(program).unwrap();
    let sid = datapath.start(flow, &start()).unwrap();
    datapath.handle(&change_prog(sid, uid, &[])).unwrap();
    heard(datapath);
    sid
}

fn fields(datapath: &Datapath<Host>) -> Vec<u64> {
    let last = datapath.ops().sent.iter().rfind(|m| m[0] == Kind::Measure as u8).unwrap();
    last[16..].chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

fn beat(datapath: &mut Datapath<Host>) {
    datapath.handle(&message(Kind::Heartbeat, 0, &[])).unwrap();
}

fn pass(datapath: &mut Datapath<Host>, ms: u64) {
    datapath.ops_mut().now_ns += ms * MS;
}

#[test]
fn an_agent_is_greeted_and_told_every_flow() {
    let mut datapath = built(Settings { name: "sim/1".into(), id: 9, ..Settings::default() });
    datapath.attach();
    let [ToAgent::Hello(hello), ToAgent::Ready { id: 9 }] = &heard(&mut datapath)[..] else {
        panic!("a greeting");
    };
    assert_eq!((hello.version, &hello.name[..]), (remuda_wire::PROTOCOL_VERSION, "sim/1"));
    assert_eq!((hello.flows_max, hello.programs_max), (FLOWS, PROGRAMS));
    let sid = datapath.start(0, &start()).unwrap();
    let announced = heard(&mut datapath);
    let [ToAgent::Flow { sid: a, info }, ToAgent::Create { sid: b, create }] = &announced[..]
    else {
        panic!("{announced:?}");
    };
    assert_eq!((*a, *b), (sid, sid));
    assert_eq!(**info, start().info);
    assert_eq!(create.addresses, [0x0a00_0001, 5_001, 0x0a00_0002, 80]);
    assert_eq!((create.init_cwnd_bytes, create.mss_bytes), (10_000, MSS));
    assert_eq!(create.cong_alg, "remuda");
}

#[test]
fn ipv6_has_its_place_in_a_flow_and_none_in_a_create() {
    let mut datapath = small();
    let mut who = start();
    let address: IpAddr = Ipv6Addr::from(0xfd11_0000_0000_0000_0000_0000_0000_0001u128).into();
    who.info.local.0 = address;
    who.info.remote.0 = address;
    who.cwnd_bytes = 1 << 40;
    datapath.start(0, &who).unwrap();
    let announced = heard(&mut datapath);
    let [ToAgent::Flow { info, .. }, ToAgent::Create { create, .. }] = &announced[..] else {
        panic!("{announced:?}");
    };
    assert_eq!(info.local, (address, 5_001));
    assert_eq!(create.addresses, [0, 5_001, 0, 80]);
    assert_eq!(create.init_cwnd_bytes, u32::MAX, "clamped, not wrapped");
}

#[test]
fn a_flow_without_a_program_is_the_callers() {
    let mut datapath = small();
    let sid = datapath.start(4, &start()).unwrap();
    assert_eq!(datapath.ack(sid, &ack()), Control::Own);
    assert_eq!(done(&mut datapath), []);
    assert_eq!(datapath.counters().fallbacks, 0, "there is nothing to fall back from");
}

#[test]
fn a_program_runs_at_every_ack_and_reports() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &counting(8), 8);
    pass(&mut datapath, 3);
    let seen = Ack {
        srtt_us: 1,
        rtt_min_us: 2,
        delivered_pkts: 3,
        lost_pkts: u32::MAX,
        signals: SIGNAL_APP_LIMITED | SIGNAL_IN_RECOVERY,
        ..ack()
    };
    assert_eq!(datapath.ack(sid, &seen), Control::Agent);
    assert_eq!(fields(&datapath), [u64::from(MSS)]);
    let told = heard(&mut datapath);
    let [ToAgent::Signals { signals, .. }, measure] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*measure, ToAgent::Measure { sid, uid: 8, fields: 1 });
    assert_eq!((signals.now_us, signals.srtt_us, signals.rtt_min_us), (3_000, 1, 2));
    assert_eq!((signals.delivered_pkts, signals.lost_pkts), (3, u32::MAX));
    assert_eq!((signals.cwnd_pkts, signals.mss_bytes), (10, MSS));
    assert!(signals.app_limited && signals.in_recovery && !signals.cwnd_full);
    datapath.ack(sid, &ack());
    assert_eq!(fields(&datapath), [u64::from(MSS)], "volatile");
    let told = heard(&mut datapath);
    let [ToAgent::Signals { signals, .. }, _] = &told[..] else { panic!("{told:?}") };
    assert!(!signals.app_limited && !signals.in_recovery, "of one report");
}

#[test]
fn a_datapath_without_capabilities_sends_no_signals() {
    let mut datapath = built(Settings { capabilities: 0, ..Settings::default() });
    datapath.attach();
    let sid = obeying(&mut datapath, 0, &counting(1), 1);
    datapath.ack(sid, &ack());
    assert_eq!(heard(&mut datapath), [ToAgent::Measure { sid, uid: 1, fields: 1 }]);
}

#[test]
fn updates_are_taken_at_the_next_ack_in_their_order() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &asking(1), 1);
    datapath.ack(sid, &ack());
    assert_eq!(fields(&datapath), [1]);
    datapath.handle(&update_fields(sid, &[((0, 0), 5), (UPDATE_CWND, 7_000)])).unwrap();
    datapath.handle(&update_fields(sid, &[((8, 0), 6), (UPDATE_RATE, 50_000)])).unwrap();
    assert_eq!(done(&mut datapath), []);
    datapath.ack(sid, &ack());
    assert_eq!(fields(&datapath), [6]);
    assert_eq!(done(&mut datapath), [(4, Done::Cwnd(7_000)), (4, Done::Rate(50_000))]);
    datapath.ack(sid, &ack());
    assert_eq!(done(&mut datapath), [], "once");
}

#[test]
fn a_change_of_program_forgets_updates_of_the_old_one() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &asking(1), 1);
    datapath.handle(&update_fields(sid, &[((0, 0), 5)])).unwrap();
    datapath.handle(&change_prog(sid, 1, &[((0, 1), 8_000)])).unwrap();
    datapath.ack(sid, &ack());
    assert_eq!(fields(&datapath), [1]);
    assert_eq!(done(&mut datapath), [(4, Done::Cwnd(8_000))]);
}

#[test]
fn windows_and_rates_stay_within_their_bounds() {
    let mut datapath = built(Settings {
        cwnd_pkts_max: 100,
        rate_bytes_per_sec_max: 1_000_000,
        ..Settings::default()
    });
    datapath.attach();
    let sid = obeying(&mut datapath, 4, &asking(1), 1);
    let mut check = |cwnd: u64, rate: u64, want: &[Done]| {
        let updates = [(UPDATE_CWND, cwnd), (UPDATE_RATE, rate)];
        datapath.handle(&update_fields(sid, &updates)).unwrap();
        datapath.ack(sid, &ack());
        let by_update: Vec<Done> = done(&mut datapath).into_iter().map(|(_, what)| what).collect();
        assert_eq!(by_update, want, "updated to {cwnd} and {rate}");
        if (cwnd, rate) != (0, 0) {
            datapath.handle(&update_fields(sid, &[((0, 1), cwnd), ((0, 2), rate)])).unwrap();
            datapath.ack(sid, &ack());
            let by_program: Vec<_> =
                done(&mut datapath).into_iter().map(|(_, what)| what).collect();
            assert_eq!(by_program, want, "the program wants {cwnd} and {rate}");
            datapath.handle(&update_fields(sid, &[((0, 1), 0), ((0, 2), 0)])).unwrap();
        }
    };
    check(2_000, 10_000, &[Done::Cwnd(2_000), Done::Rate(10_000)]);
    check(1, 1, &[Done::Cwnd(2_000), Done::Rate(10_000)]);
    check(100_000, 1_000_000, &[Done::Cwnd(100_000), Done::Rate(1_000_000)]);
    check(u64::MAX, u64::MAX, &[Done::Cwnd(100_000), Done::Rate(1_000_000)]);
    check(0, 0, &[Done::Cwnd(2_000), Done::Rate(0)]);
    assert_eq!(datapath.counters().clamped, 9);
}

#[test]
fn a_late_message_reaches_nobody_and_least_of_all_the_next_flow() {
    let mut datapath = small();
    let old = obeying(&mut datapath, 1, &asking(1), 1);
    datapath.ack(old, &ack());
    heard(&mut datapath);
    assert!(datapath.stop(old));
    assert_eq!(heard(&mut datapath), [ToAgent::Measure { sid: old, uid: 0, fields: 0 }]);
    let new = obeying(&mut datapath, 2, &asking(1), 1);
    assert_ne!(old, new);
    datapath.ack(new, &ack());
    done(&mut datapath);
    for late in [update_fields(old, &[(UPDATE_CWND, 9)]), change_prog(old, 1, &[])] {
        assert_eq!(refused(&mut datapath, &late), Reason::NoFlow);
    }
    assert_eq!(datapath.ack(old, &ack()), Control::Own);
    assert!(!datapath.stop(old));
    datapath.ack(new, &ack());
    assert_eq!(done(&mut datapath), []);
    for never in [0, 1, u32::MAX, new ^ (1 << 31)] {
        assert_eq!(refused(&mut datapath, &update_fields(never, &[])), Reason::NoFlow, "{never}");
    }
}

#[test]
fn generations_outlast_many_flows_in_one_slot() {
    let mut datapath = built(Settings { flows_max: FLOWS, ..Settings::default() });
    datapath.ops_mut().deaf = true;
    let (who, first) = (start(), datapath.start(0, &start()).unwrap());
    datapath.stop(first);
    // Generations have 20 bits beside 12 of the index, and none of them is 0.
    for _ in 1..(1 << 20) - 1 {
        let sid = datapath.start(0, &who).unwrap();
        assert!(sid != 0 && sid != first);
        datapath.stop(sid);
    }
    assert_eq!(datapath.start(0, &who), Ok(first));
}

#[test]
fn a_full_table_of_flows_is_an_error_and_room_is_used_again() {
    let mut datapath = built(Settings::default());
    let sids: Vec<u32> =
        (0..FLOWS as usize).map(|flow| datapath.start(flow, &start()).unwrap()).collect();
    assert!(sids.len() >= 4_096);
    assert_eq!(datapath.start(0, &start()), Err(Error::FlowsFull(FLOWS)));
    assert_eq!(datapath.counters().flows_refused, 1);
    for sid in [sids[9], sids[4_095], sids[0]] {
        assert!(datapath.stop(sid));
        let new = datapath.start(0, &start()).unwrap();
        assert!(!sids.contains(&new));
    }
    assert_eq!(datapath.start(0, &start()), Err(Error::FlowsFull(FLOWS)));
}

#[test]
fn a_full_table_of_programs_is_an_error_and_what_is_there_stays() {
    let mut datapath = built(Settings::default());
    for uid in 1..=PROGRAMS {
        datapath.handle(&counting(uid)).unwrap();
    }
    const { assert!(PROGRAMS >= 64) };
    assert_eq!(refused(&mut datapath, &counting(1_000)), Reason::ProgramsFull);
    datapath.handle(&asking(5)).unwrap();
    datapath.handle(&counting(6)).unwrap();
    assert_eq!(refused(&mut datapath, &counting(1_000)), Reason::ProgramsFull);
    let sid = datapath.start(0, &start()).unwrap();
    for uid in 1..=PROGRAMS {
        datapath.handle(&change_prog(sid, uid, &[])).unwrap();
    }
    assert_eq!(refused(&mut datapath, &change_prog(sid, 1_000, &[])), Reason::NoProgram);
    assert_eq!(datapath.counters().refused_for(Reason::ProgramsFull), 2);
}

#[test]
fn the_same_program_again_disturbs_no_flow_and_another_of_its_number_starts_anew() {
    let keeps = |uid: u32, value: u32| {
        let add = (code::ADD, (6, 0), (6, 0), constant(value));
        always(uid, &[define((6, 0), 0), add, bind(WANTS_REPORT, constant(1))])
    };
    let mut datapath = small();
    let sid = obeying(&mut datapath, 0, &keeps(1, 1), 1);
    let mut after = |message: Option<Vec<u8>>| {
        if let Some(message) = message {
            datapath.handle(&message).unwrap();
        }
        datapath.ack(sid, &ack());
        fields(&datapath)[0]
    };
    assert_eq!([after(None), after(None)], [1, 2]);
    assert_eq!(after(Some(keeps(1, 1))), 3, "the same");
    assert_eq!([after(Some(keeps(1, 100))), after(None)], [100, 200], "another");
    assert_eq!(after(Some(keeps(2, 7))), 300, "of another number");
    assert_eq!(after(Some(keeps(1, 1))), 1);
}

#[test]
fn a_refused_program_leaves_the_one_of_its_number() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 0, &counting(1), 1);
    let mut bad = counting(1);
    let last = bad.len() - 15;
    bad[last] = 4;
    assert_eq!(refused(&mut datapath, &bad), Reason::Target);
    for (what, attack) in attacks(sid) {
        assert!(datapath.handle(&attack).is_err(), "{what}");
    }
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent);
    assert_eq!(fields(&datapath), [u64::from(MSS)]);
    assert_eq!(done(&mut datapath), []);
}

#[test]
fn a_hung_agent_loses_its_flows_and_gets_them_back() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &counting(1), 1);
    let unasked = datapath.start(5, &start()).unwrap();
    beat(&mut datapath);
    pass(&mut datapath, 500);
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent, "not yet");
    heard(&mut datapath);
    pass(&mut datapath, 1);
    assert_eq!(datapath.ack(sid, &ack()), Control::Own);
    assert_eq!(datapath.ack(sid, &ack()), Control::Own);
    assert_eq!(datapath.ack(unasked, &ack()), Control::Own);
    assert_eq!(done(&mut datapath), [(4, Done::FellBack)], "once, and not who never obeyed");
    let told = heard(&mut datapath);
    let state = |state, at_us| ToAgent::State { sid, state, cwnd_bytes: 10_000, at_us };
    assert!(told.contains(&state(State::FellBack, 501_000)), "{told:?}");
    pass(&mut datapath, 10_000);
    beat(&mut datapath);
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent);
    assert_eq!(done(&mut datapath), [(4, Done::Restored)]);
    assert!(heard(&mut datapath).contains(&state(State::Restored, 10_501_000)));
    let counters = datapath.counters();
    assert_eq!((counters.fallbacks, counters.restores), (1, 1));
}

#[test]
fn a_timeout_notices_a_hung_agent_where_no_ack_does() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &counting(1), 1);
    let unasked = datapath.start(5, &start()).unwrap();
    beat(&mut datapath);
    datapath.ack(sid, &ack());
    done(&mut datapath);
    datapath.timeout(sid);
    pass(&mut datapath, 501);
    datapath.timeout(unasked);
    assert_eq!(done(&mut datapath), [], "neither in time, nor of a flow without a program");
    datapath.timeout(sid);
    datapath.timeout(sid);
    datapath.timeout(sid ^ 1);
    assert_eq!(done(&mut datapath), [(4, Done::FellBack)], "once");
    assert_eq!(datapath.ack(sid, &ack()), Control::Own);
}

#[test]
fn any_message_of_the_agent_is_a_sign_of_life() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &counting(1), 1);
    beat(&mut datapath);
    for _ in 0..10 {
        pass(&mut datapath, 400);
        datapath.handle(&update_fields(sid, &[])).unwrap();
        assert_eq!(datapath.ack(sid, &ack()), Control::Agent);
    }
    pass(&mut datapath, 400);
    assert!(datapath.handle(&[1, 2, 3]).is_err());
    pass(&mut datapath, 400);
    assert_eq!(datapath.ack(sid, &ack()), Control::Own, "but for one that is none");
}

#[test]
fn an_agent_that_never_beats_may_be_silent() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &counting(1), 1);
    pass(&mut datapath, 3_600_000);
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent, "an agent of CCP's own");
}

#[test]
fn an_agent_that_nothing_reaches_loses_its_flows_until_something_does() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &counting(1), 1);
    datapath.ops_mut().deaf = true;
    pass(&mut datapath, 1);
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent);
    assert_eq!(datapath.counters().reports_lost, 1);
    pass(&mut datapath, 502);
    assert_eq!(datapath.ack(sid, &ack()), Control::Own);
    let failed = datapath.counters().not_sent;
    pass(&mut datapath, 100);
    datapath.ack(sid, &ack());
    assert_eq!(datapath.counters().not_sent, failed, "one try a timeout, not one an ACK");
    // the agent starts again, and knows nothing
    datapath.ops_mut().deaf = false;
    pass(&mut datapath, 501);
    assert_eq!(datapath.ack(sid, &ack()), Control::Own);
    let told = heard(&mut datapath);
    assert!(matches!(&told[..], [ToAgent::Hello(_), ToAgent::Ready { .. }]), "{told:?}");
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent);
    let told = heard(&mut datapath);
    assert!(matches!(told[..2], [ToAgent::Flow { .. }, ToAgent::Create { .. }]), "{told:?}");
    assert_eq!(done(&mut datapath), [(4, Done::FellBack), (4, Done::Restored)]);
}

#[test]
fn a_transport_that_knows_says_so_at_once() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &counting(1), 1);
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent);
    datapath.detach();
    assert_eq!(datapath.ack(sid, &ack()), Control::Own);
    heard(&mut datapath);
    datapath.attach();
    let told = heard(&mut datapath);
    assert!(
        matches!(
            &told[..],
            [
                ToAgent::Hello(_),
                ToAgent::Ready { .. },
                ToAgent::Flow { .. },
                ToAgent::Create { .. }
            ]
        ),
        "{told:?}"
    );
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent);
    assert_eq!(done(&mut datapath), [(4, Done::FellBack), (4, Done::Restored)]);
}

#[test]
fn resync_announces_every_live_flow_and_nobody_else() {
    let mut datapath = small();
    let sids = [0, 1, 2].map(|flow| datapath.start(flow, &start()).unwrap());
    datapath.stop(sids[1]);
    let grown = Ack { cwnd_bytes: 55_000, ..ack() };
    datapath.ack(sids[2], &grown);
    heard(&mut datapath);
    datapath.handle(&message(Kind::Resync, 0, &[])).unwrap();
    let told = heard(&mut datapath);
    let created: Vec<(u32, u32)> = told
        .iter()
        .filter_map(|m| match m {
            ToAgent::Create { sid, create } => Some((*sid, create.init_cwnd_bytes)),
            _ => None,
        })
        .collect();
    assert_eq!(created, [(sids[0], 10_000), (sids[2], 55_000)], "from where they are");
    assert_eq!(told.len(), 2 + 4);
}

#[test]
fn who_cannot_be_announced_is_at_its_next_ack() {
    let mut datapath = small();
    datapath.ops_mut().deaf = true;
    let sid = datapath.start(0, &start()).unwrap();
    datapath.ops_mut().deaf = false;
    assert_eq!(heard(&mut datapath), []);
    datapath.ack(sid, &ack());
    let told = heard(&mut datapath);
    assert!(matches!(told[..], [ToAgent::Flow { .. }, ToAgent::Create { .. }]), "{told:?}");
    datapath.ack(sid, &ack());
    assert_eq!(heard(&mut datapath), [], "once");
}

#[test]
fn programs_of_an_agent_that_is_gone_make_room_and_their_flows_fall_back() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &counting(1), 1);
    datapath.handle(&counting(2)).unwrap();
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent);
    assert_eq!(refused(&mut datapath, &counting(3)), Reason::ProgramsFull);
    datapath.attach();
    datapath.handle(&counting(2)).unwrap();
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent, "what is there runs on");
    datapath.handle(&asking(3)).unwrap();
    assert_eq!(datapath.counters().programs_evicted, 1);
    assert_eq!(refused(&mut datapath, &counting(4)), Reason::ProgramsFull);
    assert_eq!(datapath.ack(sid, &ack()), Control::Own);
    assert_eq!(done(&mut datapath), [(4, Done::FellBack)]);
    datapath.handle(&change_prog(sid, 3, &[])).unwrap();
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent);
    assert_eq!(done(&mut datapath), [(4, Done::Restored)]);
}

#[test]
fn a_program_sees_the_window_and_the_rate_it_was_just_given() {
    let records = [
        define((5, 0), 0),
        define((5, 1), 0),
        bind((5, 0), UPDATE_CWND),
        bind((5, 1), UPDATE_RATE),
        bind(WANTS_REPORT, constant(1)),
    ];
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &always(1, &records), 1);
    datapath.handle(&update_fields(sid, &[(UPDATE_CWND, 7_000), (UPDATE_RATE, 1)])).unwrap();
    datapath.ack(sid, &ack());
    assert_eq!(fields(&datapath), [7_000, 10_000], "as bounded");
    datapath.ack(sid, &ack());
    assert_eq!(fields(&datapath), [10_000, 0], "and then what is in force");
    datapath.handle(&update_fields(sid, &[(UPDATE_CWND, 9_000)])).unwrap();
    datapath.ack(sid, &ack());
    heard(&mut datapath);
    datapath.handle(&message(Kind::Resync, 0, &[])).unwrap();
    let told = heard(&mut datapath);
    let Some(ToAgent::Create { create, .. }) = told.last() else { panic!("{told:?}") };
    assert_eq!(create.init_cwnd_bytes, 9_000, "and what a new agent is told");
}

#[test]
fn signals_add_up_between_reports_but_for_recovery() {
    let on_timeout = (code::GT, WANTS_REPORT, (4, 14), constant(0));
    let mut datapath = small();
    let program = always(1, &[define((5, 0), 0), on_timeout]);
    let sid = obeying(&mut datapath, 4, &program, 1);
    let signals = SIGNAL_APP_LIMITED | SIGNAL_IN_RECOVERY;
    datapath.ack(sid, &Ack { signals, ..ack() });
    let mut last = ack();
    last.primitives.was_timeout = 1;
    datapath.ack(sid, &last);
    let told = heard(&mut datapath);
    let [ToAgent::Signals { signals, .. }, _] = &told[..] else { panic!("{told:?}") };
    assert!(signals.app_limited && !signals.in_recovery, "{signals:?}");
}

#[test]
fn a_report_is_settled_by_the_program_that_made_it() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &counting(1), 1);
    datapath.ack(sid, &ack());
    // one field, and it is not the register that this program defines
    let other = always(1, &[define((6, 1), 5), bind(WANTS_REPORT, constant(1))]);
    datapath.handle(&other).unwrap();
    datapath.ack(sid, &ack());
    assert_eq!(fields(&datapath), [0]);
}

#[test]
fn updates_for_a_program_that_went_before_it_ran_are_forgotten() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &asking(1), 1);
    datapath.ack(sid, &ack());
    datapath.handle(&asking(2)).unwrap();
    datapath.handle(&change_prog(sid, 2, &[((0, 0), 5)])).unwrap();
    datapath.attach();
    datapath.handle(&asking(1)).unwrap();
    datapath.handle(&counting(3)).unwrap();
    assert_eq!(datapath.counters().programs_evicted, 1);
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent, "by the one before");
    assert_eq!(fields(&datapath), [1]);
}

#[test]
fn a_word_of_the_agent_ends_what_the_transport_said() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &counting(1), 1);
    datapath.detach();
    assert_eq!(datapath.ack(sid, &ack()), Control::Own);
    beat(&mut datapath);
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent);
    datapath.ops_mut().deaf = true;
    datapath.ack(sid, &ack());
    pass(&mut datapath, 499);
    beat(&mut datapath);
    pass(&mut datapath, 2);
    assert_eq!(datapath.ack(sid, &ack()), Control::Agent, "it fails anew, not for long");
}

#[test]
fn who_was_never_announced_has_no_end_either() {
    let mut datapath = small();
    datapath.ops_mut().deaf = true;
    let sid = datapath.start(0, &start()).unwrap();
    datapath.ops_mut().deaf = false;
    assert!(datapath.stop(sid));
    assert_eq!(heard(&mut datapath), []);
}

#[test]
fn a_datapath_may_move_to_another_thread() {
    let mut datapath = small();
    let sid = obeying(&mut datapath, 4, &counting(1), 1);
    let mut datapath = std::thread::spawn(move || {
        datapath.ack(sid, &ack());
        datapath
    })
    .join()
    .unwrap();
    assert_eq!(fields(&datapath), [u64::from(MSS)]);
    assert!(datapath.stop(sid));
}
