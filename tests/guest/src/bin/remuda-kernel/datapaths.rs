//! One agent process drives three stacks at once over one emulated path: Linux TCP by BPF, Linux
//! TCP by the module, and QUIC. A change of its policy reaches all of them.

use ccp_agent::child::AgentChild;
use ccp_agent::flow::Row;
use ccp_agent::host::Target;
use remuda_live::transfer::Transfer;
use remuda_live::{Clock, Testbed};
use remuda_tests::quic::{Server, file, same};
use remuda_tests::{Place, binary, wired};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Duration;

const RATE_MBIT_PER_SEC: f64 = 6.0;
const FILE_BYTES: usize = 1_500_000;
const LIMIT: Duration = Duration::from_secs(20);
const TURN: Duration = Duration::from_millis(20);
const DRIVERS: [&str; 4] = ["bbr", "cubic", "copa", "rein"];
const PORT: u16 = 4433;

/// The agent's rows, once each datapath has a flow that has sent reports.
fn flows(agent: &AgentChild, holds: impl Fn(&Row) -> bool) -> Vec<Row> {
    let clock = Clock::start();
    loop {
        let rows = agent.flows().expect("the agent answers");
        let of: BTreeSet<&str> = rows.iter().map(|row| row.datapath.as_str()).collect();
        if of.len() == 3 && rows.iter().all(|row| row.reports > 0 && holds(row)) {
            return rows;
        }
        assert!(clock.elapsed() < LIMIT, "not within {LIMIT:?}: {rows:#?}");
        thread::sleep(TURN);
    }
}

fn quic(path: &Testbed, folder: &Path, run_dir: &Path) -> (Server, Child) {
    let listen = format!("{}:{PORT}", path.server().ipv4());
    let remuda = path.server().command(binary());
    let server = Server::start(remuda, folder, (&listen, "agent", run_dir));
    let mut get = server.get(path.client().command(binary()), "file", &folder.join("got"));
    let get = get.spawn().expect("it starts");
    (server, get)
}

/// Three flows of one agent over one path; every change of policy reaches all three.
pub fn at_once() {
    let place = Place::new();
    let agent = place.agent(&["--policy", "rein"]);
    let path = wired(RATE_MBIT_PER_SEC, 10.0, 1.0);
    let folder = tempfile::tempdir().expect("a folder");
    let whole = file(folder.path(), "file", FILE_BYTES);
    let (_server, get) = quic(&path, folder.path(), &place.run_dir());
    let tcp = [place.name.as_str(), "ccp"].map(|algorithm| {
        let transfer = Transfer { algorithm: Some(algorithm.to_owned()), ..Transfer::default() };
        transfer.start(path.server(), path.client()).expect("it starts")
    });
    for row in flows(&agent, |row| row.driver == "rein") {
        println!("{}: {} by {}", row.datapath, row.remote, row.arm);
    }
    for driver in DRIVERS {
        let reached = agent.set(Target::All, driver).expect("it is set");
        assert_eq!(reached, 3, "{driver}");
        flows(&agent, |row| row.driver == driver && row.state == "driven");
        println!("{driver}: drives flows of three datapaths");
        thread::sleep(Duration::from_secs(1));
    }
    let output = get.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(same(&whole, &folder.path().join("got")), "QUIC is byte-exact");
    for flow in tcp {
        flow.stop();
        assert!(flow.join().expect("it ends intact").bytes > 0);
    }
    let events = agent.events().expect("the event log");
    let refused: Vec<_> = events.iter().filter(|event| event["event"] == "refused").collect();
    assert!(refused.is_empty(), "{refused:?}");
    agent.stop().expect("it ends");
}
