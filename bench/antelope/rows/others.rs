//! Rows A5 to A8: a change of the path's traffic, fairness, and the modes of applications.

use super::networks::cells;
use super::{Line, Table, Target, with_bounds};
use crate::antelope::figures::Figures;
use crate::antelope::measure::{Mode, mean_of, median_of};
use crate::antelope::scene::{Files, Scene};
use remuda_matrix::Interval;
use std::fmt::Write as _;

/// The bound for segments sent again after a switch: this many, or
const RESENT_PKTS: f64 = 40.0;
/// this many times what the arm sends again when it runs alone.
const RESENT_FACTOR: f64 = 1.5;

impl Table<'_> {
    fn tested(&self, scene: Scene) -> &[Figures] {
        self.measured.get(scene, &self.settings.driver, Mode::Default)
    }

    /// The mean over seeds of a figure; `None` unless every run of the scene has it.
    fn mean_figure(&self, scene: Scene, of: fn(&Figures) -> Option<f64>) -> Option<Interval> {
        let figures = self.tested(scene);
        let is_there = figures.iter().all(|it| of(it).is_some());
        if !is_there {
            return None;
        }
        self.measured.interval(|seeds| mean_of(figures, seeds, of))
    }

    pub(super) fn cubic_comes(&self) -> Vec<Line> {
        let scene = Scene::CubicComes;
        let settled = self.mean_figure(scene, |it| it.settled_s);
        let what = "CUBIC comes: seconds until the choice settles".to_owned();
        let mut settled = Line::of(("A5", what, "about 5"), Target::AtMost(5.0), (settled, 2));
        let never = self.tested(scene).iter().filter(|it| it.settled_s.is_none()).count();
        if never > 0 {
            settled.got = format!("never, in {never} of {} runs", self.tested(scene).len());
        }
        let to_bbr = self.measured.interval(|seeds| {
            let beside = |driver: &str| {
                let figures = self.measured.get(scene, driver, Mode::Default);
                mean_of(figures, seeds, |it| it.beside_mbit_per_sec)
            };
            let bbr = beside("bbr").filter(|bbr| *bbr > 0.0)?;
            Some(beside(&self.settings.driver)? / bbr)
        });
        let what = "CUBIC comes: goodput from then on, to BBR's in the same place".to_owned();
        let to_bbr = Line::of(("A5", what, "above 1"), Target::Above(1.0), (to_bbr, 3));
        vec![settled, to_bbr, self.switches()]
    }

    /// Segments sent again after switches, compared with the bound.
    fn switches(&self) -> Line {
        let steady = |arm: &str, seed: usize| {
            let alone = self.measured.get(Scene::CubicComes, arm, Mode::Default).get(seed);
            alone.and_then(|it| it.resent_pkts).unwrap_or(0.0)
        };
        let (mut all, mut within) = (0, 0);
        for (seed, figures) in self.tested(Scene::CubicComes).iter().enumerate() {
            for (arm, resent_pkts) in &figures.switched {
                all += 1;
                let bound = RESENT_PKTS.max(RESENT_FACTOR * steady(arm, seed));
                within += usize::from(*resent_pkts <= bound);
            }
        }
        let (got, met) = match all {
            0 => ("no switch".to_owned(), None),
            _ => (format!("{within} of {all}"), Some(within == all)),
        };
        Line {
            row: "A5",
            what: "CUBIC comes: switches within the bound of what is sent again".to_owned(),
            paper: "smooth".to_owned(),
            target: "all: 40 segments, or 1.5 times the arm's own, in 2 s".to_owned(),
            got,
            met,
        }
    }

    pub(super) fn fairness(&self) -> Line {
        let mean = self.mean_figure(Scene::Fairness, |it| it.jain_mean);
        let what = "five flows: Jain's index of each second from 25 to 100 s, the mean".to_owned();
        let mut line = Line::of(("A6", what, "0.95"), Target::AtLeast(0.90), (mean, 3));
        if let Some(whole) = self.mean_figure(Scene::Fairness, |it| it.jain_whole) {
            let _ = write!(line.got, "; of all that time {}", with_bounds(whole, 3));
        }
        line
    }

    pub(super) fn friendliness(&self) -> Line {
        let share = self.mean_figure(Scene::Friendliness, |it| it.share);
        let what = "beside CUBIC, three pairs: share of all payload".to_owned();
        Line::of(("A7", what, "about 0.5"), Target::Within(0.4, 0.6), (share, 3))
    }

    pub(super) fn modes(&self) -> Vec<Line> {
        let wan = Files::ALL.map(|files| vec![Scene::Wan(files)]);
        let places = wan.into_iter().map(|scenes| (scenes[0].name(), scenes));
        let places = places.chain([("cellular".to_owned(), cells())]);
        let mut lines = Vec::new();
        for (name, scenes) in places {
            let goodput: fn(&Figures) -> f64 = |it| it.goodput_mbit_per_sec;
            let delay: fn(&Figures) -> f64 = |it| it.delay_mean_ms;
            lines.push(self.mode_line(&format!("{name}: goodput, Mbit/s"), &scenes, (goodput, 2)));
            lines.push(self.mode_line(&format!("{name}: delay, ms"), &scenes, (delay, 1)));
        }
        lines
    }

    /// The medians over seeds of each mode; for several scenes, the mean of their medians.
    fn mode_line(
        &self,
        what: &str,
        scenes: &[Scene],
        (of, digits): (fn(&Figures) -> f64, usize),
    ) -> Line {
        let in_mode = |mode: Mode| {
            self.measured.interval(|seeds| {
                let of_scene = |scene: &Scene| {
                    let figures = self.measured.get(*scene, &self.settings.driver, mode);
                    median_of(figures, seeds, |it| Some(of(it)))
                };
                let medians: Option<Vec<f64>> = scenes.iter().map(of_scene).collect();
                crate::antelope::figures::mean(&medians?)
            })
        };
        let modes = Mode::ALL.map(in_mode).map(Option::unwrap_or_default);
        let said = Mode::ALL.iter().zip(modes);
        let said = said.map(|(mode, it)| format!("{} {}", mode.name(), with_bounds(it, digits)));
        Line {
            row: "A8",
            what: format!("throughput, default, delay: {what}"),
            paper: "falls".to_owned(),
            target: "medians fall strictly".to_owned(),
            got: said.collect::<Vec<_>>().join(", "),
            met: Some(modes.windows(2).all(|pair| pair[0].middle > pair[1].middle)),
        }
    }
}
