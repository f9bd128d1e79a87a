//! The path of an episode: drawn, or that of a scenario.

use crate::config::{Config, Paths, Ranges};
use crate::error::Error;
use rand::RngCore;
use remuda_link::{QueueSpec, Trace};
use remuda_scenarios::{Driver, FlowSpec, LinkSpec, Nanos, Scenario};
use std::path::Path as File;

const DOWN: &str = "down";
const UP: &str = "up";
/// IPv4 and TCP headers with the timestamp option.
const HEADER_BYTES: u32 = 52;
/// How many round trips the rate is constant before the first observation: ACKs arrive in the
/// second, and in the third they measure the delivery rate instead of the flow's start.
const WARM_UP_RTTS: f64 = 3.0;
/// The shortest step, for paths without delay.
const STEP_MIN: Nanos = Nanos(100_000);

/// The true properties of a path, which are hidden from the learner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Truth {
    /// The bottleneck's rate, in bytes of payload per second.
    pub payload_bytes_per_sec: f64,
    /// The bottleneck's rate, in IP bytes.
    pub bandwidth_mbit_per_sec: f64,
    /// The round trip without queueing.
    pub base_rtt: Nanos,
    /// The bottleneck's queue, in bandwidth-delay products, if it was drawn.
    pub queue_bdp: Option<f64>,
    /// Loss without congestion, if it was drawn.
    pub loss_percent: Option<f64>,
}

/// The path of episodes, and the times of their flow.
#[derive(Clone, Debug)]
pub struct Course {
    /// The scenario of an episode. Each episode changes its seed and its drawn values.
    pub scenario: Scenario,
    /// The index of the flow that an environment drives.
    pub flow: usize,
    pub mss_bytes: u32,
    pub start: Nanos,
    /// The latest time at which the flow stops.
    pub end: Nanos,
    /// The flow's bytes; `None` if it sends without end.
    pub bytes: Option<u64>,
    /// The length of a step.
    pub step: Nanos,
    /// The number of steps before the first observation.
    pub warm_up_steps: u32,
    /// The first rate, in bytes of payload per second.
    pub start_bytes_per_sec: f64,
    pub truth: Truth,
}

impl Course {
    /// Creates the course of a configuration. Drawn values are placeholders until the first draw.
    pub fn new(config: &Config) -> Result<Self, Error> {
        match &config.paths {
            Paths::Drawn(_) => Self::of(template(), config),
            Paths::Given(scenario) => Self::of((**scenario).clone(), config),
        }
    }

    /// The round trip to assume before one has been measured, in seconds; never 0.
    pub fn base_rtt_s(&self) -> f64 {
        reckoned_s(self.truth.base_rtt)
    }

    /// Draws what an episode needs: a seed, and a link if links are drawn. Takes the same number of
    /// draws from `rng` for each episode of a configuration.
    pub fn draw(&mut self, config: &Config, rng: &mut impl RngCore) {
        self.scenario.seed = rng.next_u64() >> 1; // TOML's integers are signed
        if let Paths::Drawn(ranges) = &config.paths {
            self.draw_link(ranges, config, rng);
        }
    }

    fn draw_link(&mut self, ranges: &Ranges, config: &Config, rng: &mut impl RngCore) {
        let bandwidth_mbit_per_sec = ranges.bandwidth_mbit_per_sec.draw_by_magnitude(rng);
        let rtt_ms = ranges.rtt_ms.draw_by_magnitude(rng);
        let queue_bdp = ranges.queue_bdp.draw_by_magnitude(rng);
        let loss_percent = ranges.loss_percent.draw(rng);
        let start_ratio = ranges.start_ratio.draw_by_magnitude(rng);
        let delay_ms = rtt_ms / 2.0;
        let links = &mut self.scenario.links;
        let down = LinkSpec {
            rate_mbit_per_sec: Some(bandwidth_mbit_per_sec),
            delay_ms,
            loss_percent,
            queue: QueueSpec::droptail_bdp(queue_bdp),
            ..LinkSpec::default()
        };
        links.insert(DOWN.to_owned(), down);
        links.insert(UP.to_owned(), LinkSpec { delay_ms, ..LinkSpec::default() });
        let base_rtt = self.scenario.rtt();
        let payload_bytes_per_sec = payload(bandwidth_mbit_per_sec, self.mss_bytes);
        self.truth = Truth {
            payload_bytes_per_sec,
            bandwidth_mbit_per_sec,
            base_rtt,
            queue_bdp: Some(queue_bdp),
            loss_percent: Some(loss_percent),
        };
        self.start_bytes_per_sec = start_ratio * payload_bytes_per_sec;
        self.step = step_of(base_rtt, config);
        // One step more than needed, so that the last one is complete.
        let steps =
            u64::from(config.episode_steps.unwrap_or(0)) + u64::from(self.warm_up_steps) + 1;
        self.end = self.start + Nanos(self.step.0.saturating_mul(steps));
        self.scenario.duration_s = self.end.as_millis_f64() / 1e3;
    }

    fn of(mut scenario: Scenario, config: &Config) -> Result<Self, Error> {
        scenario.validate()?;
        // No one reads the time series.
        scenario.sample_ms = 0.0;
        let unfit = |rule: String| Error::Unfit { name: scenario.name.clone(), rule };
        let flows = scenario.flows_expanded();
        let mut external =
            flows.iter().enumerate().filter(|(_, flow)| flow.driver == Driver::External);
        let rule = "must have exactly one flow with driver = \"external\"";
        let (Some((place, flow)), None) = (external.next(), external.next()) else {
            return Err(unfit(rule.to_owned()));
        };
        let bandwidth_mbit_per_sec = bottleneck(&scenario, flow).map_err(unfit)?;
        let base_rtt = scenario.rtt_of(flow);
        let stop_s = flow.stop_s.unwrap_or(scenario.duration_s).min(scenario.duration_s);
        let secs = |secs: f64| Nanos::from_millis_f64(secs * 1e3);
        let step = step_of(base_rtt, config);
        let cwnd_bytes = f64::from(flow.init_cwnd_pkts) * f64::from(flow.mss_bytes);
        let start_bytes_per_sec = cwnd_bytes / reckoned_s(base_rtt);
        let (start, end) = (secs(flow.start_s), secs(stop_s));
        let warm_up_steps = (WARM_UP_RTTS / config.step_rtts).ceil() as u32;
        if end <= start + Nanos(step.0.saturating_mul(u64::from(warm_up_steps) + 1)) {
            let rule = format!(
                "its external flow must last for {} steps of {step} at least: set duration_s",
                warm_up_steps + 1
            );
            return Err(unfit(rule));
        }
        Ok(Self {
            flow: place,
            mss_bytes: flow.mss_bytes,
            start,
            end,
            bytes: flow.bytes,
            step,
            warm_up_steps,
            start_bytes_per_sec,
            truth: Truth {
                payload_bytes_per_sec: payload(bandwidth_mbit_per_sec, flow.mss_bytes),
                bandwidth_mbit_per_sec,
                base_rtt,
                queue_bdp: None,
                loss_percent: None,
            },
            scenario,
        })
    }
}

/// A valid scenario, whose drawn values are replaced at each episode.
fn template() -> Scenario {
    let link =
        |rate_mbit_per_sec| LinkSpec { rate_mbit_per_sec, delay_ms: 20.0, ..LinkSpec::default() };
    Scenario {
        name: "drawn".to_owned(),
        links: [(DOWN.to_owned(), link(Some(10.0))), (UP.to_owned(), link(None))].into(),
        flows: vec![FlowSpec::driven_by(Driver::External)],
        ..Scenario::default()
    }
}

fn step_of(base_rtt: Nanos, config: &Config) -> Nanos {
    Nanos((base_rtt.0 as f64 * config.step_rtts).round() as u64).max(STEP_MIN)
}

fn reckoned_s(rtt: Nanos) -> f64 {
    rtt.max(STEP_MIN).0 as f64 / 1e9
}

fn payload(mbit_per_sec: f64, mss_bytes: u32) -> f64 {
    let share = f64::from(mss_bytes) / f64::from(mss_bytes + HEADER_BYTES);
    mbit_per_sec * 1e6 / 8.0 * share
}

/// The rate of the slowest link of the flow's data path, in Mbit/s; a trace counts with its mean.
fn bottleneck(scenario: &Scenario, flow: &FlowSpec) -> Result<f64, String> {
    let mut slowest: Option<f64> = None;
    for name in &flow.route {
        let Some(link) = scenario.links.get(name) else { continue };
        let rate = match &link.trace {
            Some(path) => Some(mean_of(path)?),
            None => link.rate_mbit_per_sec,
        };
        if let Some(rate) = rate {
            slowest = Some(slowest.map_or(rate, |slowest| slowest.min(rate)));
        }
    }
    let rule = "a link of its external flow's route needs a rate: set rate_mbit_per_sec or trace";
    slowest.ok_or_else(|| rule.to_owned())
}

fn mean_of(trace: &File) -> Result<f64, String> {
    let trace = Trace::load(trace).map_err(|error| error.to_string())?;
    Ok(trace.mean_bits_per_sec() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    const TEXT: &str = r#"
        duration_s = 4
        links.down = { rate_mbit_per_sec = 12, delay_ms = 15 }
        links.up = { delay_ms = 15 }
        links.wire = { rate_mbit_per_sec = 100 }
        [[flows]]
        driver = "cubic"
        count = 2
        [[flows]]
        driver = "external"
        start_s = 1
        route = ["wire", "down"]
    "#;

    fn given(text: &str) -> Result<Course, Error> {
        let paths = Paths::Given(Box::new(Scenario::parse(text, "test")?));
        Course::new(&Config { paths, episode_steps: None, ..Config::default() })
    }

    #[test]
    fn the_external_flow_of_a_scenario_is_driven() {
        let course = given(TEXT).unwrap();
        assert_eq!((course.flow, course.mss_bytes), (2, 1448));
        assert_eq!(course.truth.bandwidth_mbit_per_sec, 12.0, "the slowest of its links");
        assert_eq!(course.truth.payload_bytes_per_sec, 1_448_000.0, "12 Mbit/s of 1500 bytes");
        assert_eq!(course.step, Nanos::from_millis(30));
        assert_eq!(
            (course.start, course.end),
            (Nanos::from_millis(1_000), Nanos::from_millis(4_000))
        );
        assert_eq!(course.scenario.sample_ms, 0.0);
    }

    #[test]
    fn a_scenario_that_cannot_be_driven_says_why() {
        for (from, to, want) in [
            ("\"external\"", "\"reno\"", "scenario test: must have exactly one flow"),
            (
                "count = 2",
                "count = 2\n[[flows]]\ndriver = \"external\"",
                "scenario test: must have",
            ),
            (
                "[\"wire\", \"down\"]",
                "[\"up\"]\nback = [\"wire\"]",
                "scenario test: a link of its external flow's",
            ),
            ("duration_s = 4", "duration_s = 1.05", "scenario test: its external flow must last"),
        ] {
            let error = given(&TEXT.replace(from, to)).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }

    #[test]
    fn draws_differ_by_seed_and_fit_the_ranges() {
        let config = Config::default();
        let mut course = Course::new(&config).unwrap();
        let draw = |course: &mut Course, seed| {
            course.draw(&config, &mut ChaCha8Rng::seed_from_u64(seed));
            course.scenario.validate().unwrap();
            (course.truth, course.scenario.seed)
        };
        let first = draw(&mut course, 1);
        assert_ne!(first, draw(&mut course, 2));
        assert_eq!(first, draw(&mut course, 1));
        let step = course.step.0;
        let lasts = course.scenario.duration().0;
        assert!(lasts.abs_diff(step * 404) <= 404, "400 steps, the warm-up and one more");
    }
}
