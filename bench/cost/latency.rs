//! From a report to the ACK that obeys the answer: ours beside portus over unix datagrams.
//!
//! Both sides run the same program and the same algorithm (echo.rs) on the same kind of flow. Ours
//! is what the agent's run loop does with the BPF datapath: ring buffer, the flow host's whole work
//! on each report, slots in shared memory. The other one is an unmodified `portus::RunBuilder`
//! behind its unix socket, with the bridge of `remuda datapath` to the same BPF datapath, in
//! threads of one process: that spares it a change of address spaces.
//!
//! *Written* is when the answer stands in the flow's slot, *applied* when the flow's next ACK takes
//! it. The ACKs' spacing is in the latter and is the same for both. Rounds that others disturbed
//! (cpu.rs) are run again, within limits; of too few undisturbed ones nothing is concluded.

use crate::cpu::Meter;
use crate::echo::{Echo, EchoAgent, Samples};
use crate::traffic::{Load, Traffic};
use crate::{Fallible, Options, Promise, Verdict};
use ccp_agent::Config;
use ccp_agent::clock;
use ccp_agent::datapath::Datapath as _;
use ccp_agent::events::{Event, Recorder};
use ccp_agent::host::Host;
use ccp_agent::ipc::BpfEnd;
use ccp_agent::lock::lock;
use ccp_agent::run_loop;
use ccp_agent::waiter::Waiter;
use portus::RunBuilder;
use portus::ipc::{BackendBuilder, Blocking, unix};
use remuda::{AgentSocket, Bridge};
use remuda_bench::stats::{Spread, percentile, sorted};
use remuda_bpf::broker::Broker;
use remuda_bpf::{Datapath, Plan, Settings};
use remuda_live::VethPair;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const PERCENTS: [f64; 3] = [50.0, 95.0, 99.0];
/// An ACK each 70 to 100 us, once waking and sending are in it, on processors that are half idle.
const TRICKLE: Load = Load::Trickle(Duration::from_micros(50));
/// What is measured in this time from a flow's start does not count.
const WARM_UP: Duration = Duration::from_millis(200);
/// The folder in which portus binds its sockets.
const PORTUS_FOLDER: &str = "/tmp/ccp";
const TURN: Duration = Duration::from_millis(5);
const REPORT_INTERVAL: Duration = Duration::from_millis(2);
/// A round that takes so many times what its reports should take has failed.
const PATIENCE: u32 = 20;
/// So many rounds are tried for each that is wanted.
const ATTEMPTS: usize = 2;
/// Wide enough for a bulk flow over veth not to starve, and changed at each report.
pub const WINDOWS_PKTS: [u32; 2] = [300, 400];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Ours,
    /// Ours, with the kernel side loaded by a broker in a thread of its own.
    Broker,
    Portus,
}

/// Drives flows until it is dropped.
pub struct Driver {
    stops: Vec<Arc<AtomicBool>>,
    pub threads: Vec<JoinHandle<Result<(), String>>>,
    pub samples: Arc<Mutex<Samples>>,
}

/// What a bench records of the host: nothing.
struct Silent;

impl Recorder for Silent {
    fn record(&mut self, _: Option<u32>, _: &Event) {}
}

fn datapath(name: &str) -> Fallible<Datapath> {
    let settings = Settings { name: name.to_owned(), ..Settings::default() };
    let mut datapath = Datapath::load(settings, clock::monotonic_ns())?;
    datapath.attach()?;
    Ok(datapath)
}

fn echo(samples: &Arc<Mutex<Samples>>) -> Echo {
    Echo { samples: Arc::clone(samples), windows_pkts: WINDOWS_PKTS }
}

/// The agent's host over the BPF datapath, as the agent's run loop has it.
fn ours(datapath: Datapath) -> Fallible<Driver> {
    let samples = Arc::<Mutex<Samples>>::default();
    let mut config = Config::default();
    config.agent.default = "cubic".to_owned();
    let host = Host::new(config, Box::new(Silent));
    let mut agent = EchoAgent::new(host, Arc::clone(&samples), WINDOWS_PKTS)?;
    let mut end = BpfEnd::new(datapath, None, false);
    let mut waiter = Waiter::new()?;
    waiter.follow([&end as &dyn ccp_agent::datapath::Datapath], &[]);
    let stop = Arc::<AtomicBool>::default();
    let thread = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(Ordering::Relaxed) {
                let now_ns = clock::monotonic_ns();
                end.beat(now_ns);
                if !end.drain(&mut agent, now_ns) {
                    waiter
                        .wait(run_loop::limit([&end as &dyn ccp_agent::datapath::Datapath], None));
                }
            }
            Ok(())
        }
    });
    Ok(Driver { stops: vec![stop], threads: vec![thread], samples })
}

/// The same, with a broker that has loaded the BPF datapath.
fn brokered(name: &str) -> Fallible<Driver> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("agent.sock");
    let settings = Settings { name: name.to_owned(), ..Settings::default() };
    let plan = Plan { settings, cgroups: Vec::new(), takes_default: false };
    // SAFETY: no arguments, no failure.
    let user = unsafe { libc::geteuid() };
    let mut broker = Broker::bind(&socket, plan, user, None)?;
    let stop = Arc::<AtomicBool>::default();
    let brokering = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(Ordering::Relaxed) {
                broker.turn(clock::monotonic_ns, &mut |_| ());
            }
            Ok(())
        }
    });
    let (datapath, _) = Datapath::connect(&socket)?;
    let mut driver = ours(datapath)?;
    driver.stops.push(stop);
    driver.threads.push(brokering);
    Ok(driver)
}

/// An unmodified portus agent behind its socket, and the bridge.
fn portus(name: &str) -> Fallible<Driver> {
    let samples = Arc::<Mutex<Samples>>::default();
    let go_on = Arc::new(AtomicBool::new(true));
    let address = Path::new(PORTUS_FOLDER).join(name);
    let own = Path::new(PORTUS_FOLDER).join(format!("{name}.datapath"));
    let sock = unix::Socket::<Blocking>::new(name).map_err(|error| error.0)?;
    let algorithm = echo(&samples);
    let agent = std::thread::spawn({
        let go_on = Arc::clone(&go_on);
        move || {
            let backend = BackendBuilder { sock };
            let run = RunBuilder::new(backend).default_alg(algorithm).with_stop_handle(go_on);
            run.run().map_err(|error| error.0)
        }
    });
    let socket = AgentSocket::bind(&own, &address).map_err(|error| error.to_string())?;
    let mut bridge = Bridge::new(datapath(name)?, socket);
    let stop = Arc::<AtomicBool>::default();
    let bridging = std::thread::spawn({
        let (stop, samples) = (Arc::clone(&stop), Arc::clone(&samples));
        move || {
            while !stop.load(Ordering::Relaxed) {
                let mut obeyed = |order: &[u8]| lock(&samples).carried_out(order);
                bridge.turn(&mut |_| (), &mut obeyed).map_err(|error| error.to_string())?;
            }
            go_on.store(false, Ordering::SeqCst);
            let _ = std::fs::remove_file(address);
            match bridge.counts().refused {
                0 => Ok(()),
                refused => Err(format!("{refused} messages over the bridge were not taken")),
            }
        }
    });
    Ok(Driver { stops: vec![stop], threads: vec![bridging, agent], samples })
}

impl Driver {
    /// Waits until the flow has reported so often since it was warm, and gives what it measured.
    fn measure(&self, reports: usize) -> Fallible<Samples> {
        std::thread::sleep(WARM_UP);
        *lock(&self.samples) = Samples::default();
        let turns = REPORT_INTERVAL * u32::try_from(reports)? * PATIENCE;
        for _ in 0..turns.as_millis() / TURN.as_millis() {
            let samples = lock(&self.samples);
            if samples.reports >= reports {
                return Ok(samples.clone());
            }
            drop(samples);
            std::thread::sleep(TURN);
        }
        Err(format!("{} reports came, not {reports}", lock(&self.samples).reports).into())
    }

    pub fn stop(self) -> Fallible<()> {
        for stop in &self.stops {
            stop.store(true, Ordering::Relaxed);
        }
        for thread in self.threads {
            thread.join().map_err(|_| "a thread of a driver panicked")??;
        }
        Ok(())
    }
}

/// Starts what drives the flows that ask for `name`.
pub fn start(side: Side, name: &str) -> Fallible<Driver> {
    match side {
        Side::Ours => ours(datapath(name)?),
        Side::Broker => brokered(name),
        Side::Portus => portus(name),
    }
}

/// What a flow measured, and whether others let it be.
fn round(pair: &VethPair, side: Side, load: Load, reports: usize) -> Fallible<(Samples, bool)> {
    let name = format!("bl{}", std::process::id());
    let driver = start(side, &name)?;
    let traffic = Traffic::start(pair, &name, load)?;
    let meter = Meter::new(None)?;
    let (before, started_ns) = (meter.read()?, clock::monotonic_ns());
    let samples = driver.measure(reports)?;
    let elapsed = Duration::from_nanos(clock::monotonic_ns() - started_ns);
    let quiet = meter.read()?.since(before).is_quiet(elapsed);
    traffic.finish()?;
    driver.stop()?;
    Ok((samples, quiet))
}

/// Samples of one side, by round.
type Rounds = Vec<Samples>;

/// Both sides' rounds, one beside the other.
#[derive(Default)]
struct Pairs {
    ours: Rounds,
    theirs: Rounds,
}

impl Pairs {
    fn push(&mut self, ours: Samples, theirs: Samples) {
        self.ours.push(ours);
        self.theirs.push(theirs);
    }
}

/// As many undisturbed rounds as are wanted, or all, and whether they are undisturbed.
fn rounds(load: Load, options: &Options) -> Fallible<(Pairs, bool)> {
    let veth = VethPair::new()?;
    let (mut quiet, mut all) = (Pairs::default(), Pairs::default());
    for turn in 0..options.rounds * ATTEMPTS {
        if quiet.ours.len() == options.rounds {
            break;
        }
        let run = |side| round(&veth, side, load, options.reports);
        let early = (turn % 2 == 0).then(|| run(Side::Ours)).transpose()?;
        let (theirs, theirs_quiet) = run(Side::Portus)?;
        let (ours, ours_quiet) = early.map_or_else(|| run(Side::Ours), Ok)?;
        if ours_quiet && theirs_quiet {
            quiet.push(ours.clone(), theirs.clone());
        }
        all.push(ours, theirs);
    }
    let (n_quiet, n_all) = (quiet.ours.len(), all.ours.len());
    println!("\n{n_quiet} rounds undisturbed of {n_all}");
    let decided = n_quiet * 2 > options.rounds;
    Ok((if decided { quiet } else { all }, decided))
}

type Part = fn(&Samples) -> &[f64];
const PARTS: [(&str, Part); 2] = [("written", |s| &s.written_us), ("applied", |s| &s.applied_us)];

fn line(label: &str, rounds: &Rounds, part: Part) {
    let pooled = sorted(rounds.iter().flat_map(|samples| part(samples).iter().copied()));
    let figures = PERCENTS.map(|percent| format!("{:.0}", percentile(&pooled, percent)));
    let reports: usize = rounds.iter().map(|samples| samples.reports).sum();
    println!("| {label} | {} | {reports} | {} |", figures.join(" | "), pooled.len());
}

/// Ours over theirs, at each percentile, by round.
fn ratios(ours: &Rounds, theirs: &Rounds, part: Part) -> [Spread; PERCENTS.len()] {
    PERCENTS.map(|percent| {
        let at = |samples: &Samples| percentile(&sorted(part(samples).iter().copied()), percent);
        Spread::of(ours.iter().zip(theirs).map(|(ours, theirs)| at(ours) / at(theirs)))
    })
}

fn compare(label: &str, load: Load, options: &Options) -> Fallible<Vec<Promise>> {
    let (Pairs { ours, theirs }, decided) = rounds(load, options)?;
    println!("\n| {label} | p50 us | p95 us | p99 us | reports | samples |");
    println!("|---|---|---|---|---|---|");
    let verdict = |met| if decided { Verdict::of(met) } else { Verdict::Undecided };
    let mut promises = Vec::new();
    for (name, part) in PARTS {
        line(&format!("report to {name}, ours"), &ours, part);
        line(&format!("report to {name}, portus over unix datagrams"), &theirs, part);
        let ratios = ratios(&ours, &theirs, part);
        let shown = ratios.map(|ratio| format!("{ratio:.2}"));
        println!("| ratio, by round | {} | | |", shown.join(" | "));
        if name == "applied" {
            promises.extend(PERCENTS.iter().zip(ratios).map(|(percent, ratio)| Promise {
                what: format!("latency to applied, {label}, p{percent:.0}, ours / portus"),
                figure: format!("{ratio:.2}"),
                bound: "< 1".to_owned(),
                verdict: verdict(ratio.median < 1.0),
            }));
        }
    }
    Ok(promises)
}

pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    println!("\n## From a report to the ACK that obeys the answer\n");
    println!(
        "{} rounds, in turns ours and portus first; a report each {} ms.",
        options.rounds,
        REPORT_INTERVAL.as_millis()
    );
    let mut promises = compare("trickling flow", TRICKLE, options)?;
    promises.extend(compare("bulk flow", Load::Bulk, options)?);
    Ok(promises)
}
