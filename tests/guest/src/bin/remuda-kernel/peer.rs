//! An unmodified portus agent drives the module through portus' own char transport.

use crate::module::counter;
use portus::RunBuilder;
use portus::ipc::{BackendBuilder, Nonblocking, kp};
use remuda_conformance::aimd::{Aimd, Shared, with};
use remuda_live::transfer::Transfer;
use remuda_tests::wired;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const TURNS: u32 = 200;
const TURN: Duration = Duration::from_millis(50);

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..TURNS {
        if holds() {
            return;
        }
        thread::sleep(TURN);
    }
    panic!("{what}: not in {:?}", TURN * TURNS);
}

/// The agent decides, the flow's window follows, and the agent is informed of the flow's end.
pub fn drives() {
    let sock = kp::Socket::<Nonblocking>::new().expect("the device opens");
    let notes = Shared::default();
    let run = RunBuilder::new(BackendBuilder { sock }).default_alg(Aimd(Arc::clone(&notes)));
    let agent = run.spawn_thread().run().expect("portus starts");
    let path = wired(20.0, 5.0, 1.0);
    let transfer = Transfer { algorithm: Some("ccp".to_owned()), ..Transfer::default() };
    let running = transfer.start(path.server(), path.client()).expect("it starts");
    wait_for("the second program reports", || with(&notes, |notes| notes.steady_reports > 40));
    for _ in 0..10 {
        let (cwnd_pkts, _) = running.window().expect("it runs");
        let decided = with(&notes, |notes| notes.decided.clone());
        let near = decided.iter().rev().take(20).any(|cwnd| cwnd / 1_448 == u64::from(cwnd_pkts));
        assert!(near, "a window of {cwnd_pkts}, where {decided:?} were decided");
        thread::sleep(TURN);
    }
    running.stop();
    running.join().expect("it ends intact");
    wait_for("the agent hears of the end", || with(&notes, |notes| notes.closed));
    println!("{} reports to portus", with(&notes, |notes| notes.reports));
    assert_eq!((counter("fallbacks"), counter("reports_lost")), (0, 0));
    agent.kill();
    agent.wait().expect("portus ends as it was told");
    wait_for("the device is closed", || counter("agent") == 0);
}
