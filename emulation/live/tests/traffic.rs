//! Real traffic over emulated paths. Needs root.

mod common;

use common::{constant, or_skip, testbed};
use remuda_live::{
    AggregationSpec, DelayStep, GilbertElliottSpec, LinkSpec, Namespace, OutageSpec, PathSpec,
    PolicerSpec, QueueKind, QueueSpec, RateStep, ReorderingSpec, Testbed, VethPair, probe,
};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

/// Sends 2 MB in each direction over IPv4 and IPv6, and compares each byte.
fn moves_data_both_ways(client: &Namespace, server: &Namespace) {
    for (from, to) in [(client, server), (server, client)] {
        for address in [IpAddr::V4(to.ipv4()), IpAddr::V6(to.ipv6())] {
            let transfer =
                probe::transfer(from, (to, address), 2_000_000, None).expect("all bytes arrive");
            assert_eq!(transfer.bytes, 2_000_000);
            println!("to {address}: {:.1} Mbit/s", transfer.mbit_per_sec());
        }
    }
}

#[test]
fn tcp_is_byte_exact_both_ways_over_both_protocols() {
    let Some(testbed) = testbed(&PathSpec::symmetric(constant(50.0, 5.0))) else { return };
    moves_data_both_ways(testbed.client(), testbed.server());
    let stats = testbed.stats().unwrap();
    for direction in [&stats.up, &stats.down] {
        let link = &direction.link;
        let accounted = link.packets_out + link.dropped.total() + link.packets_held;
        assert_eq!(link.packets_in, accounted, "{link:?}");
        assert_eq!((direction.lost_before_link, direction.lost_after_link), (0, 0));
    }
}

#[test]
fn paths_of_a_star_share_the_server_and_nothing_else() {
    let path = PathSpec::symmetric(constant(50.0, 5.0));
    let Some(testbeds) = or_skip(Testbed::star(&[path.clone(), path])) else { return };
    let bind = |at: &Namespace, address: Ipv4Addr| {
        let bound = at.run(|| UdpSocket::bind((address, 7_000))).expect("a namespace");
        let socket = bound.expect("an address of the namespace");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a time above zero");
        socket
    };
    let server = bind(testbeds[0].server(), Ipv4Addr::UNSPECIFIED);
    for (number, testbed) in (0..).zip(&testbeds) {
        let more = [20, 21].map(|host| Ipv4Addr::new(10, 11, number, host));
        testbed.client().add_ipv4(&more).expect("two more");
        for from in [testbed.client().ipv4(), more[0], more[1]] {
            let client = bind(testbed.client(), from);
            let to = testbed.server().ipv4();
            client.send_to(b"a question", (to, 7_000)).expect("it is sent");
            let (_, seen) = server.recv_from(&mut [0; 64]).expect("it arrives");
            assert_eq!(seen.ip(), from);
            server.send_to(b"an answer", seen).expect("it is sent");
            let (_, seen) = client.recv_from(&mut [0; 64]).expect("it arrives");
            assert_eq!(seen.ip(), to);
        }
        let stats = testbed.stats().unwrap();
        assert_eq!((stats.up.link.packets_in, stats.down.link.packets_in), (3, 3));
    }
}

#[test]
fn tcp_survives_loss_jitter_and_a_short_queue() {
    let link = LinkSpec {
        loss_percent: 1.0,
        jitter_std_ms: 1.0,
        jitter_correlation: 0.5,
        queue: QueueSpec::droptail_packets(20),
        ..constant(50.0, 5.0)
    };
    let Some(testbed) = testbed(&PathSpec::symmetric(link)) else { return };
    moves_data_both_ways(testbed.client(), testbed.server());
    assert!(testbed.stats().unwrap().up.link.dropped.loss > 0);
}

#[test]
fn codel_marks_ecn_flows_and_drops_none() {
    let queue = QueueSpec {
        kind: QueueKind::CoDel,
        ecn: true,
        interval_ms: 20.0,
        ..QueueSpec::droptail_packets(2_000)
    };
    let link = LinkSpec { queue, ..constant(20.0, 5.0) };
    let Some(testbed) = testbed(&PathSpec::symmetric(link)) else { return };
    let (client, server) = (testbed.client(), testbed.server());
    for end in [client, server] {
        end.set_sysctl("net.ipv4.tcp_ecn", "1").unwrap();
    }
    for address in [IpAddr::V4(server.ipv4()), IpAddr::V6(server.ipv6())] {
        let to = (server, address);
        probe::transfer(client, to, 4_000_000, Some("reno")).unwrap();
    }
    let up = testbed.stats().unwrap().up.link;
    assert!(up.ecn_marked > 0, "{up:?}");
    assert_eq!(up.dropped.total(), 0, "{up:?}");
}

/// Runs two ECN flows through this queue at 20 Mbit/s. Returns the link's counters.
fn two_ecn_flows(queue: QueueSpec) -> Option<remuda_live::LinkStats> {
    let link = LinkSpec { queue, ..constant(20.0, 5.0) };
    let testbed = testbed(&PathSpec::symmetric(link))?;
    let (client, server) = (testbed.client(), testbed.server());
    for end in [client, server] {
        end.set_sysctl("net.ipv4.tcp_ecn", "1").expect("a namespace of its own");
    }
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let to = (server, IpAddr::V4(server.ipv4()));
                probe::transfer(client, to, 3_000_000, Some("reno")).expect("all bytes arrive");
            });
        }
    });
    Some(testbed.stats().expect("counters to read").up.link)
}

#[test]
fn every_discipline_that_marks_marks_real_flows() {
    let packets = QueueSpec::droptail_packets(300);
    let aqm = QueueSpec { ecn: true, ..packets.clone() };
    let queues = [
        // A short queue: slow start must not raise the probability to where PIE drops instead of
        // marking.
        QueueSpec {
            kind: QueueKind::Pie,
            limit_packets: Some(60),
            target_ms: Some(5.0),
            ..aqm.clone()
        },
        QueueSpec { kind: QueueKind::FqCoDel, target_ms: Some(2.0), ..aqm.clone() },
        QueueSpec { kind: QueueKind::Red, weight: Some(0.02), ..aqm },
        QueueSpec { ecn_threshold_packets: Some(20), ..packets },
    ];
    for queue in queues {
        let Some(up) = two_ecn_flows(queue.clone()) else { return };
        println!("{queue}: {up:?}");
        assert!(up.ecn_marked > 0, "{queue}: {up:?}");
        // The other disciplines drop during slow start, beyond a probability or an average.
        let is_step = queue.ecn_threshold_packets.is_some();
        assert!(!is_step || up.dropped.total() == 0, "{queue}: {up:?}");
    }
}

#[test]
fn a_path_of_many_faults_leaves_data_whole() {
    let step = |at_s, rate_mbit_per_sec| RateStep { at_s, rate_mbit_per_sec };
    let link = LinkSpec {
        rate_steps: vec![step(0.2, 10.0), step(0.4, 80.0)],
        rate_steps_period_s: Some(0.6),
        outages: vec![OutageSpec { at_s: 0.1, duration_s: 0.05 }],
        outages_period_s: Some(0.5),
        delay_steps: vec![DelayStep { at_s: 0.3, delay_ms: 15.0 }],
        delay_steps_period_s: Some(0.7),
        reordering: Some(ReorderingSpec { percent: 1.0, extra_ms: 2.0 }),
        policer: Some(PolicerSpec { rate_mbit_per_sec: 40.0, burst_bytes: 60_000 }),
        aggregation: Some(AggregationSpec { interval_ms: 2.0, packets_max: Some(10) }),
        ..constant(50.0, 5.0)
    };
    let Some(testbed) = testbed(&PathSpec::symmetric(link)) else { return };
    moves_data_both_ways(testbed.client(), testbed.server());
    let up = testbed.stats().unwrap().up.link;
    assert!(up.dropped.policer > 0, "{up:?}");
    assert!(up.queueing_delay.max_ms >= 50.0, "{up:?}");
}

#[test]
fn a_drop_head_queue_and_bursty_loss_leave_data_whole() {
    let channel = GilbertElliottSpec {
        good_to_bad_percent: 0.2,
        bad_to_good_percent: 30.0,
        loss_good_percent: 0.0,
        loss_bad_percent: 100.0,
    };
    let queue = QueueSpec { kind: QueueKind::DropHead, ..QueueSpec::droptail_packets(30) };
    let link = LinkSpec { queue, gilbert_elliott: Some(channel), ..constant(50.0, 5.0) };
    let Some(testbed) = testbed(&PathSpec::symmetric(link)) else { return };
    moves_data_both_ways(testbed.client(), testbed.server());
    let dropped = testbed.stats().unwrap().up.link.dropped;
    assert!(dropped.loss > 0 && dropped.head_drop > 0, "{dropped:?}");
}

#[test]
fn a_log_that_cannot_be_written_is_told_and_stops_no_traffic() {
    let mut path = PathSpec::symmetric(constant(50.0, 1.0));
    path.up_log = Some("/dev/full".into());
    let Some(testbed) = testbed(&path) else { return };
    let server = testbed.server();
    probe::transfer(testbed.client(), (server, server.ipv4().into()), 500_000, None).unwrap();
    let error = testbed.close().unwrap_err().to_string();
    assert!(error.starts_with("cannot write a log of the link: "), "{error}");

    path.up_log = Some("/no/such/folder/up.log".into());
    let error = Testbed::new(&path).unwrap_err().to_string();
    assert!(error.starts_with("/no/such/folder/up.log: cannot write the log"), "{error}");
}

#[test]
fn a_veth_pair_has_no_link_between() {
    let Some(pair) = or_skip(VethPair::new()) else { return };
    moves_data_both_ways(pair.client(), pair.server());
}

#[test]
fn several_testbeds_live_side_by_side() {
    let Some(one) = testbed(&PathSpec::symmetric(constant(10.0, 1.0))) else { return };
    let Some(other) = testbed(&PathSpec::symmetric(constant(20.0, 1.0))) else { return };
    std::thread::scope(|scope| {
        for testbed in [&one, &other] {
            scope.spawn(|| {
                let server = testbed.server();
                let to = (server, server.ipv4().into());
                probe::transfer(testbed.client(), to, 1_000_000, None).unwrap();
            });
        }
    });
    for testbed in [&one, &other] {
        assert!(testbed.stats().unwrap().up.link.bytes_out > 1_000_000);
    }
}

#[test]
fn an_idle_testbed_carries_nothing_and_settings_stay_inside() {
    let Some(mut testbed) = testbed(&PathSpec::symmetric(constant(10.0, 1.0))) else { return };
    let key = "net.ipv4.tcp_congestion_control";
    testbed.client().set_sysctl(key, "reno").unwrap();
    testbed.server().set_sysctl(key, "bbr").unwrap();
    assert_eq!(testbed.client().sysctl(key).unwrap(), "reno");
    assert_eq!(testbed.server().sysctl(key).unwrap(), "bbr");
    let error = testbed.client().set_sysctl("net.ipv4.no_such_key", "1").unwrap_err().to_string();
    assert!(error.starts_with("cannot set net.ipv4.no_such_key to `1`"), "{error}");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let stats = testbed.stats().unwrap();
    assert_eq!((stats.up.link.packets_in, stats.down.link.packets_in), (0, 0));

    let server = testbed.server();
    probe::transfer(testbed.client(), (server, server.ipv4().into()), 10_000, None).unwrap();
    assert!(testbed.stats().unwrap().up.link.queueing_delay.packets > 0);
    std::thread::sleep(std::time::Duration::from_millis(100));
    testbed.reset_stats().unwrap();
    let stats = testbed.stats().unwrap();
    assert_eq!((stats.up.link.packets_in, stats.up.link.queueing_delay.packets), (0, 0));
}
