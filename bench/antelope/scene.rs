//! The scenes of the table's rows: the paper's networks (sections VI-C to VI-F), as suites of the
//! matrix with one environment each.
//!
//! `docs/antelope.md` says how this code decides what the paper leaves open and what cannot be
//! emulated. Files are asked for one after the other, each over a flow of its own; their
//! sizes, and the background's, are drawn from the seed, the same for every driver.

use crate::antelope::requests::{Draws, Request, Sizes, arriving, in_turn};
use remuda_matrix::Job;
use remuda_scenarios::{Error, Suite};
use std::fmt::Write as _;

/// The sizes of the requested files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Files {
    /// 3 to 50 MB.
    Long,
    /// 1 kB to 3 MB.
    Short,
    /// 1 kB to 50 MB.
    Mixed,
}

impl Files {
    /// In the order of the paper's figures.
    pub const ALL: [Self; 3] = [Self::Long, Self::Short, Self::Mixed];

    /// The name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Long => "long",
            Self::Short => "short",
            Self::Mixed => "mixed",
        }
    }

    const fn sizes(self) -> Sizes {
        match self {
            Self::Long => Sizes::kb(3_000, 50_000),
            Self::Short => Sizes::kb(1, 3_000),
            Self::Mixed => Sizes::kb(1, 50_000),
        }
    }
}

/// The number of cellular paths.
pub const CELLS: usize = 6;

/// A network and its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scene {
    /// A1: the wide-area network.
    Wan(Files),
    /// A2: the data center.
    Datacenter(Files),
    /// A3: a cellular path, by its index below [`CELLS`].
    Cell(usize),
    /// A5: a CUBIC flow comes at [`CUBIC_COMES_S`].
    CubicComes,
    /// A6: five flows come and leave.
    Fairness,
    /// A7: three pairs of a tested and a CUBIC flow come and leave.
    Friendliness,
}

/// When A5's CUBIC flow comes.
pub const CUBIC_COMES_S: f64 = 20.0;
/// The span in which all of A6's flows are active.
pub const ALL_FIVE_S: (f64, f64) = (25.0, 100.0);

/// The wide-area network: the paper's 120 Mbit/s, scaled down; a round trip of 100 ms, 5 BDP.
const WAN: &str = "rate_mbit_per_sec = 50\ndelay_ms = 50\n\
                   queue = { kind = \"droptail\", limit_bdp = 5 }\n";
const WAN_UP: &str = "delay_ms = 50\njitter_std_ms = 0.001\n";
/// The background of the wide-area network: two CUBIC flows without an end, and requests of 1 kB to
/// 1 MB that offer 33 Mbit/s. Together they lose 1.5 % of the packets, as the paper's background
/// does.
const WAN_ENDLESS: u32 = 2;
const WAN_LOAD_MBIT_PER_SEC: f64 = 33.0;
const WAN_BACKGROUND: [(f64, Sizes); 1] = [(1.0, Sizes::kb(1, 1_000))];
/// The paper's 8 Gbit/s, scaled down. A tenth of a BDP would be only 3 packets.
const DATACENTER: &str = "rate_mbit_per_sec = 200\ndelay_ms = 1\n\
                          queue = { kind = \"droptail\", limit_packets = 10 }\n";
const DATACENTER_UP: &str = "delay_ms = 1\njitter_std_ms = 0.001\n";
/// The paper's background, at a load that loses 0.1 to 0.2 % of its packets.
const DATACENTER_LOAD_MBIT_PER_SEC: f64 = 10.0;
const DATACENTER_BACKGROUND: [(f64, Sizes); 3] =
    [(0.5, Sizes::kb(2, 100)), (0.4, Sizes::kb(100, 1_000)), (0.1, Sizes::kb(1_000, 50_000))];
/// A5 uses the path of the switch measurements (`docs/switching.md`), with 4 BDP.
const SWITCHING: &str = "rate_mbit_per_sec = 24\ndelay_ms = 20\n\
                         queue = { kind = \"droptail\", limit_bdp = 4 }\n";
const SWITCHING_UP: &str = "delay_ms = 20\njitter_std_ms = 0.001\n";
const CELL_QUEUE: &str = "delay_ms = 20\nqueue = { kind = \"droptail\", limit_packets = 250 }\n";
/// The generated cellular paths; two paths from files come before them.
const CELL_GENERATORS: [(&str, &str); 4] = [
    ("driving", "kind = \"markov\", min_mbit_per_sec = 1, max_mbit_per_sec = 24, step_ms = 100"),
    ("walking", "kind = \"markov\", min_mbit_per_sec = 2, max_mbit_per_sec = 12, step_ms = 400"),
    ("stationary", "kind = \"markov\", min_mbit_per_sec = 8, max_mbit_per_sec = 20, step_ms = 500"),
    ("poisson", "kind = \"poisson\", mean_mbit_per_sec = 12"),
];
const CELL_FILES: [(&str, &str); 2] = [
    ("steps", "../emulation/scenarios/examples/cellular.trace"),
    ("lte", "../emulation/scenarios/sim-to-real/cell.trace"),
];

/// The streams of a seed.
const REQUESTS: u64 = 0;
const BACKGROUND: u64 = 1;

/// How long scenes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Full,
    /// A length that real time allows.
    Live,
    /// Some seconds of every scene, for a test.
    Smoke,
}

impl Scene {
    /// All scenes, in the table's order.
    pub fn all() -> Vec<Self> {
        let wan = Files::ALL.map(Self::Wan);
        let datacenter = Files::ALL.map(Self::Datacenter);
        let cells = (0..CELLS).map(Self::Cell);
        let others = [Self::CubicComes, Self::Fairness, Self::Friendliness];
        wan.into_iter().chain(datacenter).chain(cells).chain(others).collect()
    }

    /// The row of the table that the scene belongs to.
    pub const fn row(self) -> &'static str {
        match self {
            Self::Wan(_) => "A1",
            Self::Datacenter(_) => "A2",
            Self::Cell(_) => "A3",
            Self::CubicComes => "A5",
            Self::Fairness => "A6",
            Self::Friendliness => "A7",
        }
    }

    /// The name in the table.
    pub fn name(self) -> String {
        match self {
            Self::Wan(files) => format!("WAN, {}", files.name()),
            Self::Datacenter(files) => format!("DCN, {}", files.name()),
            Self::Cell(cell) => format!("cellular, {}", cell_name(cell)),
            Self::CubicComes => "CUBIC comes".to_owned(),
            Self::Fairness => "five flows".to_owned(),
            Self::Friendliness => "beside CUBIC".to_owned(),
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Datacenter(_) => "datacenter",
            Self::Cell(_) => "cellular",
            _ => "wired",
        }
    }

    fn duration_s(self, extent: Extent) -> f64 {
        let [full, live, smoke] = match self {
            Self::Wan(Files::Short) => [90.0, 60.0, 20.0],
            Self::Wan(_) => [240.0, 120.0, 20.0],
            Self::Datacenter(_) => [20.0, 20.0, 4.0],
            Self::Cell(_) => [60.0, 30.0, 10.0],
            Self::CubicComes => [60.0, 60.0, 35.0],
            Self::Fairness => [125.0, 125.0, 125.0],
            Self::Friendliness => [120.0, 120.0, 50.0],
        };
        match extent {
            Extent::Full => full,
            Extent::Live => live,
            Extent::Smoke => smoke,
        }
    }

    fn down(self) -> String {
        match self {
            Self::Wan(_) | Self::Fairness | Self::Friendliness => WAN.to_owned(),
            Self::Datacenter(_) => DATACENTER.to_owned(),
            Self::CubicComes => SWITCHING.to_owned(),
            Self::Cell(cell) => format!("{CELL_QUEUE}{}\n", cell_rate(cell)),
        }
    }

    const fn up(self) -> &'static str {
        match self {
            Self::Wan(_) | Self::Fairness | Self::Friendliness => WAN_UP,
            Self::Datacenter(_) => DATACENTER_UP,
            Self::CubicComes | Self::Cell(_) => SWITCHING_UP,
        }
    }

    fn flows(self, text: &mut String, seed: u64, (wants, end_s): (&str, f64)) {
        let mut draws = [REQUESTS, BACKGROUND].map(|stream| Draws::new(seed, stream));
        let [requests, background] = &mut draws;
        let tested =
            |rest: &str| format!("driver = \"tested\"\nname = \"tested\"\nwants = {wants}\n{rest}");
        let mut flow = |rest: &str| {
            let _ = writeln!(text, "[[families.scenario.flows]]\n{rest}");
        };
        let files = |all: &[Request], flow: &mut dyn FnMut(&str), head: &dyn Fn(&str) -> String| {
            for Request { start_s, bytes, stop_s } in all {
                let stop = stop_s.map_or(String::new(), |stop_s| format!("stop_s = {stop_s}"));
                flow(&head(&format!("start_s = {start_s}\nbytes = {bytes}\n{stop}\n")));
            }
        };
        let cubic = |rest: &str| format!("driver = \"cubic\"\nname = \"background\"\n{rest}");
        match self {
            Self::Wan(asked) => {
                flow(&cubic(&format!("count = {WAN_ENDLESS}\n")));
                let load = WAN_LOAD_MBIT_PER_SEC;
                files(&arriving(load, &WAN_BACKGROUND, end_s, background), &mut flow, &cubic);
                let floor = if asked == Files::Short { 1.0 } else { 4.0 };
                files(&in_turn(asked.sizes(), floor, (5.0, end_s), requests), &mut flow, &tested);
            }
            Self::Datacenter(asked) => {
                let (load, classes) = (DATACENTER_LOAD_MBIT_PER_SEC, &DATACENTER_BACKGROUND);
                files(&arriving(load, classes, end_s, background), &mut flow, &cubic);
                files(&in_turn(asked.sizes(), 40.0, (0.5, end_s), requests), &mut flow, &tested);
            }
            Self::Cell(_) => flow(&tested("")),
            Self::CubicComes => {
                flow(&tested(""));
                flow(&cubic(&format!("start_s = {CUBIC_COMES_S}")));
            }
            Self::Fairness => {
                for nth in 0..5 {
                    let start_s = 5 * nth;
                    flow(&tested(&format!("start_s = {start_s}\nstop_s = {}", 100 + start_s)));
                }
            }
            Self::Friendliness => {
                for start_s in [0, 20, 40] {
                    let stop = match start_s {
                        40 => String::new(),
                        _ => format!("\nstop_s = {}", 80 + start_s),
                    };
                    let life = format!("start_s = {start_s}{stop}");
                    flow(&tested(&life));
                    flow(&cubic(&life));
                }
            }
        }
    }

    fn text(self, seed: u64, wants: &str, extent: Extent) -> String {
        let end_s = self.duration_s(extent);
        let mut text = format!(
            "title = \"{name}\"\nsource = \"Zhou et al., Antelope (ICNP 2021), section VI\"\n\
             [[families]]\nname = \"{name}\"\ngroup = \"{row}\"\npath = \"{path}\"\n\
             [families.scenario]\nduration_s = {end_s:.1}\n\
             [families.scenario.links.down]\n{down}[families.scenario.links.up]\n{up}",
            name = self.name(),
            row = self.row(),
            path = self.path(),
            down = self.down(),
            up = self.up(),
        );
        self.flows(&mut text, seed, (wants, end_s));
        text
    }

    /// The job of a driver in this scene. `who` has the driver and what its flows' application
    /// wants, as a scenario spells it.
    ///
    /// # Errors
    ///
    /// The driver does not exist.
    pub fn job(self, who: (&str, &str), seed: u64, extent: Extent) -> Result<Job, Error> {
        let (driver, wants) = who;
        let suite = Suite::parse(&self.text(seed, wants, extent), "antelope-table")?;
        let mut environments = suite.environments()?;
        let environment = environments.swap_remove(0);
        let scenario = environment.scenario(driver, seed)?;
        Ok(Job { environment, driver: driver.to_owned(), seed, scenario })
    }
}

fn cell_name(cell: usize) -> &'static str {
    let generated = CELL_GENERATORS.iter().map(|(name, _)| *name);
    CELL_FILES.iter().map(|(name, _)| *name).chain(generated).nth(cell).unwrap_or("none")
}

/// The TOML of a cellular path's rate: a trace file of this repository, or a generator.
fn cell_rate(cell: usize) -> String {
    match (CELL_FILES.get(cell), cell.checked_sub(CELL_FILES.len())) {
        (Some((_, file)), _) => {
            format!("trace = \"{}/{file}\"", env!("CARGO_MANIFEST_DIR"))
        }
        (None, generated) => {
            let place = generated.unwrap_or_default() % CELL_GENERATORS.len();
            format!("generator = {{ {} }}", CELL_GENERATORS[place].1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_is_a_scenario_and_its_seed_decides() {
        for scene in Scene::all() {
            let job = |driver, seed| {
                scene.job((driver, "\"default\""), seed, Extent::Full).expect("it is one")
            };
            let (one, again) = (job("bbr", 1), job("bbr", 1));
            assert_eq!(one, again);
            assert_eq!(one.environment.name, scene.name());
            let tested = one.environment.tested_flows(&one.scenario);
            assert!(!tested.is_empty(), "{scene:?}");
            let other = job("cubic", 1);
            assert_eq!(tested, other.environment.tested_flows(&other.scenario));
            let random = matches!(scene, Scene::Wan(_) | Scene::Datacenter(_));
            assert_eq!(one.scenario.flows != job("bbr", 2).scenario.flows, random, "{scene:?}");
        }
    }

    #[test]
    fn what_an_application_wants_is_of_the_tested_flows_alone() {
        let job = Scene::Friendliness.job(("rein", "\"delay\""), 1, Extent::Full).expect("it is");
        let tested = job.environment.tested_flows(&job.scenario);
        for (place, flow) in job.scenario.flows_expanded().iter().enumerate() {
            assert_eq!(flow.wants.is_default(), !tested.contains(&place), "{place}");
        }
    }
}
