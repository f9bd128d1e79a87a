//! Measures the policy `rein` on the downloads of its suite, and how well it tells classes, as a
//! page.

use clap::Parser;
use remuda_algorithms::Wants;
use remuda_bench::Error;
use remuda_bench::rein::classes::{self, judge};
use remuda_bench::rein::downloads::Measured;
use remuda_bench::rein::jitter::Jitter;
use remuda_bench::rein::page::Page;
use remuda_bench::stats::document;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure Rein's rows D1 and D2: completion times, what neighbours keep, classes
#[derive(Debug, Parser)]
struct Args {
    /// The first of the seeds, from 1 on
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,
    /// Seeds of each download, 2 to 1000
    #[arg(long, value_name = "COUNT", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(2..=1_000))]
    seeds: u64,
    /// Write the page into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

fn measure(args: &Args) -> Result<(), Error> {
    let throughput = "throughput".parse().expect("a preference");
    let measured = Measured::new(args.from..=args.from + args.seeds - 1)?;
    let page = Page {
        fixed: measured.fixed()?,
        default: measured.driver("rein", Wants::DEFAULT, "**rein**")?,
        throughput: measured.driver("rein", throughput, "**rein**, throughput")?,
        measured,
        wired: judge(&classes::wired(), args.from..=args.from)?,
        radio: Jitter::ALL
            .into_iter()
            .map(|jitter| judge(&classes::radio(jitter), args.from..=args.from + 2))
            .collect::<Result<_, Error>>()?,
    };
    for judged in page.wired.iter().chain(page.radio.iter().flatten()) {
        if judged.first.as_ref().is_none_or(|first| first.class != judged.case.class()) {
            eprintln!("{}: {:?}", judged.case.name(), judged.first);
        }
    }
    let path = args.write.as_deref();
    document::write_whole(path, &page.text()).map_err(Error::writing(path))
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rein-table: {error}");
            ExitCode::FAILURE
        }
    }
}
