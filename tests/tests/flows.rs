//! Real flows under a real agent stay byte-exact while the policy changes, over IPv4 and IPv6.

use ccp_agent::host::Target;
use nix::sys::socket::{setsockopt, sockopt};
use remuda_live::transfer::Transfer;
use remuda_tests::{Place, binary, exclusive, sink, skip, wait_for, wired};
use std::ffi::OsString;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const FLOWS: usize = 100;
const CHANGES: usize = 20;
const FILE_BYTES: u64 = 3_500_000;
const DRIVERS: [&str; 5] = ["cubic", "rein", "bbr", "reno", "westwood"];

#[test]
fn a_hundred_flows_finish_byte_exact_while_the_policy_changes_twenty_times() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--policy", "rein"]);
    let path = wired(200.0, 10.0, 1.0);
    let running: Vec<_> = (0..FLOWS)
        .map(|n| {
            let transfer = Transfer {
                bytes: Some(FILE_BYTES),
                algorithm: Some(place.name.clone()),
                ipv6: n % 2 == 1,
                ..Transfer::default()
            };
            transfer.start(path.server(), path.client()).expect("it starts")
        })
        .collect();
    let mut most = 0;
    for change in 0..CHANGES {
        thread::sleep(Duration::from_millis(250));
        let to = DRIVERS[change % DRIVERS.len()];
        most = most.max(agent.set(Target::All, to).expect("it is set"));
    }
    let under_way = running.iter().filter(|transfer| !transfer.is_finished()).count();
    for transfer in running {
        let outcome = transfer.join().expect("every byte arrives as it was sent");
        assert_eq!(outcome.bytes, FILE_BYTES);
    }
    let events = agent.events().expect("the event log");
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    println!(
        "{FLOWS} flows, half of them IPv6, byte-exact; {CHANGES} changes reached up to {most} of \
         them, {under_way} were still under way after the last; {} switches",
        count("switched")
    );
    assert_eq!(count("created"), FLOWS);
    assert!(most >= FLOWS * 9 / 10, "changes reached running flows: {most}");
    assert!(under_way > 0, "the changes came while flows ran");
    assert!(count("switched") > FLOWS * CHANGES / 4, "{} switches", count("switched"));
    agent.stop().expect("it ends");
}

#[test]
fn an_agent_answers_once_the_kernel_has_its_programs() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    let events = agent.events().expect("the event log");
    let events: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(events, ["started", "datapath_ready", "ready"]);
    agent.stop().expect("it ends");
}

#[test]
fn one_flow_is_set_and_the_others_stay() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "cubic"]);
    let path = wired(24.0, 10.0, 1.0);
    let transfer = Transfer { algorithm: Some(place.name.clone()), ..Transfer::default() };
    let running =
        [(); 2].map(|()| transfer.start(path.server(), path.client()).expect("it starts"));
    thread::sleep(Duration::from_millis(500));
    let rows = agent.flows().expect("the flows");
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(agent.set(Target::Flow(rows[0].id), "bbr").expect("it is set"), 1);
    agent.set(Target::New, "reno").expect("it is set");
    thread::sleep(Duration::from_millis(300));
    let rows = agent.flows().expect("the flows");
    let arms: Vec<&str> = rows.iter().map(|row| row.arm.as_str()).collect();
    assert_eq!(arms, ["bbr", "cubic"]);
    assert!(rows[0].rate_mbit_per_sec.is_some() && rows[1].rate_mbit_per_sec.is_none());
    for flow in &running {
        flow.stop();
    }
    for flow in running {
        flow.join().expect("it ends intact");
    }
    agent.stop().expect("it ends");
}

/// What a command prints on a terminal of this size, without the sequences that clear the screen.
fn on_terminal(place: &Place, columns: u32, rows: u32, command: &str) -> String {
    let (remuda, run_dir) = (binary(), place.run_dir());
    let (remuda, run_dir) = (remuda.display(), run_dir.display());
    let line =
        format!("stty cols {columns} rows {rows}; exec {remuda} {command} --run-dir {run_dir}");
    let mut script = Command::new("script");
    let out = script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output();
    let text = String::from_utf8(out.expect("script runs").stdout).expect("it is UTF-8");
    text.replace("\x1b[2J\x1b[H", "").replace('\r', "")
}

#[test]
fn flows_are_plain_columns_that_fit_the_terminal() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--policy", "rein"]);
    let server = sink(Ipv4Addr::LOCALHOST);
    let connect = || {
        let mut stream = TcpStream::connect(server).expect("it connects");
        setsockopt(&stream, sockopt::TcpCongestion, &OsString::from(&place.name)).expect("by name");
        stream.write_all(&[7; 100_000]).expect("it is sent");
        stream
    };
    let streams: Vec<TcpStream> = (0..30).map(|_| connect()).collect();
    let piped = |arguments: &[&str]| {
        let (is_good, text) = place.remuda(arguments);
        assert!(is_good, "{text}");
        text
    };
    let limit = Duration::from_secs(10);
    wait_for("30 flows", limit, || piped(&["flows"]).ends_with("\n30 flows\n"));
    let text = piped(&["flows"]);
    println!("{}", text.lines().take(5).collect::<Vec<_>>().join("\n"));
    assert!(text.is_ascii(), "no box, no colour: {text}");
    assert_eq!(text.lines().count(), 1 + 2 * 30 + 1);
    let header: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    let names = "flow peer port arm cwnd Mbit/s pace srtt min lost age idle";
    assert_eq!(header.join(" "), names);
    let port = streams[3].local_addr().expect("bound").port().to_string();
    let one = piped(&["flows", "--local-port", &port, "--arm", "rein"]);
    assert!(one.ends_with("\n1 flow\n") && one.contains(&port), "{one}");
    assert_eq!(piped(&["flows", "--destination", "192.0.2.0/24"]), "0 flows\n");
    for (columns, rows) in [(80, 24), (200, 50), (20, 10)] {
        for command in ["flows", "flows --sort rate", "top --updates 1"] {
            let text = on_terminal(&place, columns, rows, command);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= columns as usize, "{command} on {columns} columns:\n{text}");
            assert!(text.contains("flow"), "{command} on {columns} columns:\n{text}");
            if command.starts_with("top") {
                assert!(text.lines().count() < rows as usize, "{rows} rows:\n{text}");
            }
        }
    }
    let wide = on_terminal(&place, 80, 24, "top --updates 1");
    println!("{wide}");
    for name in ["peer", "port", "arm", "cwnd", "Mbit/s", "srtt", "age", "idle"] {
        assert!(wide.lines().nth(1).is_some_and(|it| it.contains(name)), "{name} in\n{wide}");
    }
    let updates = piped(&["top", "--updates", "2", "--interval-s", "0.1"]);
    assert_eq!(updates.matches("30 flows, ").count(), 2, "{updates}");
    assert!(updates.is_ascii(), "{updates}");
    drop(streams);
    agent.stop().expect("it ends");
}
