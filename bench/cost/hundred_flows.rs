//! The agent's share of a core while it drives a hundred real flows over one emulated link.

use crate::cpu::Meter;
use crate::{Fallible, Options};
use ccp_agent::child::AgentChild;
use ccp_agent::clock;
use remuda_live::transfer::{Running, Transfer};
use remuda_live::{LinkSpec, PathSpec, QueueSpec, Testbed};
use std::time::Duration;

pub const FLOWS: usize = 100;
pub const RATE_MBIT_PER_SEC: f64 = 200.0;
/// Time before the measurement, so that the flows' start-ups do not count.
const SETTLING: Duration = Duration::from_secs(4);
pub const SPAN: Duration = Duration::from_secs(10);

/// The agent's share of a core, in per cent. `driver` has the agent's options that choose an arm or
/// a policy, such as `--arm cubic`.
pub fn core_percent(options: &Options, driver: &[&str]) -> Fallible<f64> {
    let folder = tempfile::tempdir()?;
    let name = format!("bp{}", std::process::id());
    let arguments = [&["--name", &name], driver].concat();
    let agent = AgentChild::start(&options.remuda, &folder.path().join("run"), &arguments)?;
    let down = LinkSpec {
        rate_mbit_per_sec: Some(RATE_MBIT_PER_SEC),
        delay_ms: 20.0,
        queue: QueueSpec::droptail_bdp(1.0),
        ..LinkSpec::default()
    };
    let up = LinkSpec { delay_ms: 20.0, ..LinkSpec::default() };
    let testbed = Testbed::new(&PathSpec { up, down, ..PathSpec::default() })?;
    let transfer = Transfer { algorithm: Some(name), verify: false, ..Transfer::default() };
    let start = |_| Ok(transfer.start(testbed.server(), testbed.client())?);
    let running = (0..FLOWS).map(start).collect::<Fallible<Vec<Running>>>()?;
    std::thread::sleep(SETTLING);
    let meter = Meter::new(Some(agent.pid()))?;
    let (before, started_ns) = (meter.read()?, clock::monotonic_ns());
    std::thread::sleep(SPAN);
    let used_ns = meter.read()?.since(before).agent_ns;
    let span_ns = clock::monotonic_ns() - started_ns;
    for flow in &running {
        flow.stop();
    }
    for flow in running {
        flow.join().map_err(|error| format!("{}: {error}", driver.join(" ")))?;
    }
    agent.stop()?;
    Ok(used_ns as f64 / span_ns as f64 * 100.0)
}
