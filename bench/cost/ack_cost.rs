//! The cost of an ACK: nanoseconds in the datapath, by the length of the flow's program.
//!
//! One bulk flow changes its program in mid-flow, round after round. The kernel counts the run time
//! of the dispatcher, including the program that it enters by tail call. We read the counter every
//! few milliseconds and divide by the number of runs in between. A preemption inside a run takes
//! microseconds and would spoil a mean, but it affects few of these windows. Figures are
//! percentiles over windows. They include the cost of the counting, which is printed beside them.

use crate::run_stats::{self, Counting};
use crate::traffic::{Load, Traffic};
use crate::{Options, Promise};
use ccp_agent::clock;
use remuda_bench::stats::{Spread, percentile, sorted};
use remuda_bpf::{Datapath, Settings};
use remuda_live::VethPair;
use remuda_tests::{Fallible, message, synthetic};
use remuda_wire::ToAgent;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

const LENGTHS: [usize; 3] = [10, 40, 100];
const WINDOW: Duration = Duration::from_millis(4);
/// A window with fewer ACKs is too noisy to count.
const ACKS_MIN: u64 = 5;
const SETTLE: Duration = Duration::from_millis(50);
const WAIT_TURNS: u32 = 1_000;
/// As wide as a bulk flow over veth makes its window.
const CWND_BYTES: u64 = 400 * 1_448;

struct Case {
    label: String,
    uid: u32,
    /// CCP instructions that run at every ACK; `None` for an arm's program, because not all of its
    /// events run at every ACK.
    length: Option<usize>,
    insns: usize,
    windows: Vec<f64>,
    /// The median of each round.
    medians: Vec<f64>,
}

struct Bench {
    datapath: Datapath,
    flow: Option<u32>,
    cases: Vec<Case>,
    /// Keeps the program loaded: the jump table does not hold a reference to a program whose last
    /// descriptor is closed.
    _empty: OwnedFd,
}

fn load(name: &str) -> Fallible<Bench> {
    let settings = Settings { name: name.to_owned(), ..Settings::default() };
    let mut datapath = Datapath::load(settings, clock::monotonic_ns())?;
    datapath.attach()?;
    let member = remuda_bpf::ops_member("cong_control")?;
    let empty = remuda_bpf::load_program("empty", &run_stats::empty(), member)?;
    let cubic = remuda_algorithms::arm("cubic").ok_or("there is no arm cubic")?;
    let mut texts =
        vec![("nothing (the dispatcher alone)".to_owned(), synthetic::program(10)?, None)];
    for length in LENGTHS {
        texts.push((format!("{length} instructions"), synthetic::program(length)?, Some(length)));
    }
    texts.push(("cubic, with its reports".to_owned(), cubic.program_text.to_owned(), None));
    let mut cases = Vec::new();
    for (uid, (label, text, length)) in (1..).zip(texts) {
        datapath.handle(&message::install(uid, &text)?.0)?;
        let program = datapath.program(uid).ok_or("a program is not installed")?;
        let insns = run_stats::info(program)?.instructions;
        cases.push(Case { label, uid, length, insns, windows: vec![], medians: vec![] });
    }
    let first = run_stats::info(datapath.program(cases[0].uid).ok_or("nothing is installed")?)?;
    let dispatcher = run_stats::info(datapath.dispatcher()?)?;
    run_stats::replace(&run_stats::jump_table(&dispatcher)?, first.id, empty.as_fd())?;
    cases[0].insns = dispatcher.instructions;
    Ok(Bench { datapath, flow: None, cases, _empty: empty })
}

impl Bench {
    /// Sends a heartbeat, and reads and drops the flows' messages.
    fn listen(&mut self) {
        self.datapath.beat(clock::monotonic_ns());
        let flow = &mut self.flow;
        self.datapath.drain_messages(&mut |said| {
            if let Ok(ToAgent::Create { sid, .. }) = ToAgent::parse(said) {
                *flow = Some(sid);
            }
        });
    }

    fn wait(&mut self, span: Duration) {
        let until = clock::monotonic_ns() + span.as_nanos() as u64;
        while clock::monotonic_ns() < until {
            self.listen();
            std::thread::sleep(WINDOW);
        }
    }

    /// Installs the program of `case` in the flow and records the windows.
    fn measure(&mut self, case: usize, span: Duration) -> Fallible<()> {
        let sid = self.flow.ok_or("the flow was never announced")?;
        self.datapath.handle(&message::change_program(sid, self.cases[case].uid, CWND_BYTES)?)?;
        self.wait(SETTLE);
        let mut before = run_stats::info(self.datapath.dispatcher()?)?.runs;
        let mut windows = Vec::new();
        let until = clock::monotonic_ns() + span.as_nanos() as u64;
        while clock::monotonic_ns() < until {
            std::thread::sleep(WINDOW);
            let now = run_stats::info(self.datapath.dispatcher()?)?.runs;
            let acks = now.count - before.count;
            if acks >= ACKS_MIN {
                windows.push((now.time_ns - before.time_ns) as f64 / acks as f64);
                before = now;
            }
            self.listen();
        }
        if windows.is_empty() {
            return Err("the flow had no ACKs".into());
        }
        let case = &mut self.cases[case];
        case.medians.push(Spread::of(windows.iter().copied()).median);
        case.windows.extend(windows);
        Ok(())
    }
}

fn print(cases: &[Case], overhead: Spread) {
    println!("| program | BPF instructions | ns per ACK p10 | p50 | p50 by round | windows |");
    println!("|---|---|---|---|---|---|");
    for case in cases {
        let windows = sorted(case.windows.iter().copied());
        println!(
            "| {} | {} | {:.0} | {:.0} | {:.0} | {} |",
            case.label,
            case.insns,
            percentile(&windows, 10.0),
            percentile(&windows, 50.0),
            Spread::of(case.medians.iter().copied()),
            windows.len(),
        );
    }
    println!(
        "\nThe counting itself takes {overhead:.0} ns of each figure (an empty program, in a test \
         run). BPF instructions of a program are without the dispatcher's."
    );
}

pub fn run(options: &Options) -> Fallible<Vec<Promise>> {
    println!("\n## Cost per ACK\n");
    let _counting = Counting::start()?;
    let name = format!("bc{}", std::process::id());
    let mut bench = load(&name)?;
    let pair = VethPair::new()?;
    let traffic = Traffic::start(&pair, &name, Load::Bulk)?;
    for _ in 0..WAIT_TURNS {
        if bench.flow.is_some() {
            break;
        }
        bench.wait(WINDOW);
    }
    let span = Duration::from_millis(options.ack_ms);
    let mut overheads = Vec::new();
    for round in 0..options.rounds {
        overheads.push(run_stats::overhead_ns()?);
        for turn in 0..bench.cases.len() {
            // Each round begins with another program.
            let case = (turn + round) % bench.cases.len();
            bench.measure(case, span)?;
        }
    }
    drop(traffic);
    println!(
        "One bulk flow; {} rounds, {} ms of windows of {} ms a program a round.\n",
        options.rounds,
        options.ack_ms,
        WINDOW.as_millis()
    );
    print(&bench.cases, Spread::of(overheads));
    let (costs, instructions) = slope(&bench.cases);
    println!("An instruction more costs {costs:.2} ns ({instructions}).");
    Ok(vec![Promise::shown("cost per ACK of 10, 40 and 100 instructions", &figures(&bench.cases))])
}

/// The cost of an instruction: the difference between the shortest and the longest program, by
/// round.
fn slope(cases: &[Case]) -> (Spread, String) {
    let sized: Vec<(&Case, usize)> =
        cases.iter().filter_map(|case| Some((case, case.length?))).collect();
    let ((short, from), (long, to)) = (sized[0], sized[sized.len() - 1]);
    let rounds = short.medians.iter().zip(&long.medians);
    let per = rounds.map(|(short, long)| (long - short) / (to - from) as f64);
    (Spread::of(per), format!("from {from} to {to}, medians by round"))
}

fn figures(cases: &[Case]) -> String {
    let medians = cases.iter().filter(|case| case.length.is_some()).map(|case| {
        let windows = sorted(case.windows.iter().copied());
        format!("{:.0}", percentile(&windows, 50.0))
    });
    format!("{} ns (p50)", medians.collect::<Vec<_>>().join(", "))
}
