//! C2 and C2': a path that changes; and false alarms on paths that do not.

use super::paths::c1;
use super::scene::{Buffer, Path, Run, STEP_S, Scene, run_all};
use remuda_bench::Error;
use remuda_bench::stats::Mean;
use remuda_bench::stats::target::{Row, Target};
use remuda_selector::tcp_rl_policy::{DetectorKind, Networks};
use std::fmt::Write as _;
use std::sync::Arc;

/// The paper's path changes every 12 steps.
const PHASE_S: f64 = 12.0 * STEP_S;
/// The buffer of the paper's path in the suite `tcp-rl`.
const BUFFER: Buffer = Buffer::Packets(200);
const DECISIONS: f64 = 3.0;
/// The length of a flow that watches for false alarms: ten minutes.
const STATIC_S: f64 = 600.0;
/// A false alarm is looked for on each of so many paths of C1.
const STATIC_PATHS: usize = 24;

/// A driver of the table, with what tells it changes.
type Tested = (&'static str, &'static str, DetectorKind);

const POLICIES: [Tested; 5] = [
    ("tcp_rl", "tcp_rl", DetectorKind::Learned),
    ("tcp_rl, no detector", "tcp_rl", DetectorKind::None),
    ("tcp_rl, CUSUM", "tcp_rl", DetectorKind::Cusum),
    ("tcp_rl, ADWIN", "tcp_rl", DetectorKind::Adwin),
    ("antelope", "antelope", DetectorKind::Learned),
];

/// The runs of one driver, a seed each.
struct Line {
    name: String,
    runs: Vec<Run>,
}

impl Line {
    /// The mean reward of the windows of a phase, or of all; for each seed.
    fn rewards(&self, phase: Option<usize>) -> Vec<f64> {
        let windows = (PHASE_S / STEP_S) as usize;
        let of = |run: &Run| {
            let all = run.rewards();
            let part = phase.map_or(&all[..], |at| &all[at * windows..(at + 1) * windows]);
            part.iter().sum::<f64>() / part.len() as f64
        };
        self.runs.iter().map(of).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn lines(networks: &Arc<Networks>, phases: &[Path], seeds: u64) -> Result<Vec<Line>, Error> {
    let of_arms = networks.arms().iter().map(|arm| (*arm, *arm, DetectorKind::None));
    let all: Vec<Tested> = POLICIES.into_iter().chain(of_arms).collect();
    let scene = |(_, driver, detector): &Tested| Scene {
        detector: *detector,
        phases: phases.to_vec(),
        phase_s: PHASE_S,
        buffer: BUFFER,
        series: true,
        ..Scene::fixed(driver, phases[0], PHASE_S)
    };
    let scenes: Vec<(Scene, u64)> = all
        .iter()
        .flat_map(|tested| (1..=seeds).map(move |seed| (tested, seed)))
        .map(|(tested, seed)| (scene(tested), seed))
        .collect();
    let mut runs = run_all(networks, &scenes)?.into_iter();
    let line = |(name, _, _): &Tested| Line {
        name: (*name).to_owned(),
        runs: runs.by_ref().take(seeds as usize).collect(),
    };
    Ok(all.iter().map(line).collect())
}

/// A table of all drivers: the reward of each phase and of the whole.
fn table(lines: &[Line], phases: &[Path]) -> String {
    let mut text = "| driver |".to_owned();
    for Path { rate_mbit, rtt_ms, loss_percent } in phases {
        let _ = write!(text, " {rate_mbit} Mbit/s, {rtt_ms} ms, {loss_percent} % |");
    }
    let _ =
        writeln!(text, " reward | geometric mean of power |\n|{}", "---|".repeat(phases.len() + 3));
    for line in lines {
        let _ = write!(text, "| {} |", line.name);
        for phase in 0..phases.len() {
            let _ = write!(text, " {:.2} |", mean(&line.rewards(Some(phase))));
        }
        let all = line.rewards(None);
        let _ = writeln!(text, " {} | {:.0} |", Mean::of(&all).text(3), libm::exp(mean(&all)));
    }
    text
}

/// The best single arm: the one of the highest mean reward.
fn best_single(lines: &[Line]) -> &Line {
    let arms = &lines[POLICIES.len()..];
    let reward = |line: &&Line| mean(&line.rewards(None));
    arms.iter().max_by(|a, b| reward(a).total_cmp(&reward(b))).expect("there are arms")
}

fn ratios(ours: &Line, theirs: &Line) -> Vec<f64> {
    let both = ours.rewards(None).into_iter().zip(theirs.rewards(None));
    both.map(|(ours, theirs)| libm::exp(ours - theirs)).collect()
}

/// The rows of a changing path, and its table.
pub fn measure(
    networks: &Arc<Networks>,
    id: &'static str,
    phases: &[Path],
    seeds: u64,
) -> Result<(Vec<Row>, String), Error> {
    let lines = lines(networks, phases, seeds)?;
    let (ours, without, single) = (&lines[0], &lines[1], best_single(&lines));
    let mut rows = Vec::new();
    let mut add = |what: String, paper, target, values: &[f64]| {
        rows.push(Row { id, what, paper, target, got: Mean::of(values) });
    };
    let targets = id == "C2'";
    let or_shown = |target| if targets { target } else { Target::Shown };
    let what = format!("geometric mean of power over that of {}, the best single arm", single.name);
    add(what, "", or_shown(Target::AtLeast(1.10)), &ratios(ours, single));
    let what = "the same over tcp_rl without the detector";
    add(what.to_owned(), "", or_shown(Target::AtLeast(1.0)), &ratios(ours, without));
    for change in 1..phases.len() {
        let (from, until) = (PHASE_S * change as f64, PHASE_S * (change + 1) as f64);
        let after = |run: &Run| {
            // Never settled is as bad as after all decisions of the phase.
            let never = PHASE_S / STEP_S;
            run.settled_after(from, until).map_or(never, |count| count as f64)
        };
        let after: Vec<f64> = ours.runs.iter().map(after).collect();
        let what = format!("decisions until it settles after change {change} (never: 12)");
        add(what, "2 to 3", or_shown(Target::AtMost(DECISIONS)), &after);
    }
    let found = |run: &Run| {
        let noticed = (1..phases.len()).filter(|change| {
            let from = PHASE_S * *change as f64;
            run.changes_found(from, from + PHASE_S) > 0
        });
        noticed.count() as f64 / (phases.len() - 1) as f64
    };
    for line in &lines[..4] {
        let found: Vec<f64> = line.runs.iter().map(found).collect();
        add(format!("changes noticed by {}: share", line.name), "", Target::Shown, &found);
    }
    Ok((rows, table(&lines, phases)))
}

/// False alarms in ten minutes of paths that stay as they are.
pub fn false_alarms(networks: &Arc<Networks>, seed: u64) -> Result<Vec<Row>, Error> {
    let all = c1();
    let paths = (0..STATIC_PATHS).map(|at| all[at * all.len() / STATIC_PATHS + at % 4]);
    let paths: Vec<Path> = paths.collect();
    let mut rows = Vec::new();
    for (name, driver, detector) in &POLICIES[..4] {
        if *detector == DetectorKind::None {
            continue;
        }
        let scene = |path: &Path| {
            (Scene { detector: *detector, ..Scene::fixed(driver, *path, STATIC_S) }, seed)
        };
        let runs = run_all(networks, &paths.iter().map(scene).collect::<Vec<_>>())?;
        let alarms: Vec<f64> =
            runs.iter().map(|run| run.changes_found(0.0, STATIC_S) as f64).collect();
        let is_ours = *detector == DetectorKind::Learned;
        let target = if is_ours { Target::AtMost(1.0) } else { Target::Shown };
        let what = format!("false alarms in 10 minutes of a static path, {name}");
        rows.push(Row { id: "C2'", what, paper: "", target, got: Mean::of(&alarms) });
    }
    Ok(rows)
}
