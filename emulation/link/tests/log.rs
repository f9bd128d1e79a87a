//! The text of logs, line by line.

use remuda_link::{
    Direction, Link, LinkSpec, LogHeader, LogWriter, Nanos, OutageSpec, Outcome, Packet, QueueKind,
    QueueSpec,
};
use std::io::Write;

const RTT: Nanos = Nanos::from_millis(40);

fn written(link: &mut Link<u32>, header: &LogHeader) -> String {
    let mut log = LogWriter::new(Vec::new(), header).expect("memory takes all");
    for event in link.drain_log() {
        log.write(&event).expect("memory takes all");
    }
    String::from_utf8(log.into_inner()).expect("logs are ASCII")
}

/// The events without the header.
fn events(link: &mut Link<u32>) -> Vec<String> {
    let text = written(link, &LogHeader::default());
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn traced(stamps: &str, spec: LinkSpec) -> Link<u32> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(stamps.as_bytes()).expect("room in the temporary folder");
    let spec = LinkSpec { trace: Some(file.path().to_owned()), ..spec };
    let mut link = spec.build(RTT, Direction::Up).expect("a valid spec");
    link.enable_log();
    link
}

#[test]
fn the_header_says_how_the_log_was_made() {
    let mut link: Link<u32> = LinkSpec::default().build(RTT, Direction::Up).unwrap();
    let header = LogHeader {
        direction: "uplink".to_owned(),
        rate: "12 Mbit/s".to_owned(),
        log_file: "up.log".to_owned(),
        command_line: "remuda link --\n1 + 1500".to_owned(),
        queue: "droptail [packets=80]".to_owned(),
        init_timestamp_ms: 1_700_000_000_000,
        settings: vec!["seed: 7".to_owned()],
    };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        written(&mut link, &header),
        format!(
            "# mahimahi mm-link (uplink) [12 Mbit/s] > up.log\n\
             # command line: remuda link -- 1 + 1500\n\
             # queue: droptail [packets=80]\n\
             # init timestamp: 1700000000000\n\
             # base timestamp: 0\n\
             # remuda-link: {version}\n\
             # seed: 7\n"
        )
    );
}

#[test]
fn small_packets_share_an_opportunity_and_large_ones_straddle_two() {
    // Two packets of 100 and one of 1500 (104 and 1504 on the link) before the opportunity at 2.
    let mut link = traced("2\n5\n5\n", LinkSpec::default());
    for packet in [100, 100, 1500] {
        link.push(packet, Nanos(500_000));
    }
    link.advance(Nanos::from_millis(7));
    assert_eq!(
        events(&mut link),
        [
            "0 + 104",
            "0 + 104",
            "0 + 1504", // came
            "2 # 1504",
            "2 - 104 1",
            "2 - 104 1", // and 1296 bytes of the third
            "5 # 1504",
            "5 - 1504 4", // its last 208 bytes; the rest is lost
            "5 # 1504",
            "7 # 1504", // as are these
        ]
    );
}

#[test]
fn a_packet_cannot_use_the_opportunity_of_its_own_moment() {
    let mut link = traced("3\n", LinkSpec::default());
    link.push(1500, Nanos::from_millis(3));
    assert_eq!(link.next_event(), Some(Nanos::from_millis(6)));
}

#[test]
fn a_trace_that_plays_once_ends() {
    let mut link = traced("3\n4\n", LinkSpec { trace_once: true, ..LinkSpec::default() });
    for _ in 0..3 {
        link.push(1500, Nanos::ZERO);
    }
    assert!(!link.is_finished());
    link.advance(Nanos::from_millis(4));
    assert!(link.is_finished());
    assert_eq!((link.packets_held(), link.stats().queue_packets), (3, 1));
    link.pop(Nanos::from_millis(4));
    link.pop(Nanos::from_millis(4));
    assert_eq!(link.next_event(), None);
}

#[test]
fn a_trace_loses_its_opportunities_in_an_outage() {
    let outages = vec![OutageSpec { at_s: 0.003, duration_s: 0.004 }];
    let mut link = traced("1\n", LinkSpec { outages, ..LinkSpec::default() });
    for _ in 0..4 {
        link.push(1500, Nanos::ZERO);
    }
    let mut arrivals_ms = Vec::new();
    while let Some(at) = link.next_event() {
        arrivals_ms.extend(link.pop(at).map(|_| at.as_millis()));
    }
    assert_eq!(arrivals_ms, [1, 2, 7, 8]);
    let events = events(&mut link);
    let opportunities: Vec<&String> = events.iter().filter(|line| line.contains('#')).collect();
    assert_eq!(opportunities, ["1 # 1504", "2 # 1504", "7 # 1504", "8 # 1504"]);
}

#[test]
fn drops_of_the_queue_and_of_codel_are_logged() {
    let queue = QueueSpec { kind: QueueKind::CoDel, ..QueueSpec::droptail_packets(200) };
    let spec = LinkSpec { rate_mbit_per_sec: Some(12.0), queue, ..LinkSpec::default() };
    let mut link: Link<u32> = spec.build(RTT, Direction::Up).unwrap();
    link.enable_log();
    let mut delivered = 0;
    for half_ms in 0..4_000 {
        let now = Nanos(half_ms * 500_000);
        link.push(1500, now);
        let outcomes = std::iter::from_fn(|| link.pop(now));
        delivered += outcomes.filter_map(Outcome::delivered).count();
    }
    let stats = link.stats();
    assert!(stats.dropped.codel > 10 && stats.dropped.queue_full > 10, "{:?}", stats.dropped);
    let events = events(&mut link);
    let count = |kind: &str| events.iter().filter(|line| line.contains(kind)).count();
    assert_eq!(count(" + "), 4_000);
    assert_eq!(count(" - "), delivered);
    assert_eq!(count(" d 1 1500") as u64, stats.dropped.total());
    assert_eq!(count(" # 1500"), 1_999);
}

/// A packet of the flow with this number.
#[derive(Clone, Debug)]
struct OfFlow(u64);

impl Packet for OfFlow {
    fn bytes(&self) -> u32 {
        1500
    }
    fn flow(&self) -> u64 {
        self.0
    }
}

#[test]
fn flows_are_numbered_and_named_once() {
    let queue = QueueSpec::droptail_packets(1);
    let spec = LinkSpec { rate_mbit_per_sec: Some(12.0), queue, ..LinkSpec::default() };
    let mut link: Link<OfFlow> = spec.build(RTT, Direction::Up).unwrap();
    link.enable_log();
    let mut log = LogWriter::new(Vec::new(), &LogHeader::default()).unwrap();
    for flow in [1 << 60, 7, 1 << 60, 0] {
        log.name_flow(flow, || format!("tcp {flow}\n9 + 9")).unwrap();
        link.push(OfFlow(flow), Nanos::ZERO);
    }
    link.advance(Nanos::from_millis(2));
    link.drain_log().try_for_each(|event| log.write(&event)).unwrap();
    let text = String::from_utf8(log.into_inner()).unwrap();
    let lines: Vec<&str> = text.lines().skip(6).collect();
    assert_eq!(
        lines,
        [
            "# flow 1: tcp 1152921504606846976 9 + 9",
            "# flow 2: tcp 7 9 + 9",
            "0 + 1500 1",
            "0 + 1500 2",
            "0 + 1500 1",
            "0 d 1 1500 1",
            "0 + 1500",
            "0 d 1 1500",
            "1 # 1500",
            "1 - 1500 1 1",
            "2 # 1500",
            "2 - 1500 2 2",
        ]
    );
}
