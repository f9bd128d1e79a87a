//! Paths, the flows on them, and what a run yields.

use ccp_agent::{Config, Setup};
use remuda_bench::Error;
use remuda_bench::stats::{percentile, sorted};
use remuda_scenarios::Scenario;
use remuda_scenarios::outcome::{Became, Decided, Outcome};
use remuda_selector::tcp_rl_policy::{DetectorKind, NETWORKS, Networks};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A step of the paper, and the window in which rewards are measured.
pub const STEP_S: f64 = 5.0;
/// The interval of time series.
const SAMPLE_MS: f64 = 50.0;

/// One path: a bottleneck and its round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    pub rate_mbit: f64,
    pub rtt_ms: f64,
    pub loss_percent: f64,
}

/// The queue of the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buffer {
    /// One product of bandwidth and delay.
    OneBdp,
    Packets(u32),
}

/// A flow over a path that changes after each phase.
#[derive(Clone, Debug)]
pub struct Scene {
    pub driver: &'static str,
    pub detector: DetectorKind,
    pub phases: Vec<Path>,
    pub phase_s: f64,
    pub buffer: Buffer,
    /// Whether windows are measured, and not only the whole flow.
    pub series: bool,
}

impl Scene {
    /// A flow over a path that stays as it is.
    pub fn fixed(driver: &'static str, path: Path, seconds: f64) -> Self {
        Self {
            driver,
            detector: DetectorKind::Learned,
            phases: vec![path],
            phase_s: seconds,
            buffer: Buffer::OneBdp,
            series: false,
        }
    }

    /// The scenario in TOML, with this seed.
    fn text(&self, seed: u64) -> String {
        let first = self.phases[0];
        let later = || self.phases.iter().enumerate().skip(1);
        let steps = |of: &dyn Fn(&Path) -> String| {
            let each = later().map(|(at, path)| {
                format!("{{ at_s = {:.1}, {} }}", self.phase_s * at as f64, of(path))
            });
            each.collect::<Vec<_>>().join(", ")
        };
        let rates = steps(&|it| format!("rate_mbit_per_sec = {:.3}", it.rate_mbit));
        let delays = steps(&|it| format!("delay_ms = {:.3}", it.rtt_ms / 2.0));
        let losses = steps(&|it| format!("loss_percent = {:.3}", it.loss_percent));
        let limit = match self.buffer {
            Buffer::OneBdp => "limit_bdp = 1.0".to_owned(),
            Buffer::Packets(count) => format!("limit_packets = {count}"),
        };
        let (half, sample) = (first.rtt_ms / 2.0, if self.series { SAMPLE_MS } else { 0.0 });
        let mut text = format!(
            "duration_s = {:.1}\nsample_ms = {sample:.1}\nseed = {seed}\n[links.down]\n\
             rate_mbit_per_sec = {:.3}\ndelay_ms = {half:.3}\nloss_percent = {:.3}\n\
             queue = {{ kind = \"droptail\", {limit} }}\n",
            self.phase_s * self.phases.len() as f64,
            first.rate_mbit,
            first.loss_percent,
        );
        if self.phases.len() > 1 {
            let _ = write!(
                text,
                "rate_steps = [{rates}]\ndelay_steps = [{delays}]\nloss_steps = [{losses}]\n"
            );
        }
        let _ = write!(text, "[links.up]\ndelay_ms = {half:.3}\n");
        if self.phases.len() > 1 {
            let _ = writeln!(text, "delay_steps = [{delays}]");
        }
        let _ = write!(text, "[[flows]]\ndriver = \"{}\"\n", self.driver);
        text
    }

    fn run(&self, networks: &Arc<Networks>, seed: u64) -> Result<Run, Error> {
        let scenario = Scenario::parse(&self.text(seed), "tcp-rl")?;
        let mut config = Config::default();
        config.policy.tcp_rl.detector = self.detector;
        let never = AtomicBool::new(false);
        let setup = Arc::new(Setup::from(config));
        setup.loaded.put(NETWORKS, Arc::clone(networks));
        let outcome = remuda_sim::run_unless(&never, (&scenario, &setup), |_| {})?;
        Ok(Run { scene: self.clone(), outcome: outcome.expect("nothing stops it") })
    }
}

/// Runs all scenes with their seeds, as many at a time as there are processors. Flows of `tcp_rl`
/// have these networks.
pub fn run_all(networks: &Arc<Networks>, scenes: &[(Scene, u64)]) -> Result<Vec<Run>, Error> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((scene, seed)) = scenes.get(index) else { return };
                    let run = scene.run(networks, *seed);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, run));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, run)| run).collect()
}

/// What a scene has yielded.
#[derive(Clone, Debug)]
pub struct Run {
    scene: Scene,
    outcome: Outcome,
}

impl Run {
    /// Goodput of the whole flow over its mean one-way delay.
    pub fn power(&self) -> f64 {
        let flow = &self.outcome.flows[0];
        flow.goodput_mbit_per_sec / flow.one_way_mean_ms.unwrap_or(f64::INFINITY)
    }

    /// Goodput of the whole flow over the 95th percentile of its one-way delay.
    pub fn power95(&self) -> f64 {
        let flow = &self.outcome.flows[0];
        flow.goodput_mbit_per_sec / flow.one_way_p95_ms.unwrap_or(f64::INFINITY)
    }

    /// The paper's reward of the whole flow: ln(bit/s over the 95th percentile of the one-way delay
    /// in ms).
    pub fn reward(&self) -> f64 {
        libm::log((self.power95() * 1e6).max(1.0))
    }

    /// The arm at the end of the flow.
    pub fn last_arm(&self) -> &str {
        &self.outcome.flows[0].arm
    }

    /// The reward of each window of [`STEP_S`], from the queue and what was delivered.
    pub fn rewards(&self) -> Vec<f64> {
        let Scene { phases, phase_s, .. } = &self.scene;
        let seconds = phase_s * phases.len() as f64;
        let windows = (seconds / STEP_S) as usize;
        let mut owds_ms = vec![Vec::new(); windows];
        let window = |t_s: f64| (((t_s - 1e-6) / STEP_S) as usize).min(windows - 1);
        // The links are in the order of their names: the first is `down`.
        for look in self.outcome.link_samples.iter().filter(|look| look.link == 0) {
            let phase = ((look.t_s / phase_s) as usize).min(phases.len() - 1);
            let queue_ms = look.queue_bytes as f64 * 8e-3 / phases[phase].rate_mbit;
            owds_ms[window(look.t_s)].push(phases[phase].rtt_ms / 2.0 + queue_ms);
        }
        let mut delivered = vec![0.0; windows];
        let mut before = 0;
        for look in &self.outcome.flow_samples {
            delivered[window(look.t_s)] += (look.delivered_bytes - before) as f64;
            before = look.delivered_bytes;
        }
        let reward = |(bytes, owds_ms): (&f64, Vec<f64>)| {
            let p95_ms = percentile(&sorted(owds_ms), 95.0);
            libm::log((bytes * 8.0 / STEP_S).max(1e3) / p95_ms)
        };
        delivered.iter().zip(owds_ms).map(reward).collect()
    }

    /// The decisions at the ends of steps, in order.
    pub fn decisions(&self) -> Vec<&Decided> {
        let all = self.outcome.flows[0].decisions.iter();
        all.filter(|it| it.became != Became::Vetoed && !it.features.is_empty()).collect()
    }

    /// How many decisions it took from a moment until the actor picked the arm in charge, or the
    /// trials were used up; `None` if it never settled before `until_s`.
    pub fn settled_after(&self, from_s: f64, until_s: f64) -> Option<usize> {
        let all = self.decisions();
        let mut within = all.iter().filter(|it| it.t_s > from_s && it.t_s <= until_s);
        within.position(|it| it.why.starts_with("settles")).map(|at| at + 1)
    }

    /// How often a settled flow began to pick again: the decisions at which it was found that the
    /// path has changed.
    pub fn changes_found(&self, from_s: f64, until_s: f64) -> usize {
        let all = self.decisions();
        let mut is_settled = false;
        let mut found = 0;
        for it in all.iter().filter(|it| it.t_s <= until_s) {
            let stays = it.why.starts_with("stays");
            if is_settled && !stays && it.t_s > from_s {
                found += 1;
            }
            is_settled = it.why.starts_with("settles") || (is_settled && stays);
        }
        found
    }
}
