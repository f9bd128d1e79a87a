//! Measures what a CUBIC flow keeps beside each arm and policy, simulated, as a page.

mod policies;

use clap::Parser;
use remuda_algorithms::ARMS;
use remuda_bench::Error;
use remuda_bench::lingbo::scene::{Scene, WIRED};
use remuda_bench::stats::target::{self, Row, Target};
use remuda_bench::stats::{Mean, Origin, document};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure the goodput of a CUBIC flow beside each arm, over that beside another CUBIC flow
#[derive(Debug, Parser)]
struct Args {
    /// Seeds of each row, 2 to 1000
    #[arg(long, value_name = "COUNT", default_value_t = 40,
        value_parser = clap::value_parser!(u64).range(2..=1_000))]
    seeds: u64,
    /// The arms to measure, separated by commas; all if none is named
    #[arg(long, value_name = "ARMS", value_delimiter = ',')]
    arms: Vec<String>,
    /// Measure the policies in place of the arms
    #[arg(long, conflicts_with = "arms")]
    policies: bool,
    /// Write the page into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

const HEAD: &str = "\
# What a neighbour keeps

`make harm` writes this page, simulated. A flow of each arm starts on a wired path of 12 Mbit/s and
40 ms, and half a second later a CUBIC flow; both run for a minute. A figure is the goodput of that
CUBIC flow, over its goodput beside another CUBIC flow on the same path and seed. The mean over the
seeds has a 95 % interval (Student's t). 1 means that the arm takes as much as another CUBIC flow;
more means that it takes less. The arms that are learned or embed a learned arm have a target: CUBIC
must keep at least half of what it has beside another CUBIC.

";

/// The arms that have a target.
const NEW: [&str; 3] = ["learned", "lingbo", "anole"];

/// Buffers in BDPs, and in packets: the path holds 40.
const BUFFERS: [(&str, u64); 3] = [("0.5", 20), ("1", 40), ("4", 160)];

/// The goodput of a CUBIC flow beside an arm, in Mbit/s.
fn beside(arm: &str, buffer_pkts: u64, seed: u64) -> Result<f64, Error> {
    let mut scene = Scene::new(WIRED, arm);
    (scene.seconds, scene.buffer_pkts) = (60.0, buffer_pkts);
    scene.flows.push(("cubic".to_owned(), 0.5));
    Ok(scene.run(seed)?.flows[1].goodput_mbit_per_sec)
}

/// The arms of these names; all that can run on this path if there are no names.
fn wanted(names: &[String]) -> Result<Vec<&'static str>, Error> {
    let all = ARMS.iter().filter(|arm| arm.adapts && !arm.needs_ecn).map(|arm| arm.name);
    let all: Vec<&str> = all.collect();
    if let Some(unknown) = names.iter().find(|name| !all.contains(&name.as_str())) {
        return Err(Error::Arm(unknown.clone(), all.join(", ")));
    }
    let is_wanted = |arm: &&str| names.is_empty() || names.iter().any(|name| name == arm);
    Ok(all.into_iter().filter(is_wanted).collect())
}

fn measure(args: &Args) -> Result<(), Error> {
    let seeds = 1..=args.seeds;
    let (head, rows) = match args.policies {
        true => (policies::HEAD, policies::rows(&seeds, |row| eprint!("{}", row.line()))?),
        false => (HEAD, arms(&wanted(&args.arms)?, &seeds)?),
    };
    let count = args.seeds;
    let page = format!("{head}{count} seeds. {}. {}", Origin::here(), target::table(&rows));
    let path = args.write.as_deref();
    document::write_whole(path, &page).map_err(Error::writing(path))
}

fn arms(arms: &[&'static str], seeds: &RangeInclusive<u64>) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for (bdps, buffer_pkts) in BUFFERS {
        let alike = seeds.clone().map(|seed| beside("cubic", buffer_pkts, seed));
        let alike: Vec<f64> = alike.collect::<Result<_, Error>>()?;
        for arm in arms {
            let kept = seeds.clone().zip(&alike);
            let kept = kept.map(|(seed, alike)| Ok(beside(arm, buffer_pkts, seed)? / alike));
            let got = Mean::of(&kept.collect::<Result<Vec<f64>, Error>>()?);
            let target = if NEW.contains(arm) { Target::AtLeast(0.5) } else { Target::Shown };
            let row = Row { id: arm, what: format!("{bdps} BDP"), paper: "", target, got };
            eprint!("{}", row.line());
            rows.push(row);
        }
    }
    // One arm's rows together, in the order of the buffers.
    rows.sort_by_key(|row| arms.iter().position(|arm| *arm == row.id));
    Ok(rows)
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("harm: {error}");
            ExitCode::FAILURE
        }
    }
}
