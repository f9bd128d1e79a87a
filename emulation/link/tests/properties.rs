//! Rules that hold for every link, with any spec and any traffic.

use proptest::prelude::*;
use remuda_link::{
    AggregationSpec, DelayStep, Direction, Fate, Link, LinkSpec, LogEvent, LogKind, Nanos,
    OPPORTUNITY_BYTES, OutageSpec, Outcome, PolicerSpec, QueueKind, QueueSpec, RateStep,
    ReorderingSpec, TUN_HEADER_BYTES,
};
use std::io::Write;

const RTT: Nanos = Nanos::from_millis(40);

/// Packets: microseconds after the one before, and size in bytes.
type Traffic = Vec<(u64, u32)>;

fn traffic() -> impl Strategy<Value = Traffic> {
    proptest::collection::vec((0u64..3_000, 40u32..=1500), 1..300)
}

fn queue() -> impl Strategy<Value = QueueSpec> {
    let kinds = [
        QueueKind::DropTail,
        QueueKind::DropHead,
        QueueKind::CoDel,
        QueueKind::Pie,
        QueueKind::FqCoDel,
        QueueKind::Red,
    ];
    let choice = (0usize..7, 1u64..40, 1500u64..40_000, 0usize..3, any::<bool>());
    choice.prop_map(move |(kind, packets, bytes, by, ecn)| {
        let Some(kind) = kinds.get(kind) else { return QueueSpec::default() };
        QueueSpec {
            kind: *kind,
            limit_packets: (by == 0).then_some(packets),
            limit_bytes: (by == 1).then_some(bytes),
            limit_bdp: (by == 2).then_some(packets as f64 / 10.0),
            target_ms: Some(1.0),
            interval_ms: 10.0,
            ecn,
            ecn_threshold_packets: (ecn && *kind == QueueKind::DropTail).then_some(packets / 2),
            burst_ms: (*kind == QueueKind::Pie).then_some(2.0),
            flows: (*kind == QueueKind::FqCoDel).then_some(8),
            weight: (*kind == QueueKind::Red).then_some(0.1),
            ..QueueSpec::default()
        }
    })
}

fn wire() -> impl Strategy<Value = LinkSpec> {
    let jitter = (0.0..5.0f64, 0.0..0.99f64, any::<bool>());
    let steps = proptest::collection::vec((0.001..0.3f64, 0.0..30.0f64), 0..4);
    let detour = proptest::option::of((0.0..30.0f64, 0.0..20.0f64));
    let groups = proptest::option::of((0.1..40.0f64, proptest::option::of(1u64..9)));
    (0.0..30.0f64, jitter, steps, detour, groups).prop_map(
        |(
            delay_ms,
            (jitter_std_ms, jitter_correlation, jitter_reorders),
            steps,
            detour,
            groups,
        )| {
            LinkSpec {
                delay_ms,
                delay_steps: rising(steps)
                    .map(|(at_s, delay_ms)| DelayStep { at_s, delay_ms })
                    .collect(),
                jitter_std_ms,
                jitter_correlation,
                jitter_reorders,
                reordering: detour.map(|(percent, extra_ms)| ReorderingSpec { percent, extra_ms }),
                aggregation: groups
                    .map(|(interval_ms, packets_max)| AggregationSpec { interval_ms, packets_max }),
                ..LinkSpec::default()
            }
        },
    )
}

/// Turns spans into moments that rise.
fn rising(steps: Vec<(f64, f64)>) -> impl Iterator<Item = (f64, f64)> {
    steps.into_iter().scan(0.0, |at_s, (span_s, value)| {
        *at_s += span_s;
        Some((*at_s, value))
    })
}

fn spec() -> impl Strategy<Value = LinkSpec> {
    let steps = proptest::collection::vec((0.001..0.3f64, 0.1..100.0f64), 0..4);
    let outages = proptest::collection::vec((0.002..0.3f64, 0.0001..0.002f64), 0..4);
    let policer = proptest::option::of((0.5..100.0f64, 1_500u64..50_000));
    let rate = (0.1..100.0f64, steps, any::<bool>());
    (rate, outages, queue(), wire(), 0.0..20.0f64, policer, any::<u64>()).prop_map(
        |((rate, steps, repeats), outages, queue, wire, loss_percent, policer, seed)| {
            let rate_steps: Vec<_> = rising(steps)
                .map(|(at_s, rate_mbit_per_sec)| RateStep { at_s, rate_mbit_per_sec })
                .collect();
            LinkSpec {
                rate_mbit_per_sec: Some(rate),
                rate_steps_period_s: (repeats && !rate_steps.is_empty()).then_some(1.5),
                rate_steps,
                outages: rising(outages)
                    .map(|(at_s, duration_s)| OutageSpec { at_s, duration_s })
                    .collect(),
                loss_percent,
                policer: policer.map(|(rate_mbit_per_sec, burst_bytes)| PolicerSpec {
                    rate_mbit_per_sec,
                    burst_bytes,
                }),
                queue,
                seed,
                ..wire
            }
        },
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbered {
    number: usize,
    bytes: u32,
}

impl remuda_link::Packet for Numbered {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow(&self) -> u64 {
        self.number as u64 % 3
    }
    fn mark_ce(&mut self) -> bool {
        self.number.is_multiple_of(2)
    }
}

struct Run {
    outcomes: Vec<Outcome<Numbered>>,
    log: Vec<LogEvent>,
}

fn build(spec: &LinkSpec) -> Link<Numbered> {
    let mut link = spec.build(RTT, Direction::Up).expect("a valid spec");
    link.enable_log();
    link
}

/// Pushes all packets, popping between them, then lets the link run empty.
fn run(mut link: Link<Numbered>, traffic: &Traffic) -> Run {
    let mut now = Nanos::ZERO;
    let mut outcomes = Vec::new();
    let mut log = Vec::new();
    for (number, (gap_us, bytes)) in traffic.iter().enumerate() {
        now = now + Nanos(gap_us * 1_000);
        while let Some(outcome) = link.pop(now) {
            outcomes.push(outcome);
        }
        link.push(Numbered { number, bytes: *bytes }, now);
        let stats = link.stats();
        let out = stats.packets_out + stats.dropped.total() + stats.packets_held;
        assert_eq!(stats.packets_in, out, "{stats:?}");
        log.extend(link.drain_log());
    }
    while let Some(at) = link.next_event() {
        assert!(at < Nanos::MAX, "the link never runs empty");
        outcomes.extend(link.pop(at));
    }
    log.extend(link.drain_log());
    assert_eq!((link.packets_held(), link.stats().packets_in), (0, traffic.len() as u64));
    Run { outcomes, log }
}

fn delivered(run: &Run) -> Vec<(Numbered, Nanos, Nanos)> {
    run.outcomes
        .iter()
        .filter_map(|outcome| match outcome.fate {
            Fate::Delivered { departed, at, .. } => Some((outcome.packet, departed, at)),
            Fate::Dropped { .. } => None,
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn every_packet_comes_out_once_or_is_dropped_once(spec in spec(), traffic in traffic()) {
        let run = run(build(&spec), &traffic);
        let mut numbers: Vec<usize> = run
            .outcomes
            .iter()
            .map(|outcome| outcome.packet.number)
            .collect();
        numbers.sort_unstable();
        prop_assert_eq!(numbers, (0..traffic.len()).collect::<Vec<_>>());
    }

    #[test]
    fn packets_of_a_flow_keep_their_order_unless_they_may_be_reordered(
        mut spec in spec(),
        traffic in traffic(),
    ) {
        spec.jitter_reorders = false;
        spec.reordering = None;
        let is_fair = spec.queue.kind == QueueKind::FqCoDel;
        let run = run(build(&spec), &traffic);
        for flow in 0..3 {
            let of_flow = |number: &usize| !is_fair || number % 3 == flow;
            let numbers = delivered(&run).into_iter().map(|(it, ..)| it.number);
            prop_assert!(numbers.filter(of_flow).is_sorted());
        }
    }

    #[test]
    fn nothing_leaves_in_an_outage(spec in spec(), traffic in traffic()) {
        let seconds = |at_s: f64| Nanos::from_millis_f64(at_s * 1e3);
        for (_, departed, _) in delivered(&run(build(&spec), &traffic)) {
            let is_out = spec.outages.iter().any(|outage| {
                let end_s = outage.at_s + outage.duration_s;
                // A packet that ends as the outage begins has left.
                seconds(outage.at_s) < departed && departed < seconds(end_s)
            });
            prop_assert!(!is_out, "{departed}");
        }
    }

    #[test]
    fn no_span_of_time_carries_more_than_the_rate(spec in spec(), traffic in traffic()) {
        let steps = spec.rate_steps.iter().map(|step| step.rate_mbit_per_sec);
        let fastest = steps.chain(spec.rate_mbit_per_sec).fold(0.0, f64::max);
        let rate = (fastest * 1e6).round() as u128;
        let mut run = delivered(&run(build(&spec), &traffic));
        run.sort_by_key(|(it, departed, _)| (*departed, it.number));
        for (start, (_, from, _)) in run.iter().enumerate() {
            let mut bits = 0;
            for (packet, until, _) in &run[start + 1..] {
                bits += u128::from(packet.bytes) * 8;
                // Both ends of the span are rounded up to a whole nanosecond.
                let span_ns = u128::from((*until - *from).0) + 1;
                prop_assert!(bits * 1_000_000_000 <= span_ns * rate);
            }
        }
    }

    #[test]
    fn one_seed_gives_one_result(spec in spec(), traffic in traffic()) {
        let (one, two) = (run(build(&spec), &traffic), run(build(&spec), &traffic));
        prop_assert_eq!(one.outcomes, two.outcomes);
        prop_assert_eq!(one.log, two.log);
    }

    #[test]
    fn the_log_is_in_order_and_lacks_no_packet(spec in spec(), traffic in traffic()) {
        let run = run(build(&spec), &traffic);
        let count = |is: fn(&LogKind) -> bool| run.log.iter().filter(|it| is(&it.kind)).count();
        let arrivals = count(|kind| matches!(kind, LogKind::Arrival { .. }));
        let departures = count(|kind| matches!(kind, LogKind::Departure { .. }));
        let drops = count(|kind| matches!(kind, LogKind::Drop { .. }));
        prop_assert_eq!(arrivals, traffic.len());
        prop_assert_eq!(arrivals, departures + drops);
        prop_assert!(run.log.is_sorted_by_key(|event| event.at));
    }

    #[test]
    fn looking_seldom_or_often_changes_nothing(spec in spec(), traffic in traffic()) {
        let often = delivered(&run(build(&spec), &traffic));
        let mut link: Link<Numbered> = spec.build(RTT, Direction::Up).expect("a valid spec");
        let mut now = Nanos::ZERO;
        for (number, (gap_us, bytes)) in traffic.iter().enumerate() {
            now = now + Nanos(gap_us * 1_000);
            link.push(Numbered { number, bytes: *bytes }, now);
        }
        let late = Nanos(now.0 + 1_000_000_000_000);
        let outcomes = std::iter::from_fn(|| link.pop(late)).collect();
        prop_assert_eq!(delivered(&Run { outcomes, log: Vec::new() }), often);
    }

    #[test]
    fn a_trace_sends_what_mahimahi_would(
        mut steps in proptest::collection::vec(0u64..12, 1..10),
        traffic in traffic(),
        is_logged: bool,
    ) {
        steps[0] += 1;
        let stamps: Vec<u64> =
            steps.iter().scan(0, |at, step| { *at += step; Some(*at) }).collect();
        let mut link = traced(&stamps);
        if is_logged {
            link.enable_log();
        }
        let got: Vec<_> = delivered(&run(link, &traffic))
            .into_iter()
            .map(|(packet, departed, _)| (packet.number, departed))
            .collect();
        prop_assert_eq!(got, opportunity_by_opportunity(&stamps, &traffic));
    }
}

fn traced(stamps: &[u64]) -> Link<Numbered> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    for stamp in stamps {
        writeln!(file, "{stamp}").expect("room in the temporary folder");
    }
    let spec = LinkSpec { trace: Some(file.path().to_owned()), ..LinkSpec::default() };
    spec.build(RTT, Direction::Up).expect("a valid trace")
}

/// Mahimahi's rule, written out: each opportunity in turn takes up to 1504 bytes of the packets
/// that came before it.
fn opportunity_by_opportunity(stamps: &[u64], traffic: &Traffic) -> Vec<(usize, Nanos)> {
    let period = stamps[stamps.len() - 1];
    let mut at = Nanos::ZERO;
    let mut waiting: Vec<(usize, Nanos, u32)> = Vec::new();
    for (number, (gap_us, bytes)) in traffic.iter().enumerate() {
        at = at + Nanos(gap_us * 1_000);
        waiting.push((number, at, bytes + TUN_HEADER_BYTES));
    }
    let mut departures = Vec::new();
    for opportunity in (0..).flat_map(|round| stamps.iter().map(move |it| it + round * period)) {
        let now = Nanos::from_millis(opportunity);
        let mut budget = OPPORTUNITY_BYTES;
        while budget > 0 && waiting.first().is_some_and(|(_, arrived, _)| *arrived < now) {
            let sent = budget.min(waiting[0].2);
            budget -= sent;
            waiting[0].2 -= sent;
            if waiting[0].2 == 0 {
                departures.push((waiting.remove(0).0, now));
            }
        }
        if waiting.is_empty() {
            break;
        }
    }
    departures
}
