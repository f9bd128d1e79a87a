//! The path of an episode: drawn, or that of a scenario.

use crate::config::{Config, Paths, Range, Ranges};
use crate::error::Error;
use crate::pilot::warm_up_steps;
use crate::sharing::Party;
use rand::RngCore;
use remuda_link::{Capacity, Direction, QueueSpec, Trace};
use remuda_scenarios::{Driver, FlowSpec, LinkSpec, Nanos, Scenario};
use std::path::Path as File;

const DOWN: &str = "down";
const UP: &str = "up";
/// IPv4 and TCP headers with the timestamp option.
const HEADER_BYTES: u32 = 52;
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

/// One flow that a program drives, or an arm in its place.
#[derive(Clone, Debug)]
pub struct Driven {
    /// Its index in the simulation.
    pub place: usize,
    pub mss_bytes: u32,
    pub start: Nanos,
    /// The latest time at which the flow stops.
    pub end: Nanos,
    /// The flow's bytes; `None` if it sends without end.
    pub bytes: Option<u64>,
    /// The first rate, in bytes of payload per second.
    pub start_bytes_per_sec: f64,
    pub truth: Truth,
}

impl Driven {
    /// The round trip to assume before one has been measured, in seconds; never 0.
    pub fn base_rtt_s(&self) -> f64 {
        reckoned_s(self.truth.base_rtt)
    }
}

/// The path of episodes, and the times of their flows.
#[derive(Clone, Debug)]
pub struct Course {
    /// The scenario of an episode. Each episode changes its seed and its drawn values.
    pub scenario: Scenario,
    /// The driven flows; at least one.
    pub driven: Vec<Driven>,
    /// All TCP flows over the bottleneck.
    pub parties: Vec<Party>,
    /// When the first driven flow starts.
    pub start: Nanos,
    /// When the last driven flow stops at the latest.
    pub end: Nanos,
    /// The length of a step.
    pub step: Nanos,
    /// The number of steps before the first observation.
    pub warm_up_steps: u32,
    /// What the limited links carry over time; empty if the rate is constant.
    schedule: Vec<Scheduled>,
}

/// A link of which the rate changes.
#[derive(Clone, Debug)]
struct Scheduled {
    capacity: Capacity,
    /// From the end of the bottleneck to the sender's ACK, without queues.
    lag: Nanos,
}

/// Who drives the driven flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Helm {
    /// The program, by its actions.
    #[default]
    Program,
    /// An arm or policy.
    Arm(String),
    /// What knows the link's schedule.
    Oracle,
}

impl Course {
    /// Creates the course of a configuration. Drawn values are placeholders until the first draw.
    pub fn new(config: &Config, helm: &Helm) -> Result<Self, Error> {
        match &config.paths {
            Paths::Drawn(_) => Self::of(template(config)?, config, helm),
            Paths::Given(scenario) => Self::of((**scenario).clone(), config, helm),
            Paths::Among(set) => {
                let mut samples = set.samples();
                let first = samples.next().expect("a set has members");
                let course = Self::of(fitted(first?, config)?, config, helm)?;
                for other in samples {
                    Self::of(fitted(other?, config)?, config, helm)?;
                }
                Ok(course)
            }
        }
    }

    /// Draws what an episode needs: a seed, and a link or an environment if they are drawn. Takes
    /// the same number of draws from `rng` for each episode of a configuration.
    pub fn draw(
        &mut self,
        config: &Config,
        helm: &Helm,
        rng: &mut impl RngCore,
    ) -> Result<(), Error> {
        if let Paths::Among(set) = &config.paths {
            *self = Self::of(fitted(set.draw(rng)?, config)?, config, helm)?;
            return Ok(());
        }
        self.scenario.seed = rng.next_u64() >> 1; // TOML's integers are signed
        if let Paths::Drawn(ranges) = &config.paths {
            self.draw_link(ranges, config, rng);
        } else if !self.schedule.is_empty() {
            self.schedule = schedule(&self.scenario, &self.driven[0])?;
        }
        Ok(())
    }

    /// The time of the steps before a flow's first observation.
    pub fn warm_up(&self) -> Nanos {
        Nanos(self.step.0.saturating_mul(u64::from(self.warm_up_steps)))
    }

    /// The payload that can reach the receivers and be acknowledged from `from` to `to`, in bytes.
    pub fn payload_between(&self, from: Nanos, to: Nanos) -> f64 {
        let truth = &self.driven[0].truth;
        let share = payload_share(self.driven[0].mss_bytes);
        let linked = self.schedule.iter().filter_map(|it| {
            it.capacity.bytes(from - it.lag, to - it.lag).map(|bytes| bytes * share)
        });
        let constant = truth.payload_bytes_per_sec * (to - from).0 as f64 / 1e9;
        linked.reduce(f64::min).unwrap_or(constant)
    }

    /// How much later than a link carries a packet its sender knows; 0 if the rate is constant.
    pub fn lag(&self) -> Nanos {
        self.schedule.iter().map(|it| it.lag).max().unwrap_or_default()
    }

    fn draw_link(&mut self, ranges: &Ranges, config: &Config, rng: &mut impl RngCore) {
        let bandwidth_mbit_per_sec = ranges.bandwidth_mbit_per_sec.draw_by_magnitude(rng);
        let rtt_ms = ranges.rtt_ms.draw_by_magnitude(rng);
        let queue_bdp = ranges.queue_bdp.draw_by_magnitude(rng);
        let loss_percent = ranges.loss_percent.draw(rng);
        let start_ratio = ranges.start_ratio.draw_by_magnitude(rng);
        let mut if_any = |range: Range| if range.high > 0.0 { range.draw(rng) } else { 0.0 };
        let jitter_std_ms = if_any(ranges.jitter_ms);
        let jitter_correlation = if_any(ranges.jitter_correlation);
        let stagger = Nanos::from_millis_f64(if_any(ranges.stagger_s) * 1e3);
        let delay_ms = rtt_ms / 2.0;
        let links = &mut self.scenario.links;
        let down = LinkSpec {
            rate_mbit_per_sec: Some(bandwidth_mbit_per_sec),
            delay_ms,
            loss_percent,
            jitter_std_ms,
            jitter_correlation,
            queue: QueueSpec::droptail_bdp(queue_bdp),
            ..LinkSpec::default()
        };
        links.insert(DOWN.to_owned(), down);
        links.insert(UP.to_owned(), LinkSpec { delay_ms, ..LinkSpec::default() });
        let base_rtt = self.scenario.rtt();
        let payload_bytes_per_sec = payload(bandwidth_mbit_per_sec, self.driven[0].mss_bytes);
        let truth = Truth {
            payload_bytes_per_sec,
            bandwidth_mbit_per_sec,
            base_rtt,
            queue_bdp: Some(queue_bdp),
            loss_percent: Some(loss_percent),
        };
        self.step = step_of(base_rtt, config);
        // One step more than needed, so that the last one is complete.
        let steps =
            u64::from(config.episode_steps.unwrap_or(0)) + u64::from(self.warm_up_steps) + 1;
        self.end = self.start + Nanos(self.step.0.saturating_mul(steps));
        self.scenario.duration_s = self.end.as_millis_f64() / 1e3;
        for (index, driven) in (0..).zip(&mut self.driven) {
            driven.truth = truth;
            driven.start_bytes_per_sec = start_ratio * payload_bytes_per_sec;
            driven.start = self.start + Nanos(stagger.0.saturating_mul(index));
            driven.end = self.end;
            self.scenario.flows[driven.place].start_s = driven.start.0 as f64 / 1e9;
        }
        for party in &mut self.parties {
            party.start = Nanos((self.scenario.flows[party.place].start_s * 1e9) as u64);
            party.end = self.end;
        }
    }

    fn of(mut scenario: Scenario, config: &Config, helm: &Helm) -> Result<Self, Error> {
        scenario.validate()?;
        // No one reads the time series.
        scenario.sample_ms = 0.0;
        scenario.flows = scenario.flows_expanded();
        let unfit = |rule: String| Error::Unfit { name: scenario.name.clone(), rule };
        let mut driven = Vec::new();
        for (place, flow) in scenario.flows.iter().enumerate() {
            if flow.driver == Driver::External {
                driven.push(driven_of(&scenario, place, flow).map_err(unfit)?);
            }
        }
        if !(1..=config.flows).contains(&driven.len()) {
            let rule = if config.flows == 1 {
                "must have exactly one flow with driver = \"external\"; for several, set flows"
                    .to_owned()
            } else {
                let most = config.flows;
                format!("must have 1 to {most} flows with driver = \"external\" (flows = {most})")
            };
            return Err(unfit(rule));
        }
        let longest = driven.iter().map(|it| it.truth.base_rtt).max().unwrap_or_default();
        let step = step_of(longest, config);
        let warm_up_steps = warm_up_steps(config.step_rtts);
        let least = Nanos(step.0.saturating_mul(u64::from(warm_up_steps) + 1));
        if driven.iter().any(|it| it.end <= it.start + least) {
            let rule = format!(
                "its external flow must last for {} steps of {step} at least: set duration_s",
                warm_up_steps + 1
            );
            return Err(unfit(rule));
        }
        let start = driven.iter().map(|it| it.start).min().unwrap_or_default();
        let end = driven.iter().map(|it| it.end).max().unwrap_or_default();
        let parties = parties(&scenario, &driven);
        let schedule = schedule(&scenario, &driven[0])?;
        let by_arm = match helm {
            Helm::Arm(name) => Some(name),
            Helm::Program | Helm::Oracle => config.arms.first().filter(|_| *helm == Helm::Program),
        };
        if let Some(name) = by_arm {
            for flow in &driven {
                scenario.flows[flow.place].driver = named(name)?;
            }
        }
        Ok(Self { scenario, driven, parties, start, end, step, warm_up_steps, schedule })
    }
}

fn named(driver: &str) -> Result<Driver, Error> {
    let rule = "must be the name of an arm or a policy, window:SEGMENTS, or for a baseline oracle";
    driver.parse().map_err(|_| Error::invalid("driver", format!("{driver:?}"), rule))
}

fn driven_of(scenario: &Scenario, place: usize, flow: &FlowSpec) -> Result<Driven, String> {
    let bandwidth_mbit_per_sec = bottleneck(scenario, flow)?.1;
    let base_rtt = scenario.rtt_of(flow);
    let (start, end) = span(scenario, flow);
    let cwnd_bytes = f64::from(flow.init_cwnd_pkts) * f64::from(flow.mss_bytes);
    Ok(Driven {
        place,
        mss_bytes: flow.mss_bytes,
        start,
        end,
        bytes: flow.bytes,
        start_bytes_per_sec: cwnd_bytes / reckoned_s(base_rtt),
        truth: Truth {
            payload_bytes_per_sec: payload(bandwidth_mbit_per_sec, flow.mss_bytes),
            bandwidth_mbit_per_sec,
            base_rtt,
            queue_bdp: None,
            loss_percent: None,
        },
    })
}

fn span(scenario: &Scenario, flow: &FlowSpec) -> (Nanos, Nanos) {
    let secs = |secs: f64| Nanos::from_millis_f64(secs * 1e3);
    let stop_s = flow.stop_s.unwrap_or(scenario.duration_s).min(scenario.duration_s);
    (secs(flow.start_s), secs(stop_s))
}

/// The TCP flows that cross the bottleneck of the first driven flow.
fn parties(scenario: &Scenario, driven: &[Driven]) -> Vec<Party> {
    let first = &scenario.flows[driven[0].place];
    let Ok((link, _)) = bottleneck(scenario, first) else { return Vec::new() };
    let flows = scenario.flows.iter().enumerate();
    let beside = flows.filter(|(_, it)| {
        it.driver != Driver::Unresponsive && it.route.iter().any(|name| name == link)
    });
    beside
        .map(|(place, flow)| {
            let (start, end) = span(scenario, flow);
            let is_driven = driven.iter().any(|it| it.place == place);
            let is_greedy =
                is_driven || (flow.bytes.is_none() && flow.app_rate_mbit_per_sec.is_none());
            Party { place, start, end, is_greedy }
        })
        .collect()
}

/// The schedules of the links of the flow's data path, if the rate of one of them changes.
fn schedule(scenario: &Scenario, flow: &Driven) -> Result<Vec<Scheduled>, Error> {
    let spec = &scenario.flows[flow.place];
    let changes = |link: &LinkSpec| {
        link.trace.is_some()
            || link.generator.is_some()
            || link.policer.is_some()
            || !link.rate_steps.is_empty()
            || !link.outages.is_empty()
    };
    let on_route = |name: &String| scenario.links.get(name);
    if !spec.route.iter().filter_map(on_route).any(changes) {
        return Ok(Vec::new());
    }
    let links = scenario.seeded_links();
    let mut lag = flow.truth.base_rtt;
    let mut all = Vec::new();
    for name in &spec.route {
        let Some((_, link)) = links.iter().find(|(known, _)| known == name) else { continue };
        let capacity = link.capacity(Direction::Down).map_err(|error| Error::Unfit {
            name: scenario.name.clone(),
            rule: format!("links.{name}: {error}"),
        })?;
        all.push(Scheduled { capacity, lag });
        lag = lag - link.delay();
    }
    Ok(all)
}

/// A scenario of a set, in which no more flows are driven than set. The flow under test is the last
/// of those driven.
fn fitted(mut scenario: Scenario, config: &Config) -> Result<Scenario, Error> {
    scenario.flows = scenario.flows_expanded();
    let companion = named(&config.companion)?;
    let is_driven = |flow: &&mut FlowSpec| flow.driver == Driver::External;
    for flow in scenario.flows.iter_mut().rev().filter(is_driven).skip(config.flows) {
        flow.driver = companion.clone();
    }
    if config.is_alone {
        scenario.flows.retain(|flow| flow.driver == Driver::External);
    }
    Ok(scenario)
}

/// A valid scenario, whose drawn values are replaced at each episode.
fn template(config: &Config) -> Result<Scenario, Error> {
    let link =
        |rate_mbit_per_sec| LinkSpec { rate_mbit_per_sec, delay_ms: 20.0, ..LinkSpec::default() };
    let mut flows = vec![FlowSpec::driven_by(Driver::External); config.flows];
    for name in &config.neighbours {
        flows.push(FlowSpec::driven_by(named(name)?));
    }
    Ok(Scenario {
        name: "drawn".to_owned(),
        links: [(DOWN.to_owned(), link(Some(10.0))), (UP.to_owned(), link(None))].into(),
        flows,
        ..Scenario::default()
    })
}

fn step_of(base_rtt: Nanos, config: &Config) -> Nanos {
    Nanos((base_rtt.0 as f64 * config.step_rtts).round() as u64).max(STEP_MIN)
}

fn reckoned_s(rtt: Nanos) -> f64 {
    rtt.max(STEP_MIN).0 as f64 / 1e9
}

fn payload_share(mss_bytes: u32) -> f64 {
    f64::from(mss_bytes) / f64::from(mss_bytes + HEADER_BYTES)
}

fn payload(mbit_per_sec: f64, mss_bytes: u32) -> f64 {
    mbit_per_sec * 1e6 / 8.0 * payload_share(mss_bytes)
}

/// The slowest link of the flow's data path and its rate in Mbit/s. A trace counts with its mean, a
/// policer with its rate.
fn bottleneck<'a>(scenario: &'a Scenario, flow: &FlowSpec) -> Result<(&'a str, f64), String> {
    let mut slowest: Option<(&str, f64)> = None;
    for name in &flow.route {
        let Some((name, link)) = scenario.links.get_key_value(name) else { continue };
        let rate = match (&link.trace, &link.generator) {
            (Some(path), _) => Some(mean_of(path)?),
            (None, Some(generator)) => Some(generator.mean_mbit_per_sec()),
            (None, None) => link.rate_mbit_per_sec,
        };
        let policed = link.policer.as_ref().map(|it| it.rate_mbit_per_sec);
        if let Some(rate) = rate.into_iter().chain(policed).reduce(f64::min)
            && slowest.is_none_or(|(_, slowest)| rate < slowest)
        {
            slowest = Some((name, rate));
        }
    }
    let rule = "a link of its external flow's route needs a rate: set rate_mbit_per_sec, trace or \
         generator";
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
        Course::new(&Config { paths, episode_steps: None, ..Config::default() }, &Helm::Program)
    }

    #[test]
    fn the_external_flow_of_a_scenario_is_driven() {
        let course = given(TEXT).unwrap();
        let [driven] = &course.driven[..] else { panic!("{:?}", course.driven) };
        assert_eq!((driven.place, driven.mss_bytes), (2, 1448));
        assert_eq!(driven.truth.bandwidth_mbit_per_sec, 12.0, "the slowest of its links");
        assert_eq!(driven.truth.payload_bytes_per_sec, 1_448_000.0, "12 Mbit/s of 1500 bytes");
        assert_eq!(course.parties.len(), 3);
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
        let mut course = Course::new(&config, &Helm::Program).unwrap();
        let draw = |course: &mut Course, seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            course.draw(&config, &Helm::Program, &mut rng).unwrap();
            course.scenario.validate().unwrap();
            (course.driven[0].truth, course.scenario.seed)
        };
        let first = draw(&mut course, 1);
        assert_ne!(first, draw(&mut course, 2));
        assert_eq!(first, draw(&mut course, 1));
        let step = course.step.0;
        let lasts = course.scenario.duration().0;
        assert!(lasts.abs_diff(step * 404) <= 404, "400 steps, the warm-up and one more");
    }
}
