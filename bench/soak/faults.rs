//! Faults of the agent: it is killed, is absent for a while, and comes back with another arm;
//! sometimes it hangs.

use crate::load::Kind;
use crate::{Fallible, Watch};
use ccp_agent::child::AgentChild;
use nix::sys::signal::Signal;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The arms, one for each agent in turn.
const ARMS: [&str; 4] = ["cubic", "bbr", "copa", "bbr3"];
/// How long an agent lives, including hangs, in milliseconds.
const LIFE_MS: Range<u64> = 25_000..31_000;
/// How long every second agent hangs: from less to more than the heartbeat limit of 500 ms.
const HANG_MS: Range<u64> = 100..4_000;
/// Time between an agent's death and the next agent.
const ABSENT_MS: Range<u64> = 0..3_000;

pub struct Faults<'a> {
    remuda: &'a Path,
    run_dir: PathBuf,
    name: String,
    with_bpf: bool,
    random: ChaCha8Rng,
    lives: usize,
    killed: u32,
    hung: u32,
    /// Flows that had reported to an agent when a fault came: over BPF, over QUIC.
    driven: [usize; 2],
}

impl<'a> Faults<'a> {
    /// Faults for agents of the command `remuda`; nothing starts yet.
    pub fn new(remuda: &'a Path, folder: &Path, with_bpf: bool, seed: u64) -> Self {
        Self {
            remuda,
            run_dir: folder.join("run"),
            name: format!("rs{}", std::process::id()),
            with_bpf,
            random: ChaCha8Rng::seed_from_u64(seed),
            lives: 0,
            killed: 0,
            hung: 0,
            driven: [0; 2],
        }
    }

    /// The name for `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of flows that were seen under an agent.
    pub fn driven(&self, kind: Kind) -> usize {
        self.driven[kind as usize]
    }

    /// The number of faults so far, as text.
    pub fn line(&self) -> String {
        format!("agent killed {} times, hung {} times", self.killed, self.hung)
    }

    /// Starts the next agent. It dies with the calling thread.
    pub fn start(&mut self) -> Fallible<AgentChild> {
        let arm = ARMS[self.lives % ARMS.len()];
        self.lives += 1;
        let mut arguments = vec!["--name", &self.name, "--arm", arm];
        if !self.with_bpf {
            arguments.push("--no-bpf");
        }
        Ok(AgentChild::start(self.remuda, &self.run_dir, &arguments)?)
    }

    /// Causes fault after fault until the run is over; returns the agent that lives then.
    pub fn run(&mut self, mut agent: AgentChild, watch: &mut Watch<'_>) -> Fallible<AgentChild> {
        loop {
            let life = self.draw(LIFE_MS);
            let before = life / 2;
            self.live(before, &agent, watch);
            if self.lives.is_multiple_of(2) {
                self.hang(&agent, watch)?;
            }
            self.live(life - before, &agent, watch);
            if watch.is_over() {
                return Ok(agent);
            }
            self.count(&agent);
            agent.kill()?;
            self.killed += 1;
            let absent = self.draw(ABSENT_MS);
            watch.wait(absent, None, &self.line());
            agent = self.start()?;
        }
    }

    fn live(&self, span: Duration, agent: &AgentChild, watch: &mut Watch<'_>) {
        let left = watch.span.saturating_sub(watch.clock.elapsed());
        watch.wait(span.min(left), Some(agent.pid()), &self.line());
    }

    fn hang(&mut self, agent: &AgentChild, watch: &mut Watch<'_>) -> Fallible<()> {
        self.count(agent);
        agent.signal(Signal::SIGSTOP)?;
        self.hung += 1;
        let span = self.draw(HANG_MS);
        watch.wait(span, Some(agent.pid()), &self.line());
        Ok(agent.signal(Signal::SIGCONT)?)
    }

    fn draw(&mut self, from_ms: Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(from_ms))
    }

    fn count(&mut self, agent: &AgentChild) {
        for row in agent.flows().unwrap_or_default() {
            let kind = if row.datapath == "bpf" { Kind::Bpf } else { Kind::Quic };
            self.driven[kind as usize] += usize::from(row.reports > 0);
        }
    }
}
