//! Hosts whose paths are absent, or rare, in the models' training data.
//!
//! The hosts and their distributions were fixed before the first run. One host has paths as in the
//! training data: there is nothing to learn, and nothing should be lost.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remuda_matrix::Job;
use remuda_scenarios::{Error, Suite};

#[derive(Debug)]
pub struct World {
    /// The name on the page.
    pub name: &'static str,
    /// A description of the paths.
    pub about: &'static str,
    /// Draws the links' keys, and the flows beside the tested one.
    path: fn(&mut ChaCha8Rng) -> Path,
}

struct Path {
    /// One-way delay of each of the two links.
    delay_ms: f64,
    /// The TOML keys of the link to the receiver.
    down: String,
    others: String,
}

pub const WORLDS: &[World] = &[
    World {
        name: "as trained",
        about: "5 to 50 Mbit/s, 20 to 150 ms, drop-tail of 0.3 to 4 BDP",
        path: as_trained,
    },
    World {
        name: "CoDel",
        about: "5 to 50 Mbit/s, 10 to 100 ms, a queue under CoDel (RFC 8289)",
        path: codel,
    },
    World {
        name: "satellite",
        about: "5 to 30 Mbit/s, 450 to 650 ms, 0.2 to 1 BDP, 0.1 to 1 % lost at random",
        path: satellite,
    },
    World {
        name: "hardly a queue",
        about: "10 to 40 Mbit/s, 20 to 100 ms, a queue of 4 to 10 packets",
        path: hardly_a_queue,
    },
    World {
        name: "bloated",
        about: "2 to 10 Mbit/s, 20 to 80 ms, 10 to 40 BDP, web traffic of 10 to 30 % beside it",
        path: bloated,
    },
    World {
        name: "policed",
        about: "a link of 100 Mbit/s, 20 to 100 ms, policed to 5 to 30 Mbit/s, bursts of 30 to \
                150 kB (RFC 2697)",
        path: policed,
    },
    World {
        name: "lossy",
        about: "5 to 40 Mbit/s, 30 to 150 ms, 1 to 4 BDP, 5 to 10 % lost at random",
        path: lossy,
    },
];

fn log_uniform(rng: &mut ChaCha8Rng, least: f64, most: f64) -> f64 {
    libm::exp(rng.random_range(libm::log(least)..libm::log(most)))
}

/// The TOML of a drop-tail queue of `bdps` BDPs.
fn droptail(rate_mbit_per_sec: f64, bdps: f64) -> String {
    format!(
        "rate_mbit_per_sec = {rate_mbit_per_sec:.3}\n\
         queue = {{ kind = \"droptail\", limit_bdp = {bdps:.3} }}\n"
    )
}

fn alone(rtt_ms: f64, down: String) -> Path {
    Path { delay_ms: rtt_ms / 2.0, down, others: String::new() }
}

fn as_trained(rng: &mut ChaCha8Rng) -> Path {
    let (rate, rtt_ms) = (log_uniform(rng, 5.0, 50.0), log_uniform(rng, 20.0, 150.0));
    alone(rtt_ms, droptail(rate, log_uniform(rng, 0.3, 4.0)))
}

fn codel(rng: &mut ChaCha8Rng) -> Path {
    let (rate, rtt_ms) = (log_uniform(rng, 5.0, 50.0), log_uniform(rng, 10.0, 100.0));
    let queue = "queue = { kind = \"codel\", limit_packets = 1000 }\n";
    alone(rtt_ms, format!("rate_mbit_per_sec = {rate:.3}\n{queue}"))
}

fn satellite(rng: &mut ChaCha8Rng) -> Path {
    let (rate, rtt_ms) = (log_uniform(rng, 5.0, 30.0), rng.random_range(450.0..650.0));
    let (queue, lost) = (droptail(rate, log_uniform(rng, 0.2, 1.0)), log_uniform(rng, 0.1, 1.0));
    alone(rtt_ms, format!("{queue}loss_percent = {lost:.3}\n"))
}

fn hardly_a_queue(rng: &mut ChaCha8Rng) -> Path {
    let (rate, rtt_ms) = (log_uniform(rng, 10.0, 40.0), log_uniform(rng, 20.0, 100.0));
    let packets = rng.random_range(4..=10);
    let queue = format!("queue = {{ kind = \"droptail\", limit_packets = {packets} }}\n");
    alone(rtt_ms, format!("rate_mbit_per_sec = {rate:.3}\n{queue}"))
}

fn bloated(rng: &mut ChaCha8Rng) -> Path {
    let (rate, rtt_ms) = (log_uniform(rng, 2.0, 10.0), log_uniform(rng, 20.0, 80.0));
    let load = rate * rng.random_range(0.1..0.3);
    let others = format!(
        "[[families.scenario.flows]]\ndriver = \"cubic\"\nname = \"web\"\n\
         arrivals = {{ load_mbit_per_sec = {load:.3}, sizes = \"web-search\" }}\n"
    );
    Path { others, ..alone(rtt_ms, droptail(rate, log_uniform(rng, 10.0, 40.0))) }
}

fn policed(rng: &mut ChaCha8Rng) -> Path {
    let (rate, rtt_ms) = (log_uniform(rng, 5.0, 30.0), log_uniform(rng, 20.0, 100.0));
    let burst = log_uniform(rng, 30e3, 150e3).round();
    let policer = format!("policer = {{ rate_mbit_per_sec = {rate:.3}, burst_bytes = {burst} }}\n");
    alone(rtt_ms, droptail(100.0, 1.0) + &policer)
}

fn lossy(rng: &mut ChaCha8Rng) -> Path {
    let (rate, rtt_ms) = (log_uniform(rng, 5.0, 40.0), log_uniform(rng, 30.0, 150.0));
    let (queue, lost) = (droptail(rate, log_uniform(rng, 1.0, 4.0)), rng.random_range(5.0..10.0));
    alone(rtt_ms, format!("{queue}loss_percent = {lost:.3}\n"))
}

impl World {
    fn text(&self, seed: u64, duration_s: f64) -> String {
        let name = self.name;
        let Path { delay_ms, down, others } = (self.path)(&mut ChaCha8Rng::seed_from_u64(seed));
        format!(
            "title = \"{name}\"\nsource = \"docs/antelope.md\"\n\
             [[families]]\nname = \"{name}\"\ngroup = \"online\"\npath = \"wired\"\n\
             [families.scenario]\nduration_s = {duration_s:.1}\nsample_ms = 0\n\
             [families.scenario.links.down]\ndelay_ms = {delay_ms:.3}\n{down}\
             [families.scenario.links.up]\ndelay_ms = {delay_ms:.3}\n{others}\
             [[families.scenario.flows]]\ndriver = \"tested\"\nname = \"tested\"\n"
        )
    }

    /// A flow of `driver` for `duration_s` on the path of a seed. The tested flow is the last one.
    ///
    /// # Errors
    ///
    /// The driver does not exist.
    pub fn job(&self, driver: &str, seed: u64, duration_s: f64) -> Result<Job, Error> {
        let suite = Suite::parse(&self.text(seed, duration_s), "antelope-online")?;
        let environment = suite.environments()?.swap_remove(0);
        let scenario = environment.scenario(driver, seed)?;
        Ok(Job { environment, driver: driver.to_owned(), seed, scenario })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_a_scenario_and_its_seed_decides() {
        for world in WORLDS {
            for seed in 0..50 {
                let job = world.job("cubic", seed, 10.0).expect(world.name);
                assert_eq!(job, world.job("cubic", seed, 10.0).expect(world.name));
                let tested = job.environment.tested_flows(&job.scenario);
                assert_eq!(tested.last(), Some(&(job.scenario.flows_expanded().len() - 1)));
            }
            let links = |seed| world.job("cubic", seed, 10.0).expect(world.name).scenario.links;
            assert_ne!(links(1), links(2), "{}", world.name);
        }
    }
}
