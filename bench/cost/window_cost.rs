//! What learned initial windows cost a new connection: the time that the kernel spends in the
//! program that begins a flow, with no destination known, with one, and with 10,000.
//!
//! Connections over loopback are opened and reset, one after the other. The kernel counts the run
//! time of `remuda_init`; we read the counter after every 40 connections. A preemption spoils few
//! of these windows, so a figure is the median of a round's windows. The three cases alternate.

use crate::crowd::close_at_once;
use crate::run_stats::{Counting, Runs};
use crate::{Fallible, Options, Promise, Verdict, run_stats};
use ccp_agent::clock;
use libbpf_rs::query::ProgInfoIter;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remuda_bench::stats::Spread;
use remuda_bpf::{Datapath, RememberedStart, Settings};
use remuda_live::transfer::set_algorithm;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

const PREFIXES: usize = 10_000;
const BOUND_US: f64 = 1.0;
const CONNECTIONS: usize = 40;
const WINDOWS: usize = 20;
/// The initial window of each prefix, in segments.
const WINDOW_PKTS: u32 = 20;

/// 10,000 prefixes of 16 to 24 bits, none of which holds a loopback address.
fn prefixes() -> Vec<(Ipv6Addr, u8)> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut found = BTreeSet::new();
    while found.len() < PREFIXES {
        let bits = rng.random_range(16..=24u8);
        let address = rng.random::<u32>() & (u32::MAX << (32 - bits));
        if address >> 24 != 127 {
            found.insert((Ipv4Addr::from(address).to_ipv6_mapped(), 96 + bits));
        }
    }
    found.into_iter().collect()
}

struct Bench {
    datapath: Datapath,
    /// The kernel's id of the program that begins a flow.
    program: u32,
    listener: TcpListener,
    prefixes: Vec<(Ipv6Addr, u8)>,
}

impl Bench {
    fn runs(&self) -> Fallible<Runs> {
        let mut all = ProgInfoIter::default().filter(|program| program.id == self.program);
        let program = all.next().ok_or("the program that begins a flow is gone")?;
        Ok(Runs { count: program.run_cnt, time_ns: program.run_time_ns })
    }

    /// Opens a connection, whose server side is the flow, and resets it.
    fn connect(&self, to: SocketAddr) -> Fallible<()> {
        let client = TcpStream::connect(to)?;
        let (server, _) = self.listener.accept()?;
        close_at_once(&client)?;
        drop(client);
        drop(server);
        Ok(())
    }

    /// The median time of a run, in microseconds, while the kernel knows `count` prefixes. One of
    /// the prefixes holds the address that the connections come from.
    fn measure(&mut self, count: usize) -> Fallible<f64> {
        let start = RememberedStart { program_uid: None, initial_cwnd_pkts: WINDOW_PKTS };
        let loopback = (Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 96 + 24);
        let others: Vec<_> = self.prefixes.iter().take(count.saturating_sub(1)).copied().collect();
        for to in others.iter().copied().chain((count > 0).then_some(loopback)) {
            self.datapath.set_destination(to, start)?;
        }
        let to = self.listener.local_addr()?;
        let mut windows = Vec::new();
        for _ in 0..WINDOWS {
            self.datapath.beat(clock::monotonic_ns());
            let before = self.runs()?;
            for _ in 0..CONNECTIONS {
                self.connect(to)?;
            }
            let now = self.runs()?;
            while self.datapath.drain_messages(&mut |_| {}) > 0 {}
            let count = now.count - before.count;
            if count == 0 {
                return Err("no flow began under the name of this benchmark".into());
            }
            windows.push((now.time_ns - before.time_ns) as f64 / count as f64 / 1e3);
        }
        for to in others.into_iter().chain((count > 0).then_some(loopback)) {
            self.datapath.forget_destination(to)?;
        }
        Ok(Spread::of(windows).median)
    }
}

pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    println!("\n## Cost of an initial window\n");
    let _counting = Counting::start()?;
    let name = format!("bw{}", std::process::id());
    let of_init = || {
        let all = ProgInfoIter::default();
        all.filter(|program| program.name == OsStr::new("remuda_init")).map(|program| program.id)
    };
    let before: Vec<u32> = of_init().collect();
    let settings = Settings { name: name.clone(), ..Settings::default() };
    let mut datapath = Datapath::load(settings, clock::monotonic_ns())?;
    datapath.attach()?;
    let program = of_init().find(|id| !before.contains(id)).ok_or("no program begins flows")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    set_algorithm(listener.as_raw_fd(), &name)?;
    let mut bench = Bench { datapath, program, listener, prefixes: prefixes() };
    let (mut costs, mut overheads) = ([Vec::new(), Vec::new(), Vec::new()], Vec::new());
    for _ in 0..options.rounds {
        overheads.push(run_stats::overhead_ns()?);
        for (count, costs) in [0, 1, PREFIXES].into_iter().zip(&mut costs) {
            costs.push(bench.measure(count)?);
        }
    }
    let added = costs[2].iter().zip(&costs[0]).map(|(many, none)| many - none);
    let added = Spread::of(added);
    let [none, one, many] = costs.map(Spread::of);
    println!(
        "The program that begins a flow, median of a round, us: {none:.3} with no destination \
         known, {one:.3} with one, {many:.3} with {PREFIXES}; the counting itself takes {:.0} ns \
         of each.",
        Spread::of(overheads)
    );
    Ok(vec![Promise {
        what: format!(
            "an initial window at establishment, of {PREFIXES} prefixes, beyond none (the whole \
             program: {:.3}), us",
            many.median
        ),
        figure: format!("{:.3} ({:.3}..{:.3})", added.median, added.low, added.high),
        bound: format!("<= {BOUND_US}"),
        verdict: Verdict::of(added.high <= BOUND_US),
    }])
}
