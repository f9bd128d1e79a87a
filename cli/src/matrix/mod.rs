//! `remuda matrix`: runs drivers × environments × seeds, and ranks the drivers.

mod engine;
mod live;
mod out;
mod progress;
mod show;

pub use show::{ahead, ranking_table, spread};

use crate::Failure;
use crate::author::AuthorArgs;
use crate::commit::commit;
use crate::drivers;
use crate::kinds::scenario_for_suite;
use crate::report::write_beside;
use crate::sim::Seeds;
use crate::stop::stop_flag;
use crate::weights::WeightsArgs;
use ccp_agent::{Setup, catalogue};
use clap::Args;
use engine::EngineArgs;
use out::Out;
use progress::Bar;
use remuda_live::Clock;
use remuda_live::real::named_drivers;
use remuda_matrix::{BUILD, Error, Only, Plan, ROWS, Row, Store, code_version, suite_named};
use remuda_report::Matrix;
use remuda_samples::family::Family;
use remuda_scenarios::{Suite, suite_names};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Stands for every arm and policy, except arms that never change their window, and arms that need
/// a table, because the matrix loads none.
const ALL: &str = "all";
/// The suite that runs by default.
const SUITE: &str = "smoke";

/// Compare arms and policies on every kind of path.
///
/// Runs every given arm in every environment of the suites with every seed, many at a time in the
/// simulator, and ranks the arms. A run that the same program has completed before is not run
/// again: stop a matrix with Ctrl-C, and the same command continues it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  List the suites; and the environments of one suite
    remuda matrix --list
    remuda matrix --list --suite wireless
  Run all arms in sixty environments of every kind, in minutes
    remuda matrix --arm all
  Run ccBench's 690 environments for one arm
    remuda matrix --suite ccbench-solo --arm cubic
  Run three arms on deep buffers of cellular paths, ten seeds each
    remuda matrix --suite wireless --only cell/ --arm cubic,bbr,copa --seeds 1..10
  Run weights of your own as an arm beside the shipped ones
    remuda matrix --weights mine=out/mine.safetensors --arm mine,learned,cubic
  Run an arm in Python beside two others
    remuda matrix --author my_cca.py --arm my_cca,cubic,bbr
  Run the kernel's algorithms beside ours on real TCP, in real time (needs root)
    remuda matrix --engine live --suite ccp --arm cubic,native:cubic,bbr,native:bbr
  Run environments that the training of antelope has not seen
    remuda matrix --suite drawn:1000000..1000300 --arm antelope,rein,bbr
  Run on the Ray cluster of this machine
    remuda matrix --arm all --engine ray --ray-address auto

Under --out: matrix.parquet, one row for each run (its columns: emulation/matrix/README.md),
and the page report.html. `remuda report` compares a table with another one.")]
pub struct MatrixArgs {
    /// Suites that come with the program, or suite files [default: smoke]
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',')]
    suite: Vec<String>,
    /// Arms and policies; `all` stands for every one except `fixed` and `remy`
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "cubic,bbr")]
    arm: Vec<String>,
    /// Run only environments whose SUITE/NAME contains this
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
    /// Run only environments of this group, A to P, or of this id of a paper, such as B2
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    group: Vec<String>,
    /// Run everything with every seed from A to B, both included
    #[arg(long, value_name = "A..B", default_value = "1..1")]
    seeds: Seeds,
    #[command(flatten)]
    authors: AuthorArgs,
    #[command(flatten)]
    weights: WeightsArgs,
    /// The folder of the table
    #[arg(long, value_name = "DIR", default_value = "out/matrix")]
    out: PathBuf,
    /// The folder of completed runs [default: runs/ under --out]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Run everything again, and keep no runs
    #[arg(long, conflicts_with = "keep")]
    fresh: bool,
    #[command(flatten)]
    engine: EngineArgs,
    /// List the suites, or with --suite their environments, and run nothing
    #[arg(long)]
    list: bool,
    /// Print one JSON object for each run instead of the ranking
    #[arg(long)]
    json: bool,
    /// Print neither ranking nor progress
    #[arg(long)]
    quiet: bool,
}

/// A suite that comes with the program, or from a file.
pub fn suite_of(name: &str) -> Result<Suite, Failure> {
    if name.split_once(':').is_some_and(|(of, _)| Family::named(of).is_some()) {
        return Ok(remuda_samples::suite(name)?);
    }
    let path = Path::new(name);
    if !name.ends_with(".toml") {
        let is_file = path.is_file() && !suite_names().any(|known| known == name);
        let rule = "a suite is a TOML file, whose name ends in .toml";
        let fix = "fix: rename the file; `remuda matrix --list` shows the suites of the program";
        return if is_file {
            Err(format!("--suite {name}: {rule}\n{fix}").into())
        } else {
            Ok(suite_named(name)?)
        };
    }
    let refuse = |error| format!("--suite {name}: {error}");
    let suite = Suite::load(path);
    Ok(suite.map_err(|error| scenario_for_suite(path).unwrap_or_else(|| refuse(error)))?)
}

/// The drivers to run, without repetitions.
fn drivers(given: &[String], setup: &Setup, is_live: bool) -> Result<Vec<String>, Failure> {
    let mut all: Vec<String> = Vec::new();
    for name in given {
        let names = if name == ALL {
            let is_meant = |name: &&str| {
                let arm = remuda_algorithms::arm(name);
                arm.is_none_or(|info| info.adapts && info.loads.is_none())
            };
            catalogue::names().into_iter().filter(is_meant).map(str::to_owned).collect()
        } else {
            if name.starts_with("native:") && !is_live {
                let rule =
                    "is an algorithm of the kernel, and runs on real TCP only: add --engine live";
                return Err(format!("--arm {name}: {rule}").into());
            }
            // A constant window is not an arm, and only the simulator knows it.
            if !name.starts_with("window:") {
                let named = |error| format!("--arm {name}: {error}");
                drivers::check(name, setup).map_err(named)?;
            }
            vec![name.clone()]
        };
        for name in names {
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    Ok(all)
}

/// Checks the drivers that suites name for the neighbours of the tested flow.
fn check_neighbours(plan: &Plan, setup: &Setup) -> Result<(), Failure> {
    for name in named_drivers(plan.jobs.iter().map(|job| &job.scenario)) {
        let named = |error| format!("a flow of these environments: {error}");
        drivers::check(&name, setup).map_err(named)?;
    }
    Ok(())
}

impl MatrixArgs {
    pub fn run(self) -> Result<(), Failure> {
        if self.list {
            return self.print_list();
        }
        self.engine.check()?;
        let setup = Arc::new(self.weights.setup()?);
        self.engine.check_weights(&self.weights)?;
        let _authors = self.authors.start(&setup.authors)?;
        let suites = self.suites()?;
        let only = Only { groups: self.group.clone(), parts: self.only.clone() };
        let drivers = drivers(&self.arm, &setup, self.engine.is_live())?;
        let mut plan = Plan::of(&suites, &only, &drivers, self.seeds.values())?;
        check_neighbours(&plan, &setup)?;
        let left_out = self.engine.fit(&mut plan)?;
        if let Some(left_out) = left_out.filter(|_| !self.quiet) {
            eprintln!("remuda matrix: {left_out}");
        }
        let _out = Out::take(&self.out)?;
        let store = self.store(&setup)?;
        let (clock, stopped) = (Clock::start(), stop_flag()?);
        let mut bar = Bar::new(plan.jobs.len(), self.quiet);
        let what = (&plan, &self.authors, &self.weights);
        let with = (store.as_ref(), &setup);
        let ran = self.engine.run(what, with, &stopped, |so_far| {
            bar.show(so_far, clock.elapsed());
        })?;
        let unkept = bar.clear();
        let (rows, failures) = parted(ran.rows);
        if let (true, Some(why)) = (rows.is_empty(), &ran.broken) {
            // Keep an existing table: it is worth more than an empty one.
            return Err(why.to_string().into());
        }
        let all = plan.jobs.len();
        let partial = (rows.len() < all).then(|| format!("{} of {all} runs", rows.len()));
        let matrix = Matrix { rows, about: self.about(partial, &setup)? };
        // Write the table before printing, because `| head` would end the process. If writing
        // fails, the ranking is still printed.
        let written = self.write(&matrix);
        self.print(&matrix.rows)?;
        if !self.quiet {
            eprintln!("{}", show::done(&matrix.rows, all, unkept, clock.elapsed()));
        }
        let shown = written.map(|written| self.print_paths(&written, &matrix.rows));
        let done = matrix.rows.len();
        let verdict = verdict(&failures, done, all, stopped.load(Ordering::Relaxed));
        shown?;
        let done = done + failures.len();
        match ran.broken {
            None => verdict,
            Some(why) => Err(format!("{why}\nstopped with {done} of {all} runs done").into()),
        }
    }

    /// Writes the table, and the report unless the table is empty.
    fn write(&self, matrix: &Matrix) -> Result<Vec<(&'static str, PathBuf)>, Failure> {
        let table = self.out.join("matrix.parquet");
        let rest = "run the same command again; it continues with the remaining runs";
        let doing = |error| format!("{error}\nfix: make room, then {rest}");
        ROWS.write(&table, &matrix.rows, &matrix.about).map_err(doing)?;
        let mut written = vec![("table", table.clone())];
        if !matrix.rows.is_empty() {
            written.push(("report", write_beside(&table, matrix)?));
        }
        Ok(written)
    }

    fn print_paths(&self, written: &[(&str, PathBuf)], rows: &[Row]) {
        if self.quiet {
            return;
        }
        for (what, path) in written {
            eprintln!("remuda matrix: the {what} is in {}", path.display());
        }
        if let Some(missed) = show::missed(rows) {
            eprintln!("remuda matrix: {missed}");
        }
    }

    /// The given suites, or the default suite.
    fn suite_names(&self) -> Vec<&str> {
        match &self.suite[..] {
            [] => vec![SUITE],
            some => some.iter().map(String::as_str).collect(),
        }
    }

    /// Refuses two files with the same stem, because their rows would carry the same suite name.
    fn suites(&self) -> Result<Vec<Suite>, Failure> {
        let mut all: BTreeMap<String, &str> = BTreeMap::new();
        let mut suites = Vec::new();
        for given in self.suite_names() {
            let suite = suite_of(given)?;
            match all.insert(suite.name.clone(), given) {
                Some(before) if before == given => {}
                Some(before) => {
                    let fix = "their rows could not be distinguished; fix: rename one";
                    let name = &suite.name;
                    return Err(
                        format!("--suite {before} and {given} are both `{name}`: {fix}").into()
                    );
                }
                None => suites.push(suite),
            }
        }
        Ok(suites)
    }

    fn store(&self, setup: &Setup) -> Result<Option<Store>, Failure> {
        if self.fresh {
            return Ok(None);
        }
        let folder = self.keep.clone().unwrap_or_else(|| self.out.join("runs"));
        let code = code_version().map_err(|error| format!("cannot read this program: {error}"))?;
        let authored = self.authors.files()?;
        let mut code = authored.iter().fold(code, |code, files| code + &files.hash());
        code += &self.weights.digests(setup).concat();
        if self.engine.is_live() {
            code += &format!("live on {}", live::kernel());
        }
        let doing = |error| format!("cannot keep runs in {error}\nfix: another --keep, or --fresh");
        Ok(Some(Store::open(&folder, code).map_err(doing)?))
    }

    /// Facts for the table's metadata. They must be equal in two runs of the same matrix.
    fn about(
        &self,
        partial: Option<String>,
        setup: &Setup,
    ) -> Result<BTreeMap<String, String>, Failure> {
        let weights = self.weights.digests(setup).join(",");
        let authored = self.authors.files()?;
        let hashes = authored.iter().map(|it| format!("{} {}", it.path().display(), it.hash()));
        let hashes = hashes.collect::<Vec<_>>().join(", ");
        let facts = [
            ("program", Some(concat!("remuda ", env!("CARGO_PKG_VERSION")).to_owned())),
            ("table", Some(ROWS.name.to_owned())),
            ("commit", commit()),
            ("sources", Some(BUILD.to_owned())),
            ("executable", code_version().ok()),
            ("authors", (!hashes.is_empty()).then_some(hashes)),
            ("partial", partial),
            ("kernel", self.engine.is_live().then(live::kernel)),
            ("suites", Some(self.suite_names().join(","))),
            ("arms", Some(self.arm.join(","))),
            ("weights", (!weights.is_empty()).then_some(weights)),
        ];
        let known = facts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Ok(known.collect())
    }

    fn print(&self, rows: &[Row]) -> Result<(), Failure> {
        if self.json {
            for row in rows {
                println!("{}", serde_json::to_string(row)?);
            }
        } else if !self.quiet && !rows.is_empty() {
            println!("{}", show::ranking(rows));
        }
        Ok(())
    }

    fn print_list(&self) -> Result<(), Failure> {
        if self.suite.is_empty() && self.only.is_empty() && self.group.is_empty() {
            let suites = suite_names().map(suite_of).collect::<Result<Vec<_>, _>>()?;
            println!("{}", show::suites(&suites)?);
            return Ok(());
        }
        let suites = self.suites()?;
        let only = Only { groups: self.group.clone(), parts: self.only.clone() };
        let plan = Plan::of(&suites, &only, &["cubic".to_owned()], std::iter::once(1))?;
        println!("{}", show::environments(&plan));
        Ok(())
    }
}

/// Splits finished runs into rows and errors.
fn parted(runs: Vec<Option<Result<Row, Error>>>) -> (Vec<Row>, Vec<Error>) {
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for finished in runs.into_iter().flatten() {
        match finished {
            Ok(row) => rows.push(row),
            Err(error) => failures.push(error),
        }
    }
    (rows, failures)
}

/// Prints the failures. Returns an error if a run failed or was not done.
fn verdict(failures: &[Error], done: usize, all: usize, stopped: bool) -> Result<(), Failure> {
    for failure in failures {
        eprintln!("remuda matrix: {failure}");
    }
    if stopped && done + failures.len() < all {
        let rest = "run the same command again; it continues with the remaining runs";
        return Err(format!("stopped with {done} of {all} runs done; {rest}").into());
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(format!("{} of {all} runs failed", failures.len()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_stands_for_every_driver_that_needs_no_settings() {
        let setup = Setup::default();
        let names = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|it| (*it).to_owned()).collect();
            drivers(&given, &setup, false).map_err(|error| error.to_string())
        };
        let all = names(&["all", "cubic"]).unwrap();
        assert!(all.contains(&"rein".to_owned()) && all.contains(&"bbr3".to_owned()), "{all:?}");
        assert!(["fixed", "remy"].iter().all(|name| !all.contains(&(*name).to_owned())), "{all:?}");
        assert_eq!(all.iter().filter(|name| *name == "cubic").count(), 1);
        assert!(names(&["cubik"]).unwrap_err().starts_with("--arm cubik: unknown arm"));
        assert!(names(&["remy"]).unwrap_err().starts_with("--arm remy: remy can drive no flow"));
        assert!(names(&["native:bbr"]).unwrap_err().contains("runs on real TCP only"));
        assert_eq!(names(&["window:5"]).unwrap(), ["window:5"]);
    }
}
