//! One bulk flow over plain veth: `cubic` under the agent against the kernel's own `cubic`.
//!
//! Pairs of runs, one after the other, in turns the one first and the other; every figure is the
//! ratio of ours to the kernel's within a pair. A flow counts from its first byte on. Nothing
//! between the two ends limits it, so the processors are the bottleneck, and goodput and processor
//! time per byte say the same thing twice if no core idles. The agent runs all the time; its
//! processor time counts only for its own flows.

use crate::cpu::{Cpu, Meter};
use crate::stats::Spread;
use crate::traffic::{Load, Socket, Traffic};
use crate::{Fallible, Options, Promise};
use ccp_agent::child::AgentChild;
use remuda_live::VethPair;
use std::time::Duration;

const GOODPUT_MIN: f64 = 0.95;
const CPU_MAX: f64 = 1.15;
const KERNELS: &str = "cubic";

struct Figures {
    mbit_per_sec: f64,
    bytes: f64,
    cpu: Cpu,
    socket: Socket,
}

impl Figures {
    fn cpu_ns_per_byte(&self) -> f64 {
        self.cpu.flow_ns() as f64 / self.bytes
    }

    fn machine_ns_per_byte(&self) -> f64 {
        self.cpu.machine_ns as f64 / self.bytes
    }
}

fn run_flow(algorithm: &str, agent: Option<u32>, span: Duration) -> Fallible<Figures> {
    let pair = VethPair::new()?;
    let meter = Meter::new(agent)?;
    let before = meter.read()?;
    let traffic = Traffic::start(&pair, algorithm, Load::Bulk)?;
    std::thread::sleep(span);
    let (bytes, elapsed) = traffic.progress();
    let cpu = meter.read()?.since(before);
    let socket = traffic.socket();
    traffic.finish()?;
    let bytes = bytes.max(1) as f64;
    let mbit_per_sec = bytes * 8.0 / 1e6 / elapsed.as_secs_f64();
    Ok(Figures { mbit_per_sec, bytes, cpu, socket })
}

fn row(pair: usize, (kernel, ours): &(Figures, Figures)) {
    let window = |f: &Figures| {
        format!("{}/{} us/{}", f.socket.cwnd_pkts, f.socket.srtt_us, f.socket.retransmitted_pkts)
    };
    println!(
        "| {pair} | {:.0} / {:.0} | {:.3} | {:.3} / {:.3} | {:.3} | {:.3} / {:.3} | {:.1} % | {} | {} |",
        kernel.mbit_per_sec,
        ours.mbit_per_sec,
        ours.mbit_per_sec / kernel.mbit_per_sec,
        kernel.cpu_ns_per_byte(),
        ours.cpu_ns_per_byte(),
        ours.cpu_ns_per_byte() / kernel.cpu_ns_per_byte(),
        kernel.machine_ns_per_byte(),
        ours.machine_ns_per_byte(),
        ours.cpu.agent_ns as f64 / ours.cpu.flow_ns() as f64 * 100.0,
        window(kernel),
        window(ours),
    );
}

/// Runs it.
pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    println!("\n## One flow over plain veth, cubic under the agent against the kernel's cubic\n");
    let folder = tempfile::tempdir()?;
    let name = format!("bt{}", std::process::id());
    let arguments = ["--name", &name, "--arm", "cubic"];
    let agent = AgentChild::start(&options.remuda, &folder.path().join("run"), &arguments)?;
    // In the control experiment "ours" is the kernel's own, too.
    let (ours_name, ours_pid) = match options.control {
        true => (KERNELS, None),
        false => (name.as_str(), Some(agent.pid())),
    };
    println!("{} pairs of {} s a flow\n", options.pairs, options.seconds);
    println!(
        "| pair | Mbit/s kernel / ours | ratio | CPU ns/byte kernel / ours | ratio | machine \
         ns/byte | agent's share | cwnd/srtt/retransmitted kernel | ours |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let span = Duration::from_secs_f64(options.seconds);
    run_flow(KERNELS, None, span.min(Duration::from_secs(1)))?; // warms the machine up
    let mut pairs = Vec::new();
    for turn in 0..options.pairs {
        let kernel_first = turn % 2 == 0;
        let early = kernel_first.then(|| run_flow(KERNELS, None, span)).transpose()?;
        let ours = run_flow(ours_name, ours_pid, span)?;
        let kernel = early.map_or_else(|| run_flow(KERNELS, None, span), Ok)?;
        pairs.push((kernel, ours));
        row(turn + 1, &pairs[turn]);
    }
    agent.stop()?;
    Ok(judge(&pairs))
}

fn judge(pairs: &[(Figures, Figures)]) -> Vec<Promise> {
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
            met: Some(goodput.median >= GOODPUT_MIN),
        },
        Promise {
            what: "CPU per byte over veth, agent / kernel".to_owned(),
            figure: format!("{cpu:.3}"),
            bound: format!("<= {CPU_MAX}"),
            met: Some(cpu.median <= CPU_MAX),
        },
    ]
}
