//! More flows than the module's table has room for: the others run without an agent, and end.

use crate::life::unload_soon;
use crate::module::{self, counter};
use remuda_live::transfer::{Running, Transfer};
use remuda_tests::{Place, wired};
use std::thread;
use std::time::Duration;

/// Flows that the module's table has room for: the least that it accepts.
const ROOM: u64 = 64;
/// More flows than the table has room for.
const FLOWS: u64 = 80;
const BYTES: u64 = 200_000;

/// Every flow ends byte-exact; the agent drives as many as fit. The path's buffer holds as many
/// packets at every rate.
pub fn full(mbit_per_sec: f64) {
    module::load("flows=64").expect("it loads");
    let place = Place::with_module();
    let agent = place.agent(&["--arm", "reno"]);
    let path = wired(mbit_per_sec, 200.0 / mbit_per_sec, 4.0);
    let transfer =
        |bytes| Transfer { algorithm: Some("ccp".to_owned()), bytes, ..Transfer::default() };
    let start = |_| transfer(None).start(path.server(), path.client()).expect("it starts");
    let running: Vec<Running> = (0..FLOWS).map(start).collect();
    thread::sleep(Duration::from_secs(2));
    assert_eq!(counter("flows"), ROOM);
    assert!(counter("flows_refused") >= FLOWS - ROOM);
    assert_eq!(agent.flows().expect("the agent answers").len() as u64, ROOM);
    running.iter().for_each(Running::stop);
    for flow in running {
        assert!(flow.join().expect("it ends intact").bytes > 0);
    }
    // The table has room again.
    let next = transfer(Some(BYTES)).start(path.server(), path.client()).expect("it starts");
    assert_eq!(next.join().expect("byte-exact").bytes, BYTES);
    let events = agent.events().expect("the event log");
    let created = events.iter().filter(|event| event["event"] == "created").count() as u64;
    assert_eq!(created, ROOM + 1);
    agent.stop().expect("it ends");
    unload_soon();
}
