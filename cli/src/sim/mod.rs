//! `remuda sim`: runs scenarios in the simulator, many at a time.

mod files;
mod plan;
mod progress;
mod sweep;

use crate::Failure;
use crate::author::AuthorArgs;
use crate::commit::commit;
use crate::stop::stop_flag;
use crate::weights::WeightsArgs;
use ccp_agent::Setup;
use clap::{Args, ValueEnum};
use files::Files;
pub use plan::Seeds;
use plan::{Plan, Run, Vary};
use remuda_live::Clock;
use remuda_results::{About, Outcome, Sweep, details, overview};
use remuda_scenarios::Override;
use remuda_scenarios::outcome::Switch;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use sweep::{Finished, Options};

/// With more runs than this, the table has one line for each run.
const DETAILED_MAX: usize = 3;
/// The default folder of plots and logs.
const OUT: &str = "out/sim";

/// The format of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlotKind {
    /// Vector graphics, as plot.svg
    Svg,
    /// Pixel graphics, as plot.png
    Png,
}

/// Run scenarios in the simulator.
///
/// A scenario is a TOML file of links and flows; a folder stands for every .toml file in it. Each
/// flow runs the real datapath program and the real controller over simulated TCP. The same
/// scenario and seed give the same bytes, on any machine and with any number of jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Run one scenario and show the results as a table
    remuda sim emulation/scenarios/examples/two-cubics.toml
  Also write plots, logs for qvis, and Parquet files
    remuda sim two-cubics.toml --out out/two --plot --qlog
  Run every scenario of a folder with ten seeds, on four cores
    remuda sim emulation/scenarios/examples --seeds 1..10 --jobs 4 --out out/all
  Set another arm, and vary delays and buffers: 10 runs
    remuda sim one-cubic.toml --set 'flows.*.driver=bbr' \\
      --vary 'links.*.delay_ms=5,40' --vary links.down.queue.limit_bdp=0.5,1,2,4,8
  For other programs: print one JSON object for each run
    remuda sim one-cubic.toml --json | jq '.flows[].goodput_mbit_per_sec'

Under --out: flows.parquet, links.parquet, switches.parquet and decisions.parquet of all runs, and
a folder for each run with these tables and its time series, flow_samples.parquet and
link_samples.parquet.")]
pub struct SimArgs {
    /// Scenario files, or folders of them
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// The folder of the results [default: print only the table; with --plot or --qlog: out/sim]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The seed, instead of the scenarios' own
    #[arg(long, value_name = "N", env = "SEED",
          value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// Run each scenario with every seed from A to B, both included
    #[arg(long, value_name = "A..B", conflicts_with = "seed")]
    seeds: Option<Seeds>,
    /// Set a value in every scenario, such as flows.0.driver=bbr; `*` stands for every flow or
    /// every link, and an empty value removes the key. May be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Run each scenario with every value of a key; if given several times, with every combination
    #[arg(long, value_name = "KEY=A,B,...")]
    vary: Vec<Vary>,
    #[command(flatten)]
    authors: AuthorArgs,
    #[command(flatten)]
    weights: WeightsArgs,
    /// How many runs at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Draw each run: delivery rate and arms, window, RTT, queues; --plot=png for PNG
    #[arg(long, value_enum, value_name = "FORMAT", num_args = 0..=1, require_equals = true,
          default_missing_value = "svg")]
    plot: Option<PlotKind>,
    /// Write each flow as a qlog file, which qvis shows
    #[arg(long)]
    qlog: bool,
    /// Print one JSON object for each run instead of the table, without the time series
    #[arg(long)]
    json: bool,
    /// Print neither table nor progress
    #[arg(long)]
    quiet: bool,
}

impl SimArgs {
    fn plan(&self, setup: &Setup) -> Result<Plan, Failure> {
        let seeds = match (self.seed, self.seeds) {
            (Some(seed), _) => Some(Seeds::only(seed)),
            (None, seeds) => seeds,
        };
        Plan::of(&self.scenarios, &self.set, &self.vary, seeds, setup)
    }

    fn files(&self) -> Option<Files> {
        let wanted = self.plot.is_some() || self.qlog;
        let folder = self.out.clone().or_else(|| wanted.then(|| PathBuf::from(OUT)))?;
        let (plot, qlog, commit) = (self.plot, self.qlog, commit());
        Some(Files { folder, plot, qlog, commit })
    }

    pub fn run(self) -> Result<(), Failure> {
        let setup = Arc::new(self.weights.setup()?);
        let _authors = self.authors.start(&setup.authors)?;
        let plan = self.plan(&setup)?;
        let files = self.files();
        files.as_ref().map_or(Ok(()), Files::prepare)?;
        let cores = || thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let jobs = self.jobs.unwrap_or_else(cores).get();
        let (clock, stopped) = (Clock::start(), stop_flag()?);
        let (files_of, quiet) = (files.as_ref(), self.quiet);
        let setup = &setup;
        let options = Options { jobs, files: files_of, setup, stopped: &stopped, quiet, clock };
        let finished = sweep::run(&plan.runs, options);
        let outcomes: Vec<&Outcome> = finished.iter().filter_map(Finished::outcome).collect();
        let written = files.as_ref().map_or(Ok(()), |files| write_all(files, &finished));
        self.print(&outcomes)?;
        written?;
        if !self.quiet && !outcomes.is_empty() {
            eprint!("{}", progress::summary(&outcomes, clock.elapsed()));
            if let Some(files) = &files {
                eprintln!("remuda sim: results are in {}", files.folder.display());
            }
        }
        verdict(&plan.runs, &finished, stopped.load(Ordering::Relaxed))
    }

    fn print(&self, outcomes: &[&Outcome]) -> Result<(), Failure> {
        for outcome in outcomes.iter().filter(|_| self.json) {
            println!("{}", json(outcome)?);
        }
        if self.json || self.quiet || outcomes.is_empty() {
            return Ok(());
        }
        if outcomes.len() > DETAILED_MAX {
            println!("{}", overview(outcomes.iter().copied()));
            return Ok(());
        }
        for (at, outcome) in outcomes.iter().enumerate() {
            let gap = if at > 0 { "\n" } else { "" };
            println!("{gap}{}", details(outcome));
        }
        Ok(())
    }
}

/// The outcome as one line of JSON, without the time series.
fn json(outcome: &Outcome) -> Result<String, Failure> {
    let mut value = serde_json::to_value(outcome)?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("flow_samples");
        fields.remove("link_samples");
    }
    Ok(value.to_string())
}

/// Writes the tables over all runs, in the order of the plan.
fn write_all(files: &Files, finished: &[Finished]) -> Result<(), Failure> {
    let about = About { commit: files.commit.clone(), scenario_toml: None };
    let mut tables = Sweep::create(&files.folder, &about)?;
    for outcome in finished.iter().filter_map(Finished::outcome) {
        tables.add(outcome)?;
    }
    Ok(tables.finish()?)
}

/// Prints the failures. Returns an error if a run failed or was not done.
fn verdict(runs: &[Run], finished: &[Finished], stopped: bool) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for (run, finished) in runs.iter().zip(finished) {
        if let Finished::Failed(error) = finished {
            failed.push(format!("{}: {error}", run.folder));
        }
    }
    let done = finished.iter().filter_map(Finished::outcome).count();
    if stopped && done < runs.len() {
        let kept = "what had finished is kept";
        return Err(format!("stopped with {done} of {} runs done; {kept}", runs.len()).into());
    }
    match failed.as_slice() {
        [] => broken(&finished.iter().filter_map(Finished::outcome).collect::<Vec<_>>()),
        [only] if runs.len() == 1 => Err(only.clone().into()),
        all => {
            for failure in all {
                eprintln!("remuda sim: {failure}");
            }
            Err(format!("{} of {} runs failed", all.len(), runs.len()).into())
        }
    }
}

/// Returns an error if an author's arm raised an exception: what ran from then on was Reno.
fn broken(outcomes: &[&Outcome]) -> Result<(), Failure> {
    // The reason that the agent gives for the switch.
    let is_failure =
        |switch: &&Switch| switch.why.starts_with(&format!("{} failed: ", switch.from));
    let flows = outcomes.iter().flat_map(|outcome| &outcome.flows);
    let all = flows.clone().count();
    let failures: Vec<&Switch> =
        flows.filter_map(|flow| flow.switches.iter().find(is_failure)).collect();
    match failures.first() {
        None => Ok(()),
        Some(first) => {
            let rule = "reno drove them from then on, and the results are mostly its own";
            let of = failures.len();
            Err(format!("in {of} of {all} flows, an arm failed; {rule}: {}", first.why).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        sim: SimArgs,
    }

    fn parsed(line: &str) -> Result<SimArgs, String> {
        let words = std::iter::once("sim").chain(line.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.sim).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_what_the_help_says() {
        let args = parsed("a.toml b --plot --seeds 2..5 --set seed=3 --jobs 2").unwrap();
        assert_eq!(args.scenarios.len(), 2, "--plot takes no scenario for its format");
        assert_eq!(args.plot, Some(PlotKind::Svg));
        assert_eq!(args.files().unwrap().folder, PathBuf::from(OUT));
        assert_eq!(parsed("a.toml --plot=png").unwrap().plot, Some(PlotKind::Png));
        assert!(parsed("a.toml").unwrap().files().is_none());
    }

    #[test]
    fn bad_options_are_refused_with_the_fix() {
        for (line, part) in [
            ("", "<SCENARIO>"),
            ("a.toml --seeds 5..2", "A..B, the smaller first"),
            ("a.toml --seeds 5", "A..B, the smaller first"),
            ("a.toml --seed 1 --seeds 1..2", "cannot be used with"),
            ("a.toml --jobs 0", "--jobs"),
            ("a.toml --set driver", "must be KEY=VALUE"),
            ("a.toml --vary driver", "KEY=A,B"),
            ("a.toml --plot=gif", "possible values: svg, png"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn json_has_no_time_series() {
        let text = json(&Outcome { scenario: "a".to_owned(), ..Outcome::default() }).unwrap();
        assert!(text.contains("\"scenario\":\"a\"") && !text.contains("samples"), "{text}");
    }
}
