//! Compares every arm with its paper, as a table.

use clap::Parser;
use remuda_algorithms::ARMS;
use remuda_bench::Error;
use remuda_bench::arms::expectations::Scene;
use remuda_bench::arms::{page, rows, run};
use remuda_bench::stats::document;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare every arm with its paper: scenario, expected and measured figures
#[derive(Debug, Parser)]
struct Args {
    /// Measure only this arm [default: all arms]
    #[arg(long, value_name = "NAME")]
    arm: Option<String>,
    /// Write the page into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Show the figures of every arm in every scene, whether or not anything is expected there
    #[arg(long)]
    survey: bool,
}

const SCENES: [Scene; 5] =
    [Scene::Alone, Scene::Deep, Scene::Loss, Scene::BesideCubic, Scene::Marks];

fn survey(only: Option<&str>) -> Result<(), Error> {
    for arm in ARMS.iter().filter(|arm| only.is_none_or(|only| only == arm.name)) {
        print!("{:10}", arm.name);
        for scene in SCENES {
            let got = run(arm.name, scene)?;
            print!(
                "  {}: {:.3} {:.0}/{:.0} ms",
                scene.name(),
                got.share,
                got.queue_mean_ms,
                got.queue_p95_ms
            );
        }
        println!();
    }
    Ok(())
}

fn measure(args: &Args) -> Result<bool, Box<dyn std::error::Error>> {
    if args.survey {
        survey(args.arm.as_deref())?;
        return Ok(true);
    }
    let rows = rows(args.arm.as_deref())?;
    document::write_whole(args.write.as_deref(), &page(&rows))?;
    let met = rows.iter().filter(|row| row.met()).count();
    println!("{met} of {} as expected", rows.len());
    Ok(met == rows.len())
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("arms: {error}");
            ExitCode::FAILURE
        }
    }
}
