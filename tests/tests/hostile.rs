//! Hostile and broken peers: every socket refuses them clearly, nothing changes, the agent does not
//! exit, and other flows are not affected.

use ccp_agent::child::AgentChild;
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::run_dir::{control_socket, datapath_socket};
use remuda_live::Clock;
use remuda_live::transfer::Transfer;
use remuda_tests::{Place, exclusive, skip, wired};
use remuda_wire::to_agent::{Create, Hello, encode_measure, encode_ready};
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::thread;
use std::time::Duration;

const FUZZED: usize = 4_000;

/// An agent without BPF: its sockets need no root.
fn without_bpf(place: &Place) -> AgentChild {
    let config = place.file("remuda.toml", "[agent]\nbpf = false\n");
    place.agent(&["--config", config.to_str().expect("a path")])
}

/// A datapath behind the agent's unix socket.
struct Peer {
    socket: UnixDatagram,
    agent: std::path::PathBuf,
}

impl Peer {
    fn new(place: &Place, name: &str) -> Self {
        let path = place.file(name, "");
        std::fs::remove_file(&path).expect("it makes room");
        let socket = UnixDatagram::bind(&path).expect("it binds");
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
        Self { socket, agent: datapath_socket(&place.run_dir()) }
    }

    fn send(&self, message: &[u8]) {
        self.socket.send_to(message, &self.agent).expect("the agent's socket takes it");
    }

    fn hear(&self) -> Option<u16> {
        let mut message = [0; 4_096];
        let bytes = self.socket.recv(&mut message).ok()?;
        (bytes >= 8).then(|| u16::from_le_bytes([message[0], message[1]]))
    }

    /// A whole conversation: READY, the programs, CREATE, and the flow's program.
    fn greets_and_is_answered(&self, sid: u32) {
        let mut message = Vec::new();
        encode_ready(&mut message, 1);
        self.send(&message);
        let heard = |kind: u16| (0..64).any(|_| self.hear() == Some(kind));
        assert!(heard(2), "programs come");
        let create = Create { init_cwnd_bytes: 14_480, mss_bytes: 1_448, ..Create::default() };
        create.encode(&mut message, sid);
        self.send(&message);
        assert!(heard(4), "the flow gets a program");
    }
}

fn message(kind: u16, length: usize, body: &[u8]) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend(u16::try_from(length).expect("short").to_le_bytes());
    out.extend(7u32.to_le_bytes());
    out.extend(body);
    out
}

/// The eleven messages that end, hang or confuse portus 0.9.
fn the_eleven() -> Vec<Vec<u8>> {
    let mut named = vec![0; 24];
    named.extend([b'x'; 64]);
    let mut not_text = vec![0; 24];
    not_text.extend([0xff; 63]);
    not_text.push(0);
    vec![
        message(2, 20, &[0; 12]),                                 // INSTALL
        message(3, 12, &[0; 4]),                                  // UPDATE_FIELDS
        message(0, 8, &[]),                                       // CREATE without a body
        message(0, 32, &[0; 24]),                                 // CREATE without a name
        message(0, 96, &named),                                   // a name without an end
        message(0, 96, &not_text),                                // a name that is no text
        message(1, 21, &[1, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3, 4, 5]), // a field cut short
        message(1, 12, &[0; 4]),                                  // MEASURE without a count
        message(5, 8, &[]),                                       // READY without an id
        vec![1, 2, 3],                                            // no header
        message(256, 96, &[0; 88]),                               // CREATE by its low byte only
    ]
}

fn refused(agent: &AgentChild) -> u64 {
    match ask(agent.run_dir(), &Request::Status {}).expect("the agent answers") {
        Answer::Status(status) => status.counts.refused,
        other => panic!("{other:?}"),
    }
}

/// Waits until `want` messages were refused.
fn wait_refused(agent: &AgentChild, want: u64) {
    for _ in 0..500 {
        if refused(agent) >= want {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{} messages refused, not {want}", refused(agent));
}

#[test]
fn the_eleven_messages_cost_themselves() {
    let place = Place::new();
    let agent = without_bpf(&place);
    let hostile = Peer::new(&place, "hostile");
    let honest = Peer::new(&place, "honest");
    honest.greets_and_is_answered(3);
    for bytes in the_eleven() {
        hostile.send(&bytes);
    }
    wait_refused(&agent, 11);
    assert_eq!(refused(&agent), 11);
    let flows = agent.flows().expect("the agent answers");
    assert_eq!(flows.len(), 1, "the honest datapath's flow is untouched: {flows:?}");
    honest.greets_and_is_answered(4);
    let events = agent.events().expect("the event log");
    assert_eq!(events.iter().filter(|event| event["event"] == "refused").count(), 11);
    agent.stop().expect("it ends as it should");
}

/// splitmix64: the same messages each time, from a printed seed.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[test]
fn fuzzed_messages_end_nothing() {
    let place = Place::new();
    let agent = without_bpf(&place);
    let (hostile, honest) = (Peer::new(&place, "hostile"), Peer::new(&place, "honest"));
    honest.greets_and_is_answered(3);
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("SEED={seed}");
    let mut state = seed;
    let mut sent = 0;
    while sent < FUZZED {
        for mut bytes in the_eleven() {
            for _ in 0..random(&mut state) % 4 {
                let at = random(&mut state) as usize % bytes.len();
                bytes[at] = random(&mut state) as u8;
            }
            if random(&mut state).is_multiple_of(3) && bytes.len() >= 8 {
                bytes[0] = random(&mut state) as u8 % 16;
                bytes[1] = 0;
                let length = u16::try_from(bytes.len()).expect("short");
                bytes[2..4].copy_from_slice(&length.to_le_bytes());
            }
            bytes.truncate(1 + random(&mut state) as usize % 120);
            hostile.send(&bytes);
            sent += 1;
        }
        // The test must not block on its own full receive buffer.
        hostile.socket.set_nonblocking(true).expect("it does not block");
        while hostile.hear().is_some() {}
        hostile.socket.set_nonblocking(false).expect("it blocks");
    }
    honest.greets_and_is_answered(5);
    println!("{sent} messages, {} refused", refused(&agent));
    agent.stop().expect("it ends as it should");
}

#[test]
fn a_datapath_that_does_not_read_costs_itself_alone() {
    let place = Place::new();
    let agent = without_bpf(&place);
    let (stalled, honest) = (Peer::new(&place, "stalled"), Peer::new(&place, "honest"));
    let mut bytes = Vec::new();
    for sid in 0..600 {
        if sid % 50 == 0 {
            encode_ready(&mut bytes, 1);
            stalled.send(&bytes);
        }
        Create { init_cwnd_bytes: 14_480, mss_bytes: 1_448, ..Create::default() }
            .encode(&mut bytes, sid);
        stalled.send(&bytes);
    }
    let clock = Clock::start();
    honest.greets_and_is_answered(3);
    assert!(clock.elapsed() < Duration::from_secs(2), "{:?}", clock.elapsed());
    drop(stalled); // it vanishes with messages waiting for it
    for turn in 0..100 {
        let events = agent.events().expect("the event log");
        if events.iter().any(|event| event["event"] == "datapath_lost") {
            break;
        }
        assert!(turn < 99, "the agent notices that it is gone");
        thread::sleep(Duration::from_millis(50));
    }
    honest.greets_and_is_answered(4);
    let flows = agent.flows().expect("the agent answers");
    assert!(flows.iter().all(|flow| flow.datapath.ends_with("honest")), "{flows:?}");
    agent.stop().expect("it ends as it should");
}

#[test]
fn a_datapath_whose_flows_a_former_agent_had_is_asked_to_announce_them() {
    let place = Place::new();
    let agent = without_bpf(&place);
    let peer = Peer::new(&place, "datapath");
    let mut bytes = Vec::new();
    Hello { version: 1, name: "test".to_owned(), ..Hello::default() }.encode(&mut bytes);
    peer.send(&bytes);
    encode_measure(&mut bytes, 3, 1, &[1, 2]);
    peer.send(&bytes);
    assert!((0..64).any(|_| peer.hear() == Some(9)), "RESYNC comes");
    peer.greets_and_is_answered(3);
    agent.stop().expect("it ends as it should");
}

#[test]
fn a_hostile_control_client_gets_errors_and_others_their_answers() {
    let place = Place::new();
    let agent = without_bpf(&place);
    let long = "x".repeat(100_000);
    for (line, part) in [
        ("", "not a request"),
        ("{}", "not a request"),
        ("{\"ask\":\"eval\"}", "not a request"),
        ("{\"ask\":\"flows\",\"more\":1}", "not a request"),
        ("{\"ask\":\"set\",\"target\":\"all\",\"to\":\"renno\"}", "unknown arm or policy"),
        ("{\"ask\":\"set\",\"target\":{\"flow\":77},\"to\":\"reno\"}", "no flow 77"),
        (long.as_str(), "at most"),
    ] {
        let mut stream = UnixStream::connect(control_socket(agent.run_dir())).expect("it connects");
        let _ = stream.write_all(format!("{line}\n").as_bytes());
        let mut reply = String::new();
        BufReader::new(&stream).read_line(&mut reply).expect("an answer");
        assert!(reply.contains("error") && reply.contains(part), "{reply}");
    }
    for (bytes, part) in [
        (b"{\"ask\":\"status\"}".as_slice(), "ends with a newline"),
        (b"\xff\xfe\n".as_slice(), "not a request"),
    ] {
        let mut stream = UnixStream::connect(control_socket(agent.run_dir())).expect("it connects");
        stream.write_all(bytes).expect("it is sent");
        stream.shutdown(Shutdown::Write).expect("it says no more");
        let mut reply = String::new();
        BufReader::new(&stream).read_line(&mut reply).expect("an answer");
        assert!(reply.contains("error") && reply.contains(part), "{reply}");
    }
    // Silent clients must not keep other clients out for ever, nor stop the agent's work.
    let silent: Vec<_> = (0..8)
        .map(|_| UnixStream::connect(control_socket(agent.run_dir())).expect("it connects"))
        .collect();
    agent.flows().expect("an answer");
    drop(silent);
    agent.stop().expect("it ends as it should");
}

#[test]
fn bpf_flows_run_on_beside_a_hostile_datapath() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    let path = wired(24.0, 5.0, 1.0);
    let transfer = Transfer {
        bytes: Some(6_000_000),
        algorithm: Some(place.name.clone()),
        ..Transfer::default()
    };
    let running = transfer.start(path.server(), path.client()).expect("it starts");
    let hostile = Peer::new(&place, "hostile");
    while !running.is_finished() {
        for bytes in the_eleven() {
            hostile.send(&bytes);
        }
        thread::sleep(Duration::from_millis(5));
    }
    let outcome = running.join().expect("every byte arrives");
    assert!(outcome.longest_stall < Duration::from_millis(500), "{:?}", outcome.longest_stall);
    let events = agent.events().expect("the event log");
    assert!(events.iter().all(|event| event["event"] != "fell_back"), "no flow fell back");
    agent.stop().expect("it ends as it should");
}
