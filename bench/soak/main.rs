//! A long run of normal use with faults: transfers come and go over both datapaths at once, while
//! their agent is killed and started again about every 30 s, and hangs sometimes.
//!
//! The run fails if a transfer is lost, if a byte is wrong, if the agent drove no flow, or if a
//! process needs more memory in the second half than a bound allows. All choices are drawn from a
//! seed, except those of the host's scheduler.

mod faults;
mod load;
mod memory;

use ccp_agent::child::AgentChild;
use clap::Parser;
use faults::Faults;
use load::{Files, Kind, Load, Slot, Tally};
use memory::Memory;
use remuda_bench::stats::Origin;
use remuda_live::{Clock, LinkSpec, PathSpec, QueueSpec, Testbed};
use remuda_quic::transfer::Fingerprint;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const PORT: u16 = 4_433;
/// One-way delay, in milliseconds.
const DELAY_MS: f64 = 10.0;
const BUFFER_BDP: f64 = 2.0;
const MINUTE: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_millis(250);
/// How often memory is sampled.
const LOOK: Duration = Duration::from_secs(5);

/// Run transfers while their agent is killed, hangs and comes back (needs root)
#[derive(Debug, Parser)]
struct Args {
    /// Minutes during which transfers begin
    #[arg(long, value_name = "MINUTES", default_value_t = 21.0)]
    minutes: f64,
    /// Datapaths to use at the same time, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "bpf,quic")]
    datapath: Vec<Kind>,
    /// Most connections at a time over each datapath
    #[arg(long, value_name = "N", default_value_t = 8)]
    connections: u64,
    /// Rate of the link that all transfers share
    #[arg(long, value_name = "MBIT", default_value_t = 24.0)]
    rate: f64,
    /// Seed of sizes, pauses and faults
    #[arg(long, value_name = "N", default_value_t = 1, env = "SEED")]
    seed: u64,
    /// Path of the remuda command, which must be built
    #[arg(long, value_name = "FILE", default_value = "target/release/remuda", env = "REMUDA_BIN")]
    remuda: PathBuf,
}

/// A quic-serve process, as users run it; it ends when this value is dropped.
struct Server {
    child: Child,
    authority: String,
    pin: Fingerprint,
}

impl Server {
    fn start(args: &Args, testbed: &Testbed, files: &Path, run_dir: &Path) -> Fallible<Self> {
        let address = format!("{}:{PORT}", testbed.server().ipv4());
        let mut command = testbed.server().command(&args.remuda);
        command.arg("quic-serve").arg(files).args(["--listen", &address, "--run-dir"]).arg(run_dir);
        // The agent of the run is root's, and it hears no other user.
        command.args(["--user", "root"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let out = child.stdout.take().ok_or("quic-serve has no output")?;
        let word = |lines: &mut dyn Iterator<Item = std::io::Result<String>>| {
            let line = lines.next().ok_or("quic-serve has ended")??;
            Ok::<_, Box<dyn std::error::Error>>(line.split(' ').nth(1).unwrap_or("").to_owned())
        };
        let mut lines = BufReader::new(out).lines();
        let authority = word(&mut lines)?;
        let pin = Fingerprint::parse(&word(&mut lines)?)?;
        Ok(Self { child, authority, pin })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The state of the run, printed every minute.
struct Watch<'a> {
    clock: Clock,
    span: Duration,
    slots: &'a [Slot],
    tally: &'a Tally,
    /// Process id of the server, if there is one.
    server: Option<u32>,
    memory: [Memory; 3],
    looked: Duration,
    minute: u32,
}

impl Watch<'_> {
    /// Waits. Meanwhile it samples memory, stops transfers that take too long, and prints a line
    /// each minute.
    fn wait(&mut self, span: Duration, agent: Option<u32>, faults: &str) {
        let until = self.clock.elapsed() + span;
        while self.clock.elapsed() < until {
            thread::sleep(TURN.min(until.saturating_sub(self.clock.elapsed())));
            self.slots.iter().for_each(|slot| slot.watch(&self.clock));
            if self.clock.elapsed() >= self.looked + LOOK {
                self.look(agent);
            }
            if self.clock.elapsed() >= MINUTE * (self.minute + 1) {
                self.minute += 1;
                println!("minute {}: {}, {faults}", self.minute, self.line());
            }
        }
    }

    fn look(&mut self, agent: Option<u32>) {
        self.looked = self.clock.elapsed();
        let share = self.looked.as_secs_f64() / self.span.as_secs_f64();
        let pids = [self.server, Some(std::process::id()), agent];
        for (memory, pid) in self.memory.iter_mut().zip(pids) {
            if let Some(pid) = pid {
                memory.look(pid, share);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.clock.elapsed() >= self.span
    }

    fn line(&self) -> String {
        let (bpf, quic) = (self.tally.done(Kind::Bpf), self.tally.done(Kind::Quic));
        let [server, client, agent] = self.memory.each_ref().map(Memory::last_kib);
        format!(
            "{} transfers ({bpf} bpf, {quic} quic), {:.1} MB, {} lost; KiB resident: server \
             {server}, client {client}, agent {agent}",
            bpf + quic,
            self.tally.bytes() as f64 / 1e6,
            self.tally.failed()
        )
    }

    /// Prints the result; returns whether every promise is kept.
    fn judge(&self, kinds: &[Kind], faults: &Faults<'_>) -> bool {
        let mut is_kept = self.tally.failed() == 0;
        println!("whole run: {}, {}", self.line(), faults.line());
        for memory in &self.memory {
            let (first, second) = memory.halves_kib();
            let word = if memory.keeps_bound() { "kept" } else { "MISSED" };
            let bound = memory::GROWTH_KIB_MAX;
            let name = memory.name;
            println!("{name}: at most {first} KiB, then {second}; bound +{bound}: {word}");
            is_kept &= memory.keeps_bound();
        }
        for kind in kinds {
            let flows = faults.driven(*kind);
            println!("{kind:?}: {flows} flows seen under the agent before its faults");
            is_kept &= flows > 0 && self.tally.done(*kind) > 0;
        }
        is_kept
    }
}

fn soak(args: &Args) -> Fallible<bool> {
    println!("{}, seed {}, {:.1} minutes.", Origin::here(), args.seed, args.minutes);
    let folder = tempfile::tempdir()?;
    let served = folder.path().join("files");
    std::fs::create_dir(&served)?;
    let files = Files::write(&served, args.seed)?;
    let link = LinkSpec {
        rate_mbit_per_sec: Some(args.rate),
        delay_ms: DELAY_MS,
        queue: QueueSpec::droptail_bdp(BUFFER_BDP),
        ..LinkSpec::default()
    };
    let testbed = Testbed::new(&PathSpec::symmetric(link))?;
    let has = |kind| args.datapath.contains(&kind);
    let mut faults = Faults::new(&args.remuda, folder.path(), has(Kind::Bpf), args.seed);
    let agent = faults.start()?;
    let run_dir = agent.run_dir().to_owned();
    let server = if has(Kind::Quic) {
        Some(Server::start(args, &testbed, &served, &run_dir)?)
    } else {
        None
    };
    let kinds = args.datapath.iter().flat_map(|kind| (0..args.connections).map(|_| *kind));
    let slots: Vec<Slot> =
        kinds.enumerate().map(|(n, kind)| Slot::new(kind, args.seed + n as u64)).collect();
    let (tally, over, clock) = (Tally::default(), AtomicBool::new(false), Clock::start());
    let load = Load {
        testbed: &testbed,
        files: &files,
        server: server.as_ref().map(|server| (server.authority.clone(), server.pin)),
        algorithm: faults.name().to_owned(),
        tally: &tally,
        over: &over,
        clock,
    };
    let mut watch = Watch {
        clock,
        span: Duration::from_secs_f64(args.minutes * MINUTE.as_secs_f64()),
        slots: &slots,
        tally: &tally,
        server: server.as_ref().map(|server| server.child.id()),
        memory: ["server", "client", "agent"].map(Memory::of),
        looked: Duration::ZERO,
        minute: 0,
    };
    thread::scope(|scope| {
        let running: Vec<_> = slots.iter().map(|slot| scope.spawn(|| slot.run(&load))).collect();
        let agent = faults.run(agent, &mut watch);
        over.store(true, Ordering::Relaxed);
        while running.iter().any(|slot| !slot.is_finished()) {
            let pid = agent.as_ref().ok().map(AgentChild::pid);
            watch.wait(TURN, pid, &faults.line());
        }
        agent?.stop()?;
        Ok(watch.judge(&args.datapath, &faults))
    })
}

fn main() -> ExitCode {
    memory::one_arena();
    match soak(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}
