//! A log's totals equal the counters of the link that wrote the log.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use proptest::prelude::*;
use remuda_link::{
    Direction, Link, LinkSpec, LinkStats, LogHeader, LogWriter, Nanos, QueueKind, QueueSpec,
};
use remuda_results::LinkLog;

const RTT: Nanos = Nanos::from_millis(40);

/// Sends packets over a link; returns the link's counters and the log, read again.
fn both(spec: &LinkSpec, packets: &[(u64, u32)], end: Nanos) -> (LinkStats, LinkLog) {
    let mut link: Link<u32> = spec.build(RTT, Direction::Up).unwrap();
    link.enable_log();
    let mut now = Nanos::ZERO;
    for (gap_us, bytes) in packets {
        now = now + Nanos(gap_us * 1_000);
        link.push(*bytes, now);
    }
    link.advance(now.max(end));
    let mut log = LogWriter::new(Vec::new(), &LogHeader::default()).unwrap();
    link.drain_log().try_for_each(|event| log.write(&event)).unwrap();
    let text = log.into_inner();
    (link.stats(), LinkLog::read("a.log", text.as_slice(), 100).unwrap())
}

fn queues() -> impl Strategy<Value = QueueSpec> {
    let kinds = [QueueKind::DropTail, QueueKind::DropHead, QueueKind::CoDel, QueueKind::Pie];
    let limited = (proptest::sample::select(kinds.to_vec()), 1u64..40)
        .prop_map(|(kind, packets)| QueueSpec { kind, ..QueueSpec::droptail_packets(packets) });
    prop_oneof![Just(QueueSpec::default()), limited]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_log_says_what_the_link_counted(
        packets in proptest::collection::vec((0u64..3_000, 40u32..=1500), 20..400),
        queue in queues(),
        rate in 2.0f64..50.0,
        loss_percent in prop_oneof![Just(0.0), 0.0..20.0],
    ) {
        let rate_mbit_per_sec = Some(rate);
        let spec = LinkSpec { rate_mbit_per_sec, queue, loss_percent, ..LinkSpec::default() };
        let (stats, log) = both(&spec, &packets, Nanos::from_millis(5_000));
        prop_assert_eq!(log.totals.arrived_packets, stats.packets_in);
        prop_assert_eq!(log.totals.arrived_bytes, stats.bytes_in);
        prop_assert_eq!(log.totals.dropped_packets, stats.dropped.total());
        prop_assert_eq!(log.totals.dropped_bytes, stats.bytes_dropped);
        // All packets are through by the end: a packet that was not dropped has left.
        let left = stats.packets_in - stats.dropped.total();
        prop_assert_eq!(log.totals.departed_packets, left);
        prop_assert_eq!(log.totals.departed_bytes, stats.bytes_in - stats.bytes_dropped);
        // A log has whole milliseconds, rounded down.
        let most_ms = stats.queueing_delay.max_ms.floor() as u64;
        prop_assert_eq!(log.totals.delay_ms(100), Some(most_ms));
        let capacity = log.capacity_mbit_per_sec().unwrap();
        prop_assert!((capacity / rate - 1.0).abs() < 0.01, "{} of {}", capacity, rate);
        let departed = log.mbit_per_sec(log.totals.departed_bytes).unwrap();
        let used = log.utilisation_percent().unwrap();
        prop_assert!((used / 100.0 * capacity - departed).abs() < 1e-9);
    }
}
