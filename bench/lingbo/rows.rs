//! The rows of the table.

use super::scene::{CELLULAR, Class, PAYLOAD, Scene, WIFI, WIRED, goodput};
use crate::Error;
use crate::stats::Mean;
use crate::stats::target::{Row, Target};
use remuda_algorithms::ARMS;
use remuda_scenarios::outcome::Outcome;

const ARM: &str = "lingbo";
const RATE: f64 = 12.0 * PAYLOAD;

/// What is read from each run of a scene: what, the paper's value, target, how.
type Figure<'a> = (&'a str, &'static str, Target, fn(&Outcome) -> f64);

struct Table<'a> {
    seeds: u64,
    only: &'a str,
    rows: Vec<Row>,
}

impl Table<'_> {
    fn wants(&self, name: &str) -> bool {
        name.starts_with(self.only) || self.only.starts_with(name)
    }

    /// Runs a scene with each seed; each figure of a run is a row.
    fn add(
        &mut self,
        id: &'static str,
        scene: &Scene,
        figures: &[Figure<'_>],
    ) -> Result<(), Error> {
        let outcomes = (1..=self.seeds).map(|seed| scene.run(seed));
        let outcomes: Vec<Outcome> = outcomes.collect::<Result<_, Error>>()?;
        for (what, paper, target, figure) in figures {
            let values: Vec<f64> = outcomes.iter().map(figure).collect();
            self.push(id, (*what).to_owned(), paper, *target, &values);
        }
        Ok(())
    }

    fn push(
        &mut self,
        id: &'static str,
        what: String,
        paper: &'static str,
        target: Target,
        values: &[f64],
    ) {
        self.rows.push(Row { id, what, paper, target, got: Mean::of(values) });
    }
}

/// The share of the link that the first flow used.
pub fn used(outcome: &Outcome) -> f64 {
    outcome.flows[0].goodput_mbit_per_sec / RATE
}

/// The 95th percentile of the first flow's round trips, in ms.
pub fn rtt_p95(outcome: &Outcome) -> f64 {
    outcome.flows[0].rtt_p95_ms.unwrap_or(f64::NAN)
}

/// Jain's index of three flows over the last two thirds of a minute.
pub fn jain(outcome: &Outcome) -> f64 {
    let shares: Vec<f64> = (0..3).map(|flow| goodput(outcome, flow, 20.0, 60.0)).collect();
    let sum: f64 = shares.iter().sum();
    sum * sum / (3.0 * shares.iter().map(|share| share * share).sum::<f64>())
}

/// Of what both flows have after the first seconds, the second one's share.
pub fn share_of_other(outcome: &Outcome) -> f64 {
    let [own, other] = [0, 1].map(|flow| goodput(outcome, flow, 15.0, 60.0));
    other / (own + other)
}

/// The largest fall of the goodput in the five seconds after a step, as a share of that before.
fn dip(outcome: &Outcome) -> f64 {
    let falls = E5_STEPS.iter().map(|(at_s, _)| {
        let before = goodput(outcome, 0, at_s - 5.0, *at_s);
        1.0 - goodput(outcome, 0, *at_s, at_s + 5.0) / before.max(1e-9)
    });
    falls.fold(0.0, f64::max)
}

const E5_STEPS: [(f64, f64); 4] = [(10.0, 1.4), (20.0, 1.0), (30.0, 0.6), (40.0, 1.0)];

/// All rows whose names begin with `only`, and the ranks of E4 as a second table.
pub fn all(seeds: u64, only: &str) -> Result<(Vec<Row>, String), Error> {
    let mut table = Table { seeds, only, rows: Vec::new() };
    if table.wants("E1") {
        e1(&mut table)?;
    }
    if table.wants("E2") {
        e2(&mut table)?;
    }
    if table.wants("E3") {
        e3(&mut table)?;
    }
    let ranks = if table.wants("E4") { e4(&mut table)? } else { String::new() };
    if table.wants("E5") {
        let mut scene = Scene::new(WIFI, ARM);
        (scene.seconds, scene.steps) = (50.0, E5_STEPS.to_vec());
        let what = "RTT_min ± 40 % with jitter: dip";
        table.add("E5", &scene, &[(what, "no cut", Target::AtMost(0.15), dip)])?;
        scene.single_rtt_min = true;
        let what = "the same with a single RTT_min (as DuGu): dip";
        table.add("E5", &scene, &[(what, "cuts", Target::Shown, dip)])?;
    }
    if table.wants("E6") {
        let mut scene = Scene::new(WIRED, ARM);
        scene.seconds = 60.0;
        scene.flows = (0..3).map(|it| (ARM.to_owned(), 5.0 * f64::from(it))).collect();
        let what = "three flows 5 s apart: Jain's index";
        table.add("E6", &scene, &[(what, "even", Target::AtLeast(0.9), jain)])?;
        scene.flows = vec![(ARM.to_owned(), 0.0), ("cubic".to_owned(), 5.0)];
        let what = "CUBIC beside it: its share";
        table.add("E6", &scene, &[(what, "coexist", Target::AtLeast(0.35), share_of_other)])?;
    }
    Ok((table.rows, ranks))
}

/// A constant window over RTT_min N(100, 10), no limit of the queue (section 4.3, figure 7).
fn e1(table: &mut Table<'_>) -> Result<(), Error> {
    let class = Class { name: "figure 7", mean_ms: 100.0, std_ms: 10.0, correlation: 0.0 };
    for window in [80, 100, 120, 130, 150] {
        let mut scene = Scene::new(class, &format!("window:{window}"));
        (scene.seconds, scene.buffer_pkts) = (200.0, 10_000);
        let (paper, target) = match window {
            100 => ("82 %", Target::Within(0.79, 0.85)),
            120 | 130 => ("the knee", Target::Shown),
            _ => ("", Target::Shown),
        };
        let what = format!("figure 7, constant window of {window}: utilisation");
        table.add("E1", &scene, &[(&what, paper, target, used)])?;
    }
    Ok(())
}

fn e2(table: &mut Table<'_>) -> Result<(), Error> {
    let most = Target::AtMost(150.0);
    for (loss_percent, target) in
        [(0.0, Target::Shown), (20.0, Target::AtLeast(0.8)), (30.0, Target::AtLeast(0.7))]
    {
        let mut scene = Scene::new(WIFI, ARM);
        scene.loss_percent = loss_percent;
        let [a, b] = ["utilisation", "p95 RTT, ms"]
            .map(|figure| format!("{loss_percent} % loss on Wi-Fi: {figure}"));
        let figures: [Figure<'_>; 2] =
            [(&a, "alone good at 30 %", target, used), (&b, "", most, rtt_p95)];
        table.add("E2", &scene, &figures)?;
    }
    Ok(())
}

fn e3(table: &mut Table<'_>) -> Result<(), Error> {
    let mut ratios = Vec::new();
    for seed in 1..=table.seeds {
        let mut seen = Vec::new();
        for buffer_pkts in [50, 100, 200, 500, 1_000, 1_800] {
            let mut scene = Scene::new(WIFI, ARM);
            scene.buffer_pkts = buffer_pkts;
            seen.push(rtt_p95(&scene.run(seed)?));
        }
        let [low, high] = [f64::min, f64::max].map(|of| seen.iter().copied().reduce(of));
        ratios.push(high.zip(low).map_or(f64::NAN, |(high, low)| high / low));
    }
    let what = "buffers of 50 to 1,800 packets: largest p95 RTT over least".to_owned();
    table.push("E3", what, "flat", Target::AtMost(1.3), &ratios);
    Ok(())
}

/// An arm on the runs of one class.
struct Seen {
    arm: &'static str,
    goodput: f64,
    one_way_p95_ms: f64,
    power: f64,
}

fn e4(table: &mut Table<'_>) -> Result<String, Error> {
    let mut text = String::from(
        "\nE4, means over the seeds; the first five arms by power95, and `bbr` and `lingbo`:\n\n\
         | class | rate | rank | arm | goodput | p95 one-way | power95 |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let seeds = 2 * table.seeds;
    for class in [WIRED, WIFI, CELLULAR] {
        for varying in [false, true] {
            let rate = if varying { "varying" } else { "fixed" };
            let arms =
                ARMS.iter().filter(|arm| arm.adapts && arm.loads.is_none() && !arm.needs_ecn);
            let mut all = Vec::new();
            let mut of_own = (Vec::new(), Vec::new());
            for arm in arms {
                let mut scene = Scene::new(class, arm.name);
                scene.varying = varying;
                let (mut goods, mut delays, mut powers) = (Vec::new(), Vec::new(), Vec::new());
                for seed in 1..=seeds {
                    let outcome = scene.run(seed)?;
                    let flow = &outcome.flows[0];
                    let delay_ms = flow.one_way_p95_ms.unwrap_or(f64::INFINITY).max(1e-3);
                    goods.push(flow.goodput_mbit_per_sec);
                    delays.push(delay_ms);
                    powers.push(flow.goodput_mbit_per_sec / (delay_ms / 1e3));
                }
                let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
                let (goodput, one_way_p95_ms) = (mean(&goods), mean(&delays));
                all.push(Seen { arm: arm.name, goodput, one_way_p95_ms, power: mean(&powers) });
                if arm.name == ARM || arm.name == "bbr" {
                    of_own.0.push((arm.name, goods));
                    of_own.1.push((arm.name, delays));
                }
            }
            all.sort_by(|a, b| b.power.total_cmp(&a.power));
            let label = format!("{}, {rate} rate", class.name);
            for (part, lists, target) in [
                ("goodput over bbr's", &of_own.0, Target::AtLeast(0.95)),
                ("p95 one-way over bbr's", &of_own.1, Target::AtMost(0.85)),
            ] {
                let of = |name: &str| lists.iter().find(|(arm, _)| *arm == name).map(|it| &it.1);
                let pairs = of(ARM).into_iter().flatten().zip(of("bbr").into_iter().flatten());
                let values: Vec<f64> = pairs.map(|(own, bbr)| own / bbr).collect();
                table.push("E4", format!("{label}: {part}"), "", target, &values);
            }
            for (rank, it) in all.iter().enumerate() {
                if rank < 5 || it.arm == ARM || it.arm == "bbr" {
                    text.push_str(&format!(
                        "| {} | {rate} | {} | {} | {:.2} Mbit/s | {:.1} ms | {:.1} |\n",
                        class.name,
                        rank + 1,
                        it.arm,
                        it.goodput,
                        it.one_way_p95_ms,
                        it.power
                    ));
                }
            }
        }
    }
    Ok(text)
}
