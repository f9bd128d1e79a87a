//! What a packet costs: nanoseconds of processor time for push, departure and pop together.
//!
//! `cost [MILLION_PACKETS [LINK]]`: each link whose name contains LINK (default: all) carries that
//! many million packets of 1500 bytes (default 5). As in the simulator, the sender keeps a window
//! in flight: it asks for the next event, pops what is due, and sends one packet for each that
//! arrived.

use remuda_link::{
    AggregationSpec, Direction, Link, LinkSpec, Nanos, OutageSpec, Packet, QueueKind, QueueSpec,
    RateStep, ReorderingSpec,
};
use std::io::Write;

const RTT: Nanos = Nanos::from_millis(40);
/// Packets in flight. At 96 Mbit/s and 40 ms the path holds 320; the other 300 wait in the queue.
const LOADED: usize = 620;
/// Packets in flight on the same path, which is then half used.
const UNLOADED: usize = 160;

/// As large as a simulated segment.
#[derive(Clone, Copy)]
struct Segment {
    flow: u64,
    _rest: [u64; 4],
}

impl Packet for Segment {
    fn bytes(&self) -> u32 {
        1500
    }
    fn flow(&self) -> u64 {
        self.flow
    }
}

/// Nanoseconds of processor time this thread has used, from the scheduler's count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Returns the nanoseconds a packet costs, and the packets lost for each thousand delivered.
fn cost(mut link: Link<Segment>, window: usize, packets: u64) -> (f64, f64) {
    let mut now = Nanos::ZERO;
    for number in 0..window {
        link.push(Segment { flow: number as u64 % 16, _rest: [0; 4] }, now);
    }
    let (mut delivered, mut dropped, mut missing) = (0, 0u32, 0);
    let start = cpu_ns();
    while delivered < packets {
        // When all packets are lost there is no next event: wait 1 ms, as a retransmission timer
        // would.
        now = link.next_event().map_or(now + Nanos::from_millis(1), |at| at.max(now));
        if missing > 0 && link.packets_held() == 0 {
            missing -= 1;
            link.push(Segment { flow: missing, _rest: [0; 4] }, now);
        }
        while let Some(outcome) = link.pop(now) {
            let Some(packet) = outcome.delivered() else {
                dropped += 1;
                missing += 1;
                continue;
            };
            delivered += 1;
            link.push(packet, now);
            // The window recovers packet by packet.
            if missing > 0 {
                missing -= 1;
                link.push(packet, now);
            }
        }
    }
    let ns = (cpu_ns() - start) as f64;
    (ns / delivered as f64, f64::from(dropped) / delivered as f64 * 1e3)
}

fn plain() -> LinkSpec {
    LinkSpec {
        rate_mbit_per_sec: Some(96.0),
        delay_ms: 40.0,
        queue: QueueSpec::droptail_packets(1_000),
        ..LinkSpec::default()
    }
}

fn with_queue(kind: QueueKind) -> LinkSpec {
    LinkSpec { queue: QueueSpec { kind, ..QueueSpec::droptail_packets(1_000) }, ..plain() }
}

fn changing() -> LinkSpec {
    LinkSpec {
        rate_steps: vec![RateStep { at_s: 1.0, rate_mbit_per_sec: 48.0 }],
        rate_steps_period_s: Some(2.0),
        outages: vec![OutageSpec { at_s: 1.5, duration_s: 0.1 }],
        outages_period_s: Some(2.0),
        ..plain()
    }
}

fn main() {
    let millions = std::env::args().nth(1).and_then(|arg| arg.parse::<f64>().ok()).unwrap_or(5.0);
    let wanted = std::env::args().nth(2).unwrap_or_default();
    let packets = (millions * 1e6) as u64;
    let mut trace = tempfile::NamedTempFile::new().expect("a temporary file");
    // 8 opportunities a millisecond: 96 Mbit/s.
    let stamps: String = (1..=1_000).flat_map(|ms| [ms; 8]).map(|ms| format!("{ms}\n")).collect();
    trace.write_all(stamps.as_bytes()).expect("room in the temporary folder");
    let traced =
        LinkSpec { rate_mbit_per_sec: None, trace: Some(trace.path().to_owned()), ..plain() };
    let reordering = Some(ReorderingSpec { percent: 5.0, extra_ms: 20.0 });
    let aggregation = Some(AggregationSpec { interval_ms: 5.0, packets_max: Some(16) });
    let rows = [
        ("plain, half used, no histogram", plain(), UNLOADED, false),
        ("plain, half used", plain(), UNLOADED, true),
        ("plain, loaded, no histogram", plain(), LOADED, false),
        ("plain, loaded", plain(), LOADED, true),
        ("no rate limit", LinkSpec { rate_mbit_per_sec: None, ..plain() }, UNLOADED, true),
        ("rate steps and outages", changing(), LOADED, true),
        ("jitter", LinkSpec { jitter_std_ms: 1.0, ..plain() }, LOADED, true),
        ("loss of 0.1 %", LinkSpec { loss_percent: 0.1, ..plain() }, LOADED, true),
        ("trace", traced, LOADED, true),
        ("reordering of 5 %", LinkSpec { reordering, ..plain() }, LOADED, true),
        ("aggregation", LinkSpec { aggregation, ..plain() }, LOADED, true),
        ("drophead", with_queue(QueueKind::DropHead), LOADED, true),
        ("codel", with_queue(QueueKind::CoDel), LOADED, true),
        ("pie", with_queue(QueueKind::Pie), LOADED, true),
        ("fq-codel", with_queue(QueueKind::FqCoDel), LOADED, true),
        ("red", with_queue(QueueKind::Red), LOADED, true),
    ];
    println!("# push, departure and pop; {millions} million packets of 1500 bytes, 96 Mbit/s");
    println!("{:32} {:>10} {:>18}", "link", "ns/packet", "lost_per_thousand");
    for (name, spec, window, has_histogram) in rows {
        if !name.contains(&wanted) {
            continue;
        }
        let mut link = spec.build(RTT, Direction::Up).expect("a valid spec");
        if !has_histogram {
            link = link.without_delay_histogram();
        }
        let (ns, lost) = cost(link, window, packets);
        println!("{name:32} {ns:10.1} {lost:18.3}");
    }
}
