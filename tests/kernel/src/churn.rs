//! Flows come and go by the hundred while agents are killed and started.

use crate::module::counter;
use remuda_live::Clock;
use remuda_live::transfer::Transfer;
use remuda_tests::{Place, wired};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const THREADS: usize = 4;
const BYTES: u64 = 30_000;
const AGENT_LIVES: Duration = Duration::from_millis(1_500);
const LIMIT: Duration = Duration::from_secs(20);
const TURN: Duration = Duration::from_millis(100);

/// Every flow is byte-exact, and none is left in the table.
pub fn churn(span: Duration) {
    let place = Place::with_module();
    let path = wired(50.0, 2.0, 2.0);
    let (over, flows) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut agents = 0;
    thread::scope(|scope| {
        for n in 0..THREADS {
            let (path, over, flows) = (&path, &over, &flows);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let transfer = Transfer {
                        algorithm: Some("ccp".to_owned()),
                        bytes: Some(BYTES),
                        ipv6: n % 2 == 1,
                        verify: true,
                    };
                    let outcome = transfer.run(path.server(), path.client());
                    assert_eq!(outcome.expect("byte-exact").bytes, BYTES);
                    flows.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let clock = Clock::start();
        while clock.elapsed() < span {
            let agent = place.agent(&["--policy", "rein"]);
            thread::sleep(AGENT_LIVES);
            agent.kill().expect("kill -9");
            agents += 1;
            thread::sleep(TURN);
        }
        over.store(true, Ordering::Relaxed);
    });
    println!("{} flows, {agents} agents killed", flows.load(Ordering::Relaxed));
    let clock = Clock::start();
    while counter("flows") > 0 {
        assert!(clock.elapsed() < LIMIT, "{} flows are left", counter("flows"));
        thread::sleep(TURN);
    }
}
