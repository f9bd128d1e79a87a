//! A policy that always reports what the memory of destinations then remembers, in an agent of this
//! process.

use crate::{Place, wait_for};
use ccp_agent::config::Config;
use ccp_agent::control::{Request, ask};
use remuda_algorithms::units::Time;
use remuda_algorithms::{Measurement, PathState, Proposal, Verdict};
use remuda_selector::{ArmRunner, Policy, PolicyInfo};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

/// Uses the remembered arm, or else CUBIC, and always reports that BBR would suit.
struct Believer;

impl Policy for Believer {
    fn begin(&mut self, path: &PathState, _now: Time) -> &'static str {
        path.remembered_arm.unwrap_or("cubic")
    }
    fn observe(&mut self, _m: &Measurement, _arm: &'static str, _now: Time) {}
    fn proposal(&mut self) -> Option<Proposal> {
        None
    }
    fn taken(&mut self, _arm: &'static str, _now: Time) {}
    fn verdict(&self) -> Option<Verdict> {
        Some(Verdict { arm: "bbr", score: 0.8 })
    }
    fn remembers(&self) -> bool {
        true
    }
}

static BELIEVER: PolicyInfo = PolicyInfo {
    name: "believer",
    summary: "begins with the arm remembered",
    build: |_, loaded| Box::new(ArmRunner::new(Believer, loaded)),
};

/// Registers the policy. Call this before the registry of policies is first read.
pub fn add_believer() {
    static ADDED: Once = Once::new();
    ADDED.call_once(|| remuda_selector::add(&BELIEVER).expect("a name of its own"));
}

/// Runs `work` beside an agent of this process whose default is the policy. `configure` changes the
/// configuration of the agent before the agent starts.
pub fn with_believer(
    place: &Place,
    configure: impl FnOnce(&mut Config),
    work: impl FnOnce() + Send,
) {
    add_believer();
    let mut config = Config::default();
    config.agent.default = BELIEVER.name.to_owned();
    config.agent.name.clone_from(&place.name);
    config.agent.run_dir = place.run_dir();
    config.agent.module = false;
    configure(&mut config);
    let stop = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let stopped = Arc::clone(&stop);
        let agent = scope.spawn(move || ccp_agent::agent::run_until(config, stopped, || {}));
        let done = catch_unwind(AssertUnwindSafe(|| {
            let limit = Duration::from_secs(60);
            wait_for("an answer", limit, || ask(&place.run_dir(), &Request::Status {}).is_ok());
            work();
        }));
        stop.store(true, Ordering::Relaxed);
        agent.join().expect("it does not panic").expect("it ends");
        done.unwrap_or_else(|panic| resume_unwind(panic));
    });
}
