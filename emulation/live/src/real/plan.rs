//! Translates a scenario for real TCP, and refuses what real TCP does not support.

use crate::real::Error;
use crate::{DirectionStats, PathSpec, PathStats};
use remuda_scenarios::{Driver, FlowSpec, Scenario};
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

/// The two directions of a testbed. Sockets in the server's namespace send data `down`.
const DOWN: &str = "down";
const UP: &str = "up";

/// The payload of a full packet: the MTU minus headers and timestamps.
const MSS_BYTES: u32 = 1448;
/// The kernel's `TCP_INIT_CWND`.
const INIT_CWND_PKTS: u32 = 10;

/// How an application reaches the agent that drives its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The congestion control that the socket requests with `TCP_CONGESTION`.
    pub algorithm: String,
    /// The agent's socket for preferences of applications.
    pub door: PathBuf,
}

/// A flow over real TCP.
#[derive(Clone, Debug)]
pub struct PlannedFlow {
    /// The flow as the scenario describes it.
    pub spec: FlowSpec,
    /// The congestion control that the socket requests with `TCP_CONGESTION`.
    pub algorithm: String,
    /// The agent's socket for preferences of applications; `None` for an algorithm of the kernel.
    pub door: Option<PathBuf>,
    /// Whether data goes up instead of down.
    pub is_upload: bool,
    pub start: Duration,
    /// When the flow is ended, if it has not finished before.
    pub stop: Duration,
}

/// Checks that real TCP supports the scenario. Assumes that every arm and policy has an agent.
///
/// # Errors
///
/// [`Error::Unsupported`] with the key and the rule.
pub fn check(scenario: &Scenario) -> Result<(), Error> {
    let any = |driver: &str| Reached { algorithm: driver.to_owned(), door: PathBuf::new() };
    Plan::of(scenario, |driver| Some(any(driver))).map(|_| ())
}

impl PlannedFlow {
    /// The name of the flow's arm in outcomes.
    pub fn arm(&self) -> String {
        match &self.spec.driver {
            Driver::Native(name) => name.clone(),
            other => other.to_string(),
        }
    }
}

/// A scenario in the form in which a testbed runs it.
#[derive(Clone, Debug)]
pub struct Plan {
    pub path: PathSpec,
    /// The names of the links, in the scenario's order.
    pub links: Vec<String>,
    /// The flows, one entry for each of `count`.
    pub flows: Vec<PlannedFlow>,
    pub duration: Duration,
    /// The interval between samples; `None` for no samples.
    pub sample: Option<Duration>,
    /// Whether the flows use ECN.
    pub ecn: bool,
}

impl Plan {
    /// Translates a scenario. `reached` returns how an application reaches the agent of an arm or
    /// policy.
    pub fn of(
        scenario: &Scenario,
        reached: impl Fn(&str) -> Option<Reached>,
    ) -> Result<Self, Error> {
        scenario.validate()?;
        let refused = |key: String, value: &dyn Display, rule| {
            let scenario = scenario.name.clone();
            Err(Error::Unsupported { scenario, key, value: value.to_string(), rule })
        };
        let mut path = PathSpec::default();
        // With the simulator's seeds, the same packets on the way down are lost in both.
        for (name, link) in scenario.seeded_links() {
            match name.as_str() {
                DOWN => path.down = link,
                UP => path.up = link,
                other => {
                    let rule = "a testbed has the links `down` and `up` only";
                    return refused(format!("links.{other}"), &"set", rule);
                }
            }
        }
        let duration = Duration::from_secs_f64(scenario.duration_s);
        let mut flows = Vec::new();
        for spec in scenario.flows_expanded() {
            if let Some((key, value, rule)) = unsupported(&spec) {
                return refused(format!("flows.{}.{key}", spec.name), &value, rule);
            }
            let driven = match &spec.driver {
                Driver::Native(name) => Some((name.clone(), None)),
                Driver::Named(name) => reached(name).map(|it| (it.algorithm, Some(it.door))),
                Driver::Window(_) | Driver::External | Driver::Unresponsive => None,
            };
            let Some((algorithm, door)) = driven else {
                let rule = "must be an arm or policy with an agent, or `native:NAME`";
                return refused(format!("flows.{}.driver", spec.name), &spec.driver, rule);
            };
            let start = Duration::from_secs_f64(spec.start_s);
            let stop = spec.stop_s.map_or(duration, Duration::from_secs_f64).min(duration);
            let is_upload = spec.route == [UP];
            flows.push(PlannedFlow { spec, algorithm, door, is_upload, start, stop });
        }
        let ecn = flows.first().is_some_and(|flow| flow.spec.ecn);
        if let Some(other) = flows.iter().find(|flow| flow.spec.ecn != ecn) {
            let key = format!("flows.{}.ecn", other.spec.name);
            return refused(key, &other.spec.ecn, "must be the same for all flows");
        }
        let sample_ms = scenario.sample_ms;
        Ok(Self {
            path,
            links: scenario.links.keys().cloned().collect(),
            flows,
            duration,
            sample: (sample_ms > 0.0).then(|| Duration::from_secs_f64(sample_ms / 1e3)),
            ecn,
        })
    }

    /// The counters of the link with this name.
    pub fn direction<'a>(&self, stats: &'a PathStats, link: &str) -> &'a DirectionStats {
        if link == UP { &stats.up } else { &stats.down }
    }
}

/// The first setting that only the simulator supports: key, value and rule.
fn unsupported(flow: &FlowSpec) -> Option<(&'static str, String, &'static str)> {
    let FlowSpec { mss_bytes, init_cwnd_pkts, delayed_acks, extra_delay_ms, .. } = *flow;
    let app_rate = flow.app_rate_mbit_per_sec;
    let is_route = |there: &str, back: &str| flow.route == [there] && flow.back == [back];
    if mss_bytes != MSS_BYTES {
        Some(("mss_bytes", mss_bytes.to_string(), "must be 1448"))
    } else if init_cwnd_pkts != INIT_CWND_PKTS {
        Some(("init_cwnd_pkts", init_cwnd_pkts.to_string(), "must be the kernel's, 10"))
    } else if !delayed_acks {
        Some(("delayed_acks", "false".to_owned(), "must be true: the kernel delays them"))
    } else if extra_delay_ms != 0.0 {
        Some(("extra_delay_ms", extra_delay_ms.to_string(), "must be 0: a link delays all flows"))
    } else if let Some(order) = flow.switches.first() {
        Some(("switches", format!("to {}", order.to), "must be empty: only the simulator has them"))
    } else if !flow.wants.is_default() && matches!(flow.driver, Driver::Native(_)) {
        let rule = "must be left out: the kernel's algorithms ignore preferences";
        Some(("wants", format!("{:?}", flow.wants), rule))
    } else if let Some(rate) = app_rate {
        Some(("app_rate_mbit_per_sec", rate.to_string(), "must not be set"))
    } else if !is_route(DOWN, UP) && !is_route(UP, DOWN) {
        let rule = "must be `down` and back `up`, or the reverse";
        Some(("route", format!("{:?} and back {:?}", flow.route, flow.back), rule))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: &str = "duration_s = 5\n[links.down]\nrate_mbit_per_sec = 12\ndelay_ms = 5\n\
                         [links.up]\ndelay_ms = 5\n[[flows]]\n";

    fn plan(flow: &str) -> Result<Plan, Error> {
        let scenario = Scenario::parse(&format!("{LINKS}{flow}"), "test")?;
        Plan::of(&scenario, |driver| {
            let reached = Reached { algorithm: format!("our-{driver}"), door: "door".into() };
            (driver != "rein").then_some(reached)
        })
    }

    #[track_caller]
    fn refused(flow: &str, message: &str) {
        let error = plan(flow).expect_err(flow).to_string();
        assert!(error.contains(message), "{error:?} lacks {message:?}");
    }

    #[test]
    fn ours_go_by_the_agents_name_and_the_kernels_by_its_own() {
        let plan = plan("driver = 'reno'\n[[flows]]\ndriver = 'native:bbr'\nstart_s = 1\n")
            .expect("real TCP has both");
        let names: Vec<_> = plan.flows.iter().map(|flow| flow.algorithm.as_str()).collect();
        assert_eq!(names, ["our-reno", "bbr"]);
        let doors = plan.flows.iter().map(|flow| flow.door.is_some());
        assert_eq!(doors.collect::<Vec<_>>(), [true, false]);
        let starts: Vec<_> = plan.flows.iter().map(|flow| flow.start.as_secs()).collect();
        assert_eq!((starts, plan.duration.as_secs()), (vec![0, 1], 5));
    }

    #[test]
    fn what_only_the_simulator_has_is_refused_by_name() {
        refused("driver = 'window:10'", "must be an arm or policy with an agent");
        refused("driver = 'rein'", "`flows.rein.driver` is rein: must be");
        refused("mss_bytes = 1000", "`flows.cubic.mss_bytes` is 1000: must be 1448");
        refused("delayed_acks = false", "delayed_acks");
        refused("extra_delay_ms = 5", "extra_delay_ms");
        refused("driver = 'native:bbr'\nwants = 'delay'", "ignore preferences");
        refused("ecn = true\n[[flows]]\ndriver = 'bbr'\n", "must be the same for all flows");
    }
}
