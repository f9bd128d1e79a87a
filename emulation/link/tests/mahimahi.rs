//! Compares our traces with those of `netem-trace`, an independent loader of Mahimahi's traces:
//! when does a queue that is never empty deliver each of its packets?

use netem_trace::{HeavyPdoTrace, load_mahimahi_heavy_pdo_trace};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remuda_link::{Direction, Link, LinkSpec, Nanos, OPPORTUNITY_BYTES, TUN_HEADER_BYTES};
use std::fmt::Write as _;

const TRACES: u64 = 1_000;
/// How many rounds of each trace are compared; with three, the trace starts again twice.
const ROUNDS: usize = 3;

fn below(rng: &mut ChaCha8Rng, bound: u32) -> u32 {
    rng.next_u32() % bound
}

/// Up to 40 moments, some equal, with gaps and leading zeros.
fn stamps(rng: &mut ChaCha8Rng) -> Vec<u64> {
    let gap = 1 + below(rng, 30);
    let count = 1 + below(rng, 40);
    let mut at = 0;
    let mut all: Vec<u64> = (0..count)
        .map(|_| {
            at += u64::from(below(rng, gap));
            at
        })
        .collect();
    if at == 0 {
        all.push(1 + u64::from(below(rng, 50)));
    }
    all
}

/// How many bytes the oracle can have delivered by each moment after the start. An opportunity at
/// the start itself is left out: no packet is there to use it.
fn oracle(stamps: &[u64]) -> Vec<(u64, u64)> {
    let bytes = u64::from(OPPORTUNITY_BYTES);
    let config = load_mahimahi_heavy_pdo_trace(stamps.to_vec(), Some(ROUNDS), bytes);
    let mut trace = config.expect("the moments rise").build();
    let (mut at_ms, mut sum) = (0, 0);
    let mut all = Vec::new();
    while let Some((gap, bytes)) = trace.next_heavy_pdo() {
        at_ms += u64::try_from(gap.as_millis()).expect("a short trace");
        if at_ms > 0 {
            sum += bytes;
            all.push((at_ms, sum));
        }
    }
    all
}

/// The moments at which our link delivers packets of these sizes.
fn ours(stamps: &[u64], sizes: &[u32], folder: &std::path::Path) -> Vec<u64> {
    let path = folder.join("some.trace");
    let text = stamps.iter().fold(String::new(), |mut text, at| {
        let _ = writeln!(text, "{at}");
        text
    });
    std::fs::write(&path, text).expect("a file");
    let spec = LinkSpec { trace: Some(path), ..LinkSpec::default() };
    let mut link: Link<u32> = spec.build(Nanos::ZERO, Direction::Up).expect("a link");
    for bytes in sizes {
        link.push(*bytes, Nanos::ZERO);
    }
    let mut all = Vec::new();
    while all.len() < sizes.len() {
        let at = link.next_event().expect("packets wait, and a trace begins again");
        while link.pop(at).is_some() {
            all.push(at.as_millis());
        }
    }
    all
}

#[test]
fn a_thousand_random_traces_deliver_every_packet_at_the_oracles_millisecond() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut packets = 0;
    for seed in 0..TRACES {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let stamps = stamps(&mut rng);
        let until = oracle(&stamps);
        let room = until.last().expect("three rounds have a moment").1;
        // Every other trace has full packets; the rest have packets of any size.
        let mut sizes = Vec::new();
        let mut needs = Vec::new();
        let mut sum = 0;
        loop {
            let bytes = if seed % 2 == 0 { 1500 } else { 40 + below(&mut rng, 1461) };
            sum += u64::from(bytes + TUN_HEADER_BYTES);
            if sum > room {
                break;
            }
            sizes.push(bytes);
            needs.push(sum);
        }
        let at = |need: &u64| until[until.partition_point(|(_, sum)| sum < need)].0;
        let want: Vec<u64> = needs.iter().map(at).collect();
        assert_eq!(ours(&stamps, &sizes, folder.path()), want, "seed {seed}: {stamps:?}");
        packets += sizes.len();
    }
    assert!(packets > 20_000, "{packets} packets compared");
}
