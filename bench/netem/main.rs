//! A second opinion on the emulator: the kernel's own reno and cubic over our link and over the
//! kernel's netem, on the same paths, each in a guest (`tests/guest`), where nothing disturbs
//! either. No agent, and no code of ours on netem's side but what makes the pair of devices.

mod path;
mod run;
mod table;

use clap::Parser;
use path::{PATHS, TABLES};
use remuda_bench::stats::{Origin, document};
use remuda_guest::{Guest, Options};
use run::Round;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The kernel's netem beside our link, on the same paths.
#[derive(Debug, Parser)]
struct Args {
    /// Seconds each flow runs
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    seconds: u64,
    /// How often each path is repeated
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// First seed of the link's random loss
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these of the kernel's own
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "reno,cubic")]
    algorithms: Vec<String>,
    /// Only paths whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// The kernel of this folder runs them: `tools/guest.sh` makes target/guest/6.12
    #[arg(long, value_name = "DIR", default_value = "target/guest/6.12")]
    guest: PathBuf,
    /// Where `ip` and `tc` are (Debian's package iproute2)
    #[arg(long, value_name = "DIR", default_value = "/usr/sbin")]
    tools: PathBuf,
    /// And the table of the normal distribution
    #[arg(long, value_name = "FILE", default_value = "/usr/lib/x86_64-linux-gnu/tc/normal.dist")]
    normal: PathBuf,
    /// Write the table into this document, between its markers
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Run the path of this number here, print its rounds as JSON, and end: what a guest is asked
    #[arg(long, value_name = "N", conflicts_with = "write",
        value_parser = clap::value_parser!(u64).range(..PATHS.len() as u64))]
    alone: Option<u64>,
}

/// A path, by its number, and what runs on it.
struct Job {
    path: usize,
    algorithm: String,
}

fn jobs(args: &Args) -> Result<Vec<Job>, String> {
    let of =
        |path: usize| args.algorithms.iter().cloned().map(move |algorithm| Job { path, algorithm });
    let meant = |path: &usize| PATHS[*path].to_string().contains(&args.only);
    let jobs: Vec<Job> = (0..PATHS.len()).filter(meant).flat_map(of).collect();
    if jobs.is_empty() {
        let names = PATHS.map(|path| path.to_string()).join("\n");
        return Err(format!("--only {}: in none of\n{names}", args.only));
    }
    Ok(jobs)
}

fn guest(args: &Args) -> Result<Guest, Box<dyn std::error::Error>> {
    let [ip, tc] = ["ip", "tc"].map(|tool| args.tools.join(tool));
    let guest = Guest::new(&args.guest, &[&std::env::current_exe()?, &ip, &tc])?;
    let normal = std::fs::read(&args.normal)
        .map_err(|error| format!("--normal {}: {error}", args.normal.display()))?;
    let guest = guest.with_file(&Path::new(TABLES).join("normal.dist"), &normal)?;
    let mut options = Options::default();
    options.modules.push("sch_netem".into());
    Ok(guest.with_options(options))
}

fn in_guest(guest: &Guest, args: &Args, job: &Job) -> Result<Vec<Round>, String> {
    let mut command = vec![String::from("remuda-netem")];
    let mut add = |flag: &str, value: String| command.extend([flag.to_owned(), value]);
    add("--alone", job.path.to_string());
    add("--algorithms", job.algorithm.clone());
    add("--rounds", args.rounds.to_string());
    add("--seconds", args.seconds.to_string());
    add("--seed", args.seed.to_string());
    let own = Duration::from_secs(args.rounds * 2 * (args.seconds + 1));
    let ran = guest.run_json(&command, own);
    ran.map_err(|error| format!("{}, {}: {error}", PATHS[job.path], job.algorithm))
}

fn compare(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let jobs = jobs(args)?;
    let guest = guest(args)?;
    let origin = Origin::here().in_guests(guest.kernel_release()?);
    let mut rows = vec![String::new(); jobs.len()];
    let indexed: Vec<(usize, &Job)> = jobs.iter().enumerate().collect();
    remuda_guest::each(
        &indexed,
        |(_, job)| in_guest(&guest, args, job),
        |(index, job), rounds: Vec<Round>| {
            rows[*index] = table::row(&PATHS[job.path].to_string(), &job.algorithm, &rounds);
            eprintln!("{}", rows[*index]);
        },
    )?;
    let Args { seconds, rounds, .. } = args;
    let text = format!(
        "{seconds} s a run, {rounds} of each.\n\n{}\n{}\n\n{origin}.",
        table::COLUMNS,
        rows.join("\n")
    );
    println!("{text}");
    if let Some(path) = &args.write {
        document::write(path, "make netem", &text)?;
    }
    Ok(())
}

fn alone(args: &Args, number: u64) -> Result<(), Box<dyn std::error::Error>> {
    let algorithm = args.algorithms.first().ok_or("--algorithms: names one")?;
    let seconds = Duration::from_secs(args.seconds);
    let rounds: Result<Vec<Round>, String> = (0..args.rounds)
        .map(|round| Round::run(&PATHS[number as usize], algorithm, seconds, args.seed + round))
        .collect();
    println!("{}", serde_json::to_string(&rounds?)?);
    Ok(())
}

fn main() -> ExitCode {
    let args = Args::parse();
    let ran = match args.alone {
        Some(number) => alone(&args, number),
        None => compare(&args),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("netem: {error}");
            ExitCode::FAILURE
        }
    }
}
