//! docs/rein.md: downloads, classes, and what other thresholds would do.

use super::classes::{Judged, Neighbour, is_wifi, part, part_right};
use super::downloads::{Driver, KEPT_MIN, Measured, quickest};
use super::jitter::Jitter;
use crate::stats::target::{self, Row, Target};
use crate::stats::{Mean, Origin};
use std::fmt::Write;

const HEAD: &str = "\
# Rein on its own suite

`make rein-table` writes this page, simulated. The policy `rein` (`selector/src/rein.rs`) starts
with CUBIC, tells the class of the path by its round trips, and picks an arm for the class. With the
preference for throughput it starts with BBR.

- **Downloads** are group D2 of the suite `rein`: 30 MB beside a CUBIC flow that began 2 s before,
  on wired paths with a buffer of 1 and 4 BDP and on a path with jitter. A completion time counts
  from the start of the connection; a download that did not end counts as the whole run, 88 s.
- **Kept** is the neighbour's goodput during the download, over its goodput during a CUBIC download
  with the same seed. The row `lowest` is of the path on which the neighbour keeps least.
- A target is met if the 95 % interval (Student's t over the seeds) is beyond it. The wired paths
  have no randomness of their own, so seeds differ on the jittery path and for arms that draw.

Where it loses: behind a standing queue it cannot tell a deep buffer from a long path, so a small
buffer on a long path gets `lingbo`. A fixed arm can be quicker on one path: `illinois` on the small
buffer and `lingbo` on the jittery one, where a CUBIC neighbour keeps less than 0.6 with some seeds.
Until its first decision, one to four seconds, a flow has CUBIC. With the preference for throughput
the neighbour loses most of its share, as beside `bbr`.

";

const ROC: &str = "\
A run lasts 32 s; the class is that of the first decision. Wired, one run each: 6 to 100 Mbit/s, 20
to 160 ms, buffers of 0.5, 1 and 4 BDP; alone, together with a CUBIC flow, or 2 s after one. Radio,
three seeds each: 12 to 48 Mbit/s, 20 to 80 ms, a buffer of 1 BDP, alone or 2 s after a CUBIC flow.
The standard deviation of the jitter, for Pareto its mean, is an eighth or a quarter of the round
trip. Thresholds were chosen with `wired` and `normal`; the other three models chose none of them.
";

/// All that the page shows.
pub struct Page {
    pub measured: Measured,
    pub fixed: Vec<Driver>,
    pub default: Driver,
    pub throughput: Driver,
    pub wired: Vec<Judged>,
    /// By model, in the order of [`Jitter::ALL`].
    pub radio: Vec<Vec<Judged>>,
}

impl Page {
    /// The rows with a target, and what belongs to them.
    pub fn rows(&self) -> Vec<Row> {
        let shown = Target::Shown;
        let row = |id, what: String, target, got| Row { id, what, paper: "", target, got };
        let harmless = quickest(&self.fixed, KEPT_MIN);
        let best = quickest(&self.fixed, 0.0);
        let mut rows = vec![
            row(
                "D2",
                format!("default: mean completion over that of {}", harmless.name),
                Target::AtMost(0.97),
                self.default.over(harmless),
            ),
            row("D2", "default: kept, lowest".into(), Target::AtLeast(KEPT_MIN), {
                Mean::of(&[self.default.least_kept()])
            }),
            row(
                "D2",
                format!("throughput: mean completion over that of {}", best.name),
                Target::AtMost(1.05),
                self.throughput.over(best),
            ),
            row("D2", "throughput: kept, lowest".into(), shown, {
                Mean::of(&[self.throughput.least_kept()])
            }),
        ];
        rows.extend(self.class_rows());
        rows
    }

    fn class_rows(&self) -> Vec<Row> {
        let row = |what: String, target, got| Row { id: "D1", what, paper: "", target, got };
        let mut rows = Vec::new();
        for (place, (path, want)) in self.measured.paths.iter().zip(WANT).enumerate() {
            let is_right = |of_path: &super::downloads::Download| {
                let class = of_path.decided.as_ref().map(|first| first.class.as_str());
                f64::from(u8::from(class == Some(want)))
            };
            let right: Vec<f64> = self.default.downloads[place].iter().map(is_right).collect();
            let what = format!("class {want} on {}", path.name);
            rows.push(row(what, Target::AtLeast(0.9), Mean::of(&right)));
        }
        let of_wired = |is_behind: bool| {
            let is_meant = |it: &&Judged| (it.case.neighbour == Neighbour::Before) == is_behind;
            self.wired.iter().filter(is_meant).cloned().collect::<Vec<_>>()
        };
        let (open, behind) = (of_wired(false), of_wired(true));
        let mut kinds = vec![
            ("wired, no queue at the begin", Target::AtLeast(0.9), &open),
            ("wired, a queue at the begin", Target::Shown, &behind),
        ];
        let radio = Jitter::ALL.into_iter().zip(&self.radio);
        kinds.extend(radio.map(|(it, judged)| (it.name(), Target::AtLeast(0.9), judged)));
        for (name, target, judged) in kinds {
            let what = format!("class right, {name}, {} runs", judged.len());
            rows.push(row(what, target, Mean::of(&[part_right(judged)])));
        }
        rows
    }

    pub fn text(&self) -> String {
        let seeds = &self.measured.seeds;
        let (origin, table) = (Origin::here(), target::table(&self.rows()));
        let mut text = format!("{HEAD}Seeds {} to {}. ", seeds.start(), seeds.end());
        write!(text, "{origin}. {table}\n## Downloads\n\n{}", self.downloads())
            .and_then(|()| write!(text, "\n## Classes\n\n{ROC}\n{}", self.confusion()))
            .and_then(|()| write!(text, "\n## Other thresholds\n\n{}", self.thresholds()))
            .expect("a string takes it");
        text
    }

    fn downloads(&self) -> String {
        let names = self.measured.paths.iter().map(|path| format!(" {} (kept) |", path.name));
        let mut text = format!("| driver |{} mean |\n", names.collect::<String>());
        text.push_str("|---|---|---|---|---|\n");
        let mut drivers: Vec<&Driver> = self.fixed.iter().collect();
        drivers.extend([&self.default, &self.throughput]);
        drivers.sort_by(|a, b| a.mean_seconds().total_cmp(&b.mean_seconds()));
        for driver in drivers {
            let of_path = driver.downloads.iter().zip(&driver.kept).map(|(downloads, kept)| {
                let seconds: Vec<f64> = downloads.iter().map(|it| it.seconds).collect();
                format!(" {:.1} s ({kept:.2}) |", Mean::of(&seconds).mean)
            });
            let (of_path, mean) = (of_path.collect::<String>(), driver.mean_seconds());
            text.push_str(&format!("| {} |{of_path} {mean:.1} s |\n", driver.name));
        }
        text
    }

    /// How many paths of each kind have each class.
    fn confusion(&self) -> String {
        let classes = ["small_buffer", "large_buffer", "wifi", "unknown"];
        let mut text = String::from(
            "| paths | small buffer | large buffer | WiFi | never full |\n|---|---|---|---|---|\n",
        );
        let buffers = [("wired, 0.5 BDP", 0.5), ("wired, 1 BDP", 1.0), ("wired, 4 BDP", 4.0)];
        let wired = buffers.map(|(name, bdps)| {
            let those = self.wired.iter().filter(|it| it.case.buffer_bdps == bdps);
            (name, those.collect::<Vec<_>>())
        });
        let radio = Jitter::ALL.map(|it| it.name()).into_iter().zip(&self.radio);
        let radio = radio.map(|(name, judged)| (name, judged.iter().collect::<Vec<_>>()));
        for (name, judged) in wired.into_iter().chain(radio) {
            let of_class = |class: &&str| {
                let is = |it: &&&Judged| it.first.as_ref().is_some_and(|it| it.class == *class);
                format!(" {} |", judged.iter().filter(is).count())
            };
            let cells: String = classes.iter().map(of_class).collect();
            text.push_str(&format!("| {name} |{cells}\n"));
        }
        text
    }

    fn thresholds(&self) -> String {
        let mut text = String::from(
            "`wifi_rtt_cov_ratio`: the part of the paths that is called WiFi.\n\n\
             | threshold | wired (false) | normal | uniform | Pareto | bursts |\n\
             |---|---|---|---|---|---|\n",
        );
        for cov in [0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1] {
            let called = |judged: &Vec<Judged>| {
                let all: Vec<&Judged> = judged.iter().collect();
                format!(" {:.2} |", part(&all, |first| is_wifi(first, cov)))
            };
            let cells: String = [&self.wired].into_iter().chain(&self.radio).map(called).collect();
            text.push_str(&format!("| {cov} |{cells}\n"));
        }
        let of = |found: bool, large: bool| -> Vec<&Judged> {
            let is_meant = |it: &&Judged| {
                let begins_behind = it.case.neighbour == Neighbour::Before;
                begins_behind == found && (it.case.class() == "large_buffer") == large
            };
            self.wired.iter().filter(is_meant).collect()
        };
        text.push_str(
            "\n`large_buffer_queue_bdps`, wired paths without a queue at the begin: the part that \
             is called large.\n\n\
             | threshold | 0.5 and 1 BDP (false) | 4 BDP |\n|---|---|---|\n",
        );
        for bdps in [0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0] {
            let called = |large| part(&of(false, large), |first| first.queue_bdps >= bdps);
            text.push_str(&format!("| {bdps} | {:.2} | {:.2} |\n", called(false), called(true)));
        }
        text.push_str(
            "\n`large_buffer_rtt_p95_ms`, wired paths with a queue at the begin: the part that is \
             called large. The\nleast round trip says nothing there, so round trips of 20 to 160 \
             ms overlap.\n\n\
             | threshold | 0.5 and 1 BDP (false) | 4 BDP |\n|---|---|---|\n",
        );
        for ms in [50.0, 75.0, 100.0, 150.0, 200.0, 300.0] {
            let called =
                |large| part(&of(true, large), |first| first.found_queue && first.rtt_p95_ms >= ms);
            text.push_str(&format!("| {ms} | {:.2} | {:.2} |\n", called(false), called(true)));
        }
        text
    }
}

/// The right class of each download of the suite.
pub const WANT: [&str; 3] = ["small_buffer", "large_buffer", "wifi"];
