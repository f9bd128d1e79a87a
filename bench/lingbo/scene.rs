//! Scenes of LingBo's table, and what a run of one yields.

use crate::Error;
use ccp_agent::Setup;
use remuda_algorithms::lingbo::{SETTINGS, Settings};
use remuda_scenarios::Scenario;
use remuda_scenarios::outcome::Outcome;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The RTT without a queue: a normal AR(1) process.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    pub name: &'static str,
    pub mean_ms: f64,
    pub std_ms: f64,
    pub correlation: f64,
}

pub const WIRED: Class = Class { name: "wired", mean_ms: 40.0, std_ms: 1.0, correlation: 0.9 };
pub const WIFI: Class = Class { name: "wifi", mean_ms: 40.0, std_ms: 8.0, correlation: 0.95 };
pub const CELLULAR: Class =
    Class { name: "cellular", mean_ms: 80.0, std_ms: 20.0, correlation: 0.98 };

/// The part of the round trip on the way of the ACKs; the rest jitters.
pub const UP_MS: f64 = 5.0;
/// The payload of a full packet, over its bytes.
pub const PAYLOAD: f64 = 1448.0 / 1500.0;

/// One path, and the flows on it.
#[derive(Clone, Debug)]
pub struct Scene {
    pub class: Class,
    pub seconds: f64,
    pub loss_percent: f64,
    pub buffer_pkts: u64,
    /// A wandering rate of 2 to 22 Mbit/s instead of 12 Mbit/s.
    pub varying: bool,
    /// The mean of the RTT changes at these seconds, by these factors.
    pub steps: Vec<(f64, f64)>,
    /// The drivers, and when each starts.
    pub flows: Vec<(String, f64)>,
    pub single_rtt_min: bool,
}

impl Scene {
    pub fn new(class: Class, driver: &str) -> Self {
        Self {
            class,
            seconds: 30.0,
            loss_percent: 0.0,
            buffer_pkts: 500,
            varying: false,
            steps: Vec::new(),
            flows: vec![(driver.to_owned(), 0.0)],
            single_rtt_min: false,
        }
    }

    /// The scenario in TOML, with this seed.
    pub fn text(&self, seed: u64) -> String {
        let Class { mean_ms, std_ms, correlation, .. } = self.class;
        let delay_ms = mean_ms - UP_MS;
        let rate = if self.varying {
            "generator = { kind = \"markov\", min_mbit_per_sec = 2, max_mbit_per_sec = 22, \
             step_ms = 1000 }"
        } else {
            "rate_mbit_per_sec = 12.0"
        };
        let steps = self.steps.iter().map(|(at_s, factor)| {
            let delay_ms = mean_ms * factor - UP_MS;
            format!("{{ at_s = {at_s:.1}, delay_ms = {delay_ms:.1} }}")
        });
        let steps: Vec<String> = steps.collect();
        let steps = match steps.is_empty() {
            true => String::new(),
            false => format!("delay_steps = [{}]\n", steps.join(", ")),
        };
        let mut text = format!(
            "duration_s = {:.1}\nsample_ms = 100\nseed = {seed}\n[links.down]\n{rate}\n\
             delay_ms = {delay_ms:.1}\njitter_std_ms = {std_ms:.1}\n\
             jitter_correlation = {correlation:.2}\nloss_percent = {:.1}\n{steps}\
             queue = {{ kind = \"droptail\", limit_packets = {} }}\n\
             [links.up]\ndelay_ms = {UP_MS:.1}\n",
            self.seconds, self.loss_percent, self.buffer_pkts
        );
        for (index, (driver, start_s)) in self.flows.iter().enumerate() {
            text.push_str(&format!(
                "[[flows]]\ndriver = \"{driver}\"\nname = \"f{index}\"\nstart_s = {start_s:.1}\n"
            ));
        }
        text
    }

    pub fn run(&self, seed: u64) -> Result<Outcome, Error> {
        let scenario = Scenario::parse(&self.text(seed), "lingbo")?;
        let setup = Setup::default();
        if self.single_rtt_min {
            setup.loaded.put(SETTINGS, Arc::new(Settings { single_rtt_min: true }));
        }
        let never = AtomicBool::new(false);
        let outcome = remuda_sim::run_unless(&never, (&scenario, &Arc::new(setup)), |_| {})?;
        Ok(outcome.expect("nothing stops it"))
    }
}

/// What a flow delivered between two moments, in Mbit/s of payload.
pub fn goodput(outcome: &Outcome, flow: u32, from_s: f64, to_s: f64) -> f64 {
    let at = |t_s: f64| {
        let of_flow = outcome.flow_samples.iter().filter(|look| look.flow == flow);
        of_flow.take_while(|look| look.t_s <= t_s).last().map_or(0, |look| look.delivered_bytes)
    };
    (at(to_s) - at(from_s)) as f64 * 8e-6 / (to_s - from_s)
}
