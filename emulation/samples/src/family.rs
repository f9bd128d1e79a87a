//! Families of paths, by name, so that a training can leave one out. `drawn` is the mixture of
//! [`Environment::draw`]; the others are wider than it, and each is of one kind.
//!
//! An environment of a family has one flow under test. Beside it are no flows, or some of its kind,
//! or CUBIC: [`NEIGHBOURS`]. On the paths of `crowded` and `beside` there always are.

use crate::draw::{ALIKE, DURATION_S, Environment, STEPS, log_uniform, pick};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write as _;
use std::ops::Range;

/// The neighbours of families, each with its weight.
const NEIGHBOURS: [(f64, &str); 4] =
    [(0.55, "none"), (0.25, ALIKE), (0.15, "cubic"), (0.05, "cubics")];
const CROWD: [(f64, &str); 3] = [(0.5, ALIKE), (0.25, "cubic"), (0.25, "cubics")];
const OTHERS: [(f64, &str); 6] = [
    (0.25, "cubic"),
    (0.15, "cubics"),
    (0.15, "reno"),
    (0.1, "renos"),
    (0.2, "bbr"),
    (0.15, "bbrs"),
];
/// A round of a generator: an episode, and a flow that comes late.
const ROUND_S: f64 = DURATION_S + 12.0;
/// No queue is below this, in packets.
const QUEUE_PKTS_MIN: f64 = 10.0;

/// What a family draws: lines of both links, and the path's round trip.
#[derive(Default)]
struct Drawn {
    rtt_ms: f64,
    down: String,
    up: String,
}

type Draw = fn(&mut ChaCha8Rng) -> Drawn;

struct Entry {
    name: &'static str,
    /// The kind of path in suites.
    path: &'static str,
    about: &'static str,
    draw: Draw,
}

/// All families but `drawn`. A new one goes at the end, so that the seeds of the others stay.
const FAMILIES: [Entry; 18] = [
    Entry {
        name: "wired",
        path: "wired",
        about: "constant rates with drop-tail queues",
        draw: |rng| plain(rng, 1.0..200.0, 5.0..250.0),
    },
    Entry { name: "lossy", path: "lossy", about: "random and bursty loss", draw: lossy },
    Entry {
        name: "cellular",
        path: "cellular",
        about: "scheduled grants, fades and silences, from 0.1 Mbit/s",
        draw: cellular,
    },
    Entry { name: "wifi", path: "wifi", about: "aggregation and correlated jitter", draw: wifi },
    Entry {
        name: "satellite",
        path: "satellite",
        about: "low orbits with hand-overs, and geostationary ones",
        draw: satellite,
    },
    Entry { name: "policed", path: "policed", about: "token buckets", draw: policed },
    Entry { name: "aqm", path: "wired", about: "CoDel, FQ-CoDel, PIE and RED", draw: aqm },
    Entry {
        name: "crowded",
        path: "wired",
        about: "paths that long flows share",
        draw: |rng| plain(rng, 4.0..100.0, 10.0..200.0),
    },
    Entry {
        name: "datacenter",
        path: "datacenter",
        about: "high rates and short round trips",
        draw: |rng| plain(rng, 50.0..200.0, 0.5..4.0),
    },
    Entry {
        name: "thin",
        path: "wired",
        about: "rates of some packets in a round trip",
        draw: |rng| plain(rng, 0.1..1.5, 20.0..400.0),
    },
    Entry { name: "steps", path: "wired", about: "rates that step up and down", draw: steps },
    Entry {
        name: "acks",
        path: "wired",
        about: "slow or distant links for acknowledgements",
        draw: acks,
    },
    Entry {
        name: "fast",
        path: "wired",
        about: "100 Mbit/s to 1 Gbit/s over usual round trips",
        draw: |rng| plain(rng, 100.0..1_000.0, 2.0..60.0),
    },
    Entry { name: "shallow", path: "policed", about: "queues of 1 to 20 packets", draw: shallow },
    Entry { name: "grouped", path: "wifi", about: "ACKs that arrive in groups", draw: grouped },
    Entry {
        name: "beside",
        path: "wired",
        about: "paths that long flows of CUBIC, Reno or BBR share",
        draw: |rng| plain_of(rng, 4.0..100.0, 10.0..200.0, 0.25..16.0),
    },
    Entry {
        name: "rerouted",
        path: "wired",
        about: "delays that step, and packets that overtake each other",
        draw: rerouted,
    },
    Entry {
        name: "losses",
        path: "lossy",
        about: "random loss of 0.5 to 12 %, to 30 % where round trips jitter; bursts of up to 6 %",
        draw: losses,
    },
];

/// A family of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its place in [`FAMILIES`]; `None`: `drawn`.
    place: Option<usize>,
}

impl Family {
    /// Every family except `drawn`, which has paths of several.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..FAMILIES.len()).map(|place| Self { place: Some(place) })
    }

    /// The family of this name.
    pub fn named(name: &str) -> Option<Self> {
        if name == "drawn" {
            return Some(Self { place: None });
        }
        Self::all().find(|family| family.name() == name)
    }

    fn entry(self) -> Option<&'static Entry> {
        Some(&FAMILIES[self.place?])
    }

    pub fn name(self) -> &'static str {
        self.entry().map_or("drawn", |it| it.name)
    }

    /// What its paths have in common, in one line.
    pub fn about(self) -> &'static str {
        self.entry().map_or("Environments as Antelope's training draws them", |it| it.about)
    }

    /// The file that draws them.
    pub fn source(self) -> &'static str {
        match self.place {
            None => "emulation/samples/src/draw.rs",
            Some(_) => "emulation/samples/src/family.rs",
        }
    }

    /// The kind of path of one of its environments, as suites name it.
    pub fn path_of(self, environment: &Environment) -> &'static str {
        let drawn = if environment.kind == STEPS { "wired" } else { environment.kind };
        self.entry().map_or(drawn, |it| it.path)
    }

    /// The environment of a seed.
    pub fn draw(self, seed: u64) -> Environment {
        let (Some(place), Some(entry)) = (self.place, self.entry()) else {
            return Environment::draw(seed);
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // Apart from the stream of `drawn` and those of its plans.
        rng.set_stream(1 << 32 | place as u64);
        let rng = &mut rng;
        let Drawn { rtt_ms, down, up } = (entry.draw)(rng);
        let kinds: &[_] = match entry.name {
            "crowded" => &CROWD,
            "beside" => &OTHERS,
            _ => &NEIGHBOURS,
        };
        let neighbours = pick(rng, kinds);
        let (flows, alike) = beside(neighbours, rng);
        let is_late = neighbours != "none" && rng.random_bool(0.5);
        let start_s = if is_late { rng.random_range(3.0..12.0) } else { 0.0 };
        let path = (rtt_ms, down.as_str(), up.as_str());
        let flows = (neighbours, flows.as_str());
        Environment::of_family((entry.name, seed), path, flows, (start_s, alike))
    }
}

/// The TOML of neighbours, and the keys of flows of the flow under test's kind. A plural stands for
/// up to four flows.
fn beside(neighbours: &str, rng: &mut ChaCha8Rng) -> (String, Option<String>) {
    let stagger_s = rng.random_range(0.0..6.0);
    let comes_s = rng.random_range(0.0..10.0);
    let most = if matches!(neighbours, "cubic" | "reno" | "bbr") { 1 } else { 4 };
    let count = rng.random_range(1..=most);
    match neighbours {
        ALIKE => (String::new(), Some(format!("count = {count}\nstagger_s = {stagger_s:.2}\n"))),
        "none" => (String::new(), None),
        _ => {
            let driver = neighbours.trim_end_matches('s');
            let text = format!(
                "[[flows]]\ndriver = \"{driver}\"\nname = \"n\"\ncount = {count}\n\
                 start_s = {comes_s:.2}\nstagger_s = {stagger_s:.2}\n"
            );
            (text, None)
        }
    }
}

/// The lines of a drop-tail queue of `bdps` bandwidth-delay products.
fn droptail(rate: f64, rtt_ms: f64, bdps: f64) -> String {
    let pkts = (rate * 1e6 * rtt_ms / 1e3 / 8.0 / 1500.0 * bdps).round().max(QUEUE_PKTS_MIN);
    format!("queue = {{ kind = \"droptail\", limit_packets = {pkts} }}\n")
}

fn plain(rng: &mut ChaCha8Rng, rates: Range<f64>, rtts: Range<f64>) -> Drawn {
    plain_of(rng, rates, rtts, 0.25..6.0)
}

/// A constant rate before a drop-tail queue of so many bandwidth-delay products.
fn plain_of(rng: &mut ChaCha8Rng, rates: Range<f64>, rtts: Range<f64>, bdps: Range<f64>) -> Drawn {
    let (rate, rtt_ms) = (log_uniform(rng, &rates), log_uniform(rng, &rtts));
    let bdps = log_uniform(rng, &bdps);
    let down = format!("rate_mbit_per_sec = {rate:.4}\n{}", droptail(rate, rtt_ms, bdps));
    Drawn { rtt_ms, down, up: String::new() }
}

/// Two of five such paths have room for one packet.
fn shallow(rng: &mut ChaCha8Rng) -> Drawn {
    let (rate, rtt_ms) = (log_uniform(rng, &(4.0..150.0)), log_uniform(rng, &(5.0..200.0)));
    let is_one = rng.random_bool(0.4);
    let pkts = if is_one { 1.0 } else { log_uniform(rng, &(1.0..20.0)).round() };
    let down = format!(
        "rate_mbit_per_sec = {rate:.4}\nqueue = {{ kind = \"droptail\", limit_packets = {pkts} }}\n"
    );
    Drawn { rtt_ms, down, up: String::new() }
}

fn grouped(rng: &mut ChaCha8Rng) -> Drawn {
    let mut drawn = plain(rng, 4.0..60.0, 10.0..150.0);
    let packets = log_uniform(rng, &(1.0..20.0)).round();
    let interval_ms = log_uniform(rng, &(10.0..200.0)).round();
    drawn.up = format!(
        "generator = {{ kind = \"periodic\", packets = {packets}, interval_ms = {interval_ms} }}\n"
    );
    drawn
}

fn lossy(rng: &mut ChaCha8Rng) -> Drawn {
    let mut drawn = plain(rng, 2.0..100.0, 10.0..200.0);
    let loss = log_uniform(rng, &(0.05..10.0));
    if rng.random_bool(0.5) {
        let _ = writeln!(drawn.down, "loss_percent = {loss:.4}");
        return drawn;
    }
    drawn.down += &bursts(rng, loss);
    drawn
}

/// The line of a link that loses in bursts of 2 to 20 packets, half of each burst. Over a long run
/// the link loses at most `loss` percent.
fn bursts(rng: &mut ChaCha8Rng, loss: f64) -> String {
    let leaves = 100.0 / rng.random_range(2.0..20.0);
    let enters = leaves * (2.0 * loss / 100.0);
    format!(
        "gilbert_elliott = {{ good_to_bad_percent = {enters:.5}, bad_to_good_percent = \
         {leaves:.4}, loss_bad_percent = 50 }}\n"
    )
}

/// On two of five such paths the round trip jitters. These are radio links, which may lose 30 %.
fn losses(rng: &mut ChaCha8Rng) -> Drawn {
    let mut drawn = plain(rng, 1.0..200.0, 5.0..200.0);
    let jitters = rng.random_bool(0.4);
    if jitters {
        let std_ms = (drawn.rtt_ms * rng.random_range(0.02..0.3)).max(0.1);
        let correlation = rng.random_range(0.0..0.98);
        let _ = writeln!(
            drawn.down,
            "jitter_std_ms = {std_ms:.3}\njitter_correlation = {correlation:.3}"
        );
    }
    if rng.random_bool(0.7) {
        let loss = rng.random_range(0.5..if jitters { 30.0 } else { 12.0 });
        let _ = writeln!(drawn.down, "loss_percent = {loss:.4}");
        return drawn;
    }
    let loss = rng.random_range(0.5..6.0);
    drawn.down += &bursts(rng, loss);
    drawn
}

fn cellular(rng: &mut ChaCha8Rng) -> Drawn {
    let most = log_uniform(rng, &(0.5..60.0));
    let least = (most * log_uniform(rng, &(0.02..0.4))).max(0.1);
    let rtt_ms = log_uniform(rng, &(20.0..150.0));
    let grant_ms = rng.random_range(1..=20);
    let (fade_every_s, fade_s) = (log_uniform(rng, &(4.0..40.0)), log_uniform(rng, &(0.3..3.0)));
    let silent = pick(rng, &[(0.5, 0.0), (0.3, 30.0), (0.2, 70.0)]);
    let down = format!(
        "generator = {{ kind = \"cell\", min_mbit_per_sec = {least:.4}, max_mbit_per_sec = \
         {most:.4}, grant_ms = {grant_ms}, fade_every_s = {fade_every_s:.3}, fade_s = \
         {fade_s:.3}, silent_percent = {silent}, round_s = {ROUND_S} }}\n{}",
        droptail(most, rtt_ms, log_uniform(rng, &(0.5..8.0)))
    );
    Drawn { rtt_ms, down, up: String::new() }
}

fn wifi(rng: &mut ChaCha8Rng) -> Drawn {
    let (rate, rtt_ms) = (log_uniform(rng, &(2.0..100.0)), log_uniform(rng, &(6.0..100.0)));
    let burst = rng.random_range(2..=40);
    let std_ms = (rtt_ms * rng.random_range(0.02..0.4)).max(0.1);
    let correlation = rng.random_range(0.0..0.98);
    let loss = pick(rng, &[(0.7, 0.0), (0.3, 0.2)]);
    let down = format!(
        "generator = {{ kind = \"wifi\", mean_mbit_per_sec = {rate:.4}, burst_pkts_max = {burst}, \
         round_s = {ROUND_S} }}\njitter_std_ms = {std_ms:.3}\njitter_correlation = \
         {correlation:.3}\nloss_percent = {loss}\n{}",
        droptail(rate, rtt_ms, log_uniform(rng, &(0.5..6.0)))
    );
    Drawn { rtt_ms, down, up: String::new() }
}

fn satellite(rng: &mut ChaCha8Rng) -> Drawn {
    if rng.random_bool(0.4) {
        let mut drawn = plain(rng, 1.0..50.0, 500.0..700.0);
        let loss = log_uniform(rng, &(0.01..1.0));
        let _ = writeln!(drawn.down, "loss_percent = {loss:.4}");
        return drawn;
    }
    let most = log_uniform(rng, &(10.0..150.0));
    let least = most * rng.random_range(0.1..0.6);
    let rtt_ms = log_uniform(rng, &(20.0..60.0));
    let out_ms = rng.random_range(0.0..300.0);
    let more_ms = rng.random_range(0.0..30.0);
    let down = format!(
        "generator = {{ kind = \"leo\", min_mbit_per_sec = {least:.4}, max_mbit_per_sec = \
         {most:.4}, out_ms = {out_ms:.1}, delay_ms_max = {more_ms:.2}, round_s = 60 }}\n{}",
        droptail(most, rtt_ms, log_uniform(rng, &(0.5..6.0)))
    );
    Drawn { rtt_ms, down, up: String::new() }
}

fn policed(rng: &mut ChaCha8Rng) -> Drawn {
    let (rate, rtt_ms) = (log_uniform(rng, &(1.0..40.0)), log_uniform(rng, &(10.0..150.0)));
    let line = rate * rng.random_range(1.5..10.0);
    let bdp_bytes = rate * 1e6 / 8.0 * rtt_ms / 1e3;
    let burst = (bdp_bytes * log_uniform(rng, &(0.1..4.0))).round().max(15_000.0);
    let down = format!(
        "rate_mbit_per_sec = {line:.4}\npolicer = {{ rate_mbit_per_sec = {rate:.4}, burst_bytes = \
         {burst} }}\n{}",
        droptail(line, rtt_ms, 1.0)
    );
    Drawn { rtt_ms, down, up: String::new() }
}

fn aqm(rng: &mut ChaCha8Rng) -> Drawn {
    let (rate, rtt_ms) = (log_uniform(rng, &(2.0..100.0)), log_uniform(rng, &(5.0..150.0)));
    let kind = pick(rng, &[(1.0, "codel"), (1.0, "fq-codel"), (1.0, "pie"), (1.0, "red")]);
    let bdp_pkts = (rate * 1e6 * rtt_ms / 1e3 / 8.0 / 1500.0).max(QUEUE_PKTS_MIN);
    let queue = if kind == "red" {
        let (low, high) = ((bdp_pkts * 0.5).round().max(5.0), (bdp_pkts * 1.5).round().max(15.0));
        let limit = high * 2.0;
        format!(
            "queue = {{ kind = \"red\", limit_packets = {limit}, min_packets = {low}, max_packets \
             = {high} }}\n"
        )
    } else {
        format!("queue = {{ kind = \"{kind}\", limit_packets = 10000 }}\n")
    };
    Drawn { rtt_ms, down: format!("rate_mbit_per_sec = {rate:.4}\n{queue}"), up: String::new() }
}

fn steps(rng: &mut ChaCha8Rng) -> Drawn {
    let mut drawn = plain(rng, 2.0..80.0, 8.0..200.0);
    let rate = log_uniform(rng, &(2.0..80.0));
    let period = log_uniform(rng, &(2.0..24.0));
    let half = period / 2.0;
    let _ = writeln!(
        drawn.down,
        "rate_steps = [{{ at_s = {half:.3}, rate_mbit_per_sec = {rate:.4} }}]\n\
         rate_steps_period_s = {period:.3}"
    );
    drawn
}

/// The delay steps on half of the paths, some packets arrive out of order on a quarter, and both
/// happen on the last quarter of the paths.
fn rerouted(rng: &mut ChaCha8Rng) -> Drawn {
    let mut drawn = plain(rng, 2.0..100.0, 10.0..200.0);
    let kind = pick(rng, &[(0.5, "steps"), (0.25, "disorder"), (0.25, "both")]);
    if kind != "disorder" {
        let mut at_s = 0.0;
        let steps: Vec<String> = (0..rng.random_range(1..=4))
            .map(|_| {
                at_s += rng.random_range(2.0..14.0);
                let delay_ms = log_uniform(rng, &(2.0..150.0));
                format!("{{ at_s = {at_s:.2}, delay_ms = {delay_ms:.2} }}")
            })
            .collect();
        let _ = writeln!(drawn.down, "delay_steps = [{}]", steps.join(", "));
    }
    if kind != "steps" {
        let percent = log_uniform(rng, &(0.2..10.0));
        let extra_ms = (drawn.rtt_ms * log_uniform(rng, &(0.05..2.0))).max(1.0);
        let _ = writeln!(
            drawn.down,
            "reordering = {{ percent = {percent:.3}, extra_ms = {extra_ms:.2} }}"
        );
    }
    drawn
}

fn acks(rng: &mut ChaCha8Rng) -> Drawn {
    let (rate, rtt_ms) = (log_uniform(rng, &(4.0..80.0)), log_uniform(rng, &(10.0..150.0)));
    // An ACK of 52 bytes for each two packets of 1500 needs a 58th of the rate.
    let back = rate / 58.0 * log_uniform(rng, &(0.4..4.0));
    let back = back.max(0.02);
    let down = format!(
        "rate_mbit_per_sec = {rate:.4}\n{}",
        droptail(rate, rtt_ms, log_uniform(rng, &(0.5..4.0)))
    );
    let up = format!("rate_mbit_per_sec = {back:.4}\n{}", droptail(back, rtt_ms, 20.0));
    Drawn { rtt_ms, down, up }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_scenarios::Scenario;
    use std::collections::BTreeSet;

    #[test]
    fn every_environment_of_every_family_is_a_scenario() {
        for family in Family::all() {
            let mut neighbours = BTreeSet::new();
            for seed in 0..60 {
                let environment = family.draw(seed);
                assert_eq!(environment, family.draw(seed));
                let text = environment.with("cubic");
                let scenario = Scenario::parse(&text, "drawn").expect(&text);
                scenario.build_links::<u32>().expect(&text);
                neighbours.insert(environment.neighbours);
            }
            assert!(neighbours.len() > 2, "{}: {neighbours:?}", family.name());
        }
    }

    #[test]
    fn a_family_is_found_by_its_name_and_drawn_is_what_it_was() {
        let mut names: Vec<_> = Family::all().map(Family::name).collect();
        for name in &names {
            assert_eq!(Family::named(name).map(Family::name), Some(*name));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FAMILIES.len());
        let drawn = Family::named("drawn").expect("it exists");
        assert_eq!((drawn.name(), drawn.draw(7)), ("drawn", Environment::draw(7)));
        assert_eq!(Family::named("Wired"), None);
    }
}
