//! `remuda demo`: real downloads over three paths, by rein and by each arm alone.

mod live;
mod page;
mod paths;
mod plot;
mod race;
mod record;
mod results;
mod summary;
mod unprivileged;

use crate::Failure;
use crate::stop::stop_flag;
use ccp_agent::catalogue;
use ccp_agent::child::AgentChild;
use clap::Args;
use live::{Board, Display};
use page::Content;
use paths::Plan;
use race::{Control, Race};
use record::Run;
use remuda_live::Clock;
use results::Facts;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;
use summary::Summary;

/// Rein, and the three arms it chooses from, each alone.
const DRIVERS: [&str; 4] = ["rein", "cubic", "bbr", "westwood"];
const MEGABYTE: u64 = 1_000_000;

/// Download real files over three paths, by rein and by each arm alone, and compare.
///
/// The paths (wired with a small buffer, wired with a large buffer, WiFi-like) are emulated links
/// between network namespaces; the TCP is this kernel's own. A competing CUBIC flow runs on each
/// path. The display shows which arm each download has, and why. At the end the command prints the
/// completion times, and writes an HTML page with plots and files with the numbers. Needs root.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Size of the file in MB of 1000000 bytes, 1 to 1000 [default: 10, or 5 with --quick]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=1000))]
    file_mb: Option<u64>,
    /// Downloads for each driver on each path, 1 to 100 [default: 2, or 1 with --quick]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Smaller files, downloaded once: about 40 seconds
    #[arg(long)]
    quick: bool,
    /// Seed of the order of downloads, and of the links' loss and jitter
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// The drivers to compare: arms and policies, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values = DRIVERS)]
    drivers: Vec<String>,
    /// Start no download that might not end within this time, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 165,
          value_parser = clap::value_parser!(u64).range(5..=86_400))]
    within_s: u64,
    /// The file of the page; the numbers go into .csv files beside it
    #[arg(long, value_name = "FILE", default_value = "out/demo.html")]
    html: PathBuf,
}

impl DemoArgs {
    fn plan(&self) -> Result<Plan, Failure> {
        let (file_mb, rounds) = if self.quick { (5, 1) } else { (10, 2) };
        let mut drivers: Vec<String> = Vec::new();
        for driver in &self.drivers {
            catalogue::kind(driver)?;
            if !drivers.contains(driver) {
                drivers.push(driver.clone());
            }
        }
        Ok(Plan {
            drivers,
            rounds: self.rounds.unwrap_or(rounds),
            file_bytes: self.file_mb.unwrap_or(file_mb) * MEGABYTE,
            seed: self.seed,
            within: Duration::from_secs(self.within_s),
        })
    }

    pub fn run(self) -> Result<(), Failure> {
        let plan = self.plan()?;
        let (plan, runs) = if unprivileged::is_root() {
            let runs = with_agent(&plan)?;
            (plan, runs)
        } else {
            without_root(plan)?
        };
        let summary = Summary::of(&plan, &runs);
        println!("{summary}");
        write(&plan, &runs, &summary, &self.html)
    }
}

/// Writes the page, and the files with the numbers beside it.
fn write(plan: &Plan, runs: &[Run], summary: &Summary, page: &Path) -> Result<(), Failure> {
    let doing = |path: &Path, error| format!("cannot write {}: {error}", path.display());
    let stem = page.file_stem().ok_or("--html: it must name a file")?.to_string_lossy();
    let names = [format!("{stem}.csv"), format!("{stem}-samples.csv")];
    let facts = Facts::of(plan);
    let files = [names[0].as_str(), names[1].as_str()];
    let content = Content { plan, runs, summary, facts: &facts, files };
    if let Some(folder) = page.parent() {
        fs::create_dir_all(folder).map_err(|error| doing(folder, error))?;
    }
    for (path, text) in [
        (page.to_owned(), content.html()),
        (page.with_file_name(files[0]), results::runs_csv(&facts, runs)),
        (page.with_file_name(files[1]), results::samples_csv(&facts, runs)),
    ] {
        fs::write(&path, text).map_err(|error| doing(&path, error))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Prints what needs root, and runs what works without.
fn without_root(plan: Plan) -> Result<(Plan, Vec<Run>), Failure> {
    eprintln!("{}", unprivileged::NOTICE);
    let plan = unprivileged::plan(plan);
    let entered = unprivileged::enter_user_namespace().map_err(Failure::from);
    match entered.and_then(|()| race(&plan, Control::Kernel)) {
        Ok(runs) => Ok((plan, runs)),
        Err(error) => {
            println!("{}", unprivileged::arms_and_policies()?);
            Err(format!("nothing ran without root: {error}").into())
        }
    }
}

/// Runs the plan under its own agent, in a temporary private directory.
fn with_agent(plan: &Plan) -> Result<Vec<Run>, Failure> {
    let folder = tempfile::tempdir()?;
    // Unique among the agents of this host, and at most 15 characters.
    let name = format!("demo{}", std::process::id());
    let run_dir = folder.path().join("run");
    let binary = std::env::current_exe()?;
    let agent = AgentChild::start(&binary, &run_dir, &["--policy", "rein", "--name", &name])?;
    let runs = race(plan, Control::Agent(&agent, &name))?;
    agent.stop()?;
    Ok(runs)
}

fn race(plan: &Plan, control: Control<'_>) -> Result<Vec<Run>, Failure> {
    let stopped = stop_flag()?;
    let (board, clock) = (Board::new(), Clock::start());
    let mut display = Display::new(&board, plan, clock);
    let gate = Mutex::new(());
    let race = Race { plan, control, board: &board, stopped: &stopped, clock, gate };
    let runs = race.run(|| display.show()).map_err(|failure| failure as Failure)?;
    if stopped.load(Ordering::Relaxed) {
        return Err("stopped; nothing was written, and nothing is left running".into());
    }
    Ok(runs)
}
