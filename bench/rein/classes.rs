//! Paths of each class, and the class that Rein gives them.

use super::jitter::Jitter;
use super::{FirstDecision, first_decision, run};
use crate::Error;
use remuda_scenarios::Scenario;
use remuda_selector::rein::ReinConfig;
use std::ops::RangeInclusive;
use std::path::Path;

/// When the flow begins beside its CUBIC neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    None,
    /// Both begin at once.
    Together,
    /// The neighbour has filled the buffer for 2 s.
    Before,
}

/// One path, and what shares it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub rate_mbit_per_sec: f64,
    pub rtt_ms: f64,
    pub buffer_bdps: f64,
    pub neighbour: Neighbour,
    pub jitter: Jitter,
    /// The standard deviation of the jitter, for Pareto its mean, in round trips.
    pub part: f64,
}

/// A case, and what Rein decided first.
#[derive(Clone, Debug)]
pub struct Judged {
    pub case: Case,
    pub first: Option<FirstDecision>,
}

impl Case {
    pub fn name(&self) -> String {
        let Self { rate_mbit_per_sec, rtt_ms, buffer_bdps, neighbour, jitter, part } = self;
        format!(
            "{rate_mbit_per_sec} Mbit/s, {rtt_ms} ms, {buffer_bdps} BDP, {neighbour:?}, {} {part}",
            jitter.name()
        )
    }

    /// The class that is right. Bursts and jitter are WiFi whatever the buffer.
    pub fn class(&self) -> &'static str {
        match self.jitter {
            Jitter::None if self.buffer_bdps >= 2.0 => "large_buffer",
            Jitter::None => "small_buffer",
            _ => "wifi",
        }
    }

    /// Runs Rein on the path for 32 s, in which it decides at least once.
    pub fn judge(&self, seed: u64, folder: &Path) -> Result<Judged, Error> {
        let (rate, rtt_ms) = (self.rate_mbit_per_sec, self.rtt_ms);
        let down = self.jitter.keys(rate, rtt_ms, self.part, seed, folder)?;
        let bdp_bytes = rate * 125.0 * rtt_ms;
        let limit_pkts = (bdp_bytes * self.buffer_bdps / 1500.0).round().max(2.0);
        let mut text = format!(
            "duration_s = 32\nsample_ms = 0\nseed = {seed}\n[links.down]\n{down}\
             queue = {{ kind = \"droptail\", limit_packets = {limit_pkts} }}\n\
             [links.up]\ndelay_ms = {:.1}\n",
            rtt_ms / 2.0
        );
        let start_s = if self.neighbour == Neighbour::Before { 2.0 } else { 0.0 };
        text.push_str(&format!("[[flows]]\ndriver = \"rein\"\nstart_s = {start_s:.1}\n"));
        if self.neighbour != Neighbour::None {
            text.push_str("[[flows]]\ndriver = \"cubic\"\n");
        }
        let outcome = run(&Scenario::parse(&text, &self.name())?)?;
        Ok(Judged { case: *self, first: first_decision(&outcome, 0) })
    }
}

/// Wired paths: rates, round trips, buffers and neighbours of every kind.
pub fn wired() -> Vec<Case> {
    let mut cases = Vec::new();
    for rate_mbit_per_sec in [6.0, 24.0, 100.0] {
        for rtt_ms in [20.0, 40.0, 80.0, 160.0] {
            for buffer_bdps in [0.5, 1.0, 4.0] {
                for neighbour in [Neighbour::None, Neighbour::Together, Neighbour::Before] {
                    let (jitter, part) = (Jitter::None, 0.0);
                    cases.push(Case {
                        rate_mbit_per_sec,
                        rtt_ms,
                        buffer_bdps,
                        neighbour,
                        jitter,
                        part,
                    });
                }
            }
        }
    }
    cases
}

/// Radio paths of one model. The jitter is an eighth and a quarter of a round trip, but for bursts,
/// whose size comes of the rate.
pub fn radio(jitter: Jitter) -> Vec<Case> {
    let parts: &[f64] = if jitter == Jitter::Bursts { &[0.0] } else { &[0.125, 0.25] };
    let mut cases = Vec::new();
    for rate_mbit_per_sec in [12.0, 24.0, 48.0] {
        for rtt_ms in [20.0, 40.0, 80.0] {
            for neighbour in [Neighbour::None, Neighbour::Before] {
                cases.extend(parts.iter().map(|&part| Case {
                    rate_mbit_per_sec,
                    rtt_ms,
                    buffer_bdps: 1.0,
                    neighbour,
                    jitter,
                    part,
                }));
            }
        }
    }
    cases
}

/// Judges all cases with each seed.
pub fn judge(cases: &[Case], seeds: RangeInclusive<u64>) -> Result<Vec<Judged>, Error> {
    let place = Path::new("a temporary folder");
    let folder = tempfile::tempdir().map_err(Error::writing(Some(place)))?;
    let all = cases.iter().flat_map(|case| seeds.clone().map(move |seed| (case, seed)));
    all.map(|(case, seed)| case.judge(seed, folder.path())).collect()
}

/// The part of these for which `is_so` holds; a case without a decision counts as not so.
pub fn part(judged: &[&Judged], is_so: impl Fn(&FirstDecision) -> bool) -> f64 {
    let count = judged.iter().filter(|it| it.first.as_ref().is_some_and(&is_so)).count();
    count as f64 / judged.len().max(1) as f64
}

/// The part of these that have the right class.
pub fn part_right(judged: &[Judged]) -> f64 {
    let right = |it: &&Judged| it.first.as_ref().is_some_and(|it2| it2.class == it.case.class());
    judged.iter().filter(right).count() as f64 / judged.len().max(1) as f64
}

/// Whether Rein would call it WiFi with another threshold of the variation.
pub fn is_wifi(first: &FirstDecision, cov_ratio: f64) -> bool {
    let config = ReinConfig::default();
    first.cov > cov_ratio
        && first.range > config.wifi_rtt_range_ratio
        && first.std_ms * 1e3 > config.wifi_rtt_std_us as f64
        && first.std_ms > config.wifi_rtt_std_pkts * first.segment_ms
}
