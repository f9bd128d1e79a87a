//! One flow over one emulated path.

use remuda_live::transfer::{Pauses, Transfer};
use remuda_live::{Error, LinkSpec, PathSpec, QueueSpec, ReorderingSpec, Testbed};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A path and what runs on it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The algorithm, under the same name on both sides.
    pub arm: String,
    pub rate_mbit_per_sec: f64,
    pub delay_ms: f64,
    /// Of the bottleneck's buffer.
    pub buffer_bdp: f64,
    /// Random, towards the receiver.
    pub loss_percent: f64,
    /// The bottleneck marks what finds [`MARK_BDP`] waiting.
    pub marks: bool,
    pub trouble: Trouble,
}

/// What may make an algorithm send again what was not lost, or more than the path takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    None,
    /// [`REORDERING`]: packets are overtaken.
    Reordering,
    /// [`PAUSES`]: the application is idle at times.
    Idle,
}

/// Far fewer than half of the packets, by less than a quarter of the round trip.
pub const REORDERING: ReorderingSpec = ReorderingSpec { percent: 2.0, extra_ms: 8.0 };
/// Parts of some ten windows, and pauses of several timeouts (RFC 6298: 200 ms at least in Linux).
pub const PAUSES: Pauses = Pauses { bytes: 4_000_000, pause: Duration::from_millis(2_000) };

/// A quarter of a bandwidth-delay product. DCTCP needs more than a seventh to fill a path (M.
/// Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, section 3.4).
const MARK_BDP: f64 = 0.25;
const PACKET_BYTES: f64 = 1500.0;
/// It needs peers that agree on ECN, and a receiver that says of each mark when it came.
const DCTCP: &str = "dctcp";

impl Scenario {
    /// What `--buffers` calls its buffer.
    pub fn buffer_argument(&self) -> String {
        match self {
            Self { marks: true, .. } => "mark".to_owned(),
            Self { trouble: Trouble::Reordering, .. } => "reorder".to_owned(),
            Self { trouble: Trouble::Idle, .. } => "idle".to_owned(),
            Self { loss_percent, .. } if *loss_percent > 0.0 => "loss".to_owned(),
            Self { buffer_bdp, .. } => buffer_bdp.to_string(),
        }
    }

    /// The step above which packets are marked.
    pub fn mark_above_packets(&self) -> Option<u64> {
        let bdp_bytes = self.rate_mbit_per_sec * 2.0 * self.delay_ms * 1e3 / 8.0;
        let packets = MARK_BDP * bdp_bytes / PACKET_BYTES;
        self.marks.then_some(packets as u64)
    }

    fn link(&self, seed: u64) -> PathSpec {
        let queue = QueueSpec {
            ecn_threshold_packets: self.mark_above_packets(),
            ..QueueSpec::droptail_bdp(self.buffer_bdp)
        };
        let up = LinkSpec {
            rate_mbit_per_sec: Some(self.rate_mbit_per_sec),
            delay_ms: self.delay_ms,
            queue,
            seed,
            ..LinkSpec::default()
        };
        let is_reordering = self.trouble == Trouble::Reordering;
        let reordering = is_reordering.then_some(REORDERING);
        let down = LinkSpec { loss_percent: self.loss_percent, reordering, ..up.clone() };
        PathSpec { up, down, ..PathSpec::default() }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arm, rate_mbit_per_sec, buffer_bdp, loss_percent, .. } = self;
        let marks = if self.marks { ", marks" } else { "" };
        let trouble = match self.trouble {
            Trouble::None => "",
            Trouble::Reordering => ", reordering",
            Trouble::Idle => ", idle at times",
        };
        write!(
            f,
            "{arm}, {rate_mbit_per_sec} Mbit/s, {buffer_bdp} BDP, {loss_percent} % \
             loss{marks}{trouble}"
        )
    }
}

/// One of the runs of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub scenario: &'a Scenario,
    /// The name the sender's socket asks for.
    pub algorithm: &'a str,
    /// Of the random loss.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Over the whole flow.
    pub goodput_mbit_per_sec: f64,
    /// 95th percentile over packets.
    pub queueing_p95_ms: f64,
    pub retransmitted_pkts: u32,
    /// What a hypervisor took meanwhile, of one processor: above
    /// [`remuda_live::STOLEN_MAX`], the run is disturbed.
    pub stolen: f64,
}

/// How a round is run.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// The kernel's own once more.
    pub control: bool,
    /// How long each run lasts.
    pub seconds: Duration,
    /// How often a disturbed run is run, at most.
    pub tries: u32,
}

/// What came of one round, one run after the other.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Round {
    pub kernel: Figures,
    pub ours: Figures,
    /// The kernel's own once more.
    pub again: Option<Figures>,
}

impl Round {
    /// Runs the sides of round `number`: each round begins with another of them.
    pub fn run(
        (kernel, ours): (&Side<'_>, &Side<'_>),
        how: How,
        number: u64,
    ) -> Result<Self, Error> {
        let How { control, seconds, tries } = how;
        let sides = [kernel, ours, kernel];
        let count = if control { 3 } else { 2 };
        let mut got = [None; 3];
        for turn in 0..count {
            let at = (number as usize + turn) % count;
            let again = |stolen: f64| {
                eprintln!("{:.1} % of a processor was stolen: run again", stolen * 100.0);
            };
            let work = || run_side(sides[at], seconds);
            let (figures, stolen) = remuda_live::least_disturbed(tries, work, again)?;
            let figures = Figures { stolen, ..figures };
            told(sides[at], &figures);
            got[at] = Some(figures);
        }
        let [Some(kernel), Some(ours), again] = got else {
            unreachable!("both sides ran, or there was an error");
        };
        Ok(Self { kernel, ours, again })
    }
}

/// Says, on the side, what has just been measured.
fn told(side: &Side<'_>, figures: &Figures) {
    let Side { scenario, algorithm, seed } = side;
    eprintln!(
        "{scenario}, by {algorithm}, seed {seed}: {:.2} Mbit/s, queue {:.1} ms, {} sent again, \
         {:.1} % stolen",
        figures.goodput_mbit_per_sec,
        figures.queueing_p95_ms,
        figures.retransmitted_pkts,
        figures.stolen * 100.0
    );
}

fn run_side(side: &Side<'_>, seconds: Duration) -> Result<Figures, Error> {
    let Side { scenario, algorithm, seed } = *side;
    let testbed = Testbed::new(&scenario.link(seed))?;
    let is_dctcp = scenario.arm == DCTCP;
    if is_dctcp || scenario.marks {
        // The side that connects asks for ECN; the side that listens agrees by default.
        testbed.client().set_sysctl("net.ipv4.tcp_ecn", "1")?;
    }
    let transfer = Transfer {
        algorithm: Some(algorithm.to_owned()),
        receiver_algorithm: is_dctcp.then(|| DCTCP.to_owned()),
        verify: false,
        pauses: (scenario.trouble == Trouble::Idle).then_some(PAUSES),
        ..Transfer::default()
    };
    let running = transfer.start(testbed.server(), testbed.client())?;
    std::thread::sleep(seconds);
    let queueing = testbed.stats()?.down.link.queueing_delay;
    running.stop();
    let outcome = running.join()?;
    Ok(Figures {
        goodput_mbit_per_sec: outcome.goodput_mbit_per_sec(Duration::ZERO, seconds),
        queueing_p95_ms: queueing.p95_ms,
        retransmitted_pkts: outcome.retransmitted_pkts,
        stolen: 0.0,
    })
}
