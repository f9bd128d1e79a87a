//! One day on real TCP: an agent, nginx, nine links and the users behind them.

use crate::agent::{self, Agent, Settings};
use ccp_agent::clock;
use remuda_bench::initial_windows::scene::{Day, GROUPS, THINKS_S, Visit, sizes};
use remuda_live::{Clock, STOLEN_MAX, Testbed, least_disturbed};
use remuda_tests::Fallible;
use remuda_tests::nginx::{Nginx, PORT, fetch};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The users of hour `h` have an address that ends in this and `h`: one table of windows by address
/// then holds windows by group and hour.
const FIRST_HOST: usize = 10;
/// A receive window above 200 segments: half of the second number.
const RECEIVE_BUFFER: &str = "4096 1048576 67108864";
/// From the start of the links to that of the day, at least: the kernel has the table of windows
/// within a second, and nginx listens.
const LEAD_S: f64 = 1.5;
/// A request without an answer is given up, and counts as if it had taken so long.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Attempts at a day, at most, while a hypervisor takes the processor.
const TRIES: u32 = 2;
/// A client that nginx refuses tries again after so long, at most so often.
const RETRY: (u32, Duration) = (100, Duration::from_millis(20));

/// A response, as its client saw it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Seen {
    pub group: usize,
    /// The hour in which the visit began.
    pub hour: usize,
    pub keeps_alive: bool,
    /// Its place in the visit, from 0.
    pub number: usize,
    pub bytes: usize,
    /// From the request to the last byte.
    pub took_ms: f64,
}

impl Seen {
    /// Whether this was the first response of its connection; the initial window serves only that.
    pub fn is_first(&self) -> bool {
        !self.keeps_alive || self.number == 0
    }
}

/// A first response, as the agent has recorded it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Recorded {
    pub group: usize,
    pub hour: usize,
    pub cwnd_pkts: u32,
    pub peer_window_bytes: u32,
    pub srtt_ms: f64,
    pub lost_share: f64,
}

/// What the agent says of a group when the day is over.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Learned {
    pub name: String,
    pub jitter: f64,
    pub best_pkts: Option<u32>,
    pub rounds: u64,
}

/// What is kept of a day.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measured {
    pub seen: Vec<Seen>,
    pub recorded: Vec<Recorded>,
    pub learned: Vec<Learned>,
    /// Requests that were given up.
    pub failed: usize,
    pub is_disturbed: bool,
}

/// How a day is run.
pub struct Plan<'a> {
    pub day: Day,
    pub seed: u64,
    pub settings: Settings,
    /// An operator's windows by group and hour; `None` leaves the table to the learner.
    pub windows: Option<&'a [Vec<u32>]>,
    /// What an agent of an earlier day has left.
    pub state: Option<&'a Path>,
    /// The day begins so many seconds after a multiple of so many, by the wall clock.
    pub begins_at: Option<(u64, u64)>,
}

/// The address of the users of that hour.
fn address(group: usize, hour: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 11, group as u8, (FIRST_HOST + hour) as u8)
}

/// A connection of that address to the server.
fn connect(from: Ipv4Addr, to: Ipv4Addr) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::from((from, 0)))?;
    connect(&socket, &SocketAddr::from((to, PORT)))?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(GIVE_UP))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Makes the requests of a visit. Returns how long each took; `None` for one that failed.
fn visit(visit: &Visit, from: Ipv4Addr, to: Ipv4Addr) -> Vec<Option<Duration>> {
    let mut kept = None;
    let mut took = Vec::new();
    for size in visit.sizes {
        if !took.is_empty() {
            thread::sleep(Duration::from_secs_f64(THINKS_S));
        }
        let stream = kept.take().map_or_else(|| connect(from, to), Ok);
        let fetched = stream.and_then(|mut stream| Ok((fetch(&mut stream, size)?, stream)));
        took.push(fetched.as_ref().ok().map(|(took, _)| *took));
        kept = fetched.ok().map(|(_, stream)| stream).filter(|_| visit.keeps_alive);
    }
    took
}

/// All visits to one group, each on a thread of its own. The day begins at `start_s` of the clock.
fn visits(
    group: usize,
    testbed: &Testbed,
    plan: &Plan<'_>,
    (clock, start_s): (Clock, f64),
) -> Fallible<Vec<(Seen, bool)>> {
    let seen = Mutex::new(Vec::new());
    let all = plan.day.visits(group, plan.seed);
    let to = testbed.server().ipv4();
    let one = |one: &Visit| {
        let hour = plan.day.hour_at(one.start_s);
        let took = visit(one, address(group, hour), to);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, (took, bytes)) in took.into_iter().zip(one.sizes).enumerate() {
            let took_ms = took.unwrap_or(GIVE_UP).as_secs_f64() * 1e3;
            let keeps_alive = one.keeps_alive;
            seen.push((Seen { group, hour, keeps_alive, number, bytes, took_ms }, took.is_some()));
        }
    };
    testbed.client().run(|| {
        thread::scope(|scope| {
            for it in &all {
                let wait_s = start_s + it.start_s - clock.elapsed().as_secs_f64();
                thread::sleep(Duration::from_secs_f64(wait_s.max(0.0)));
                scope.spawn(|| one(it));
            }
        });
    })?;
    Ok(seen.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Seconds from now until the day may begin.
fn lead_s(begins_at: Option<(u64, u64)>) -> f64 {
    let Some((after_s, multiple_s)) = begins_at else { return LEAD_S };
    let (now_s, multiple_s) = (clock::wall().as_secs_f64(), multiple_s as f64);
    let past_s = (now_s + LEAD_S - after_s as f64).rem_euclid(multiple_s);
    LEAD_S + multiple_s - past_s
}

fn set_windows(agent: &Agent, windows: &[Vec<u32>]) -> Fallible<()> {
    for (group, hours) in windows.iter().enumerate() {
        for (hour, pkts) in hours.iter().enumerate() {
            agent.set_window(address(group, hour), 32, *pkts)?;
        }
    }
    Ok(())
}

/// The first responses of the day that the agent has recorded.
fn recorded(state_dir: &Path, day: &Day, since_unix_s: u64) -> Fallible<Vec<Recorded>> {
    let all = agent::records_since(state_dir, since_unix_s)?;
    let of = |(peer, record): (Ipv4Addr, remuda_selector::tcp_rl::record::Record)| {
        let [.., group, host] = peer.octets();
        let hour = usize::from(host).checked_sub(FIRST_HOST).filter(|hour| *hour < day.hours)?;
        Some(Recorded {
            group: usize::from(group),
            hour,
            cwnd_pkts: record.initial_cwnd_pkts,
            peer_window_bytes: record.peer_window_bytes,
            srtt_ms: f64::from(record.srtt_us) / 1e3,
            lost_share: record.lost_share,
        })
    };
    Ok(all.into_iter().filter_map(of).collect())
}

/// Runs the day once, in `folder`, which is left with the agent's state directory in it.
fn attempt(plan: &Plan<'_>, folder: &Path) -> Fallible<Measured> {
    let agent = Agent::start(folder, &plan.settings, plan.state)?;
    plan.windows.map(|windows| set_windows(&agent, windows)).transpose()?;
    let lead_s = lead_s(plan.begins_at);
    let since_unix_s = clock::wall().as_secs();
    let path = |group| plan.day.path(group, lead_s, plan.seed);
    let paths: Vec<_> = (0..GROUPS).map(path).collect();
    let clock = Clock::start();
    let testbeds = Testbed::star(&paths)?;
    for (group, testbed) in testbeds.iter().enumerate() {
        let hours: Vec<_> = (0..plan.day.hours).map(|hour| address(group, hour)).collect();
        testbed.client().add_ipv4(&hours)?;
        testbed.client().set_sysctl("net.ipv4.tcp_rmem", RECEIVE_BUFFER)?;
    }
    let hub = testbeds.first().expect("there are nine groups").server();
    hub.set_sysctl("net.ipv4.tcp_congestion_control", &agent.name)?;
    let files = folder.join("files");
    std::fs::create_dir(&files)?;
    let nginx = Nginx::start(&files, hub, Ipv4Addr::UNSPECIFIED, &sizes())?;
    await_nginx(&testbeds[0])?;
    let seen = thread::scope(|scope| {
        let of =
            |(group, testbed)| scope.spawn(move || visits(group, testbed, plan, (clock, lead_s)));
        let threads: Vec<_> = testbeds.iter().enumerate().map(of).collect();
        let joined = threads.into_iter().map(|it| it.join().map_err(|_| "a user panicked")?);
        joined.collect::<Fallible<Vec<_>>>()
    })?;
    drop(nginx);
    let learned = agent.report()?.groups.into_iter().map(|group| Learned {
        name: group.row.name,
        jitter: group.row.jitter,
        best_pkts: group.row.best_pkts,
        rounds: group.row.rounds,
    });
    let learned = learned.collect();
    let state_dir = agent.stop()?;
    let recorded = recorded(&state_dir, &plan.day, since_unix_s)?;
    let failed = seen.iter().flatten().filter(|(_, is_answered)| !is_answered).count();
    let seen = seen.into_iter().flatten().map(|(seen, _)| seen).collect();
    Ok(Measured { seen, recorded, learned, failed, is_disturbed: false })
}

/// Waits until nginx listens.
fn await_nginx(testbed: &Testbed) -> Fallible<()> {
    let (tries, after) = RETRY;
    let to = testbed.server().ipv4();
    let answers = || {
        (0..tries).any(|_| {
            let is_there = TcpStream::connect((to, PORT)).is_ok();
            if !is_there {
                thread::sleep(after);
            }
            is_there
        })
    };
    if testbed.client().run(answers)? { Ok(()) } else { Err("nginx does not listen".into()) }
}

/// Runs a day, again if a hypervisor disturbed it. `keep` gets the state directory of the agent of
/// the run that counts.
pub fn run(plan: &Plan<'_>, keep: impl FnOnce(&Path) -> io::Result<()>) -> Fallible<Measured> {
    let work = || -> Fallible<_> {
        let folder = tempfile::tempdir()?;
        Ok((attempt(plan, folder.path())?, folder))
    };
    let ((measured, folder), stolen) = least_disturbed(TRIES, work, |share| {
        eprintln!("a hypervisor took {:.1} % of a processor; once more", share * 100.0);
    })?;
    keep(&folder.path().join("state"))?;
    Ok(Measured { is_disturbed: stolen > STOLEN_MAX, ..measured })
}
