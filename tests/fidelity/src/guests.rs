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

/// In which it boots, and more.
const BOOT_SECONDS_MAX: u64 = 10;

/// Runs them with the kernel of a folder that tools/guest.sh made; `done` hears of each, by its
/// number.
pub fn run(
    (args, kernel): (&Args, &Path),
    scenarios: &[Scenario],
    done: impl FnMut(usize, Vec<Round>) + Send,
) -> Result<Origin, Box<dyn std::error::Error>> {
    let guest = Guest::new(kernel, &[&std::env::current_exe()?, &args.remuda])?;
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
                    outcome.1 = Err(error);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, |cores| cores.get()) {
            scope.spawn(work);
        }
    });
    outcome.into_inner().unwrap_or_else(|broken| broken.into_inner()).1?;
    Ok(Origin::here().in_guests(guest.kernel_release()?))
}

/// One scenario, all its rounds, in a guest of its own.
fn one(guest: &Guest, args: &Args, scenario: &Scenario) -> Result<Vec<Round>, String> {
    let rounds = args.rounds_of(&scenario.arm);
    let runs = rounds * if args.control.contains(&scenario.arm) { 3 } else { 2 };
    let seconds = runs * (args.seconds + 1) + BOOT_SECONDS_MAX;
    let limit = remuda_guest::limit(Duration::from_secs(seconds));
    let ended = guest.run(&command(args, scenario, rounds), limit).map_err(|e| e.to_string())?;
    if ended.status != 0 {
        return Err(format!("in the guest of {scenario}:\n{}", ended.console));
    }
    let broken = |error| format!("in the guest of {scenario}: {error}: {}", ended.output);
    serde_json::from_str(&ended.output).map_err(broken)
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
