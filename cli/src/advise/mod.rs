//! `remuda advise`: which arm would serve the flows to each destination better, and by how much.
//!
//! ```text
//! event log ─▶ ended flows by network ─┬▶ control group of a rule ───────────┬▶ verdict
//!                                      └▶ paths that resemble it, simulated ─┘
//! ```
//!
//! The command reads the agent's list of flows and the event log. It sends no order.

mod control;
mod show;
mod verdict;

use crate::stop::stop_flag;
use crate::{Failure, RunDirArgs, event_log};
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::run_dir;
use clap::Args;
use control::Controls;
use remuda_algorithms::arm;
use remuda_selector::antelope::memory::Network;
use remuda_twin::{Destination, Flow, destinations, estimates, network};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use verdict::FLOWS_MIN;
pub use verdict::Verdict;

/// How often the log is read while no destination has enough flows.
const LOOK: Duration = Duration::from_secs(2);
/// Once this many flows to a destination have ended, the command answers without waiting, even if
/// fewer than ten of these flows show the path.
const ENDED_ENOUGH: usize = 10 * FLOWS_MIN;
/// A destination's simulations begin within this time of the first one's, in seconds.
const SIMULATE_S: f64 = 30.0;
/// The seed of all simulations: the same log gives the same advice.
const SEED: u64 = 1;

/// Say which arm would serve the flows to each destination better, and change nothing.
///
/// A gain is of goodput: how much faster the flows' bytes would arrive under that arm than under
/// the arm that the flows have now, as a 95 % interval. It is known from the control group of a
/// rule; or from simulations of paths on which flows would measure what the flows to this
/// destination have measured.
#[derive(Debug, Args)]
#[command(after_help = "\
A destination is a network: /24, or /56 of IPv6. A verdict needs ten flows that have ended, that no
application held back, and that were long enough to leave slow start. `cannot say` comes with the
reason, or with how many flows are missing.

Examples:
  What would change if downloads ran bbr?
    remuda advise --arms bbr --destination 198.51.100.0/24
  Try the advice on a tenth of the flows, and let the control group judge it
    remuda rule add bbr3 --destination 198.51.100.0/24 --share 0.1")]
pub struct AdviseArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// The arms to try, separated by commas; intervals of other arms than bbr3 are twice as wide
    #[arg(long, value_name = "ARMS", value_delimiter = ',', default_value = "bbr3")]
    arms: Vec<String>,
    /// Only this network, such as 198.51.100.0/24, or the network of this address
    #[arg(long, value_name = "NETWORK")]
    destination: Option<Network>,
    /// How many seconds to wait while no destination has had ten flows that show its path, or a
    /// hundred flows in all
    #[arg(long, value_name = "SECONDS", default_value_t = 25,
        value_parser = clap::value_parser!(u64).range(0..=86_400))]
    wait: u64,
    /// Read this event log and ask no agent; may be given several times, the oldest first
    #[arg(long, value_name = "FILE")]
    events: Vec<PathBuf>,
    /// Print one JSON object for each destination
    #[arg(long)]
    json: bool,
}

/// What is said of one destination.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    pub destination: String,
    /// Flows that run, and flows in the log that have ended.
    pub running: usize,
    pub ended: usize,
    /// Those of the present arm that show the path.
    pub fit: usize,
    /// The arm that most flows had.
    pub present_arm: Option<String>,
    /// Medians of those flows.
    pub goodput_mbit_per_sec: Option<f64>,
    pub rtt_ms: Option<f64>,
    pub loss_percent: Option<f64>,
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// What is known before a verdict.
#[derive(Default)]
struct Seen {
    flows: Vec<Flow>,
    controls: Controls,
    /// Running flows by destination.
    running: BTreeMap<Network, usize>,
}

impl Seen {
    /// Whether some destination has enough flows for an answer without waiting.
    fn is_enough(&self) -> bool {
        let mut counts: BTreeMap<Network, [usize; 2]> = BTreeMap::new();
        for flow in &self.flows {
            let [ended, fit] = counts.entry(flow.network).or_default();
            *ended += 1;
            *fit += usize::from(flow.unfit().is_none());
        }
        counts.values().any(|[ended, fit]| *fit >= FLOWS_MIN || *ended >= ENDED_ENOUGH)
    }

    fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.running.is_empty()
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// What the flows to `of` say of `candidates`.
pub fn verdict(
    of: &Destination,
    arm: &str,
    candidates: &[String],
    stopped: &AtomicBool,
) -> Verdict {
    if let Some(early) = verdict::early(of, arm) {
        return early;
    }
    let others: Vec<String> = candidates.iter().filter(|it| *it != arm).cloned().collect();
    verdict::of_estimates(&estimates(of, arm, &others, (SEED, stopped)))
}

impl AdviseArgs {
    fn check(&self) -> Result<(), Failure> {
        for name in &self.arms {
            if !arm(name).is_some_and(|arm| arm.adapts && !arm.needs_ecn) {
                return Err(format!(
                    "--arms: {name:?} is no arm that can be simulated on any path\nfix: name arms \
                     of `remuda programs`, such as bbr3,copa,westwood"
                )
                .into());
            }
        }
        Ok(())
    }

    fn is_asked(&self, network: Network) -> bool {
        self.destination.is_none_or(|asked| network.contains(&asked) || asked.contains(&network))
    }

    /// Reads the agent's flows and the log.
    fn look(&self) -> Result<Seen, Failure> {
        let mut seen = Seen::default();
        let own = self.events.is_empty();
        if own {
            let Answer::Flows { flows, .. } = ask(&self.run_dir.run_dir, &Request::Flows {})?
            else {
                return Err("the agent answered another question".into());
            };
            let networks = flows.iter().filter_map(|row| network(&row.remote));
            for network in networks.filter(|it| self.is_asked(*it)) {
                *seen.running.entry(network).or_default() += 1;
            }
        }
        let logs = if own { event_log::logs(&self.run_dir.run_dir) } else { self.events.clone() };
        if logs.is_empty() {
            let path = run_dir::event_log(&self.run_dir.run_dir);
            return Err(format!(
                "{}: there is no event log\nfix: give the agent's --run-dir, or --events FILE",
                path.display()
            )
            .into());
        }
        for path in &logs {
            let odd = event_log::read(path, |line| {
                let Ok(flow) = Flow::parse(line) else { return false };
                let Some(flow) = flow.filter(|flow| self.is_asked(flow.network)) else {
                    return true;
                };
                seen.flows.push(flow);
                seen.controls.take(line).is_ok()
            })?;
            if odd > 0 {
                eprintln!("remuda: {}: {odd} lines are not events", path.display());
            }
        }
        Ok(seen)
    }

    /// Looks until a destination has enough flows, or the time to wait is over.
    fn watch(&self, stopped: &AtomicBool) -> Result<Seen, Failure> {
        let mut seen = self.look()?;
        if seen.is_enough() || !self.events.is_empty() || self.wait == 0 {
            return Ok(seen);
        }
        eprintln!(
            "remuda: no destination has had ten flows that show its path; waiting {} s for more",
            self.wait
        );
        let mut left = Duration::from_secs(self.wait);
        while !seen.is_enough() && !left.is_zero() && !stopped.load(Ordering::Relaxed) {
            let step = left.min(LOOK);
            std::thread::sleep(step);
            left -= step;
            seen = self.look()?;
        }
        Ok(seen)
    }

    fn advice(
        &self,
        of: &Destination,
        seen: &Seen,
        may_simulate: bool,
        stopped: &AtomicBool,
    ) -> Advice {
        let arm = of.arm();
        let by_control = seen.controls.at(of.network).as_ref().and_then(verdict::of_control);
        let by_twin = || match arm {
            None => Verdict::CannotSay { why: "no flow kept its arm".into(), flows_missing: None },
            Some(_) if !may_simulate => Verdict::CannotSay {
                why: "no time is left; name it with --destination".into(),
                flows_missing: None,
            },
            Some(arm) => verdict(of, arm, &self.arms, stopped),
        };
        let verdict = by_control.unwrap_or_else(by_twin);
        let fit = arm.map(|arm| of.fit(arm)).unwrap_or_default();
        let of_fit = |value: fn(&Flow) -> Option<f64>| {
            median(fit.iter().filter_map(|flow| value(flow)).collect())
        };
        Advice {
            destination: of.network.to_string(),
            running: seen.running.get(&of.network).copied().unwrap_or(0),
            ended: of.flows.len(),
            fit: fit.len(),
            present_arm: arm.map(str::to_owned),
            goodput_mbit_per_sec: of_fit(|flow| Some(flow.goodput() * 8.0 / 1e6)),
            rtt_ms: of_fit(|flow| flow.rtt_ms),
            loss_percent: of_fit(|flow| Some(flow.loss() * 100.0)),
            verdict,
        }
    }

    fn say(&self, advice: &Advice) -> Result<(), Failure> {
        if self.json {
            println!("{}", serde_json::to_string(advice)?);
        } else {
            print!("{}", show::lines(advice));
        }
        Ok(())
    }

    pub fn run(self) -> Result<(), Failure> {
        self.check()?;
        let stopped = stop_flag()?;
        let seen = self.watch(&stopped)?;
        if seen.is_empty() {
            return Err("no flow runs, and none has ended\nfix: let sockets join the agent: see \
                 docs/operating.md, `How sockets join`"
                .into());
        }
        // Simulations give way to the host's own work.
        let _ = rustix::process::nice(19);
        let began_ns = ccp_agent::clock::monotonic_ns();
        let all = destinations(seen.flows.clone());
        for of in &all {
            let spent_s = (ccp_agent::clock::monotonic_ns() - began_ns) as f64 / 1e9;
            let advice = self.advice(of, &seen, spent_s < SIMULATE_S, &stopped);
            if stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.say(&advice)?;
        }
        for (network, running) in &seen.running {
            if all.iter().all(|of| of.network != *network) {
                self.say(&Advice::of_running(*network, *running))?;
            }
        }
        if !self.json {
            print!("{}", show::LEGEND);
        }
        Ok(())
    }
}

impl Advice {
    /// For a destination of which no flow has ended.
    fn of_running(network: Network, running: usize) -> Self {
        Self {
            destination: network.to_string(),
            running,
            ended: 0,
            fit: 0,
            present_arm: None,
            goodput_mbit_per_sec: None,
            rtt_ms: None,
            loss_percent: None,
            verdict: Verdict::CannotSay { why: String::new(), flows_missing: Some(FLOWS_MIN) },
        }
    }
}

#[cfg(test)]
mod tests;
