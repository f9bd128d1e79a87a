//! Rows A1 to A4: three networks, and figures over all of them.

use super::{Line, Table, Target};
use crate::antelope::figures::{Figures, rank};
use crate::antelope::measure::{Mode, mean_of};
use crate::antelope::scene::{CELLS, Files, Scene};
use remuda_matrix::Interval;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// An arm with a smaller share of the time is not listed.
const NAMED_FROM: f64 = 0.01;
/// The arms that the paper picks from, and that row A3 counts.
const OF_THE_PAPER: [&str; 6] = ["cubic", "bbr", "c2tcp", "vegas", "illinois", "westwood"];

fn goodput(figures: &Figures) -> f64 {
    figures.goodput_mbit_per_sec
}

fn delay(figures: &Figures) -> f64 {
    figures.delay_mean_ms
}

pub fn cells() -> Vec<Scene> {
    (0..CELLS).map(Scene::Cell).collect()
}

fn of_files(scene: fn(Files) -> Scene) -> Vec<Scene> {
    Files::ALL.map(scene).to_vec()
}

impl Table<'_> {
    fn own(&self) -> &str {
        &self.settings.driver
    }

    /// The mean of a driver's figure over seeds. 0 counts as missing, because a ratio to 0 means
    /// nothing.
    fn mean(
        &self,
        (scene, driver): (Scene, &str),
        seeds: &[usize],
        of: fn(&Figures) -> f64,
    ) -> Option<f64> {
        let figures = self.measured.get(scene, driver, Mode::Default);
        mean_of(figures, seeds, |it| Some(of(it))).filter(|mean| *mean > 0.0)
    }

    /// The mean over networks, each with the same weight, of the mean over a network's scenes of
    /// `of`, which gets indices of seeds.
    fn over(
        &self,
        networks: &[Vec<Scene>],
        of: impl Fn(Scene, &[usize]) -> Option<f64>,
    ) -> Option<Interval> {
        self.measured.interval(|seeds| {
            let of_network = |scenes: &Vec<Scene>| {
                let found: Option<Vec<f64>> =
                    scenes.iter().map(|scene| of(*scene, seeds)).collect();
                crate::antelope::figures::mean(&found?)
            };
            let all: Option<Vec<f64>> = networks.iter().map(of_network).collect();
            crate::antelope::figures::mean(&all?)
        })
    }

    /// A driver's figure over that of another driver.
    fn ratio(
        &self,
        networks: &[Vec<Scene>],
        other: &str,
        of: fn(&Figures) -> f64,
    ) -> Option<Interval> {
        self.over(networks, |scene, seeds| {
            let own = self.mean((scene, self.own()), seeds, of)?;
            Some(own / self.mean((scene, other), seeds, of)?)
        })
    }

    /// The goodput of each scene's best arm over that of one arm: the most that a choice among arms
    /// can reach.
    fn room(&self, networks: &[Vec<Scene>], other: &str) -> Option<Interval> {
        self.over(networks, |scene, seeds| {
            let (_, arms) = self.of_arms(scene, seeds, goodput)?;
            let best = arms.into_iter().fold(0.0, f64::max);
            Some(best / self.mean((scene, other), seeds, goodput)?)
        })
    }

    fn of_arms(
        &self,
        scene: Scene,
        seeds: &[usize],
        of: fn(&Figures) -> f64,
    ) -> Option<(f64, Vec<f64>)> {
        let own = self.mean((scene, self.own()), seeds, of)?;
        let arm = |arm: &String| self.mean((scene, arm), seeds, of).unwrap_or(0.0);
        Some((own, self.settings.arms.iter().map(arm).collect()))
    }

    /// The mean over scenes of the policy's goodput over that of the best of `others` in the scene.
    fn share_of_best(&self, scenes: &[Scene], others: &[String]) -> Option<Interval> {
        self.over(&[scenes.to_vec()], |scene, seeds| {
            let own = self.mean((scene, self.own()), seeds, goodput)?;
            let each = others.iter().filter_map(|it| self.mean((scene, it), seeds, goodput));
            let best = each.fold(0.0, f64::max);
            (best > 0.0).then_some(own / best)
        })
    }

    /// The policy's goodput over that of the best arm that uses the memory of destinations, as the
    /// policy does. `None` on real TCP, where no such arm runs.
    fn remembering_line(&self, row: &'static str, name: &str, scenes: &[Scene]) -> Option<Line> {
        let what = format!("{name}: goodput to that of the best arm that remembers windows too");
        let ratio = self.share_of_best(scenes, &self.settings.remembering)?;
        Some(Line::of((row, what, "–"), Target::Shown, (Some(ratio), 3)))
    }

    fn rank(&self, scene: Scene, of: fn(&Figures) -> f64) -> Option<Interval> {
        self.measured.interval(|seeds| {
            let (own, arms) = self.of_arms(scene, seeds, of)?;
            Some(rank(own, &arms) as f64)
        })
    }

    /// The rank among the paper's arms alone, and their number with the policy; `None` if the table
    /// has no other arms than these.
    fn rank_in_paper(&self, scene: Scene, of: fn(&Figures) -> f64) -> Option<(usize, usize)> {
        let every: Vec<usize> = (0..self.settings.seeds()).collect();
        let (own, all) = self.of_arms(scene, &every, of)?;
        let named = self.settings.arms.iter().zip(&all);
        let papers = named.filter(|(arm, _)| OF_THE_PAPER.contains(&arm.as_str()));
        let arms: Vec<f64> = papers.map(|(_, value)| *value).collect();
        (arms.len() < all.len()).then(|| (rank(own, &arms), arms.len() + 1))
    }

    fn rank_line(
        &self,
        (row, scene): (&'static str, Scene),
        (by, of): (&str, fn(&Figures) -> f64),
        (paper, target): (&str, Target),
    ) -> Line {
        let what = format!("{}: place by {by} among the arms", scene.name());
        let mut line = Line::of((row, what, paper), target, (self.rank(scene, of), 0));
        let _ = write!(line.got, " of {}", self.settings.arms.len() + 1);
        if let Some((place, count)) = self.rank_in_paper(scene, of) {
            let _ = write!(line.got, "; {place} of {count} with the paper's arms alone");
        }
        line
    }

    /// Each arm's share of the time, over scenes and seeds.
    fn shares(&self, scenes: &[Scene], seeds: &[usize]) -> BTreeMap<String, f64> {
        let mut shares: BTreeMap<String, f64> = BTreeMap::new();
        let runs = (scenes.len() * seeds.len()).max(1) as f64;
        for scene in scenes {
            let figures = self.measured.get(*scene, self.own(), Mode::Default);
            let drawn = seeds.iter().filter_map(|seed| figures.get(*seed));
            for (arm, share) in drawn.flat_map(|it| &it.arms) {
                *shares.entry(arm.clone()).or_default() += share / runs;
            }
        }
        shares
    }

    fn share_of(&self, scenes: &[Scene], arm: &str) -> Option<Interval> {
        let share = |seeds: &[usize]| self.shares(scenes, seeds).get(arm).copied().unwrap_or(0.0);
        self.measured.interval(|seeds| Some(share(seeds) * 100.0))
    }

    /// The arms of a scene's flows, the arm with the most time first.
    fn picks(&self, scenes: &[Scene]) -> Vec<(String, f64)> {
        let every: Vec<usize> = (0..self.settings.seeds()).collect();
        let mut picks: Vec<_> = self.shares(scenes, &every).into_iter().collect();
        picks.sort_by(|a, b| b.1.total_cmp(&a.1));
        picks
    }

    fn picks_line(
        &self,
        (row, what, scenes): (&'static str, &str, &[Scene]),
        paper: &str,
        (target, is_met): (&str, impl Fn(&str) -> Option<bool>),
    ) -> Line {
        let picks = self.picks(scenes);
        let named = picks.iter().filter(|(_, share)| *share >= NAMED_FROM);
        let said = named.map(|(arm, _)| {
            let Interval { middle, bounds } = self.share_of(scenes, arm).unwrap_or_default();
            let bounds = bounds.map(|[low, high]| format!(" ({low:.0} to {high:.0})"));
            format!("{arm} {middle:.0} %{}", bounds.unwrap_or_default())
        });
        Line {
            row,
            what: format!("{what}: arms by their time"),
            paper: paper.to_owned(),
            target: target.to_owned(),
            got: said.collect::<Vec<_>>().join(", "),
            met: picks.first().and_then(|(arm, _)| is_met(arm)),
        }
    }

    pub(super) fn wan(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for files in Files::ALL {
            let scene = Scene::Wan(files);
            let place = ("goodput", goodput as fn(&Figures) -> f64);
            lines.push(self.rank_line(("A1", scene), place, ("1 or 2", Target::Shown)));
            let what = format!("{}: goodput to that of the best arm", scene.name());
            let to_best = (self.share_of_best(&[scene], &self.settings.arms), 3);
            lines.push(Line::of(("A1", what, "–"), Target::AtLeast(0.95), to_best));
            lines.extend(self.remembering_line("A1", &scene.name(), &[scene]));
        }
        let ratio = (self.ratio(&[of_files(Scene::Wan)], "bbr", goodput), 3);
        let what = "WAN: goodput to BBR's".to_owned();
        lines.push(Line::of(("A1", what, "1.30"), Target::AtLeast(1.10), ratio));
        let room = (self.room(&[of_files(Scene::Wan)], "bbr"), 3);
        let what = "WAN: goodput of each place's best arm to BBR's".to_owned();
        lines.push(Line::of(("A1", what, "–"), Target::Shown, room));
        for (files, paper) in Files::ALL.into_iter().zip([
            "CUBIC 59 %, BBR 27 %, C2TCP 10 %",
            "BBR 80 %, Vegas 17 %",
            "CUBIC 68 %, C2TCP 23 %, BBR 5 %",
        ]) {
            let scene = Scene::Wan(files);
            let (target, wanted) = match files {
                Files::Long => ("most of it not bbr", Some(false)),
                Files::Short => ("most of it bbr", Some(true)),
                Files::Mixed => ("–", None),
            };
            let is_met = |arm: &str| wanted.map(|bbr| (arm == "bbr") == bbr);
            let of = ("A1", scene.name());
            lines.push(self.picks_line((of.0, &of.1, &[scene]), paper, (target, is_met)));
        }
        lines
    }

    pub(super) fn datacenter(&self) -> Vec<Line> {
        let scenes = of_files(Scene::Datacenter);
        let mut lines = Vec::new();
        let place = ("goodput", goodput as fn(&Figures) -> f64);
        for scene in &scenes {
            lines.push(self.rank_line(("A2", *scene), place, ("1 or 2", Target::Shown)));
        }
        let to_best = (self.share_of_best(&scenes, &self.settings.arms), 3);
        let what = "DCN: goodput to that of the best arm".to_owned();
        lines.push(Line::of(("A2", what, "about 1"), Target::AtLeast(0.95), to_best));
        lines.extend(self.remembering_line("A2", "DCN", &scenes));
        let share = (self.share_of(&scenes, "bbr"), 0);
        let what = "DCN: BBR's share of the time, in %".to_owned();
        lines.push(Line::of(("A2", what, "97 to 98"), Target::AtLeast(80.0), share));
        let shown = ("–", |_: &str| None);
        lines.push(self.picks_line(("A2", "DCN", &scenes), "BBR 97 to 98 %", shown));
        lines
    }

    pub(super) fn cellular(&self) -> Vec<Line> {
        let power = ("power", Figures::power as fn(&Figures) -> f64);
        let mut lines = Vec::new();
        for scene in cells() {
            let target = ("one of the best", Target::AtMost(2.0));
            lines.push(self.rank_line(("A3", scene), power, target));
        }
        let paper = "C2TCP 52 to 68 %, Westwood 18 to 23 %";
        let shown = ("–", |_: &str| None);
        lines.push(self.picks_line(("A3", "cellular", &cells()), paper, shown));
        lines
    }

    pub(super) fn overall(&self) -> Vec<Line> {
        let all = [of_files(Scene::Wan), of_files(Scene::Datacenter), cells()];
        let short = [vec![Scene::Wan(Files::Short)], vec![Scene::Datacenter(Files::Short)]];
        let line = |what: &str, paper, target, ratio| {
            Line::of(("A4", what.to_owned(), paper), target, (ratio, 3))
        };
        vec![
            line(
                "all networks: goodput to BBR's",
                "1.16",
                Target::AtLeast(1.08),
                self.ratio(&all, "bbr", goodput),
            ),
            line(
                "all networks: goodput of each place's best arm to BBR's",
                "–",
                Target::Shown,
                self.room(&all, "bbr"),
            ),
            line(
                "all networks: goodput to CUBIC's",
                "1.19",
                Target::AtLeast(1.10),
                self.ratio(&all, "cubic", goodput),
            ),
            line(
                "all networks: goodput of each place's best arm to CUBIC's",
                "–",
                Target::Shown,
                self.room(&all, "cubic"),
            ),
            line(
                "all networks: delay to CUBIC's",
                "0.90",
                Target::AtMost(0.95),
                self.ratio(&all, "cubic", delay),
            ),
            line(
                "short files: delay to BBR's",
                "0.965",
                Target::Shown,
                self.ratio(&short, "bbr", delay),
            ),
        ]
    }
}
