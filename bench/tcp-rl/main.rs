//! Measures the policy `tcp_rl` beside its paper in the simulator, as a page.

mod changing_paths;
mod fixed_paths;
mod paths;
mod scene;

use ccp_agent::setup::network;
use clap::Parser;
use remuda_algorithms::Network;
use remuda_algorithms::network::State;
use remuda_bench::Error;
use remuda_bench::stats::target::{Row, Target};
use remuda_bench::stats::{Mean, Origin, document, percentile, sorted, target};
use remuda_bench::thread_time::thread_ns;
use remuda_selector::tcp_rl_policy::Networks;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Measure TCP-RL's rows C1, C2' and C2: paper, target, got, interval
#[derive(Debug, Parser)]
struct Args {
    /// Seeds of each row, 2 to 1000
    #[arg(long, value_name = "COUNT", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(2..=1_000))]
    seeds: u64,
    /// The length of the flows of C1, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    seconds: f64,
    /// Every so many paths of C1 only, to look sooner
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    every: usize,
    /// The actor's weights, with --change-weights [default: those of the program]
    #[arg(long, value_name = "FILE", requires = "change_weights")]
    weights: Option<PathBuf>,
    /// The weights of the network that tells changes
    #[arg(long, value_name = "FILE", requires = "weights")]
    change_weights: Option<PathBuf>,
    /// Write the page into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

const HEAD: &str = "\
# TCP-RL's policy beside its paper

`make tcp-rl-table` writes this page: simulated, one flow alone on a path. A target is met if the
95 % interval (Student's t over the seeds) is beyond it. The policy `tcp_rl` picks from ten arms:
the eight candidates of the other policies, `vivace` and `learned`. The page compares it with these
ten, each alone.

- **power** is the goodput of the whole flow over its mean one-way delay, as `remuda matrix` has it;
  **power95** has the 95th percentile of the delay instead, as the paper's reward does. A ratio is
  to the best of the ten arms on the same path with the same seed. Arms below 0.9 of the best by
  both measures with the first seed have no runs with the other seeds.
- **C1**: the paper's 288 paths (1 to 200 Mbit/s, 10 to 200 ms, 0 to 10 % loss, a buffer of one
  product of bandwidth and delay). The policy was trained on them. A flow begins with `learned`,
  and the search for an arm is within the flow. Rows of \"the arm it ends with\" are of that arm
  alone on the same path, as in the paper's figures 15 and 16. Rows of \"the best arm of other
  seeds\" are of the arm that is best on the path with the other seeds: where an arm differs from
  run to run, a choice that knows the path does not know which arm is best in this run.
- **C1, held out**: 60 paths between those, drawn by a seed, on which nothing was trained.
- **C2'**: four phases of a minute, in which different arms win, with a buffer of 200 packets.
  **C2**: the paper's own four phases. The reward of a window of 5 s is ln(bit/s over the 95th
  percentile of the one-way delay in ms); the measure is exp of the mean reward over all windows:
  the geometric mean of power.

";

/// The networks to measure.
fn networks(args: &Args) -> Result<Arc<Networks>, Error> {
    let (Some(actor), Some(change)) = (&args.weights, &args.change_weights) else {
        return Ok(Networks::shipped());
    };
    let read = |path, key| network(path, key).map_err(|error| Error::Config(error.to_string()));
    let found = Networks::of(read(actor, "--weights")?, read(change, "--change-weights")?);
    found.map(Arc::new).map_err(|error| Error::Config(error.to_string()))
}

fn inference(actor: &Network) -> Row {
    let (mut state, mut output) = (State::new(actor), vec![0.0; actor.outputs_len()]);
    let input: Vec<f32> = (0..actor.inputs_len())
        .map(|at| {
            let (low, high) = actor.input_range(at);
            low + (high - low) / 2.0
        })
        .collect();
    let mut evaluate = || {
        let began_ns = thread_ns();
        actor.evaluate(&input, &mut state, &mut output);
        (thread_ns() - began_ns) as f64 / 1e3
    };
    let tenth = |_| percentile(&sorted((0..1_000).map(|_| evaluate())), 99.0);
    let p99s: Vec<f64> = (0..10).map(tenth).collect();
    let what = "inference of the actor, p99 of 1,000, µs of CPU".to_owned();
    Row { id: "cost", what, paper: "700 ms", target: Target::AtMost(50.0), got: Mean::of(&p99s) }
}

fn measure(args: &Args) -> Result<(), Error> {
    let networks = networks(args)?;
    let static_paths: Vec<_> = paths::c1().into_iter().step_by(args.every.max(1)).collect();
    let held_out = paths::held_out(60usize.div_ceil(args.every.max(1)));
    let mut rows = vec![inference(&networks.actor)];
    let (dynamic_rows, dynamic) =
        changing_paths::measure(&networks, "C2'", &paths::PHASES, args.seeds)?;
    rows.extend(dynamic_rows);
    rows.extend(changing_paths::false_alarms(&networks, 1)?);
    let (papers_rows, papers) =
        changing_paths::measure(&networks, "C2", &paths::PAPERS_PHASES, args.seeds)?;
    rows.extend(papers_rows);
    let c1 = fixed_paths::measure(&networks, &static_paths, args.seeds, args.seconds)?;
    rows.extend(c1.rows("C1"));
    let drawn = fixed_paths::measure(&networks, &held_out, args.seeds, args.seconds)?;
    rows.extend(drawn.rows("C1, held out"));
    let page = format!(
        "{HEAD}{} seeds, {} + {} static paths, flows of {} s.\n{}. {}\n\
         ## Figure 16: what the choice loses\n\nOver C1, all seeds.\n\n{}\n\
         ## The arms on C1\n\nWith the first seed: paths on which each arm is the best, and on \
         which the policy ends with it.\n\n{}\n\
         ## C2': rewards by phase\n\n{dynamic}\n## C2: the paper's phases\n\nThe paper: TCP-RL \
         14.71, without the detector 13.42 (the row of Copa).\n\n{papers}",
        args.seeds,
        static_paths.len(),
        held_out.len(),
        args.seconds,
        Origin::here(),
        target::table(&rows),
        c1.figure_16(),
        c1.arms_table(),
    );
    let path = args.write.as_deref();
    document::write_whole(path, &page).map_err(Error::writing(path))
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tcp-rl-table: {error}");
            ExitCode::FAILURE
        }
    }
}
