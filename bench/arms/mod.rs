//! Compares every arm in the simulator with its paper, RFC or draft.
//!
//! Four scenarios are the same for all arms: alone with a short and with a deep buffer, with random
//! loss, and beside CUBIC. [`expectations`] has the expected behaviour of each arm in words and in
//! numbers.

pub mod expectations;

use crate::Error;
use crate::stats::{percentile, sorted};
use expectations::{Expectation, Scene};
use remuda_scenarios::Scenario;
use remuda_scenarios::outcome::Outcome;
use std::ops::RangeInclusive;

const RATE_MBIT_PER_SEC: f64 = 24.0;
/// Round trip without a queue.
const RTT_MS: f64 = 40.0;
/// Seconds that a scene lasts, and the second from which figures count.
const END_S: f64 = 60.0;
const FROM_S: f64 = 20.0;
/// A microsecond of jitter decides how two flows share a queue: with 20 seeds, westwood has 0.19 to
/// 0.38 of the link beside CUBIC.
const SEEDS: RangeInclusive<u64> = 1..=10;

/// The measured figures of a scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Got {
    /// The arm's share of the link, 0 to 1.
    pub share: f64,
    /// The 95th percentile of the bottleneck's queueing delay.
    pub queue_p95_ms: f64,
    pub queue_mean_ms: f64,
}

/// The scenario of a scene, as TOML.
fn text(arm: &str, scene: Scene, seed: u64) -> String {
    let (buffer_bdp, loss_percent, ecn) = match scene {
        Scene::Alone => (1.0, 0.0, false),
        Scene::Deep => (4.0, 0.0, false),
        Scene::Loss => (1.0, 1.0, false),
        Scene::BesideCubic => (2.0, 0.0, false),
        Scene::Marks => (4.0, 0.0, true),
    };
    let marks = if ecn { ", ecn_threshold_packets = 20" } else { "" };
    let half = RTT_MS / 2.0;
    let mut text = format!(
        "duration_s = {END_S}\nseed = {seed}\nsample_ms = 10\n[links.down]\n\
         rate_mbit_per_sec = {RATE_MBIT_PER_SEC}\ndelay_ms = {half}\n\
         loss_percent = {loss_percent:.1}\n\
         queue = {{ kind = \"droptail\", limit_bdp = {buffer_bdp:.1}{marks} }}\n\
         [links.up]\ndelay_ms = {half}\njitter_std_ms = 0.001\n\
         [[flows]]\ndriver = \"{arm}\"\necn = {ecn}\n"
    );
    if scene == Scene::BesideCubic {
        text.push_str("[[flows]]\ndriver = \"cubic\"\nname = \"other\"\nstart_s = 1\n");
    }
    text
}

/// The means over the seeds.
pub fn run(arm: &str, scene: Scene) -> Result<Got, Error> {
    let of_seed = |seed| {
        let scenario = Scenario::parse(&text(arm, scene, seed), arm)?;
        Ok(got(&remuda_sim::run(&scenario)?))
    };
    let all = SEEDS.map(of_seed).collect::<Result<Vec<Got>, Error>>()?;
    let mean = |of: fn(&Got) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    Ok(Got {
        share: mean(|got| got.share),
        queue_p95_ms: mean(|got| got.queue_p95_ms),
        queue_mean_ms: mean(|got| got.queue_mean_ms),
    })
}

fn got(outcome: &Outcome) -> Got {
    let looks = || outcome.flow_samples.iter().filter(|look| look.flow == 0);
    let first = looks().find(|look| look.t_s >= FROM_S);
    let bytes = first.zip(looks().next_back()).map_or(0.0, |(first, last)| {
        (last.delivered_bytes - first.delivered_bytes) as f64 / (last.t_s - first.t_s).max(1e-9)
    });
    let down = outcome.links.iter().position(|link| link.name == "down").unwrap_or(0);
    let queues = outcome
        .link_samples
        .iter()
        .filter(|look| look.link as usize == down && look.t_s >= FROM_S)
        .map(|look| look.queue_bytes as f64 * 8.0 / (RATE_MBIT_PER_SEC * 1e3));
    let queues = sorted(queues);
    Got {
        // 1448 of the 1500 bytes of a packet are payload.
        share: bytes * 8.0 / 1e6 / (RATE_MBIT_PER_SEC * 1448.0 / 1500.0),
        queue_p95_ms: percentile(&queues, 95.0),
        queue_mean_ms: queues.iter().sum::<f64>() / queues.len() as f64,
    }
}

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    pub expectation: &'static Expectation,
    pub got: Got,
}

impl Row {
    /// Whether the figures are within their bounds.
    pub fn met(&self) -> bool {
        let Expectation { share, queue_p95_ms, .. } = self.expectation;
        let (least, most) = *share;
        let (shortest, longest) = *queue_p95_ms;
        (least..=most).contains(&self.got.share)
            && (shortest..=longest).contains(&self.got.queue_p95_ms)
    }

    /// The line in Markdown.
    pub fn line(&self) -> String {
        let Expectation { arm, scene, words, basis, share, queue_p95_ms } = self.expectation;
        let queue = if *queue_p95_ms == expectations::ANY {
            String::new()
        } else {
            format!(", {:.1} to {:.1} ms", queue_p95_ms.0, queue_p95_ms.1)
        };
        format!(
            "| {arm} | {} | {words} | {} | {:.3} to {:.3}{queue} \
             | {:.3}, {:.1} ms (mean {:.1}) | {} |",
            scene.name(),
            basis.name(),
            share.0,
            share.1.min(1.0),
            self.got.share,
            self.got.queue_p95_ms,
            self.got.queue_mean_ms,
            if self.met() { "yes" } else { "**no**" }
        )
    }
}

/// Measures all expectations of one arm, or of all arms.
pub fn rows(arm: Option<&str>) -> Result<Vec<Row>, Error> {
    let meant = |e: &&'static Expectation| arm.is_none_or(|arm| arm == e.arm);
    expectations::ALL
        .iter()
        .filter(meant)
        .map(|expectation| {
            let got = run(expectation.arm, expectation.scene)?;
            Ok(Row { expectation, got })
        })
        .collect()
}

const HEAD: &str = "\
# Every arm beside what its paper says

`make arms` writes this page; a test checks that the page is up to date. Everything is simulated,
with the arms' own programs and controllers: 24 Mbit/s, 40 ms, one minute, of which the first third
does not count. [sim-to-real.md](sim-to-real.md) and [fidelity.md](fidelity.md) compare `reno`,
`cubic` and `bbr` with the kernel's own algorithms; fidelity.md also has `vegas`, `westwood`,
`illinois` and `dctcp`. `remy` is left out, because its behaviour depends on its rule table.

Where a source has a formula for this path, the bounds are the formula's value, give or take 25 %.
Where a source only has words, a number stands for the words (*starves nobody*: every flow gets at
least a quarter). The bounds were written after a first survey, so its figures were known; no
formula was changed to fit them. For C2TCP, and for the arms that no kernel has, these formulas are
the only check.

Scenarios: *alone* with a drop-tail buffer of 1 or 4 BDPs; *1 % loss*, random, with 1 BDP; *beside
CUBIC*, which starts a second later, with 2 BDPs; *marks above 20* packets, with ECN and 4 BDPs. The
share is the part of the link's payload rate; the queue is the 95th percentile of queueing delay.
Figures are means over ten seeds.

| arm | scenario | expected | from | bounds: share, queue | got | met |
|---|---|---|---|---|---|---|
";

pub fn page(rows: &[Row]) -> String {
    let lines: Vec<String> = rows.iter().map(Row::line).collect();
    format!("{HEAD}{}\n", lines.join("\n"))
}
