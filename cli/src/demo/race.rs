//! Runs the downloads: one after the other on each path, on all paths at the same time.

use super::live::{Board, Lane};
use super::paths::{Heat, PATHS, Plan};
use super::record::{Notes, Run};
use ccp_agent::child::AgentChild;
use ccp_agent::flow::Row;
use ccp_agent::host::Target;
use remuda_live::transfer::{Outcome, Running, Transfer};
use remuda_live::{Clock, Testbed};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The competing flow's algorithm: the kernel's own, as in the paper.
pub const CROSS_TRAFFIC: &str = "cubic";
/// How often a download is sampled.
const LOOK: Duration = Duration::from_millis(100);
/// How often to ask whether the agent lists a new flow.
const FLOW_TURNS: u32 = 400;
const FLOW_TURN: Duration = Duration::from_millis(5);
/// A download is stopped after this many times its fair time, plus `PATIENCE_FLOOR`.
const PATIENCE: u32 = 4;
const PATIENCE_FLOOR: Duration = Duration::from_secs(5);

/// An error that can be sent between threads.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The source of the drivers.
#[derive(Clone, Copy, Debug)]
pub enum Control<'a> {
    /// An agent, and the name that sockets give to TCP_CONGESTION.
    Agent(&'a AgentChild, &'a str),
    /// The kernel's own algorithms.
    Kernel,
}

/// State that all paths share.
pub struct Race<'a> {
    pub plan: &'a Plan,
    pub control: Control<'a>,
    /// The display of the progress.
    pub board: &'a Board,
    /// Set to end the race early.
    pub stopped: &'a AtomicBool,
    /// Runs since the start of the race.
    pub clock: Clock,
    /// Held while a flow starts: the agent gives new flows the driver that was set last.
    pub gate: Mutex<()>,
}

impl Race<'_> {
    /// Runs every path in its own thread. Calls `show` repeatedly until all have ended.
    pub fn run(&self, mut show: impl FnMut()) -> Result<Vec<Run>, Failure> {
        thread::scope(|scope| {
            let lanes: Vec<_> = (0..PATHS.len())
                .map(|path| {
                    scope.spawn(move || {
                        let runs = self.lane(path);
                        if runs.is_err() {
                            self.stopped.store(true, Ordering::Relaxed);
                        }
                        self.board.set(path, Lane::Done);
                        runs
                    })
                })
                .collect();
            while !lanes.iter().all(thread::ScopedJoinHandle::is_finished) {
                show();
                thread::sleep(LOOK);
            }
            show();
            let mut runs = Vec::new();
            for lane in lanes {
                runs.extend(lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(runs)
        })
    }

    fn lane(&self, path: usize) -> Result<Vec<Run>, Failure> {
        let mut runs = Vec::new();
        for heat in self.plan.heats(path) {
            if self.is_stopped() {
                break;
            }
            let left = self.plan.within.saturating_sub(self.clock.elapsed());
            if left < self.plan.fair_time() {
                self.board.note(format!("{}: no time left for {}", PATHS[path].title, heat.driver));
                continue;
            }
            let before = self.clock.elapsed();
            let run = match self.heat(&heat, left) {
                Ok(Some(run)) => run,
                // Ctrl-C also ends the agent: errors after it are a consequence, and are ignored.
                Err(error) if !self.is_stopped() => return Err(error),
                Ok(None) | Err(_) => break,
            };
            self.board.ended(&run, self.clock.elapsed() - before);
            runs.push(run);
        }
        Ok(runs)
    }

    /// Runs one download in its own testbed, so that no packets of the previous one remain in
    /// queues.
    fn heat(&self, heat: &Heat, left: Duration) -> Result<Option<Run>, Failure> {
        let testbed = Testbed::new(&PATHS[heat.path].spec(heat.seed))?;
        self.board.set(heat.path, Lane::Starting { driver: heat.driver.clone() });
        // The competing flow starts just before the download. If it had filled the queue first, no
        // driver would see the path without a queue, and all would take the queueing delay for the
        // path's delay.
        let cross = Transfer { algorithm: Some(CROSS_TRAFFIC.to_owned()), ..Transfer::default() };
        let cross = cross.start(testbed.server(), testbed.client())?;
        let (download, flow) = self.start(heat, &testbed)?;
        let mut notes = Notes::default();
        let patience = (PATIENCE * self.plan.fair_time() + PATIENCE_FLOOR).min(left);
        self.watch(heat, (&download, flow), patience, &mut notes)?;
        download.stop();
        let outcome = download.join()?;
        cross.stop();
        cross.join()?;
        let completed = outcome.bytes == self.plan.file_bytes;
        if self.is_stopped() && !completed {
            return Ok(None);
        }
        Ok(Some(finished(heat, outcome, notes, completed)))
    }

    /// Starts a download. Returns it with the agent's number for its flow.
    fn start(&self, heat: &Heat, testbed: &Testbed) -> Result<(Running, Option<u32>), Failure> {
        let transfer = |algorithm: &str| Transfer {
            bytes: Some(self.plan.file_bytes),
            algorithm: Some(algorithm.to_owned()),
            ..Transfer::default()
        };
        let Control::Agent(agent, name) = self.control else {
            let transfer = transfer(&heat.driver);
            return Ok((transfer.start(testbed.server(), testbed.client())?, None));
        };
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<u32> = agent.flows()?.iter().map(|row| row.id).collect();
        agent.set(Target::New, &heat.driver)?;
        let download = transfer(name).start(testbed.server(), testbed.client())?;
        // Namespaces have the same addresses and may use the same port, so the flow must also be
        // new.
        let local = download.sender_address.to_string();
        let is_it = |row: &&Row| row.local == local && !known.contains(&row.id);
        for _ in 0..FLOW_TURNS {
            if let Some(row) = agent.flows()?.iter().find(is_it) {
                return Ok((download, Some(row.id)));
            }
            thread::sleep(FLOW_TURN);
        }
        download.stop();
        Err(format!("the agent does not list the flow from {local}").into())
    }

    /// Samples a download until it ends, takes too long, or the race is stopped.
    fn watch(
        &self,
        heat: &Heat,
        (download, flow): (&Running, Option<u32>),
        patience: Duration,
        notes: &mut Notes,
    ) -> Result<(), Failure> {
        let clock = Clock::start();
        while !download.is_finished() && !self.is_stopped() && clock.elapsed() < patience {
            let (at, received_bytes) = (clock.elapsed(), download.received_bytes());
            let row = self.row(flow)?;
            if let Some(row) = &row {
                notes.take(at, received_bytes, row);
            }
            let lane = Lane::running(&heat.driver, at, received_bytes, row);
            self.board.set(heat.path, lane);
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn row(&self, flow: Option<u32>) -> Result<Option<Row>, Failure> {
        let (Control::Agent(agent, _), Some(id)) = (self.control, flow) else { return Ok(None) };
        Ok(agent.flows()?.into_iter().find(|row| row.id == id))
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

fn finished(heat: &Heat, outcome: Outcome, notes: Notes, completed: bool) -> Run {
    Run {
        path: heat.path,
        driver: heat.driver.clone(),
        round: heat.round,
        completed,
        elapsed: outcome.elapsed,
        received_bytes: outcome.bytes,
        retransmitted_pkts: outcome.retransmitted_pkts,
        progress: outcome.progress,
        samples: notes.samples,
        choices: notes.choices,
    }
}
