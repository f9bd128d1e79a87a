//! One bulk flow over plain veth: `cubic` under the agent compared with the kernel's `cubic`.
//!
//! Two runs, one of each side, make a pair; the sides alternate in going first. Every figure is the
//! ratio of ours to the kernel's within a pair. A flow counts from its first byte. Nothing between
//! the two ends limits the flow, so the processors are the bottleneck; if no core idles, goodput
//! and processor time per byte are two views of one figure. The agent runs all the time, but its
//! processor time counts only during our flows.
//!
//! A pair that other work disturbed (cpu.rs) is shown and repeated, within limits, because it is
//! chance which side a compiler running beside it slows down. Too few undisturbed pairs give no
//! verdict.

use crate::cpu::{Cpu, Meter};
use crate::traffic::{Load, Socket, Traffic};
use crate::{Fallible, Options, Promise, Verdict};
use ccp_agent::child::AgentChild;
use remuda_bench::stats::Spread;
use remuda_live::VethPair;
use std::time::Duration;

const GOODPUT_MIN: f64 = 0.95;
const CPU_MAX: f64 = 1.15;
const KERNELS: &str = "cubic";
/// Most attempts for each wanted pair.
const ATTEMPTS: usize = 3;
/// Least number of undisturbed pairs for a verdict.
const PAIRS_MIN: usize = 7;
/// How often the sender's window is sampled.
const LOOK: Duration = Duration::from_millis(20);

struct Figures {
    mbit_per_sec: f64,
    bytes: f64,
    elapsed: Duration,
    cpu: Cpu,
    /// The window over the flow's life, in segments.
    cwnd_pkts: Spread,
    socket: Socket,
}

impl Figures {
    fn cpu_ns_per_byte(&self) -> f64 {
        self.cpu.flow_ns() as f64 / self.bytes
    }

    fn machine_ns_per_byte(&self) -> f64 {
        self.cpu.machine_ns as f64 / self.bytes
    }

    /// Time of other work, as a part of one processor.
    fn others(&self) -> f64 {
        self.cpu.others(self.elapsed)
    }
}

fn run_flow(
    pair: &VethPair,
    algorithm: &str,
    agent: Option<u32>,
    span: Duration,
) -> Fallible<Figures> {
    let meter = Meter::new(agent)?;
    let traffic = Traffic::start(pair, algorithm, Load::Bulk)?;
    let before = meter.read()?;
    let mut windows = Vec::new();
    let (bytes, elapsed) = loop {
        std::thread::sleep(LOOK);
        windows.push(f64::from(traffic.socket().cwnd_pkts));
        let (bytes, elapsed) = traffic.progress();
        if elapsed >= span {
            break (bytes, elapsed);
        }
    };
    let cpu = meter.read()?.since(before);
    let socket = traffic.socket();
    traffic.finish()?;
    let bytes = bytes.max(1) as f64;
    let mbit_per_sec = bytes * 8.0 / 1e6 / elapsed.as_secs_f64();
    Ok(Figures { mbit_per_sec, bytes, elapsed, cpu, cwnd_pkts: Spread::of(windows), socket })
}

fn is_quiet((kernel, ours): &(Figures, Figures)) -> bool {
    kernel.cpu.is_quiet(kernel.elapsed) && ours.cpu.is_quiet(ours.elapsed)
}

fn row(label: &str, pair: &(Figures, Figures)) {
    let (kernel, ours) = pair;
    let both = |figure: fn(&Figures) -> f64, digits: usize| {
        let (kernel, ours) = (figure(kernel), figure(ours));
        format!("{kernel:.digits$} / {ours:.digits$} | {:.3}", ours / kernel)
    };
    let window = |f: &Figures| {
        let Socket { srtt_us, retransmitted_pkts, .. } = f.socket;
        format!("{:.0} / {srtt_us} / {retransmitted_pkts}", f.cwnd_pkts)
    };
    println!(
        "| {label} | {} | {} | {:.3} / {:.3} | {:.1} % | {:.0} / {:.0} % | {} | {} |",
        both(|f| f.mbit_per_sec, 0),
        both(Figures::cpu_ns_per_byte, 3),
        kernel.machine_ns_per_byte(),
        ours.machine_ns_per_byte(),
        ours.cpu.agent_ns as f64 / ours.cpu.flow_ns() as f64 * 100.0,
        kernel.others() * 100.0,
        ours.others() * 100.0,
        window(kernel),
        window(ours),
    );
}

fn head(options: &Options) {
    println!("{} pairs of {} s a flow, k: the kernel's, o: ours\n", options.pairs, options.seconds);
    println!(
        "| pair | Mbit/s k / o | ratio | CPU ns/byte k / o | ratio | machine's ns/byte k / o | \
         agent's share | others k / o | cwnd pkts / last srtt us / retransmitted k | o |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
}

pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    println!("\n## One flow over plain veth, cubic under the agent against the kernel's cubic\n");
    let folder = tempfile::tempdir()?;
    let name = format!("bt{}", std::process::id());
    let arguments = ["--name", &name, "--arm", "cubic"];
    let agent = AgentChild::start(&options.remuda, &folder.path().join("run"), &arguments)?;
    // In the control experiment our side is the kernel's algorithm, too.
    let (ours_name, ours_pid) = match options.control {
        true => (KERNELS, None),
        false => (name.as_str(), Some(agent.pid())),
    };
    head(options);
    let span = Duration::from_secs_f64(options.seconds);
    // One pair of devices for all flows: a new device drops packets until the kernel has seen its
    // carrier.
    let veth = VethPair::new()?;
    let run_pair = |kernel_first: bool| -> Fallible<(Figures, Figures)> {
        let early = kernel_first.then(|| run_flow(&veth, KERNELS, None, span)).transpose()?;
        let ours = run_flow(&veth, ours_name, ours_pid, span)?;
        let kernel = early.map_or_else(|| run_flow(&veth, KERNELS, None, span), Ok)?;
        Ok((kernel, ours))
    };
    run_flow(&veth, KERNELS, None, span.min(Duration::from_secs(1)))?; // warms the machine up
    let (mut quiet, mut disturbed) = (Vec::new(), Vec::new());
    for attempt in 0..options.pairs * ATTEMPTS {
        if quiet.len() == options.pairs {
            break;
        }
        let pair = run_pair(attempt % 2 == 0)?;
        let into = if is_quiet(&pair) { &mut quiet } else { &mut disturbed };
        into.push(pair);
        let pair = &into[into.len() - 1];
        row(if is_quiet(pair) { "quiet" } else { "disturbed" }, pair);
    }
    agent.stop()?;
    println!("\n{} pairs undisturbed, {} disturbed", quiet.len(), disturbed.len());
    let decided = quiet.len() >= PAIRS_MIN;
    if !decided {
        println!("too few of the former for a verdict; these figures are of all");
        quiet.extend(disturbed);
    }
    Ok(judge(&quiet, decided))
}

fn judge(pairs: &[(Figures, Figures)], decided: bool) -> Vec<Promise> {
    let verdict = |met| if decided { Verdict::of(met) } else { Verdict::Undecided };
    let ratio = |figure: fn(&Figures) -> f64| {
        Spread::of(pairs.iter().map(|(kernel, ours)| figure(ours) / figure(kernel)))
    };
    let goodput = ratio(|f| f.mbit_per_sec);
    let cpu = ratio(Figures::cpu_ns_per_byte);
    let machine = ratio(Figures::machine_ns_per_byte);
    println!("\ngoodput ratio {goodput:.3}; CPU per byte ratio {cpu:.3}");
    println!("whole machine's busy time per byte, with all that runs beside: ratio {machine:.3}");
    println!("published peers, goodput: 0.91 (CCP's kernel module), 0.80 (eBPF-CCP)");
    vec![
        Promise {
            what: "goodput over veth, agent / kernel".to_owned(),
            figure: format!("{goodput:.3}"),
            bound: format!(">= {GOODPUT_MIN}"),
            verdict: verdict(goodput.median >= GOODPUT_MIN),
        },
        Promise {
            what: "CPU per byte over veth, agent / kernel".to_owned(),
            figure: format!("{cpu:.3}"),
            bound: format!("<= {CPU_MAX}"),
            verdict: verdict(cpu.median <= CPU_MAX),
        },
    ]
}
