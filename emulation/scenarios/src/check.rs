//! The rules that a scenario must follow.

use crate::driver::Driver;
use crate::error::Error;
use crate::flow::{FlowSpec, HEADER_BYTES};
use crate::scenario::Scenario;
use std::collections::BTreeSet;
use std::fmt::Display;

/// Eleven days: no simulated run needs more, and a real one much less.
const DURATION_S_MAX: f64 = 1e6;
/// Half a second for both ways: the slowest agent in the matrix' group P.
const CONTROL_DELAY_MS_MAX: f64 = 250.0;
/// A minute, the longest delay of a link.
const DELAY_MS_MAX: f64 = 60_000.0;
/// A microsecond. With less, simulated time would hardly advance in a round trip.
const DELAY_MS_MIN: f64 = 0.001;
/// Ten times the number of flows with which the simulator is measured.
const FLOWS_MAX: u64 = 100_000;
/// The limit of the mean, so that the random number stays below [`FLOWS_MAX`].
const ARRIVALS_MAX: f64 = 50_000.0;
const LINKS_MAX: usize = 10_000;
/// What an application writes at once, at most.
const WRITE_BYTES_MAX: u64 = 1_000_000_000;
const CWND_PKTS_MAX: u32 = 10_000;
/// An IPv4 packet has at most 65535 bytes, 52 of them headers with timestamps.
const MSS_BYTES_MAX: u32 = 65_483;
/// About as much as fits into RFC 791's 68-byte packet, which every link carries.
const MSS_BYTES_MIN: u32 = 16;
const RATE_MBIT_PER_SEC: std::ops::RangeInclusive<f64> = 0.001..=100_000.0;
/// About 2 GB of samples.
const SAMPLES_MAX: f64 = 20e6;
const NAME_CHARS_MAX: usize = 200;

fn check(
    holds: bool,
    key: impl FnOnce() -> String,
    value: impl Display,
    rule: &str,
) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::invalid(key(), value, rule)) }
}

fn is_text(name: &str) -> bool {
    name.chars().count() <= NAME_CHARS_MAX && !name.chars().any(char::is_control)
}

fn quoted(names: &[String]) -> String {
    format!("[{}]", names.join(", "))
}

impl Scenario {
    /// Checks every value, but not the content of traces. The error names the first value that
    /// breaks a rule.
    pub fn validate(&self) -> Result<(), Error> {
        let key = |key: &str| key.to_owned();
        let rule = "must have at most 200 characters, none of them a control character";
        check(is_text(&self.name), || key("name"), &self.name, rule)?;
        let duration_s = self.duration_s;
        let fits = duration_s > 0.0 && duration_s <= DURATION_S_MAX;
        check(fits, || key("duration_s"), duration_s, "must be above 0 and at most 1000000")?;
        let rule = "must be at most 9223372036854775807, the largest number of a TOML file";
        check(i64::try_from(self.seed).is_ok(), || key("seed"), self.seed, rule)?;
        let delay_ms = self.control_delay_ms;
        let fits = (0.0..=CONTROL_DELAY_MS_MAX).contains(&delay_ms);
        check(fits, || key("control_delay_ms"), delay_ms, "must be between 0 and 250")?;
        self.validate_links()?;
        self.validate_flows()?;
        self.validate_samples()
    }

    fn validate_links(&self) -> Result<(), Error> {
        let key = || "links".to_owned();
        let rule = "needs 1 to 10000 tables, as in [links.down] and [links.up]";
        let count = self.links.len();
        check((1..=LINKS_MAX).contains(&count), key, format!("{count} tables"), rule)?;
        for (name, spec) in &self.links {
            let of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            let fits = (1..=64).contains(&name.len()) && name.chars().all(of_name);
            let rule = "a link's name has 1 to 64 letters, digits, `-` or `_`";
            check(fits, key, format!("{name:?}"), rule)?;
            let named = |source| Error::Link { link: name.clone(), source };
            spec.validate().map_err(named)?;
            let rule = "must be at most 9223372036854775807, the largest number of a TOML file";
            let fits = i64::try_from(spec.seed).is_ok();
            check(fits, || format!("links.{name}.seed"), spec.seed, rule)?;
        }
        Ok(())
    }

    fn validate_flows(&self) -> Result<(), Error> {
        let flows: u64 = self.flows.iter().map(|flow| u64::from(flow.count)).sum();
        let rule = "needs 1 to 100000 flows, as in [[flows]] with driver = \"cubic\"";
        let key = || "flows".to_owned();
        check((1..=FLOWS_MAX).contains(&flows), key, format!("{flows} flows"), rule)?;
        for (index, flow) in self.flows.iter().enumerate() {
            let key = |key: &str| format!("flows.{index}.{key}");
            self.validate_arrivals(flow, &key)?;
            validate_numbers(flow, &key)?;
            self.validate_times(flow, &key)?;
            self.validate_switches(flow, &key)?;
            validate_application(flow, &key)?;
            self.validate_route(flow, &key)?;
            self.validate_segments(flow, &key)?;
        }
        self.validate_use()
    }

    /// Refuses a link that no flow crosses: its name is probably misspelt in a route.
    fn validate_use(&self) -> Result<(), Error> {
        let crossed: BTreeSet<&str> = self
            .flows
            .iter()
            .flat_map(|flow| flow.route.iter().chain(&flow.back))
            .map(String::as_str)
            .collect();
        let names = crossed.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let rule = format!("no flow crosses this link; routes have {names}");
        for name in self.links.keys() {
            check(crossed.contains(name.as_str()), || "links".to_owned(), name, &rule)?;
        }
        Ok(())
    }

    fn validate_arrivals(
        &self,
        flow: &FlowSpec,
        key: &dyn Fn(&str) -> String,
    ) -> Result<(), Error> {
        let Some(arrivals) = &flow.arrivals else { return Ok(()) };
        let load = arrivals.load_mbit_per_sec;
        let rule = "must be between 0.001 and 100000";
        let fits = RATE_MBIT_PER_SEC.contains(&load);
        check(fits, || key("arrivals.load_mbit_per_sec"), load, rule)?;
        let rule = "flows that arrive at random have their number and sizes from `arrivals`: \
                    leave out count and bytes";
        let alone = flow.count == 1 && flow.bytes.is_none();
        check(alone, || key("arrivals"), format!("{load} Mbit/s"), rule)?;
        let rule = "flows that arrive at random need an arm, a policy or a kernel algorithm";
        let driven = !matches!(flow.driver, Driver::Unresponsive | Driver::External);
        check(driven, || key("driver"), &flow.driver, rule)?;
        let span_s = flow.stop_s.unwrap_or(self.duration_s).min(self.duration_s) - flow.start_s;
        let expected = arrivals.per_second() * span_s;
        let rule = "would be more than 50000 flows on average: lower the load or the duration";
        check(expected <= ARRIVALS_MAX, || key("arrivals.load_mbit_per_sec"), load, rule)
    }

    fn validate_times(&self, flow: &FlowSpec, key: &dyn Fn(&str) -> String) -> Result<(), Error> {
        let fits = (0.0..=DURATION_S_MAX).contains(&flow.stagger_s);
        let rule = "must be between 0 and 1000000";
        check(fits, || key("stagger_s"), flow.stagger_s, rule)?;
        let fits = flow.start_s >= 0.0 && flow.start_s < self.duration_s;
        let end_s = self.duration_s;
        let rule = format!("must be at least 0 and before the end, duration_s = {end_s}");
        check(fits, || key("start_s"), flow.start_s, &rule)?;
        let last_s = flow.last_start_s();
        let rule = format!(
            "the last of {} flows would start at {last_s} s; the end is duration_s = {end_s}",
            flow.count
        );
        check(last_s < end_s, || key("stagger_s"), flow.stagger_s, &rule)?;
        let Some(stop_s) = flow.stop_s else { return Ok(()) };
        let rule = format!("must be after the last of these flows starts, at {last_s} s");
        check(stop_s > last_s && stop_s.is_finite(), || key("stop_s"), stop_s, &rule)
    }

    fn validate_switches(
        &self,
        flow: &FlowSpec,
        key: &dyn Fn(&str) -> String,
    ) -> Result<(), Error> {
        let driven = matches!(flow.driver, Driver::Named(_)) || flow.switches.is_empty();
        let rule = "only a flow that an arm or a policy drives can be switched";
        check(driven, || key("switches"), &flow.driver, rule)?;
        let mut after_s = flow.last_start_s();
        for (index, order) in flow.switches.iter().enumerate() {
            let key = |name: &str| key(&format!("switches.{index}.{name}"));
            let fits = order.at_s > after_s && order.at_s < self.duration_s;
            let rule = format!(
                "must be after {after_s}, and before the end, duration_s = {}",
                self.duration_s
            );
            check(fits, || key("at_s"), order.at_s, &rule)?;
            after_s = order.at_s;
            let rule = "must be an arm or a policy; `remuda programs` lists them";
            let named = matches!(order.to.parse(), Ok(Driver::Named(_)));
            check(named, || key("to"), &order.to, rule)?;
        }
        Ok(())
    }

    fn validate_route(&self, flow: &FlowSpec, key: &dyn Fn(&str) -> String) -> Result<(), Error> {
        let value = quoted(&flow.route);
        check(!flow.route.is_empty(), || key("route"), value, "needs at least one link")?;
        for (name, route) in [("route", &flow.route), ("back", &flow.back)] {
            for (at, link) in route.iter().enumerate() {
                if !self.links.contains_key(link) {
                    let known: Vec<&str> = self.links.keys().map(String::as_str).collect();
                    let known = known.join(", ");
                    let rule = format!("there is no [links.{link}]; the links are: {known}");
                    return Err(Error::invalid(key(name), quoted(route), rule));
                }
                if route[..at].contains(link) {
                    let rule = format!("crosses `{link}` twice");
                    return Err(Error::invalid(key(name), quoted(route), rule));
                }
            }
        }
        let at_once = |name: &String| {
            let spec = &self.links[name];
            let steps = spec.delay_steps.iter().map(|step| step.delay_ms);
            let rated = spec.is_limited();
            !rated && steps.chain([spec.delay_ms]).any(|delay_ms| delay_ms < DELAY_MS_MIN)
        };
        let instant =
            flow.extra_delay_ms < DELAY_MS_MIN && flow.route.iter().chain(&flow.back).all(at_once);
        let fits = !instant || flow.driver == Driver::Unresponsive;
        let rule = "its round trip takes no time; give one of its links a rate, or a delay_ms of \
                    at least 0.001";
        check(fits, || key("route"), quoted(&flow.route), rule)
    }

    /// Refuses segments that a queue on the route cannot hold: they would be retransmitted for
    /// ever.
    fn validate_segments(
        &self,
        flow: &FlowSpec,
        key: &dyn Fn(&str) -> String,
    ) -> Result<(), Error> {
        let packet_bytes = u64::from(flow.mss_bytes + HEADER_BYTES);
        for link in &flow.route {
            let most = self.links[link].packet_bytes_max(self.rtt()).unwrap_or(u64::MAX);
            let rule = format!(
                "packets have {packet_bytes} bytes, and links.{link} lets at most {most} through"
            );
            check(packet_bytes <= most, || key("mss_bytes"), flow.mss_bytes, &rule)?;
        }
        Ok(())
    }

    fn validate_samples(&self) -> Result<(), Error> {
        let key = || "sample_ms".to_owned();
        let sample_ms = self.sample_ms;
        let fits = sample_ms == 0.0 || (0.1..=1e6).contains(&sample_ms);
        let rule = "must be between 0.1 and 1000000, or 0 for no time series";
        check(fits, key, sample_ms, rule)?;
        if sample_ms == 0.0 {
            return Ok(());
        }
        let flows: u64 = self.flows.iter().map(|flow| u64::from(flow.count)).sum();
        let rows = self.duration_s * 1e3 / sample_ms * (flows as f64 + self.links.len() as f64);
        let least_ms = (sample_ms * rows / SAMPLES_MAX).ceil();
        let rule = format!(
            "would keep {:.0} million samples; 20 million is the most: raise it to {least_ms}, or \
             set 0 for no time series",
            rows / 1e6
        );
        check(rows <= SAMPLES_MAX, key, sample_ms, &rule)
    }
}

fn validate_numbers(flow: &FlowSpec, key: &dyn Fn(&str) -> String) -> Result<(), Error> {
    let rule = "must have at most 200 characters, none of them a control character";
    check(is_text(&flow.name), || key("name"), &flow.name, rule)?;
    check(flow.count > 0, || key("count"), flow.count, "must be at least 1")?;
    let fits = (1..=CWND_PKTS_MAX).contains(&flow.init_cwnd_pkts);
    check(fits, || key("init_cwnd_pkts"), flow.init_cwnd_pkts, "must be between 1 and 10000")?;
    let fits = (MSS_BYTES_MIN..=MSS_BYTES_MAX).contains(&flow.mss_bytes);
    check(fits, || key("mss_bytes"), flow.mss_bytes, "must be between 16 and 65483")?;
    let fits = (0.0..=DELAY_MS_MAX).contains(&flow.extra_delay_ms);
    check(fits, || key("extra_delay_ms"), flow.extra_delay_ms, "must be between 0 and 60000")
}

/// Checks how much the application sends, and how fast.
fn validate_application(flow: &FlowSpec, key: &dyn Fn(&str) -> String) -> Result<(), Error> {
    if let Some(bytes) = flow.bytes {
        let fits = (1..=i64::MAX.unsigned_abs()).contains(&bytes);
        let rule = "must be at least 1; leave it out for an unlimited transfer";
        check(fits, || key("bytes"), bytes, rule)?;
    }
    let unresponsive = flow.driver == Driver::Unresponsive;
    match flow.app_rate_mbit_per_sec {
        Some(rate) => {
            let fits = RATE_MBIT_PER_SEC.contains(&rate);
            let rule = "must be between 0.001 and 100000";
            check(fits, || key("app_rate_mbit_per_sec"), rate, rule)?;
        }
        None => {
            let rule = "an unresponsive flow needs app_rate_mbit_per_sec, the rate it sends at";
            check(!unresponsive, || key("driver"), &flow.driver, rule)?;
        }
    }
    if let Some(bytes) = flow.app_write_bytes {
        let fits = (1..=WRITE_BYTES_MAX).contains(&bytes);
        check(fits, || key("app_write_bytes"), bytes, "must be between 1 and 1000000000")?;
        let is_paced = flow.app_rate_mbit_per_sec.is_some() && !unresponsive;
        let rule = "needs app_rate_mbit_per_sec, and a driver other than \"unresponsive\"";
        check(is_paced, || key("app_write_bytes"), bytes, rule)?;
    }
    let rule = "only driver = \"unresponsive\" uses it; leave it out";
    check(unresponsive || !flow.poisson, || key("poisson"), true, rule)
}
