//! An agent drives IPv4 and IPv6 flows in their own namespaces, and its policy is changed.

use crate::module::counter;
use ccp_agent::child::AgentChild;
use ccp_agent::host::Target;
use remuda_live::transfer::{Running, Transfer, set_algorithm};
use remuda_live::{Clock, Testbed};
use remuda_tests::{Place, wired};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);
const TURN: Duration = Duration::from_millis(10);
const DRIVERS: [&str; 6] = ["cubic", "bbr", "rein", "reno", "copa", "westwood"];
/// Least goodput as a share of the link's rate; the rest is headers and the start.
const SHARE_MIN: f64 = 0.85;

fn flow(path: &Testbed, ipv6: bool, bytes: Option<u64>) -> Running {
    let algorithm = Some("ccp".to_owned());
    let transfer = Transfer { algorithm, ipv6, bytes, ..Transfer::default() };
    transfer.start(path.server(), path.client()).expect("it starts")
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let clock = Clock::start();
    while !done() {
        assert!(clock.elapsed() < LIMIT, "{what} takes longer than {LIMIT:?}");
        thread::sleep(TURN);
    }
}

fn driven(agent: &AgentChild) -> usize {
    let rows = agent.flows().unwrap_or_default();
    rows.iter().filter(|row| row.state == "driven" && row.reports > 0).count()
}

/// A window arm and a paced arm fill a link of that rate. The path's buffer holds as many packets
/// at every rate.
pub fn drives(mbit_per_sec: f64) {
    let place = Place::with_module();
    for arm in ["cubic", "bbr"] {
        let agent = place.agent(&["--arm", arm]);
        let path = wired(mbit_per_sec, 100.0 / mbit_per_sec, 1.0);
        let running = [flow(&path, false, None), flow(&path, true, None)];
        wait_for("the first reports", || driven(&agent) == running.len());
        thread::sleep(Duration::from_secs(5));
        let rows = agent.flows().expect("the agent answers");
        assert!(rows.iter().all(|row| row.datapath == "module" && row.arm == arm), "{rows:?}");
        let families = rows.iter().filter(|row| row.remote.contains('[')).count();
        assert_eq!(families, 1, "one of two over IPv6: {rows:?}");
        running.iter().for_each(Running::stop);
        let outcomes = running.map(|flow| flow.join().expect("it ends intact"));
        let bits: f64 = outcomes.iter().map(|outcome| outcome.bytes as f64 * 8.0).sum();
        let seconds = outcomes.iter().map(|outcome| outcome.elapsed.as_secs_f64());
        let share = bits / seconds.fold(0.0, f64::max) / 1e6 / mbit_per_sec;
        println!("{arm}: {:.1} % of the link", share * 100.0);
        assert!(share > SHARE_MIN, "{arm}: {share}");
        mapped(&agent);
        agent.stop().expect("it ends");
        assert_eq!(counter("agent"), 0);
    }
    assert_eq!(counter("reports_lost"), 0);
}

/// A server that listens on IPv6 accepts flows over IPv4; the agent must list them as IPv4.
fn mapped(agent: &AgentChild) {
    let listener = TcpListener::bind("[::]:0").expect("a socket for both families");
    set_algorithm(listener.as_raw_fd(), "ccp").expect("it is known");
    let port = listener.local_addr().expect("it is bound").port();
    let _client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let (_server, _) = listener.accept().expect("it has connected");
    let own = format!("127.0.0.1:{port}");
    let named = || agent.flows().is_ok_and(|rows| rows.iter().any(|row| row.local == own));
    wait_for("a flow named as IPv4", named);
}

/// Twenty flows stay byte-exact while another arm takes them every few hundred milliseconds.
pub fn switches() {
    const FLOWS: usize = 20;
    const BYTES: u64 = 1_500_000;
    let place = Place::with_module();
    let agent = place.agent(&["--policy", "rein"]);
    let path = wired(40.0, 10.0, 1.0);
    let running: Vec<Running> = (0..FLOWS).map(|n| flow(&path, n % 2 == 1, Some(BYTES))).collect();
    let mut most = 0;
    for change in 0..20 {
        thread::sleep(Duration::from_millis(250));
        let to = DRIVERS[change % DRIVERS.len()];
        most = most.max(agent.set(Target::All, to).expect("it is set"));
    }
    for flow in running {
        assert_eq!(flow.join().expect("byte-exact").bytes, BYTES);
    }
    let events = agent.events().expect("the event log");
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    println!("{FLOWS} flows, 20 changes reached up to {most}, {} switches", count("switched"));
    assert_eq!(count("created"), FLOWS);
    assert_eq!(count("refused"), 0, "{events:?}");
    assert!(most >= FLOWS * 9 / 10 && count("switched") > FLOWS * 4);
    agent.stop().expect("it ends");
}
