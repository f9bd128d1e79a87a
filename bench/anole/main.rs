//! Measures the table of the arm `anole`.

use clap::Parser;
use remuda_algorithms::anole::config::AnoleConfig;
use remuda_bench::Error;
use remuda_bench::anole::page::{figures, page};
use remuda_bench::anole::rows::Table;
use remuda_bench::stats::document;
use std::path::PathBuf;
use std::process::ExitCode;

/// Rows B1 to B9 of Anole's paper with the paper's figure, the target and our result, simulated
#[derive(Debug, Parser)]
struct Args {
    /// The arm that anole embeds as its classic one
    #[arg(long, value_name = "NAME", default_value_t = AnoleConfig::default().classic)]
    classic: String,
    /// The learned arm; none for an Anole without one
    #[arg(long, value_name = "NAME", default_value_t = AnoleConfig::default().learned)]
    learned: String,
    /// Number of seeds of every run, 2 to 10000
    #[arg(long, value_name = "N", default_value_t = 40,
        value_parser = clap::value_parser!(u64).range(2..=10_000))]
    seeds: u64,
    /// The first seed of every run
    #[arg(long, value_name = "N", default_value_t = 1, env = "SEED",
        value_parser = clap::value_parser!(u64).range(..1 << 40))]
    seed: u64,
    /// Only the rows, without the tables of figures 2, 6, 8 and 11 and of ablations
    #[arg(long)]
    rows: bool,
    /// Write the page into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

fn measure(args: &Args) -> Result<(), Error> {
    let (classic, learned) = (args.classic.clone(), args.learned.clone());
    let config = AnoleConfig { classic, learned, ..AnoleConfig::default() };
    config.validate().map_err(Error::Config)?;
    let seeds = args.seed..=args.seed + args.seeds - 1;
    let mut table = Table { config: &config, seeds: seeds.clone(), rows: Vec::new() };
    table.measure(|row| eprint!("{}", row.line()))?;
    let below = if args.rows { String::new() } else { figures(&config, &seeds)? };
    let page = page(&table.rows, &below, &config, &seeds);
    let path = args.write.as_deref();
    document::write_whole(path, &page).map_err(Error::writing(path))
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("anole-table: {error}");
            ExitCode::FAILURE
        }
    }
}
