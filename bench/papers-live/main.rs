//! Measures rows of the tables of Anole and LingBo on real TCP, as a page.

mod place;
mod rows;

use clap::Parser;
use place::{Error, Place};
use remuda_bench::stats::{Origin, document, target};
use rows::{ROWS, Table};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure rows B1, B2, B4, B7, B8 of Anole and E2, E4, E6 of LingBo on real TCP (root)
///
/// A run that was measured is kept and not repeated, so the same command continues after a stop.
#[derive(Debug, Parser)]
struct Args {
    /// Seeds of each row, 2 to 100
    #[arg(long, value_name = "COUNT", default_value_t = 3,
        value_parser = clap::value_parser!(u64).range(2..=100))]
    seeds: u64,
    /// Measure only rows with these names, such as B4,E6; all if none is named
    #[arg(long, value_name = "ROWS", value_delimiter = ',', value_parser = ROWS)]
    rows: Vec<String>,
    /// Keep the outcomes of runs in this folder
    #[arg(long, value_name = "FOLDER", default_value = "out/papers-live")]
    out: PathBuf,
    /// The command `remuda` whose agents drive the flows
    #[arg(long, value_name = "FILE", default_value = "target/release/remuda")]
    remuda: PathBuf,
    /// A Python that has the package `remuda`, for an arm with a constant window
    #[arg(long, value_name = "FILE", default_value = "target/venv/bin/python")]
    python: PathBuf,
    /// Write the page into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

const HEAD: &str = "\
# Anole and LingBo on real TCP

`make papers-live` writes this page: rows of [anole.md](anole.md) and [lingbo.md](lingbo.md), with
the kernel's TCP under agents, on links that are emulated between two network namespaces of this
host. Runs follow each other, and last as long as those of the simulated rows. A figure is the mean
over the seeds, with the 95 % interval of the mean (Student's t). The one-way delay is that of every
packet of the link in the direction of the data, from its arrival to its delivery. The way back has
a constant delay, so a round trip is the sum of the two. These are development rows.

";

fn measure(args: &Args) -> Result<(), Error> {
    let place = Place::new(&args.remuda, &args.python, &args.out)?;
    let mut table = Table { place, seeds: args.seeds, only: args.rows.clone(), rows: Vec::new() };
    table.measure()?;
    let (seeds, disturbed) = (args.seeds, table.place.disturbed);
    let page = format!(
        "{HEAD}{seeds} seeds; of {} runs a hypervisor disturbed {disturbed}.\n{}. {}",
        table.place.runs,
        Origin::here(),
        target::table(&table.rows)
    );
    table.place.end()?;
    let path = args.write.as_deref();
    let name = || path.map_or("standard output".to_owned(), |path| path.display().to_string());
    document::write_whole(path, &page).map_err(|source| Error::File { path: name(), source })
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("papers-live: {error}");
            ExitCode::FAILURE
        }
    }
}
