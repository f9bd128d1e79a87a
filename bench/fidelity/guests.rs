//! Scenarios in virtual machines, one in each, as many at once as there are processors: what this
//! machine does meanwhile changes nothing in them.

use crate::Args;
use crate::run::{Round, Scenario};
use remuda_bench::stats::Origin;
use remuda_guest::{Guest, Options};
use std::path::Path;
use std::time::Duration;

/// Runs them with the kernel of a folder that tools/guest.sh made; `done` hears of each, by its
/// number.
pub fn run(
    (args, kernel): (&Args, &Path),
    scenarios: &[Scenario],
    mut done: impl FnMut(usize, Vec<Round>) + Send,
) -> Result<Origin, Box<dyn std::error::Error>> {
    let guest = Guest::new(kernel, &[&std::env::current_exe()?, &args.remuda])?;
    let guest = guest.with_options(options(kernel, &args.arms));
    let origin = Origin::here().in_guests(guest.kernel_release()?);
    // The longest first, so that all processors have work until the end.
    let mut order: Vec<usize> = (0..scenarios.len()).collect();
    order.sort_by(|a, b| {
        scenarios[*b].rate_mbit_per_sec.total_cmp(&scenarios[*a].rate_mbit_per_sec)
    });
    remuda_guest::each(
        &order,
        |index| one(&guest, args, &scenarios[*index]),
        |index, rounds| done(*index, rounds),
    )?;
    Ok(origin)
}

/// With the kernel's own of these names, where it has them as modules: those that are not in the
/// folder are built in, or the guest says that there are none.
fn options(kernel: &Path, arms: &[String]) -> Options {
    let mut options = Options::default();
    for module in arms.iter().map(|arm| format!("tcp_{arm}")) {
        let is_there = kernel.join("modules").join(format!("{module}.ko")).exists();
        if is_there && !options.modules.contains(&module) {
            options.modules.push(module);
        }
    }
    options
}

/// One scenario, all its rounds, in a guest of its own.
fn one(guest: &Guest, args: &Args, scenario: &Scenario) -> Result<Vec<Round>, String> {
    let rounds = args.rounds_of(scenario);
    let runs = rounds * if args.control.contains(&scenario.arm) { 3 } else { 2 };
    let seconds = runs * (args.seconds + 1);
    let told = command(args, scenario, rounds);
    let run = guest.run_json(&told, Duration::from_secs(seconds));
    run.map_err(|error| format!("in the guest of {scenario}: {error}"))
}

fn command(args: &Args, scenario: &Scenario, rounds: u64) -> Vec<String> {
    let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
    let mut command = vec![String::from("remuda-fidelity"), "--json".into()];
    let mut add = |flag: &str, value: String| command.extend([flag.to_owned(), value]);
    add("--remuda", format!("/bin/{}", name(&args.remuda)));
    add("--arms", scenario.arm.clone());
    add("--rates", scenario.rate_mbit_per_sec.to_string());
    add("--buffers", scenario.buffer_argument());
    add("--rounds", rounds.to_string());
    add("--seconds", args.seconds.to_string());
    add("--seed", args.seed.to_string());
    add("--tries", "1".into());
    if args.control.contains(&scenario.arm) {
        add("--control", scenario.arm.clone());
    }
    command
}
