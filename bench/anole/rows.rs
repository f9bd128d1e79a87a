//! The rows of the table: paper, target, got.

use super::measure::{Driver, Run, runs};
use super::scene::Scene;
use crate::Error;
use crate::stats::Mean;
use crate::stats::target::{Row, Target};
use remuda_algorithms::anole::config::{AnoleConfig, NONE};
use std::ops::RangeInclusive;

/// The rows under way.
pub struct Table<'a> {
    pub config: &'a AnoleConfig,
    pub seeds: RangeInclusive<u64>,
    pub rows: Vec<Row>,
}

fn mean_of(runs: &[Run], of: impl Fn(&Run) -> f64) -> Mean {
    Mean::of(&runs.iter().map(of).collect::<Vec<_>>())
}

/// The ratio of each seed's run to the other's of the same seed.
fn ratio(ours: &[Run], theirs: &[Run], of: impl Fn(&Run) -> f64) -> Mean {
    let ratios = ours.iter().zip(theirs).map(|(our, their)| of(our) / of(their).max(1e-9));
    Mean::of(&ratios.collect::<Vec<_>>())
}

/// Loss rates of B5, in percent.
pub const LOSSES: [f64; 7] = [0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0];
/// Buffers of B6, in BDPs.
pub const BUFFERS: [f64; 9] = [0.04, 0.08, 0.16, 0.32, 0.5, 1.0, 1.5, 2.0, 2.5];

impl Table<'_> {
    fn anole(&self, scene: &Scene) -> Result<Vec<Run>, Error> {
        runs(scene, &Driver::anole(self.config), &self.seeds)
    }

    fn add(
        &mut self,
        (id, what): (&'static str, String),
        paper: &'static str,
        target: Target,
        got: Mean,
    ) {
        self.rows.push(Row { id, what, paper, target, got });
    }

    fn speed_and_delay(
        &mut self,
        id: &'static str,
        scene: &Scene,
        papers: [&'static str; 2],
        (least, most): (f64, f64),
    ) -> Result<Vec<Run>, Error> {
        let got = self.anole(scene)?;
        let (goodput, delay) = (mean_of(&got, Run::goodput), mean_of(&got, Run::delay_p95));
        let name = |what: &str| format!("{}: {what}", scene.name);
        let [goodput_paper, delay_paper] = papers;
        let least = Target::AtLeast(least);
        self.add((id, name("goodput, Mbit/s")), goodput_paper, least, goodput);
        let most = Target::AtMost(most);
        self.add((id, name("p95 one-way delay, ms")), delay_paper, most, delay);
        Ok(got)
    }

    /// The first principle: power95 over that of the better candidate.
    fn principle(
        &mut self,
        id: &'static str,
        scene: &Scene,
        ours: &[Run],
        least: f64,
    ) -> Result<(), Error> {
        let mut better: Option<(f64, String, Vec<Run>)> = None;
        for name in [&self.config.classic, &self.config.learned] {
            if name == NONE {
                continue;
            }
            let theirs = runs(scene, &Driver::arm(name), &self.seeds)?;
            let power = mean_of(&theirs, Run::power95).mean;
            if better.as_ref().is_none_or(|(best, ..)| power > *best) {
                better = Some((power, name.clone(), theirs));
            }
        }
        let Some((_, name, theirs)) = better else { return Ok(()) };
        let got = ratio(ours, &theirs, Run::power95);
        let what = format!("{}: power95 over that of {name}, its better candidate", scene.name);
        self.add((id, what), "not worse", Target::AtLeast(least), got);
        Ok(())
    }

    /// Measures all rows; `show` sees each as it comes.
    pub fn measure(&mut self, show: impl Fn(&Row)) -> Result<(), Error> {
        for part in 0..7 {
            let before = self.rows.len();
            match part {
                0 => self.single_flow(),
                1 => self.several_flows(),
                2 => self.losses(),
                3 => self.buffers(),
                4 => self.joining(),
                5 => self.step(),
                _ => self.calls(),
            }?;
            self.rows[before..].iter().for_each(&show);
        }
        Ok(())
    }

    /// B1 to B3: a single flow.
    fn single_flow(&mut self) -> Result<(), Error> {
        let scene = Scene::normal();
        let got = self.speed_and_delay("B1", &scene, ["47", "40"], (44.0, 45.0))?;
        self.principle("B1", &scene, &got, 0.95)?;
        let scene = Scene::loss(0.1);
        let papers = ["a small drop", "as B1"];
        let got = self.speed_and_delay("B2", &scene, papers, (43.0, 35.0))?;
        self.principle("B2", &scene, &got, 0.95)?;
        let scene = Scene::long();
        let papers = ["as B1", "low, both candidates poor"];
        let got = self.speed_and_delay("B3", &scene, papers, (44.0, 80.0))?;
        self.principle("B3", &scene, &got, 1.05)
    }

    /// Row B4, in which one to ten flows share a link.
    fn several_flows(&mut self) -> Result<(), Error> {
        let papers = [(1, "90.6, 64"), (3, "92.1, 78"), (5, "93.7, 86"), (10, "94.0, 93")];
        let mut delays = Vec::new();
        for (count, paper) in papers {
            let scene = Scene::flows(count);
            let got = self.anole(&scene)?;
            let goodput = mean_of(&got, Run::goodput);
            let what = format!("{}: goodput, Mbit/s", scene.name);
            self.add(("B4", what), paper, Target::AtLeast(89.0), goodput);
            self.principle("B4", &scene, &got, 0.95)?;
            delays.push(got.iter().map(Run::delay_p95).collect::<Vec<_>>());
        }
        let grown = delays[0].iter().zip(&delays[3]).map(|(one, ten)| ten - one);
        let grown = Mean::of(&grown.collect::<Vec<_>>());
        let what = "p95 one-way delay, 10 flows less 1 flow, ms".to_owned();
        self.add(("B4", what), "30", Target::AtMost(30.0), grown);
        Ok(())
    }

    /// B5: random loss of several rates.
    fn losses(&mut self) -> Result<(), Error> {
        for percent in LOSSES {
            let scene = Scene::loss(percent);
            let got = self.anole(&scene)?;
            let cubic = runs(&scene, &Driver::arm("cubic"), &self.seeds)?;
            let what = format!("{}: goodput over CUBIC's", scene.name);
            let over = ratio(&got, &cubic, Run::goodput);
            self.add(("B5", what), "above all but BBR", Target::AtLeast(2.0), over);
            if percent == 1.0 {
                let used = mean_of(&got, |run| run.goodput() / scene.rate_mbit_per_sec);
                let what = format!("{}: share of the link", scene.name);
                self.add(("B5", what), "60 to 90 %", Target::AtLeast(0.6), used);
            }
            let least = if percent == 1.0 { 1.05 } else { 0.95 };
            self.principle("B5", &scene, &got, least)?;
        }
        Ok(())
    }

    /// B6: the delay with a large buffer.
    fn buffers(&mut self) -> Result<(), Error> {
        let scene = Scene::buffer(2.5);
        let got = mean_of(&self.anole(&scene)?, Run::delay_p95);
        let what = format!("{}: p95 one-way delay, ms", scene.name);
        self.add(("B6", what), "38", Target::AtMost(40.0), got);
        Ok(())
    }

    /// B7: the least of all seeds counts, as every seed is to be fair.
    fn joining(&mut self) -> Result<(), Error> {
        let got = self.anole(&Scene::joining())?;
        for (flows, joined_s) in [(2, 4.0), (3, 8.0), (4, 12.0)] {
            let least = got.iter().map(|run| run.jain(flows, joined_s + 3.0));
            let least = least.fold(f64::MAX, f64::min);
            let what = format!("Jain's index 3 s after flow {flows} has joined, the worst seed");
            let got = Mean { mean: least, low: least, high: least };
            self.add(("B7", what), "within 2 s", Target::AtLeast(0.9), got);
        }
        Ok(())
    }

    /// B8: how soon a doubled rate is used.
    fn step(&mut self) -> Result<(), Error> {
        let got = self.anole(&Scene::step())?;
        let took = mean_of(&got, |run| run.reaches(0.9 * 96.0 * 1448.0 / 1500.0, 15.0));
        let what = "48 to 96 Mbit/s: seconds to 90 %".to_owned();
        self.add(("B8", what), "below 0.5", Target::AtMost(1.0), took);
        Ok(())
    }

    /// B9: calls of the learned arm.
    fn calls(&mut self) -> Result<(), Error> {
        for scene in [Scene::normal(), Scene::loss(0.1), Scene::long()] {
            let got = self.anole(&scene)?;
            let per_cycle = mean_of(&got, |run| {
                let [_, calls, ..] = run.tally.unwrap_or_default();
                let rtt_s = run.outcome.flows[0].rtt_mean_ms.unwrap_or(1.0) / 1e3;
                calls / (super::scene::END_S / (5.0 * rtt_s))
            });
            let what = format!("{}: calls of the learned arm per 5 RTT", scene.name);
            self.add(("B9", what), "1", Target::AtMost(1.0), per_cycle);
        }
        Ok(())
    }
}
