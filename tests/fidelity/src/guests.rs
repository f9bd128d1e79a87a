//! Scenarios in virtual machines, one in each, as many at once as there are processors: what this
//! machine does meanwhile changes nothing in them.

use crate::Args;
use crate::run::{Round, Scenario};
use remuda_guest::Guest;
use remuda_stats::Origin;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Runs them with the kernel of a folder that tools/guest.sh made; `done` hears of each, by its
/// number.
pub fn run(
    (args, kernel): (&Args, &Path),
    scenarios: &[Scenario],
    done: impl FnMut(usize, Vec<Round>) + Send,
) -> Result<Origin, Box<dyn std::error::Error>> {
    let guest = Guest::new(kernel, &[&std::env::current_exe()?, &args.remuda])?;
    let origin = Origin::here().in_guests(guest.kernel_release()?);
    // The longest first, so that all processors have work until the end.
    let mut order: Vec<usize> = (0..scenarios.len()).collect();
    order.sort_by(|a, b| {
        scenarios[*b].rate_mbit_per_sec.total_cmp(&scenarios[*a].rate_mbit_per_sec)
    });
    let next = AtomicUsize::new(0);
    let outcome = Mutex::new((done, Ok(())));
    let work = || {
        while let Some(index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let rounds = one(&guest, args, &scenarios[*index]);
            let mut outcome = outcome.lock().unwrap_or_else(|broken| broken.into_inner());
            match rounds {
                Ok(rounds) => (outcome.0)(*index, rounds),
                Err(error) => {
                    // Nobody starts another.
                    next.store(order.len(), Ordering::Relaxed);
                    outcome.1 = outcome.1.clone().and(Err(error));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..remuda_guest::at_once() {
            scope.spawn(work);
        }
    });
    outcome.into_inner().unwrap_or_else(|broken| broken.into_inner()).1?;
    Ok(origin)
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
