//! `remuda train`: collects the data from which policies learn, and trains their models.

mod learned;
mod lingbo;
mod network;
mod online;
mod python;
mod ray;
mod tcp_rl;

use crate::Failure;
use crate::author::PythonArgs;
use crate::commit::commit;
use crate::stop::stop_flag;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use python::{FIX, check, is_help, module};
use remuda_matrix::code_version;
use remuda_samples::{Collection, Progress, collect};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Without a terminal, a line is written after each of this many environments.
const LINE_EVERY: u64 = 200;

/// Train the model of a policy, or the network of an arm.
#[derive(Debug, Args)]
pub struct TrainArgs {
    #[command(subcommand)]
    policy: TrainPolicy,
}

/// The engine of the simulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// The simulator in this process
    Local,
    /// A Ray cluster, through the Python extra `remuda[ray]`
    Ray,
}

/// The policies and arms that can be trained.
#[derive(Debug, Subcommand)]
enum TrainPolicy {
    /// Train antelope's boosted trees
    Antelope(AntelopeArgs),
    /// Train the network of the arm learned
    Learned(learned::LearnedArgs),
    /// Train the network of the arm lingbo by imitation of an expert that knows the path
    Lingbo(lingbo::LingboArgs),
    /// Train the networks of the policy tcp_rl
    #[command(name = "tcp_rl")]
    TcpRl(tcp_rl::TcpRlArgs),
}

/// Train a model for antelope from simulations; or correct the model in force by live flows.
///
/// Simulates drawn environments, once with each arm alone and again with arms in random order, and
/// trains a model for each arm and mode on the results. Without --collect, --fit and --online it
/// does all of that. A collection that was stopped with Ctrl-C continues where it was. The same
/// seeds and the same program give the same model, byte for byte.
///
/// With --online it compares the agent's samples of live flows with the predictions of the model in
/// force. If a corrected model has a smaller error on held-out flows, beyond chance, it is written
/// to models/candidate.json of the state directory, where the agent tries it in shadow. Otherwise
/// nothing is written, which is no failure.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Collect the data and train the model
    remuda train antelope
  Collect more data elsewhere; the command may be stopped and repeated
    remuda train antelope --collect --environments 20000 --data /srv/samples
  Train another model on the same data
    remuda train antelope --fit --data /srv/samples --model joint.json -- --kind joint --members 5
  Collect on a Ray cluster
    remuda train antelope --collect --engine ray --ray-address head:6379
  Make an agent use the model
    [policy.antelope] in its configuration: model = \"joint.json\"
  Correct the model in force by live flows, every six hours, until Ctrl-C
    remuda train antelope --online --every 6h

Training needs Python 3.11 with remuda[train], collecting on Ray needs remuda[ray]; --python or \
$REMUDA_PYTHON chooses the Python.")]
struct AntelopeArgs {
    /// Only collect; train no model
    #[arg(long, conflicts_with = "fit")]
    collect: bool,
    /// Only train, on data collected before
    #[arg(long)]
    fit: bool,
    /// The folder of the samples
    #[arg(long, value_name = "DIR", default_value = "out/antelope/samples")]
    data: PathBuf,
    /// The file of the model [default: out/antelope/model.json]; with --online, the model in force
    /// [default: the agent's, from --config and --state-dir]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// The number of environments
    #[arg(long, value_name = "COUNT", default_value_t = 9_600)]
    environments: u64,
    /// The seed of the first environment; each further one has the next seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    first: u64,
    /// Runs of each environment in which arms change at random, 1 or more
    #[arg(
        long, value_name = "COUNT", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..),
    )]
    plans: u64,
    /// Simulations at a time [default: the number of processors, here or in the cluster]
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// What executes the simulations; both give the same files
    #[arg(long, value_enum, default_value = "local")]
    engine: Engine,
    /// The Ray cluster, as HOST:PORT, ray://HOST:PORT or `auto` [default: a new local cluster]
    #[arg(long, value_name = "ADDR")]
    ray_address: Option<String>,
    /// Correct the model in force by the agent's samples of live flows
    #[arg(long, conflicts_with_all = [
        "collect", "fit", "data", "environments", "first", "plans", "threads", "engine",
    ])]
    online: bool,
    #[command(flatten)]
    live: online::LiveArgs,
    #[command(flatten)]
    python: PythonArgs,
    /// Arguments for the training program: `-- --help` lists them
    #[arg(last = true, value_name = "ARGS")]
    training: Vec<String>,
}

impl TrainArgs {
    pub fn run(&self) -> Result<(), Failure> {
        match &self.policy {
            TrainPolicy::Antelope(args) => antelope(args),
            TrainPolicy::Learned(args) => args.run(),
            TrainPolicy::Lingbo(args) => args.run(),
            TrainPolicy::TcpRl(args) => args.run(),
        }
    }
}

fn antelope(args: &AntelopeArgs) -> Result<(), Failure> {
    if args.ray_address.is_some() && args.engine != Engine::Ray {
        return Err("--ray-address needs --engine ray; add that, or leave out the address".into());
    }
    if args.online {
        let online = online::Online {
            live: &args.live,
            model: args.model.as_deref(),
            python: &args.python.path(),
            training: &args.training,
        };
        let stopped = stop_flag()?;
        return online.run(&stopped);
    }
    if !args.fit && !collected(args)? {
        return Err("stopped: the same command goes on where it was".into());
    }
    if !args.collect {
        fit(args)?;
    }
    Ok(())
}

/// Collects samples. Returns whether it completed.
fn collected(args: &AntelopeArgs) -> Result<bool, Failure> {
    let stopped = stop_flag()?;
    let about = [
        ("commit", commit().unwrap_or_else(|| "unknown".to_owned())),
        ("program", code_version()?),
    ];
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let collection = Collection {
        folder: args.data.clone(),
        first: args.first,
        environments: args.environments,
        plans: args.plans,
        threads: args.threads.unwrap_or_else(all),
        about: about.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    };
    let shown = Shown::new(args.environments);
    let show = |so_far| shown.show(so_far);
    let done = match args.engine {
        Engine::Local => collect(&collection, &stopped, show)?,
        Engine::Ray => {
            let address = args.ray_address.as_deref();
            // The size of a new local cluster is not known yet.
            let jobs = args.threads.or_else(|| address.is_none().then(all));
            let cluster = ray::Cluster { python: &args.python.path(), address, jobs };
            cluster.collect(&collection, &stopped, show)?
        }
    };
    shown.clear();
    if let Some(done) = done {
        let (all, kept) = (done.all, done.kept);
        println!("{all} environments in {}, {kept} kept from before", args.data.display());
    }
    Ok(done.is_some() && !stopped.load(Ordering::Relaxed))
}

fn fit(args: &AntelopeArgs) -> Result<(), Failure> {
    let python = args.python.path();
    let path = args.model.clone().unwrap_or_else(|| PathBuf::from("out/antelope/model.json"));
    let mut command = module(&python, "remuda.training.antelope");
    command.arg("--data").arg(&args.data).arg("--out").arg(&path).args(&args.training);
    let python = python.display();
    let status = command.status().map_err(|error| format!("{python}: {error}\n{FIX}"))?;
    if !status.success() {
        return Err(format!("{python} -m remuda.training.antelope: {status}\n{FIX}").into());
    }
    if is_help(&args.training) { Ok(()) } else { check(&path) }
}

/// The progress on standard error.
struct Shown {
    bar: Option<ProgressBar>,
    next_line: Mutex<u64>,
}

impl Shown {
    fn new(all: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(Some(all), target);
            let style =
                ProgressStyle::with_template("{bar:40} {pos} of {len} environments, {eta} left");
            // The template is a constant; if it were wrong, a plain bar would do.
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, next_line: Mutex::new(LINE_EVERY) }
    }

    fn show(&self, so_far: Progress) {
        if let Some(bar) = &self.bar {
            bar.set_position(so_far.done);
            return;
        }
        let Ok(mut next) = self.next_line.lock() else { return };
        if so_far.done >= *next {
            *next = so_far.done + LINE_EVERY;
            eprintln!("remuda train: {} of {} environments", so_far.done, so_far.all);
        }
    }

    fn clear(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
