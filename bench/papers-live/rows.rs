//! The rows, with the scenes and figures of the simulated tables.

use super::place::{Error, Place};
use remuda_bench::anole::measure::Run;
use remuda_bench::anole::scene::{self as anole, END_S};
use remuda_bench::lingbo::rows::{jain, rtt_p95, share_of_other, used};
use remuda_bench::lingbo::scene::{CELLULAR, PAYLOAD, Scene, UP_MS, WIFI, WIRED};
use remuda_bench::stats::Mean;
use remuda_bench::stats::target::{Row, Target};
use remuda_scenarios::outcome::Outcome;

/// The names of all rows.
pub const ROWS: [&str; 8] = ["B1", "B2", "B4", "B7", "B8", "E2", "E4", "E6"];

/// The arms of E4.
const E4_ARMS: [&str; 4] = ["lingbo", "bbr", "copa", "cubic"];

pub struct Table {
    pub place: Place,
    pub seeds: u64,
    /// The names of rows to measure; all if it is empty.
    pub only: Vec<String>,
    pub rows: Vec<Row>,
}

/// What is read from each run: what, the paper's value, target, how.
type Figure<'a, T> = (&'a str, &'static str, Target, fn(&T) -> f64);

/// Measures the figures of one row.
type Measure = fn(&mut Table) -> Result<(), Error>;

impl Table {
    pub fn measure(&mut self) -> Result<(), Error> {
        let rows: [Measure; ROWS.len()] =
            [Self::b1, Self::b2, Self::b4, Self::b7, Self::b8, Self::e2, Self::e4, Self::e6];
        for (id, row) in ROWS.into_iter().zip(rows) {
            if self.only.is_empty() || self.only.iter().any(|name| name == id) {
                let before = self.rows.len();
                row(self)?;
                self.rows[before..].iter().for_each(|row| eprint!("{}", row.line()));
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        (id, what): (&'static str, String),
        paper: &'static str,
        target: Target,
        values: &[f64],
    ) {
        self.rows.push(Row { id, what, paper, target, got: Mean::of(values) });
    }

    fn of_anole(&mut self, scene: &anole::Scene) -> Result<Vec<Run>, Error> {
        let seeds = 1..=self.seeds;
        let outcomes = seeds.map(|seed| self.place.run(&scene.text("anole", seed), scene.delay_ms));
        outcomes.map(|outcome| Ok(Run { outcome: outcome?, tally: None })).collect()
    }

    fn anole(
        &mut self,
        id: &'static str,
        scene: &anole::Scene,
        figures: &[Figure<'_, Run>],
    ) -> Result<Vec<Run>, Error> {
        let runs = self.of_anole(scene)?;
        for (what, paper, target, of) in figures {
            let values: Vec<f64> = runs.iter().map(of).collect();
            self.push((id, format!("{}: {what}", scene.name)), paper, *target, &values);
        }
        Ok(runs)
    }

    fn b1(&mut self) -> Result<(), Error> {
        let figures: [Figure<'_, Run>; 2] = [
            ("goodput, Mbit/s", "47", Target::AtLeast(44.0), Run::goodput),
            ("p95 one-way delay, ms", "40", Target::AtMost(45.0), Run::delay_p95),
        ];
        self.anole("B1", &anole::Scene::normal(), &figures).map(drop)
    }

    fn b2(&mut self) -> Result<(), Error> {
        let figures: [Figure<'_, Run>; 2] = [
            ("goodput, Mbit/s", "a small drop", Target::AtLeast(43.0), Run::goodput),
            ("p95 one-way delay, ms", "as B1", Target::AtMost(35.0), Run::delay_p95),
        ];
        self.anole("B2", &anole::Scene::loss(0.1), &figures).map(drop)
    }

    fn b4(&mut self) -> Result<(), Error> {
        let mut delays = Vec::new();
        for (count, paper) in [(1, "90.6"), (3, "92.1"), (5, "93.7"), (10, "94.0")] {
            let figures: [Figure<'_, Run>; 1] =
                [("goodput, Mbit/s", paper, Target::AtLeast(89.0), Run::goodput)];
            let runs = self.anole("B4", &anole::Scene::flows(count), &figures)?;
            delays.push(runs.iter().map(Run::delay_p95).collect::<Vec<_>>());
        }
        let grown = delays[0].iter().zip(&delays[3]).map(|(one, ten)| ten - one);
        let what = ("B4", "p95 one-way delay, 10 flows less 1 flow, ms".to_owned());
        self.push(what, "30", Target::AtMost(30.0), &grown.collect::<Vec<_>>());
        Ok(())
    }

    /// The least of all seeds counts, as every seed is to be fair.
    fn b7(&mut self) -> Result<(), Error> {
        let runs = self.of_anole(&anole::Scene::joining())?;
        for (flows, joined_s) in [(2, 4.0), (3, 8.0), (4, 12.0)] {
            let least = runs.iter().map(|run| run.jain(flows, joined_s + 3.0));
            let least = least.fold(f64::MAX, f64::min);
            let what = format!("Jain's index 3 s after flow {flows} has joined, the worst seed");
            self.push(("B7", what), "within 2 s", Target::AtLeast(0.9), &[least]);
        }
        Ok(())
    }

    fn b8(&mut self) -> Result<(), Error> {
        let took: fn(&Run) -> f64 = |run| run.reaches(0.9 * 96.0 * PAYLOAD, END_S / 2.0);
        let figures = [("48 to 96 Mbit/s, seconds to 90 %", "0.5", Target::AtMost(1.0), took)];
        self.anole("B8", &anole::Scene::step(), &figures).map(drop)
    }

    fn of_lingbo(&mut self, scene: &Scene) -> Result<Vec<Outcome>, Error> {
        (1..=self.seeds).map(|seed| self.place.run(&scene.text(seed), UP_MS)).collect()
    }

    fn e2(&mut self) -> Result<(), Error> {
        for loss_percent in [20.0, 30.0] {
            let lossy = |driver: &str| Scene { loss_percent, ..Scene::new(WIFI, driver) };
            let runs = self.of_lingbo(&lossy("lingbo"))?;
            let label = format!("{loss_percent} % loss on Wi-Fi");
            let shares: Vec<f64> = runs.iter().map(used).collect();
            if loss_percent < 30.0 {
                let what = ("E2", format!("{label}: utilisation"));
                self.push(what, "alone good at 30 %", Target::AtLeast(0.8), &shares);
            } else {
                // Real TCP retransmits by timeouts here, whatever the window.
                let constant = self.of_lingbo(&lossy("constant_window"))?;
                let over = shares.iter().zip(&constant).map(|(own, it)| own / used(it));
                let what = ("E2", format!("{label}: goodput over that of a window of 100"));
                let target = Target::AtLeast(0.8);
                self.push(what, "alone good at 30 %", target, &over.collect::<Vec<_>>());
            }
            let what = ("E2", format!("{label}: p95 RTT, ms"));
            let delays: Vec<f64> = runs.iter().map(rtt_p95).collect();
            self.push(what, "", Target::AtMost(150.0), &delays);
        }
        Ok(())
    }

    fn e4(&mut self) -> Result<(), Error> {
        for class in [WIRED, WIFI, CELLULAR] {
            for varying in [false, true] {
                let mut all = Vec::new();
                for arm in E4_ARMS {
                    let scene = Scene { varying, ..Scene::new(class, arm) };
                    let runs = self.of_lingbo(&scene)?;
                    let of_flow = |outcome: &Outcome| {
                        let flow = &outcome.flows[0];
                        (flow.goodput_mbit_per_sec, flow.one_way_p95_ms.unwrap_or(f64::INFINITY))
                    };
                    all.push((arm, runs.iter().map(of_flow).collect::<Vec<(f64, f64)>>()));
                }
                let rate = if varying { "varying" } else { "fixed" };
                self.rank(&format!("{}, {rate} rate", class.name), &all);
            }
        }
        Ok(())
    }

    /// Compares the first arm with the second, and ranks all by power95.
    fn rank(&mut self, label: &str, all: &[(&str, Vec<(f64, f64)>)]) {
        let (own, bbr) = (&all[0].1, &all[1].1);
        let over = |of: fn(&(f64, f64)) -> f64| {
            own.iter().zip(bbr).map(|(own, bbr)| of(own) / of(bbr)).collect::<Vec<_>>()
        };
        let (goodput, delay) = (over(|it| it.0), over(|it| it.1));
        let what = |text: &str| ("E4", format!("{label}: {text}"));
        self.push(what("goodput over bbr's"), "", Target::AtLeast(0.95), &goodput);
        self.push(what("p95 one-way delay over bbr's"), "", Target::AtMost(0.85), &delay);
        let power = |runs: &[(f64, f64)]| {
            runs.iter().map(|(rate, delay_ms)| rate / delay_ms).sum::<f64>() / runs.len() as f64
        };
        let better = all.iter().filter(|(_, runs)| power(runs) > power(own)).count();
        let rank = [1.0 + better as f64];
        self.push(what("rank by power95 of four arms"), "", Target::AtMost(2.0), &rank);
    }

    fn e6(&mut self) -> Result<(), Error> {
        let mut scene = Scene { seconds: 60.0, ..Scene::new(WIRED, "lingbo") };
        scene.flows = (0..3).map(|it| ("lingbo".to_owned(), 5.0 * f64::from(it))).collect();
        let fair: Vec<f64> = self.of_lingbo(&scene)?.iter().map(jain).collect();
        let what = ("E6", "three flows 5 s apart: Jain's index".to_owned());
        self.push(what, "even", Target::AtLeast(0.9), &fair);
        scene.flows = vec![("lingbo".to_owned(), 0.0), ("cubic".to_owned(), 5.0)];
        let shares: Vec<f64> = self.of_lingbo(&scene)?.iter().map(share_of_other).collect();
        let what = ("E6", "CUBIC beside it: its share".to_owned());
        self.push(what, "coexist", Target::AtLeast(0.35), &shares);
        Ok(())
    }
}
