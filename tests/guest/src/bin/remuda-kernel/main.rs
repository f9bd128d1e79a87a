//! The program that tests tcp_remuda inside a virtual machine. It runs scenarios by name; each
//! loads the module and leaves it unloaded. A broken rule is a panic, and a status other than 0.
//!
//! `tests/scenarios.rs` boots the machines.

mod ccp_kernel;
mod churn;
mod datapaths;
mod device;
mod functional;
mod hostile;
mod life;
mod memory;
mod module;
mod overhead;
mod peer;
mod storm;
mod table;

use clap::Parser;
use remuda_tests::{Place, survival};
use std::time::Duration;

/// Run scenarios of the kernel module in a virtual machine; they load and unload the module, as
/// root
#[derive(Debug, Parser)]
#[command(name = "remuda-kernel")]
struct Args {
    /// Scenarios, in the order in which they run [default: all]
    scenarios: Vec<String>,
    /// Duration of churn, soak and attacks, in seconds of the machine's clock
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
    /// Factor by which links are slower, for a slow kernel; applies to `functional`, `killed`,
    /// `full`, `hostile`, `churn` and `soak`
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    slower: f64,
}

impl Args {
    fn span(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

type Scenario = fn(&Args);

const SCENARIOS: [(&str, Scenario); 14] = [
    ("parameters", |_| life::parameters()),
    ("unload", |_| life::unload()),
    ("functional", |args| functional::drives(20.0 / args.slower)),
    ("switches", |_| functional::switches()),
    ("killed", |args| survival::killed_and_restarted_slower(&Place::with_module(), args.slower)),
    ("stopped", |_| survival::stopped_and_continued(&Place::with_module(), "cubic")),
    ("portus", |_| peer::drives()),
    ("full", |args| table::full(40.0 / args.slower)),
    ("hostile", |args| hostile::attacks_and_noise(20.0 / args.slower, args.span())),
    ("churn", |args| churn::churn(50.0 / args.slower, args.span())),
    ("datapaths", |_| datapaths::at_once()),
    ("soak", |args| churn::soak(50.0 / args.slower, args.span())),
    ("overhead", |_| overhead::table()),
    ("ccp-kernel", |_| ccp_kernel::drives()),
];

fn run(name: &str, scenario: Scenario, args: &Args) {
    println!("{name}: begins");
    // These scenarios load the module themselves, with other parameters, or another module.
    let loads = !["parameters", "unload", "full", "overhead", "ccp-kernel"].contains(&name);
    if loads {
        module::load("").expect("the module loads");
    }
    scenario(args);
    if loads {
        life::unload_soon();
    }
    println!("{name}: ok");
}

fn main() {
    let args = Args::parse();
    for wanted in &args.scenarios {
        let known = SCENARIOS.iter().any(|(name, _)| name == wanted);
        let names: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
        assert!(known, "no scenario {wanted}\nfix: one of {}", names.join(", "));
    }
    for (name, scenario) in SCENARIOS {
        if args.scenarios.is_empty() || args.scenarios.iter().any(|wanted| wanted == name) {
            run(name, scenario, &args);
        }
    }
}
