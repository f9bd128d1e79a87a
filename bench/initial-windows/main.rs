//! Measures learned initial windows beside fixed ones on real TCP, as a page: TCP-RL's experiment
//! C3, sections VI and VII-B of the paper.

mod agent;
mod day;
mod policies;
mod tables;

use clap::Parser;
use policies::{POLICIES, Runner, WINDOWS, optimum};
use remuda_bench::initial_windows::scene::{DAY_HOURS, Day};
use remuda_bench::kept::Kept;
use remuda_bench::only;
use remuda_bench::stats::{Origin, document, target};
use remuda_tests::Fallible;
use remuda_tests::nginx::Nginx;
use std::path::PathBuf;
use std::process::ExitCode;
use tables::{Days, of_jumps};

/// Measure IW10, IW200, learned and best initial windows for nine groups of users (root)
///
/// A day that was measured is kept and not repeated, so the same command continues after a stop.
#[derive(Debug, Parser)]
struct Args {
    /// Seeds of each policy, 2 to 100
    #[arg(long, value_name = "COUNT", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(2..=100))]
    seeds: u64,
    /// Seeds of each window of the sweep that finds the best windows, 1 to 100
    #[arg(long, value_name = "COUNT", default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(1..=100))]
    sweep_seeds: u64,
    /// Days on which the agent learns before the measured day, 2 to 100
    #[arg(long, value_name = "COUNT", default_value_t = 4,
        value_parser = clap::value_parser!(u64).range(2..=100))]
    teaching_days: u64,
    /// Hours of a day, 1 to 24: fewer, to look sooner
    #[arg(long, value_name = "COUNT", default_value_t = DAY_HOURS as u64,
        value_parser = clap::value_parser!(u64).range(1..=DAY_HOURS as u64))]
    hours: u64,
    /// The length of an hour, 0.1 to 60 seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = hour_s)]
    hour_s: f64,
    /// Keep the results of days in this folder
    #[arg(long, value_name = "FOLDER", default_value = "out/initial-windows")]
    out: PathBuf,
    /// Write the page into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

fn hour_s(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=60.0).contains(seconds));
    seconds.ok_or_else(|| "must be 0.1 to 60 seconds".to_owned())
}

const HEAD: &str = "\
# Learned initial windows beside their paper

`make initial-windows` writes this page: experiment C3 of TCP-RL (Nie et al., JSAC 2019, section
VII-B) on real TCP. [initial-windows.md](initial-windows.md) describes what is measured.

- **Paths.** A server and nine groups of users are network namespaces of this host, joined by
  emulated links: three regions (30, 60 and 100 ms) and three ISPs (8, 16 and 32 Mbit/s; the slowest
  adds 20 ms and 0.1 % loss). Buffers hold one product of rate and round trip. In the evening the
  rate falls by 35 %, and round trip and loss grow. The paper publishes
  no rates of its groups, so these are ours (`bench/initial-windows/scene.rs`).
- **Requests.** Debian's nginx serves 32 files with lognormal sizes, 120 kB on average. A user of
  each group comes every second on average (Poisson), and asks for three files, one after the other.
  Half of the users keep their connection; the others open one for each file.
- **Response time** is the time from a request to its last byte, as the client sees it. Only the
  first response of a connection begins with the initial window. Where nothing else is said, the
  figures are of first responses.
- **Policies.** All flows run CUBIC under one agent. IW10 and IW200 have one window. RL is the
  agent's `[iw]` with a round of at least a second and three records, and windows of 10, 30, 50 and
  70 segments at first, 20 apart, since a run has fewer rounds than the paper's days. It has learned
  on earlier days; the first of these gathers the records from which groups are formed. RL without
  grouping has one group for all. The optimum has, for each group and hour, the best window of a
  sweep from 2 to 200 segments on other seeds; the hour's neighbours count too.
- **Jumps** ([destinations.md](destinations.md)) are off or on. A flow jumps only if it began with
  ten segments, so they change IW10 most.
- A target is met if the 95 % interval (Student's t over the seeds) is beyond it. A day is not
  repeated once it is measured; each lasts less than half a minute.

";

fn measure(args: &Args) -> Fallible<()> {
    let program = Nginx::program();
    if !program.exists() {
        let fix = "fix: bash tools/unpack.sh nginx";
        return Err(format!("there is no {}\n{fix}", program.display()).into());
    }
    only::add();
    let day = Day { hours: args.hours as usize, hour_s: args.hour_s };
    let kept = Kept::new(&args.out, &std::env::current_exe()?)?;
    let mut runner = Runner::new(kept, &args.out, day, args.teaching_days)?;
    let sweep = runner.sweep(args.sweep_seeds)?;
    let windows = optimum(&sweep, day.hours);
    // A seed after the other, so that a stop leaves the same number of seeds of every policy.
    let mut days = [(); 2].map(|()| POLICIES.map(|_| Vec::new()));
    for seed in 1..=args.seeds {
        for (jumps, of_policies) in [false, true].into_iter().zip(&mut days) {
            for (policy, of_seeds) in POLICIES.into_iter().zip(of_policies) {
                of_seeds.push(runner.measure(policy, &windows, (jumps, seed))?);
            }
        }
    }
    let [without, with] = days.map(|of_policies| Days(of_policies.into()));
    let page = page(args, &runner, &windows, [&without, &with]);
    Ok(document::write_whole(args.write.as_deref(), &page)?)
}

fn page(args: &Args, runner: &Runner, windows: &[Vec<u32>], days: [&Days; 2]) -> String {
    let [without, with] = days;
    let mut rows = without.rows("no jumps");
    rows.extend(with.rows("jumps"));
    rows.push(of_jumps(without, with));
    let Runner { days: count, disturbed, failed, .. } = runner;
    let mut page = format!(
        "{HEAD}Days of {} hours of {} s.\n\
         {} seeds, {} days of learning, a sweep over\n{WINDOWS:?} with {} \
         seeds. Of {count} days\na hypervisor disturbed {disturbed}; {failed} requests \
         were given up after 10 s.\n\n\
         {}. {}\n",
        args.hours,
        args.hour_s,
        args.seeds,
        args.teaching_days,
        args.sweep_seeds,
        Origin::here(),
        target::table(&rows),
    );
    for (name, days) in [("without jumps", without), ("with jumps", with)] {
        page += &format!(
            "## Percentiles (figure 9b), {name}\n\nIn ms.\n\n{}\n\
             ## Groups (figures 10 and 11), {name}\n\nGain: how much shorter the mean response \
             time is than IW10's.\nAlone: the seeds with which RL formed a group of just these \
             users; with the others, they\nare in a wider group. Window: the best one that RL \
             knows at the end of the day, in segments.\n\n{}\n\
             ## Costs (figure 12), {name}\n\nBeside IW10, in per cent; for lost segments, the \
             share itself.\n\n{}\n{}\n",
            days.percentiles(),
            days.by_group(windows),
            days.costs(),
            days.check(),
        );
    }
    page.trim_end().to_owned() + "\n"
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("initial-windows: {error}");
            ExitCode::FAILURE
        }
    }
}
