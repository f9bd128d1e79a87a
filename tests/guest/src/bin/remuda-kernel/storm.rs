//! Hundreds of IPv4 and IPv6 flows come and go while agents are killed and started.

use crate::module::counter;
use remuda_live::transfer::Transfer;
use remuda_live::{Clock, Testbed};
use remuda_tests::{Place, wired};
use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const THREADS: usize = 4;
/// Sizes of flows: some flows end before an agent knows of them, others live longer than an agent.
const BYTES: [u64; 4] = [30_000, 3_000, 300_000, 30_000];
/// Lifetimes of agents: some are killed as soon as they have started.
const LIVES_MS: [u64; 4] = [1_500, 1, 1_000, 300];
const LIMIT: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_millis(100);

/// Sets the flag when it is dropped, also by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Counts of what has happened so far.
pub struct Storm {
    place: Place,
    path: Testbed,
    over: AtomicBool,
    flows: AtomicU64,
    bytes: AtomicU64,
    agents: AtomicU64,
}

impl Storm {
    /// Runs on its own path of that rate. The path's buffer holds as many packets at every rate.
    pub fn new(mbit_per_sec: f64) -> Self {
        let [flows, bytes, agents] = [0; 3].map(AtomicU64::new);
        let over = AtomicBool::new(false);
        Self {
            place: Place::with_module(),
            path: wired(mbit_per_sec, 100.0 / mbit_per_sec, 2.0),
            over,
            flows,
            bytes,
            agents,
        }
    }

    /// Continues for `span`, and calls `between` after each agent's end. A transfer that is lost,
    /// or not byte-exact, is a panic and ends the storm.
    pub fn rage(&self, span: Duration, mut between: impl FnMut(Duration)) {
        thread::scope(|scope| {
            let _ends = Ends(&self.over);
            for thread in 0..THREADS {
                scope.spawn(move || self.come_and_go(thread));
            }
            let clock = Clock::start();
            for life_ms in LIVES_MS.into_iter().cycle() {
                if clock.elapsed() >= span || self.over.load(Ordering::Relaxed) {
                    break;
                }
                let agent = self.place.agent(&["--policy", "rein"]);
                thread::sleep(Duration::from_millis(life_ms));
                agent.kill().expect("kill -9");
                self.agents.fetch_add(1, Ordering::Relaxed);
                between(clock.elapsed());
            }
        });
    }

    fn come_and_go(&self, thread: usize) {
        let _ends = Ends(&self.over);
        for bytes in BYTES.into_iter().cycle() {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let transfer = Transfer {
                algorithm: Some("ccp".to_owned()),
                bytes: Some(bytes),
                ipv6: thread % 2 == 1,
                ..Transfer::default()
            };
            let outcome = transfer.run(self.path.server(), self.path.client());
            assert_eq!(outcome.expect("byte-exact").bytes, bytes);
            self.flows.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Removes the path; afterwards the module's table must be empty.
    pub fn end(self) {
        drop(self.path);
        let clock = Clock::start();
        while counter("flows") > 0 {
            assert!(clock.elapsed() < LIMIT, "{} flows are left", counter("flows"));
            thread::sleep(TURN);
        }
    }
}

impl Display for Storm {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [flows, bytes, agents] =
            [&self.flows, &self.bytes, &self.agents].map(|count| count.load(Ordering::Relaxed));
        write!(f, "{flows} flows, {:.1} MB, {agents} agents killed", bytes as f64 / 1e6)
    }
}
