//! Connecting to the agent, and keeping other processes out.

use super::*;
use crate::flow::{Flow, Identity};
use crate::played::{HOUR, Place, until};
use remuda_wire::ToAgent;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

#[test]
fn an_agent_that_comes_later_is_greeted() {
    let place = Place::new();
    let datapath = place.datapath(HOUR);
    assert!(!datapath.has_agent());
    let mut agent = place.agent();
    let hello = agent.wait(|message| match message {
        ToAgent::Hello(hello) => Some(hello),
        _ => None,
    });
    assert_eq!((hello.name.as_str(), hello.flows_max), ("quic", FLOWS));
    assert_eq!(hello.capabilities, CAPABILITIES);
    assert!(datapath.has_agent());
}

#[test]
fn a_place_that_others_can_enter_is_no_agents() {
    let place = Place::new();
    let _agent = place.agent();
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o755)).expect("chmod");
    let datapath = place.datapath(HOUR);
    assert!(!datapath.has_agent());
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o700)).expect("chmod");
    until("the agent is found", || datapath.has_agent());
}

#[test]
fn datagrams_of_others_do_not_come_in_and_nonsense_changes_nothing() {
    let place = Place::new();
    let mut agent = place.agent();
    let datapath = place.datapath(HOUR);
    agent.is_greeted();
    let other = UnixDatagram::unbound().expect("a socket");
    let refused = other.send_to(b"anything", &agent.peer).expect_err("the kernel refuses it");
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    // The agent itself sends invalid messages.
    for length in [0, 3, 8, 300, 32_678, 40_000] {
        agent.say(&vec![0xa5; length]);
    }
    let refused = || datapath.counters().refused.iter().sum::<u64>();
    until("all are refused", || refused() == 6);
    assert_eq!(datapath.counters().messages, 0);
    agent.beats();
    until("a good one is taken", || datapath.counters().messages == 1);
}

#[test]
fn what_the_agent_has_no_room_for_waits_and_no_ack_does() {
    let place = Place::new();
    let mut agent = place.agent();
    let datapath = place.datapath(HOUR);
    agent.is_greeted();
    let start = datapath.clock().started();
    let flows: Vec<Flow> = (0..200).map(|_| answered(&datapath, start)).collect();
    // Many more than ten datagrams: none is lost, and they arrive in order.
    let mut last = 0;
    for _ in &flows {
        let sid = agent.flow();
        assert!(sid > last);
        last = sid;
    }
    assert_eq!(datapath.counters().not_sent, 0);
}

#[test]
fn a_heartbeat_that_nobody_has_read_yet_is_a_sign_of_life_and_nonsense_is_none() {
    let (place, limit_ns) = (Place::new(), 500_000_000);
    let mut agent = place.agent();
    let datapath = place.datapath(Duration::from_nanos(limit_ns));
    agent.is_greeted();
    let _flow = answered(&datapath, datapath.clock().started());
    let sid = agent.flow();
    agent.drives(&datapath, sid, 30_000, 0);
    agent.beats();
    until("the heartbeat is taken in", || datapath.counters().messages == 3);
    // The thread that reads the agent's messages cannot get the lock.
    let mut state = datapath.shared.lock();
    let mut now_ns = state.heard_ns;
    let mut is_own = |span_ns: u64, says: &dyn Fn()| {
        now_ns += span_ns;
        says();
        let ack = Ack { mss_bytes: 1_200, cwnd_bytes: 30_000, ..Ack::default() };
        state.ack(sid, &ack, now_ns).is_own
    };
    assert!(!is_own(limit_ns, &|| ()), "not late yet");
    assert!(!is_own(1, &|| agent.beats()), "late, but for the beat that waits");
    assert!(!is_own(10 * limit_ns, &|| (0..3).for_each(|_| agent.beats())), "so are we");
    assert!(!is_own(limit_ns, &|| ()), "what was taken in counts from then");
    assert!(is_own(1, &|| agent.say(&[0xa5; 40])), "nonsense");
    assert!(is_own(limit_ns, &|| ()), "silence");
    assert!(!is_own(1, &|| agent.beats()), "back");
    assert_eq!((state.vm.counters().fallbacks, state.vm.counters().restores), (1, 1));
}

/// A path with one acknowledged packet.
fn answered(datapath: &Datapath, start: Instant) -> Flow {
    let mut flow = Flow::new(datapath.clone(), Identity::default(), 1_200);
    flow.sent(start, 1_200, 0);
    flow.acked(start + Duration::from_millis(20), start, 1_200, Some(0));
    flow.acks_end(0, false);
    flow.window();
    flow
}

#[test]
fn a_full_table_leaves_a_flow_to_itself() {
    let place = Place::new();
    let run_dir = place.path().to_owned();
    let datapath = Datapath::start(Settings { run_dir, flows_max: 1, ..Settings::default() });
    let datapath = datapath.expect("it starts");
    let start = datapath.clock().started();
    let mut flows = [answered(&datapath, start), answered(&datapath, start)];
    assert_eq!(datapath.counters().flows_refused, 1);
    assert!(flows.iter_mut().all(|flow| flow.window() == 13_200));
}

#[test]
fn sockets_of_the_dead_are_removed_and_ours_with_us() {
    let place = Place::new();
    let dead = place.path().join("quic-1-0.sock");
    drop(UnixDatagram::bind(&dead).expect("it binds"));
    let mut agent = place.agent();
    let datapath = place.datapath(HOUR);
    agent.is_greeted();
    assert!(!dead.exists());
    let own = agent.peer.clone();
    assert!(own.exists());
    drop(datapath);
    until("ours is removed", || !own.exists());
}

#[test]
fn settings_that_cannot_be_are_refused_by_name() {
    let settings = Settings { name: "no spaces".to_owned(), ..Settings::default() };
    let error = Datapath::start(settings).expect_err("it is refused").to_string();
    assert!(error.contains("\"no spaces\"") && error.contains("fix:"), "{error}");
}
