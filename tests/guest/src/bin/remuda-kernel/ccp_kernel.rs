//! The agent drives CCP's own kernel module, ccp-kernel, by netlink. The module is not part of this
//! repository; the machine's image has it if the test was told where it is.

use crate::module;
use ccp_agent::child::AgentChild;
use ccp_agent::flow::Row;
use ccp_agent::host::Target;
use nix::errno::Errno;
use remuda_live::transfer::{Running, Transfer};
use remuda_live::{Clock, Testbed};
use remuda_tests::{Place, wired};
use std::path::Path;
use std::thread;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);
const TURN: Duration = Duration::from_millis(10);
const FILE: &str = "/modules/ccp-cong.ko";
const NAME: &str = "ccp_cong";
const SETTINGS: &str = "[agent]\nnetlink = true\nmodule = false\nbpf = false\n";
const MBIT_PER_SEC: f64 = 20.0;
/// Least goodput as a share of the link's rate: CUBIC may leave slow start early.
const SHARE_MIN: f64 = 0.75;

/// Modules and agents may start in either order, and each may leave first.
pub fn drives() {
    if !Path::new(FILE).exists() {
        println!("SKIPPED: there is no {FILE}");
        return;
    }
    let place = Place::with_module();
    let file = place.file("netlink.toml", SETTINGS).display().to_string();
    let agent = place.agent(&["--config", &file, "--arm", "cubic"]);
    module::load_file(FILE.as_ref(), "").expect("the module loads");
    transfer(&agent, "cubic", Some("bbr"));
    unload();
    module::load_file(FILE.as_ref(), "").expect("the module loads again");
    transfer(&agent, "cubic", None);
    agent.stop().expect("it ends");
    let agent = place.agent(&["--config", &file, "--arm", "reno"]);
    transfer(&agent, "reno", None);
    let events = agent.events().expect("the event log");
    let refused: Vec<_> = events.iter().filter(|event| event["event"] == "refused").collect();
    assert!(refused.is_empty(), "{refused:?}");
    agent.stop().expect("it ends");
    unload();
}

/// A flow of some seconds under an arm, and then under another one.
fn transfer(agent: &AgentChild, arm: &str, then: Option<&str>) {
    let path = wired(MBIT_PER_SEC, 10.0, 1.0);
    let running = start(&path);
    let row = row_of(agent, arm);
    assert_eq!((row.datapath.as_str(), row.state.as_str()), ("netlink", "driven"), "{row:?}");
    thread::sleep(Duration::from_secs(4));
    if let Some(then) = then {
        agent.set(Target::All, then).expect("it is set");
        row_of(agent, then);
        thread::sleep(Duration::from_secs(4));
        agent.set(Target::New, arm).expect("it is set");
    }
    println!("{:?}", row_of(agent, then.unwrap_or(arm)));
    running.stop();
    let outcome = running.join().expect("every byte arrives as it was sent");
    let mbit_per_sec = outcome.bytes as f64 * 8.0 / outcome.elapsed.as_secs_f64() / 1e6;
    println!("{arm}, then {then:?}: {mbit_per_sec:.1} Mbit/s of {MBIT_PER_SEC}");
    assert!(mbit_per_sec > SHARE_MIN * MBIT_PER_SEC, "{mbit_per_sec}");
    wait_for("the flow's end", || agent.flows().is_ok_and(|rows| rows.is_empty()));
}

fn start(path: &Testbed) -> Running {
    let transfer = Transfer { algorithm: Some("ccp".to_owned()), ..Transfer::default() };
    transfer.start(path.server(), path.client()).expect("it starts")
}

/// The flow, once it reports under that arm.
fn row_of(agent: &AgentChild, arm: &str) -> Row {
    let find = || {
        let rows = agent.flows().unwrap_or_default();
        rows.into_iter().find(|row| row.arm == arm && row.reports > 0)
    };
    wait_for("a report", || find().is_some());
    find().expect("it was there")
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let clock = Clock::start();
    while !done() {
        assert!(clock.elapsed() < LIMIT, "{what} takes longer than {LIMIT:?}");
        thread::sleep(TURN);
    }
}

/// Unloads the module as soon as no socket uses it.
fn unload() {
    wait_for("unloading", || match module::unload_named(NAME) {
        Ok(()) => true,
        Err(Errno::EAGAIN | Errno::EBUSY) => false,
        Err(errno) => panic!("unloading: {errno}"),
    });
}
