//! The same switch on this kernel's TCP over an emulated link: by the agent, warm or cold; or by
//! `setsockopt` between the kernel's own algorithms, without an agent.

use crate::switches::{
    AFTER_S, Error, GOODPUT_BEFORE_S, Path, RATE_MBIT_PER_SEC, RTT_BEFORE_S, RTT_MS, STEADY_FROM_S,
    Seen, Steady,
};
use ccp_agent::child::AgentChild;
use ccp_agent::clock;
use ccp_agent::guard::HandOff;
use ccp_agent::host::Target;
use remuda_live::transfer::{Running, Transfer};
use remuda_live::{LinkSpec, PathSpec, QueueSpec, Testbed};
use std::path::Path as FilePath;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// End of the steady state's measurement; simulated ones end later, because simulated time is
/// cheap.
const STEADY_UNTIL_S: f64 = 26.0;

/// How the algorithm is changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Means {
    /// By the agent, which gets the order of `remuda set`.
    Agent(HandOff),
    /// By `setsockopt(TCP_CONGESTION)`, between the kernel's own algorithms.
    Kernel,
}

struct Flow {
    testbed: Testbed,
    running: Running,
    agent: Option<AgentChild>,
    started_us: u64,
    _folder: tempfile::TempDir,
}

fn testbed(buffer_bdp: f64) -> Result<Testbed, Error> {
    let delay_ms = RTT_MS / 2.0;
    let queue = QueueSpec::droptail_bdp(buffer_bdp);
    let down = LinkSpec {
        rate_mbit_per_sec: Some(RATE_MBIT_PER_SEC),
        delay_ms,
        queue,
        ..LinkSpec::default()
    };
    let up = LinkSpec { delay_ms, ..LinkSpec::default() };
    Ok(Testbed::new(&PathSpec { up, down, ..PathSpec::default() })?)
}

impl Flow {
    fn start(remuda: &FilePath, path: &Path<'_>, means: Means) -> Result<Self, Error> {
        let folder = tempfile::tempdir().map_err(Error::Folder)?;
        let testbed = testbed(path.buffer_bdp)?;
        let (agent, algorithm) = match means {
            Means::Kernel => (None, path.arm.to_owned()),
            Means::Agent(hand_off) => {
                let word = if hand_off == HandOff::Warm { "warm" } else { "cold" };
                let config = folder.path().join("remuda.toml");
                let text = format!("[guard]\nhand_off = \"{word}\"\n");
                std::fs::write(&config, text).map_err(Error::Folder)?;
                static COUNT: AtomicU32 = AtomicU32::new(0);
                let count = COUNT.fetch_add(1, Ordering::Relaxed);
                let name = format!("sw{}x{count}", std::process::id());
                let config = config.display().to_string();
                let arguments = ["--config", &config, "--name", &name, "--arm", path.arm];
                let run_dir = folder.path().join("run");
                (Some(AgentChild::start(remuda, &run_dir, &arguments)?), name)
            }
        };
        let transfer =
            Transfer { algorithm: Some(algorithm), verify: false, ..Transfer::default() };
        let started_us = clock::monotonic_us();
        let running = transfer.start(testbed.server(), testbed.client())?;
        Ok(Self { testbed, running, agent, started_us, _folder: folder })
    }

    /// Waits until the flow is `at_s` old.
    fn until(&self, at_s: f64) {
        let at_us = self.started_us + (at_s * 1e6) as u64;
        thread::sleep(Duration::from_micros(at_us.saturating_sub(clock::monotonic_us())));
    }

    fn resent(&self) -> f64 {
        self.running.retransmitted_pkts().unwrap_or(0).into()
    }

    /// The 95th percentile of the round trips since the last call.
    fn rtt_p95_ms(&mut self) -> Result<f64, Error> {
        let queueing = self.testbed.stats()?.down.link.queueing_delay;
        self.testbed.reset_stats()?;
        Ok(RTT_MS + queueing.p95_ms)
    }

    /// Bytes that have arrived.
    fn received(&self) -> f64 {
        self.running.received_bytes() as f64
    }

    fn change(&self, to: &str) -> Result<(), Error> {
        match &self.agent {
            Some(agent) => {
                agent.set(Target::All, to)?;
            }
            None => self.running.set_algorithm(to).map_err(Error::Folder)?,
        }
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        self.running.stop();
        self.running.join()?;
        self.agent.map_or(Ok(()), |agent| Ok(agent.stop()?))
    }
}

fn mbit_per_sec(bytes: f64, span_us: u64) -> f64 {
    bytes * 8.0 / span_us as f64
}

/// Measures one switch at `at_s`. See [`crate::switches::switch`].
pub fn switch(
    remuda: &FilePath,
    path: &Path<'_>,
    to: &str,
    at_s: f64,
    means: Means,
) -> Result<Seen, Error> {
    let mut flow = Flow::start(remuda, path, means)?;
    flow.until(at_s - RTT_BEFORE_S);
    flow.rtt_p95_ms()?;
    flow.until(at_s - GOODPUT_BEFORE_S);
    let (before_us, received_before) = (clock::monotonic_us(), flow.received());
    flow.until(at_s);
    let rtt_p95_before_ms = flow.rtt_p95_ms()?;
    flow.change(to)?;
    let (at_us, received, resent) = (clock::monotonic_us(), flow.received(), flow.resent());
    flow.until(at_s + AFTER_S);
    let (after_us, received_after) = (clock::monotonic_us(), flow.received());
    let seen = Seen {
        retransmitted_pkts: flow.resent() - resent,
        goodput_before: mbit_per_sec(received - received_before, at_us - before_us),
        goodput_after: mbit_per_sec(received_after - received, after_us - at_us),
        rtt_p95_before_ms,
        rtt_p95_after_ms: flow.rtt_p95_ms()?,
    };
    flow.end()?;
    Ok(seen)
}

/// Measures an arm without a switch. See [`crate::switches::steady`].
pub fn steady(remuda: &FilePath, path: &Path<'_>, means: Means) -> Result<Steady, Error> {
    let mut flow = Flow::start(remuda, path, means)?;
    flow.until(STEADY_FROM_S);
    flow.rtt_p95_ms()?;
    let resent = flow.resent();
    flow.until(STEADY_UNTIL_S);
    let steady = Steady {
        retransmitted_pkts: (flow.resent() - resent) * AFTER_S / (STEADY_UNTIL_S - STEADY_FROM_S),
        rtt_p95_ms: flow.rtt_p95_ms()?,
    };
    flow.end()?;
    Ok(steady)
}
