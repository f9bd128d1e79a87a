//! Measures the switch matrix: every ordered pair of arms, warm and cold.

use ccp_agent::guard::HandOff;
use clap::Parser;
use remuda_bench::stats::Origin;
use remuda_bench::switches::live::Means;
use remuda_bench::switches::matrix::{self, MOMENTS_S, Plan, cells};
use remuda_bench::switches::{Error, Path, flap, report};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure the cost of a switch in mid-flow: every ordered pair of arms on 24 Mbit/s and 40 ms
#[derive(Debug, Parser)]
struct Args {
    /// Measure only these arms, separated by commas [default: all arms; with --live six of them]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    arms: Vec<String>,
    /// Buffers in BDPs, separated by commas
    #[arg(long, value_name = "BDP", value_delimiter = ',', default_value = "1,4")]
    buffers: Vec<f64>,
    /// Seconds after the start at which the switch is made, separated by commas; a pair is judged
    /// by the median
    #[arg(long, value_name = "SECONDS", value_delimiter = ',', default_values_t = MOMENTS_S)]
    at: Vec<f64>,
    /// Number of runs at a time
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// The seed of every run
    #[arg(long, value_name = "N", default_value_t = 1, env = "SEED")]
    seed: u64,
    /// Write the page and its picture into this folder: switching.md and switching.svg, or with
    /// --live switching-live.md and switching-live.svg
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Measure on this kernel's TCP instead of the simulator (needs root): warm, cold, and with the
    /// kernel's own setsockopt
    #[arg(long)]
    live: bool,
    /// The remuda command, for --live
    #[arg(long, value_name = "FILE", env = "REMUDA_BIN", default_value = "target/release/remuda")]
    remuda: PathBuf,
    /// Measure every pair of these arms alternating every 2 s for 20 s, instead of the matrix
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    flap: Vec<String>,
}

fn known(names: &[String]) -> Result<Vec<&'static str>, String> {
    if names.is_empty() {
        return Ok(matrix::arms());
    }
    let find = |name: &String| {
        let arm = remuda_algorithms::arm(name).map(|arm| arm.name);
        arm.ok_or_else(|| format!("there is no arm {name:?}"))
    };
    names.iter().map(find).collect()
}

fn flaps(args: &Args) -> Result<bool, Error> {
    let mut met = true;
    for buffer_bdp in &args.buffers {
        for first in &args.flap {
            for other in args.flap.iter().filter(|other| *other > first) {
                let path = |arm| Path { arm, buffer_bdp: *buffer_bdp, seed: args.seed };
                let (_, of_other) = flap(&path(other), first, HandOff::Warm)?;
                for hand_off in [HandOff::Warm, HandOff::Cold] {
                    let (resent, of_first) = flap(&path(first), other, hand_off)?;
                    let bound = 2.0 * of_first.max(of_other);
                    let miss = resent > bound && hand_off == HandOff::Warm;
                    met &= !miss;
                    println!(
                        "{first} and {other}, {buffer_bdp} BDP, {}: {resent:.0} sent again in \
                         20 s; alone {of_first:.0} and {of_other:.0}{}",
                        report::named(hand_off),
                        if miss { "  MISSED" } else { "" }
                    );
                }
            }
        }
    }
    Ok(met)
}

/// The arms whose pairs are measured live by default.
const LIVE_ARMS: [&str; 6] = ["reno", "cubic", "bbr", "vegas", "westwood", "copa"];
/// The kernel's own algorithms among these.
const KERNEL_ARMS: [&str; 3] = ["reno", "cubic", "bbr"];

fn live(args: &Args) -> Result<bool, Box<dyn std::error::Error>> {
    let named: Vec<String> = match args.arms.as_slice() {
        [] => LIVE_ARMS.map(str::to_owned).to_vec(),
        arms => arms.to_vec(),
    };
    let plan = |arms| Plan {
        arms,
        buffers_bdp: args.buffers.clone(),
        moments_s: vec![args.at[0]],
        jobs: args.jobs,
        seed: args.seed,
    };
    let arms = known(&named)?;
    let kernels = arms.iter().copied().filter(|arm| KERNEL_ARMS.contains(arm)).collect();
    let (of_agent, of_kernel) = (plan(arms), plan(kernels));
    let origin = format!("{}, seed {}, {} runs at once.", Origin::here(), args.seed, args.jobs);
    let run = |plan: &Plan, means, word: &str| {
        matrix::live_cells(plan, &args.remuda, means, |cell| {
            eprintln!("{word}: {}", report::line(cell));
        })
    };
    let warm = run(&of_agent, Means::Agent(HandOff::Warm), "warm")?;
    let cold = run(&of_agent, Means::Agent(HandOff::Cold), "cold")?;
    let kernel = run(&of_kernel, Means::Kernel, "kernel")?;
    let columns = [("warm", warm.as_slice()), ("cold", &cold), ("the kernel's own", &kernel)];
    let page = report::live_page(&of_agent, &columns, &origin);
    match &args.write {
        Some(folder) => {
            std::fs::write(folder.join("switching-live.md"), page)?;
            let picture = report::picture(&of_agent, &columns);
            std::fs::write(folder.join("switching-live.svg"), picture)?;
        }
        None => print!("{page}"),
    }
    Ok(warm.iter().all(|cell| cell.missed().is_empty()))
}

fn measure(args: &Args) -> Result<bool, Box<dyn std::error::Error>> {
    if args.live {
        return live(args);
    }
    if !args.flap.is_empty() {
        known(&args.flap)?;
        return Ok(flaps(args)?);
    }
    let plan = Plan {
        arms: known(&args.arms)?,
        buffers_bdp: args.buffers.clone(),
        moments_s: args.at.clone(),
        jobs: args.jobs,
        seed: args.seed,
    };
    let (warm, cold) = (cells(&plan, HandOff::Warm)?, cells(&plan, HandOff::Cold)?);
    let page = report::page(&plan, &warm, &cold);
    if let Some(folder) = &args.write {
        std::fs::write(folder.join("switching.md"), &page)?;
        let means = [("warm", warm.as_slice()), ("cold", &cold)];
        std::fs::write(folder.join("switching.svg"), report::picture(&plan, &means))?;
    } else {
        print!("{page}");
    }
    println!("warm: {}\ncold: {}", report::summary(&warm), report::summary(&cold));
    Ok(warm.iter().all(|cell| cell.missed().is_empty()))
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("switches: {error}");
            ExitCode::FAILURE
        }
    }
}
