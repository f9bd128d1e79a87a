//! Measures how right `remuda advise` is, as a page.

use clap::{Parser, ValueEnum};
use remuda::Verdict;
use remuda_bench::Error;
use remuda_bench::advise::page::{Judged, tables};
use remuda_bench::advise::scene::{Known, PRESENT, Path};
use remuda_bench::stats::{Origin, document};
use remuda_samples::family::Family;
use remuda_twin::{Flow, destinations};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Compare the verdicts of `remuda advise` with the true gains, on simulated paths
#[derive(Debug, Parser)]
struct Args {
    /// The paths to judge by: development paths were looked at, final ones are fresh
    #[arg(long, value_enum, default_value_t = Set::Final)]
    set: Set,
    /// Keep what is known of each path in this folder, for another run of the same program
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Write the page into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// Sets of paths, which have no seed in common.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Set {
    /// Those by which the intervals were calibrated
    Development,
    /// Those that were looked at once, for the page
    Final,
    /// Kinds of paths that neither the calibration nor the simulated guesses have
    Strange,
}

const FAMILIES: [&str; 5] = ["wired", "lossy", "cellular", "wifi", "drawn"];
const STRANGE: [&str; 4] = ["policed", "aqm", "satellite", "acks"];
/// Paths of each family.
const PATHS: usize = 12;
/// The arm that `remuda advise` tries by default.
const CANDIDATE: &str = "bbr3";

const HEAD: &str = "\
# How right `remuda advise` is

`make advise-table` writes this page, simulated. Paths are drawn by seed from families of
`emulation/samples`: 12 each of wired, lossy, cellular, wifi and drawn (a mixture that also has data
centers and rates that step). Buffers are of 0.2 to 8 BDPs; some paths have neighbours that the log
does not show. Paths on which several flows of the host run at once are left out, because
`remuda advise` says that it cannot say there. Over each path 32 transfers of 0.3 to 6 MB by `cubic`
run one after another, and the events of their ends are what `remuda advise` reads. The true gain of
`bbr3` is that of 64 other transfers, which both arms run with the same seeds: the mean of the
logarithm of goodput, as a change in percent. Its own error is a 95 % interval.

The intervals were calibrated on the paths of `--set development`, whose seeds are others.

The guesses of `remuda advise` and the paths of this page come from the same simulator, and mostly
from the same kinds of paths. The page therefore shows that the method works where its assumptions
hold; it does not show how right the verdicts are on the paths of a real host.

";

impl Set {
    fn paths(self) -> Result<Vec<Path>, Error> {
        let (first, families): (u64, &[&str]) = match self {
            Self::Development => (5_000_000, &FAMILIES),
            Self::Final => (6_000_000, &FAMILIES),
            Self::Strange => (7_000_000, &STRANGE),
        };
        let mut paths = Vec::new();
        for name in families {
            let family = Family::named(name);
            let family = family.ok_or_else(|| Error::Config(format!("no family {name}")))?;
            paths.extend(Path::drawn(family, first, PATHS));
        }
        Ok(paths)
    }
}

fn config(rule: impl std::fmt::Display) -> Error {
    Error::Config(rule.to_string())
}

fn known(args: &Args, path: &Path, arms: &[String]) -> Result<Known, Error> {
    let file = args.keep.as_ref().map(|folder| folder.join(format!("{}.json", path.name())));
    if let Some(text) = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok()) {
        return serde_json::from_str(&text).map_err(config);
    }
    let known = path.known(arms)?;
    if let Some(file) = &file {
        let text = serde_json::to_string(&known).map_err(config)?;
        std::fs::write(file, text).map_err(Error::writing(Some(file)))?;
    }
    Ok(known)
}

fn judged(path: &Path, known: &Known, arms: &[String]) -> Result<Judged, Error> {
    let flows = known.log.iter().map(|line| Flow::parse(line));
    let flows: Vec<Option<Flow>> = flows.collect::<Result<_, _>>().map_err(config)?;
    let all = destinations(flows.into_iter().flatten().collect());
    let of = all.first().ok_or_else(|| config(format!("{}: no flow has ended", path.name())))?;
    let verdict = remuda::verdict(of, PRESENT, arms, &AtomicBool::new(false));
    let truth = match &verdict {
        Verdict::Gain { arm, .. } => known.ln_gain.get(arm).copied(),
        Verdict::CannotSay { .. } => None,
    };
    let percent = |(ln, error): (f64, f64)| (ln.exp_m1() * 100.0, ln.exp() * error * 100.0);
    Ok(Judged {
        path: path.name(),
        neighbours: known.neighbours.clone(),
        flows: of.flows.len(),
        verdict,
        truth: truth.map(percent),
    })
}

fn measure(args: &Args) -> Result<(), Error> {
    if let Some(folder) = &args.keep {
        std::fs::create_dir_all(folder).map_err(Error::writing(Some(folder)))?;
    }
    let arms = vec![CANDIDATE.to_owned()];
    let mut all = Vec::new();
    for path in args.set.paths()? {
        all.push(judged(&path, &known(args, &path, &arms)?, &arms)?);
        eprint!("\r{}: {} done", path.name(), all.len());
    }
    eprintln!();
    let page = format!("{HEAD}{}.\n\n{}", Origin::here(), tables(&all));
    let path = args.write.as_deref();
    document::write_whole(path, &page).map_err(Error::writing(path))
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("advise: {error}");
            ExitCode::FAILURE
        }
    }
}
