//! Fuzzes everything that the project parses and that others may have written: messages of
//! datapaths and of the agent, frames of authors, models, the memory's file, traces, scenarios and
//! suites. No root.
//!
//! Each target mutates examples. An input with an outcome that is new (another error, say) becomes
//! an example too. A panic, a broken promise of the parser or an input that takes longer than
//! [`SLOW`] is a finding: the test fails and prints the input.
//!
//! `REMUDA_FUZZ_SECONDS` is the time for each target (`make fuzz`: three minutes), and
//! `REMUDA_FUZZ_SEED` another beginning.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use ccp_agent::author::frame::{FromAuthor, ToAuthor};
use ccp_agent::programs;
use remuda_link::Trace;
use remuda_live::Clock;
use remuda_scenarios::{Scenario, Suite};
use remuda_selector::antelope::memory::{Memory, MemoryConfig};
use remuda_selector::antelope::model::Model;
use remuda_wire::program::{CWND, RATE};
use remuda_wire::to_agent::{
    Create, FlowInfo, Hello, Signals, State, encode_measure, encode_ready, encode_state,
};
use remuda_wire::to_datapath::{
    Update, encode_bare, encode_change_prog, encode_native, encode_update_fields,
};
use remuda_wire::{Inbox, Kind, Register, ToAgent, ToDatapath};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

const SECONDS: u64 = 2;
const SLOW: Duration = Duration::from_secs(10);
const EXAMPLES_MAX: usize = 1_024;
const INPUT_BYTES_MAX: usize = 64 << 10;

/// A small generator (xorshift): the same seed gives the same inputs.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 1).unwrap() % end.max(1)
    }
}

/// What a parser may stumble over.
const TOKENS: [&[u8]; 26] = [
    b"\0",
    b"\xff\xff\xff\xff",
    b"\x7f",
    b"-1",
    b"0",
    b"1e309",
    b"1e-320",
    b"nan",
    b"inf",
    b"null",
    b"true",
    b"4294967296",
    b"18446744073709551616",
    b"[]",
    b"{}",
    b"[[",
    b"\"",
    b"'''",
    b"\\u0000",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\x92\xa9",
    b",",
    b";",
    b"\n",
    b"\t",
    b"#",
];

fn mutate(input: &mut Vec<u8>, other: &[u8], draws: &mut Draws) {
    for _ in 0..=draws.below(4) {
        let at = draws.below(input.len() + 1);
        let end = (at + 1 + draws.below(16)).min(input.len());
        match draws.below(8) {
            0 if at < input.len() => input[at] ^= 1 << draws.below(8),
            1 if at < input.len() => input[at] = draws.next() as u8,
            2 if at < end => drop(input.drain(at..end)),
            3 if at < end => {
                let again = input[at..end].to_vec();
                input.splice(at..at, again);
            }
            4 => input.truncate(at),
            5 => {
                let from = draws.below(other.len() + 1);
                let to = (from + draws.below(64)).min(other.len());
                input.splice(at..at, other[from..to].iter().copied());
            }
            6 if at < end => {
                let token = TOKENS[draws.below(TOKENS.len())];
                input.splice(at..end, token.iter().copied());
            }
            _ => {
                let token = TOKENS[draws.below(TOKENS.len())];
                input.splice(at..at, token.iter().copied());
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
}

/// What came of an input, without its numbers: two inputs with the same are of one kind.
fn kind(outcome: &str) -> String {
    outcome.chars().filter(|letter| !letter.is_ascii_digit()).take(48).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Feeds mutated examples to `parse`, which returns what came of an input.
fn fuzz(target: &str, examples: &[&[u8]], parse: impl Fn(&[u8]) -> String) {
    let limit = Duration::from_secs(number("REMUDA_FUZZ_SECONDS").unwrap_or(SECONDS));
    let mut draws = Draws(number("REMUDA_FUZZ_SEED").unwrap_or(0) ^ 0x9e37_79b9_7f4a_7c15);
    let mut examples: Vec<Vec<u8>> = examples.iter().map(|it| it.to_vec()).collect();
    let mut kinds: HashSet<String> = examples.iter().map(|it| kind(&parse(it))).collect();
    let (clock, mut inputs) = (Clock::start(), 0u64);
    while clock.elapsed() < limit {
        let mut input = examples[draws.below(examples.len())].clone();
        let other = &examples[draws.below(examples.len())];
        mutate(&mut input, other, &mut draws);
        let began = clock.elapsed();
        let outcome = catch_unwind(AssertUnwindSafe(|| parse(&input)));
        let shown = input.escape_ascii();
        let Ok(outcome) = outcome else { panic!("{target}: input {inputs} is a finding: {shown}") };
        let took = clock.elapsed() - began;
        assert!(took < SLOW, "{target}: input {inputs} took {took:?}: {shown}");
        inputs += 1;
        if examples.len() < EXAMPLES_MAX && kinds.insert(kind(&outcome)) {
            examples.push(input);
        }
    }
    println!("{target}: {inputs} inputs, {} kinds of outcome, no finding", kinds.len());
}

/// `accepted`, or the error.
fn outcome<T, E: std::fmt::Display>(parsed: Result<T, E>) -> String {
    parsed.map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
}

fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

/// A message that `write` appends.
fn message(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn slices(all: &[Vec<u8>]) -> Vec<&[u8]> {
    all.iter().map(Vec::as_slice).collect()
}

#[test]
fn messages_to_the_agent() {
    let ends = ["192.0.2.1:443", "[2001:db8::2]:5000"].map(|end| {
        let end: SocketAddr = end.parse().unwrap();
        (end.ip(), end.port())
    });
    let create = Create {
        init_cwnd_bytes: 14_480,
        mss_bytes: 1_448,
        addresses: [0x0100_007f, 443, 0x0200_007f, 5_000],
        cong_alg: "cubic".to_owned(),
    };
    let hello = Hello {
        version: 1,
        capabilities: u32::MAX,
        programs_max: 10,
        flows_max: 100,
        name: "fuzzed".to_owned(),
    };
    let all = [
        message(|out| encode_ready(out, 7)),
        message(|out| create.encode(out, 1)),
        message(|out| encode_measure(out, 1, 2, &[3; 16])),
        message(|out| hello.encode(out)),
        message(|out| FlowInfo::between(ends[0], ends[0]).encode(out, 1)),
        message(|out| FlowInfo::between(ends[1], ends[1]).encode(out, 1)),
        message(|out| Signals::default().encode(out, 1)),
        message(|out| encode_state(out, 1, State::FellBack, (14_480, 5))),
    ];
    fuzz("messages to the agent", &slices(&all), |input| {
        // The inbox joins the messages that a datapath sends about one report.
        let taken = outcome(Inbox::default().take(input, |_| ()));
        outcome(ToAgent::parse(input)) + &taken
    });
}

#[test]
fn messages_to_a_datapath() {
    let program = "(def (Report (volatile acked 0)) (gain 7))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
        (when (> Micros 10000) (report) (:= Micros 0))";
    let update = |of| [Update { register: Register::Implicit(of), value: 9 }];
    let all = [
        programs::compiled("fuzzed", program, 3).unwrap().install,
        message(|out| encode_bare(out, Kind::Heartbeat)),
        message(|out| encode_bare(out, Kind::Resync)),
        message(|out| encode_update_fields(out, 1, &update(CWND))),
        message(|out| encode_change_prog(out, 1, 3, &update(RATE))),
        message(|out| encode_native(out, 1, "cubic", 0)),
    ];
    fuzz("messages to a datapath", &slices(&all), |input| outcome(ToDatapath::parse(input)));
}

#[test]
fn frames_of_authors() {
    let hello = br#"{"version":2,"arms":[{"name":"a","summary":"b","report":"(volatile x 0)",
        "control":"(f 2)","rules":"","report_rule":"","reports_per_round":4,"programs":[]}]}"#;
    let hello = [&[1u8][..], hello].concat();
    let decision = [&[2u8][..], &[0; 8 + 40], &[0, 1], &[7; 4]].concat();
    let failed = [&[3u8][..], &[1, 0, 0, 0], b"Traceback"].concat();
    let (resume, measure) = ([&[10u8][..], &[1; 160]].concat(), [&[11u8][..], &[1; 140]].concat());
    let all: [&[u8]; 5] = [&hello, &decision, &failed, &resume, &measure];
    fuzz("frames of authors", &all, |input| {
        let known = if ToAuthor::parse(input).is_some() { "a frame to an author, " } else { "" };
        known.to_owned() + &outcome(FromAuthor::parse(input))
    });
}

#[test]
fn models() {
    let model = std::fs::read(remuda_tests::root().join("selector/models/antelope.json")).unwrap();
    // The shipped model is larger than an input may be: its beginning, and a small one.
    let tree = remuda_selector::trees::leaf(0.5, 3).to_string();
    let all: [&[u8]; 2] = [&model[..model.len().min(INPUT_BYTES_MAX)], tree.as_bytes()];
    fuzz("models", &all, |input| {
        let ensemble = remuda_selector::trees::Ensemble::parse(&text(input), 3);
        if let Ok(trees) = &ensemble {
            trees.predict(&[0.0, f32::NAN, 1e30]);
        }
        outcome(Model::parse(&text(input))) + &outcome(ensemble)
    });
}

#[test]
fn the_memorys_file() {
    let file = br#"{"version":1,"saved_unix_s":1000,"destinations":[{"to":"192.0.2.0/24",
        "idle_s":5,"initial_cwnd_pkts":20,"weights":[["cubic",{"throughput":1.0}]]}]}"#;
    let empty = br#"{"version":1,"saved_unix_s":1000,"destinations":[]}"#;
    let config = MemoryConfig::default();
    let parse = |text: &str| Memory::parse(text, &config, 50, 2_000);
    fuzz("the memory's file", &[file, empty], |input| {
        let parsed = parse(&text(input));
        if let Ok(memory) = &parsed {
            assert!(parse(&memory.to_json(50, 2_000)).is_ok(), "what is written is read");
        }
        outcome(parsed)
    });
}

#[test]
fn traces() {
    // In memory, where there is such a folder.
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
    let csv: [&[u8]; 3] = [b"0,12\n0.5,6\n", b",time_s,mbps\n0,0,12\n1,0.5,6\n", b"s;x\n0;1\n"];
    let json = br#"{"timestamps": [0, 0.002, 0.004], "bandwidths": [12, 24, 9]}"#;
    let sound = |trace: Result<Trace, _>| {
        if let Ok(trace) = &trace
            && trace.timestamps_ms().len() < 10_000
        {
            let again = Trace::parse(trace.name(), &trace.to_text()).unwrap();
            assert_eq!(&again, trace, "what is written is read");
        }
        outcome(trace)
    };
    let load = |name: &str, input: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, input).unwrap();
        let place = path.display().to_string();
        sound(Trace::load(Path::new(&path))).replace(&place, "")
    };
    fuzz("traces in CSV", &csv, |input| load("a.csv", input));
    fuzz("traces in JSON", &[json], |input| load("a.json", input));
    fuzz("traces of Mahimahi", &[b"0\n1\n1\n7\n"], |input| sound(Trace::parse("t", &text(input))));
}

#[test]
fn scenarios_and_suites() {
    let folder = remuda_tests::root().join("emulation/scenarios/examples");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|kind| kind == "toml"));
    let texts: Vec<Vec<u8>> = files.map(|path| std::fs::read(path).unwrap()).collect();
    let all: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    fuzz("scenarios", &all, |input| {
        let parsed = Scenario::parse(&text(input), "t");
        if let Ok(scenario) = &parsed {
            let again = Scenario::parse(&scenario.to_toml().unwrap(), "t").unwrap();
            assert_eq!(&again, scenario, "what is written is read");
        }
        outcome(parsed)
    });
    let suite = b"title = 'Mine'\nsource = 'me'\n[scenario]\nduration_s = 1\n\
        links.down.rate_mbit_per_sec = 12\nlinks.up = {}\nflows = [{ driver = 'tested' }]\n\
        [[families]]\nname = 'a'\ngroup = 'A'\npath = 'wired'\n\
        axes = [{ name = 'rate', keys = ['links.down.rate_mbit_per_sec'], values = [1, 2] }]\n";
    fuzz("suites", &[suite], |input| outcome(Suite::parse(&text(input), "t")));
}
