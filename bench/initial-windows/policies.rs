//! The ways to choose initial windows that are compared, and the days that each of them needs.

use crate::agent::{self, Settings};
use crate::day::{self, Measured, Plan};
use remuda_bench::initial_windows::scene::{Day, GROUPS, Group, groups};
use remuda_bench::kept::Kept;
use remuda_selector::tcp_rl::config::IwConfig;
use remuda_tests::Fallible;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The windows of the sweep, in segments.
pub const WINDOWS: [u32; 12] = [2, 5, 10, 15, 20, 30, 45, 60, 80, 110, 150, 200];
/// The weights of the hours before and after an hour in what the sweep says of it: neighbouring
/// hours are alike, and an hour alone has few responses.
const HOUR_WEIGHTS: [f64; 5] = [1.0, 2.0, 3.0, 2.0, 1.0];
/// The first seed of the sweep, and of the days that only teach. Seeds of measured days are below.
const SWEEP_SEED: u64 = 1_000;
const TEACHING_SEED: u64 = 10_000;
/// A way to choose initial windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The same window for every flow, in segments.
    Fixed(u32),
    /// The agent's `[iw]` with nine groups.
    Learned,
    /// The agent's `[iw]` with one group for all.
    Ungrouped,
    /// The best window of the sweep for each group and hour.
    Optimum,
}

pub const POLICIES: [Policy; 5] =
    [Policy::Fixed(10), Policy::Fixed(200), Policy::Learned, Policy::Ungrouped, Policy::Optimum];

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(pkts) => write!(f, "IW{pkts}"),
            Self::Learned => f.write_str("RL"),
            Self::Ungrouped => f.write_str("RL without grouping"),
            Self::Optimum => f.write_str("optimum"),
        }
    }
}

/// Runs days, or reads what earlier runs of them have left.
pub struct Runner {
    pub kept: Kept,
    pub day: Day,
    /// Days of learning before the day that is measured; the first one only gathers records.
    pub teaching_days: u64,
    /// Days run and read so far, those that a hypervisor disturbed, and requests given up in them.
    pub days: usize,
    pub disturbed: usize,
    pub failed: usize,
    /// For the table of prefixes.
    folder: PathBuf,
}

/// What one day is called in the folder of results, and what it begins with.
struct Named<'a> {
    description: String,
    state: Option<PathBuf>,
    windows: Option<&'a [Vec<u32>]>,
    begins_at: Option<(u64, u64)>,
    keeps_state: bool,
}

/// The table of prefixes: nine subnets of their own, or one of nine prefixes.
fn geography(is_grouped: bool) -> String {
    let row = |(number, group): (usize, &Group)| {
        let (isp, region) = if is_grouped { (group.isp, group.region) } else { ("all", "all") };
        let subnet = if is_grouped { number.to_string() } else { "all".to_owned() };
        format!("10.11.{number}.0/24,{isp},{region},{subnet}\n")
    };
    let rows: String = groups().iter().enumerate().map(row).collect();
    format!("prefix,isp,region,subnet\n{rows}")
}

/// The agent's settings, scaled to days of half a minute.
fn iw_config(geography: Option<PathBuf>, bin_s: u64) -> IwConfig {
    let scaled = IwConfig {
        enabled: true,
        interval_s: 1,
        regroup_s: 86_400,
        samples_min: 3,
        jitter_max: 0.5,
        arms_pkts: vec![10, 30, 50, 70],
        step_pkts: 20,
        peer_records_per_min_max: 1_000_000,
        user_records_per_min_max: 10_000_000,
        ..IwConfig::default()
    };
    match geography {
        Some(_) => IwConfig { geography, bin_s, ..scaled },
        // Groups need two time bins.
        None => IwConfig { bin_s: 86_400, ..scaled },
    }
}

impl Runner {
    /// Writes the two tables of prefixes into `out`.
    pub fn new(kept: Kept, out: &Path, day: Day, teaching_days: u64) -> Fallible<Self> {
        for is_grouped in [true, false] {
            fs::write(Self::geography_file(out, is_grouped), geography(is_grouped))?;
        }
        let folder = fs::canonicalize(out)?;
        Ok(Self { kept, day, teaching_days, days: 0, disturbed: 0, failed: 0, folder })
    }

    fn geography_file(folder: &Path, is_grouped: bool) -> PathBuf {
        folder.join(if is_grouped { "nine-groups.csv" } else { "one-group.csv" })
    }

    /// Runs a day or reads it. Where its state is kept, returns the folder of the state, too.
    fn run(&mut self, named: &Named<'_>, seed: u64, settings: Settings) -> Fallible<Measured> {
        let Named { description, state, windows, begins_at, keeps_state } = named;
        let beside = self.kept.path(description).with_extension("state");
        let plan = Plan {
            day: self.day,
            seed,
            settings,
            windows: *windows,
            state: state.as_deref(),
            begins_at: *begins_at,
        };
        let is_known = self.kept.read::<Measured>(description).is_some();
        let measured = self.kept.or_run(description, || {
            day::run(&plan, |left| {
                if *keeps_state {
                    let _ = fs::remove_dir_all(&beside); // a stop may have left half of it
                    agent::copy_state(left, &beside)?;
                }
                Ok(())
            })
        })?;
        self.days += 1;
        self.disturbed += usize::from(measured.is_disturbed);
        self.failed += measured.failed;
        if !is_known {
            let first = measured.seen.iter().filter(|it| it.is_first());
            let (count, sum_ms) =
                first.fold((0, 0.0), |(count, sum), it| (count + 1, sum + it.took_ms));
            let mean_ms = sum_ms / f64::from(count.max(1));
            eprintln!("{}: {mean_ms:.0} ms", description.lines().next().unwrap_or_default());
        }
        Ok(measured)
    }

    /// The length of a time bin, and how many seconds after the start of one the day begins that
    /// gathers the first records. The day then lies in two bins, half in each. The rest of the
    /// second bin is for responses that end after the day, so that no third bin is almost empty: a
    /// group needs records in every bin.
    fn bins(&self) -> (u64, u64) {
        let bin_s = (self.day.seconds() * 2.0 / 3.0).ceil() as u64;
        (bin_s, bin_s - (self.day.seconds() / 2.0) as u64)
    }

    /// The agent's settings. Without a table of prefixes, the agent only gathers records.
    fn iw_config(&self, is_grouped: Option<bool>) -> IwConfig {
        let geography = is_grouped.map(|is_grouped| Self::geography_file(&self.folder, is_grouped));
        iw_config(geography, self.bins().0)
    }

    fn describe(&self, what: impl fmt::Display, seed: u64, more: impl fmt::Debug) -> String {
        format!("{what}, seed {seed}\n{:?}\n{more:?}", self.day)
    }

    /// A day with these windows by group and hour.
    fn given(
        &mut self,
        what: impl fmt::Display,
        windows: &[Vec<u32>],
        (jumps, seed): (bool, u64),
    ) -> Fallible<Measured> {
        let settings = Settings { iw: self.iw_config(None), jumps };
        let named = Named {
            description: self.describe(what, seed, (jumps, windows, &settings.iw)),
            state: None,
            windows: Some(windows),
            begins_at: None,
            keeps_state: false,
        };
        self.run(&named, seed, settings)
    }

    /// For each window of [`WINDOWS`], days with that window alone.
    pub fn sweep(&mut self, seeds: u64) -> Fallible<Vec<Vec<Measured>>> {
        let mut all = Vec::new();
        for pkts in WINDOWS {
            let (name, windows) = (format!("sweep of {pkts}"), self.fixed(pkts));
            let seeds = SWEEP_SEED..SWEEP_SEED + seeds;
            let days = seeds.map(|seed| self.given(&name, &windows, (false, seed)));
            all.push(days.collect::<Fallible<_>>()?);
        }
        Ok(all)
    }

    fn fixed(&self, pkts: u32) -> Vec<Vec<u32>> {
        vec![vec![pkts; self.day.hours]; GROUPS]
    }

    /// A day after which an agent knows more. `before` is what the day before has left; without it,
    /// the day gathers records, by which the next agent forms groups.
    fn taught(&mut self, is_grouped: bool, seed: u64, number: u64) -> Fallible<PathBuf> {
        let first = number == 0;
        let state = (!first).then(|| self.taught(is_grouped, seed, number - 1)).transpose()?;
        let iw = self.iw_config((!first).then_some(is_grouped));
        let settings = Settings { iw, jumps: false };
        let (bin_s, after_s) = self.bins();
        let name = match (first, is_grouped) {
            (true, _) => format!("day {number}"),
            (_, true) => format!("RL, day {number}"),
            (_, false) => format!("RL without grouping, day {number}"),
        };
        let named = Named {
            description: self.describe(name, seed, (&state, &settings.iw)),
            state,
            windows: None,
            begins_at: first.then_some((after_s, bin_s)),
            keeps_state: true,
        };
        self.run(&named, TEACHING_SEED * (number + 1) + seed, settings)?;
        Ok(self.kept.path(&named.description).with_extension("state"))
    }

    fn learned(&mut self, is_grouped: bool, jumps: bool, seed: u64) -> Fallible<Measured> {
        let state = self.taught(is_grouped, seed, self.teaching_days - 1)?;
        let settings = Settings { iw: self.iw_config(Some(is_grouped)), jumps };
        let what = if is_grouped { Policy::Learned } else { Policy::Ungrouped };
        let named = Named {
            description: self.describe(what, seed, (jumps, &state, &settings.iw)),
            state: Some(state),
            windows: None,
            begins_at: None,
            keeps_state: false,
        };
        self.run(&named, seed, settings)
    }

    /// The measured day of a policy. `optimum` has the windows of [`Policy::Optimum`].
    pub fn measure(
        &mut self,
        policy: Policy,
        optimum: &[Vec<u32>],
        (jumps, seed): (bool, u64),
    ) -> Fallible<Measured> {
        match policy {
            Policy::Fixed(pkts) => self.given(policy, &self.fixed(pkts), (jumps, seed)),
            Policy::Optimum => self.given(policy, optimum, (jumps, seed)),
            Policy::Learned => self.learned(true, jumps, seed),
            Policy::Ungrouped => self.learned(false, jumps, seed),
        }
    }
}

/// The window of the sweep with the least mean response time, by group and hour.
pub fn optimum(sweep: &[Vec<Measured>], hours: usize) -> Vec<Vec<u32>> {
    // Sum in ms and number of the first responses of a group in an hour, by window.
    let mut cells = vec![vec![vec![(0.0, 0.0); hours]; GROUPS]; WINDOWS.len()];
    for (days, of_window) in sweep.iter().zip(&mut cells) {
        for seen in days.iter().flat_map(|day| &day.seen).filter(|seen| seen.is_first()) {
            let (sum, count) = &mut of_window[seen.group][seen.hour];
            (*sum, *count) = (*sum + seen.took_ms, *count + 1.0);
        }
    }
    let mean = |window: usize, group: usize, hour: usize| {
        let (mut sum, mut count) = (0.0, 0.0);
        for (weight, at) in HOUR_WEIGHTS.into_iter().zip(hour..) {
            let Some(at) = at.checked_sub(HOUR_WEIGHTS.len() / 2) else { continue };
            if let Some((ms, responses)) = cells[window][group].get(at) {
                (sum, count) = (sum + weight * ms, count + weight * responses);
            }
        }
        if count > 0.0 { sum / count } else { f64::INFINITY }
    };
    let best = |group: usize, hour: usize| {
        let all = (0..WINDOWS.len()).map(|window| (mean(window, group, hour), WINDOWS[window]));
        all.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(10, |(_, pkts)| pkts)
    };
    (0..GROUPS).map(|group| (0..hours).map(|hour| best(group, hour)).collect()).collect()
}
