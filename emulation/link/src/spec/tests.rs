//! Which specs are refused, and what valid specs build.

use super::*;

fn build(text: &str) -> Result<Link<u32>, String> {
    let spec: LinkSpec = toml::from_str(text).map_err(|error| error.to_string())?;
    spec.build(Nanos::from_millis(40), Direction::Up).map_err(|error| error.to_string())
}

fn refused(text: &str, message: &str) {
    let error = build(text).unwrap_err();
    assert!(error.contains(message), "{text}: {error:?} lacks {message:?}");
}

#[test]
fn errors_name_key_value_and_rule() {
    refused("rate_mbit_per_sec = 0", "`rate_mbit_per_sec` is 0: must be between 0.001");
    refused("rate_mbit_per_sec = nan", "`rate_mbit_per_sec` is NaN: must be");
    refused("rate_mbit_per_sec = 1\ntrace = 'x'", "`trace` is x: is set beside");
    refused("trace_once = true", "`trace_once` is true: needs a trace");
    refused("trace = '/no/such'", "`trace`: /no/such: cannot read the trace");
    refused("delay_ms = -1", "`delay_ms` is -1: must be between 0 and 60000");
    refused("jitter_std_ms = inf", "`jitter_std_ms` is inf: must be between");
    refused("jitter_correlation = 1", "`jitter_correlation` is 1: must be at least 0");
    refused("loss_percent = 101", "`loss_percent` is 101: must be between 0 and 100");
    refused("delay = 5", "unknown field `delay`");
    let both = "loss_percent = 1\n[gilbert_elliott]\ngood_to_bad_percent = 1\n\
                bad_to_good_percent = 50";
    refused(both, "`loss_percent` is 1: is set beside gilbert_elliott");
}

#[test]
fn errors_of_a_queue_name_its_table() {
    let queue = |text: &str, message: &str| refused(&format!("queue = {{ {text} }}"), message);
    queue("kind = 'droptail'", "`queue.kind` is droptail: needs limit_packets");
    queue("limit_packets = 1", "`queue.kind` is infinite: an infinite queue");
    queue("kind = 'codel', limit_bytes = 0", "`queue.limit_bytes` is 0: must be at least 1500");
    queue("kind = 'droptail', limit_bdp = 1", "`queue.limit_bdp` is 1: needs a");
    queue("kind = 'blue'", "unknown variant `blue`");
    queue("kind = 'pie'", "`queue.kind` is pie: needs limit_packets");
    let kind = |kind: &str, text: &str, message: &str| {
        queue(&format!("kind = '{kind}', limit_packets = 100, {text}"), message);
    };
    kind("codel", "ecn_threshold_packets = 5", "`queue.ecn_threshold_packets` is 5: only droptail");
    kind("codel", "update_ms = 5", "`queue.update_ms` is 5: only pie uses it");
    kind("pie", "update_ms = 0", "`queue.update_ms` is 0: must be at least 0.001");
    kind("pie", "update_ms = 1e-9", "`queue.update_ms` is 0.000000001: must be at least 0.001");
    kind("pie", "burst_ms = -1", "`queue.burst_ms` is -1: must be between 0");
    kind("pie", "target_ms = 0", "`queue.target_ms` is 0: must be at least 0.001");
    kind("pie", "flows = 5", "`queue.flows` is 5: only fq-codel uses it");
    kind("fq-codel", "flows = 0", "`queue.flows` is 0: must be between 1");
    kind("fq-codel", "quantum_bytes = 1", "`queue.quantum_bytes` is 1: must be between 40");
    kind("fq-codel", "gentle = true", "`queue.gentle` is true: only red uses it");
    kind("droptail", "max_bytes = 7", "`queue.max_bytes` is 7: only red uses it");
    kind("red", "min_packets = 5, max_bytes = 7", "`queue.max_bytes` is 7: is set beside");
    kind("red", "min_packets = 9, max_packets = 9", "`queue.min_packets` is 9: the minimum must");
    kind("red", "max_packets = 0", "`queue.max_packets` is 0: the minimum must");
    kind("red", "weight = 0", "`queue.weight` is 0: must be above 0");
    kind("red", "drop_percent_max = 101", "`queue.drop_percent_max` is 101: must be above 0");
}

#[test]
fn errors_of_changes_name_their_place_in_the_list() {
    let rate = |text: &str, message: &str| {
        refused(&format!("rate_mbit_per_sec = 12\n{text}"), message);
    };
    let step = |at: &str| format!("{{ at_s = {at}, rate_mbit_per_sec = 1 }}");
    let one = step("1");
    refused(
        &format!("rate_steps = [{one}]"),
        "`rate_steps[0].rate_mbit_per_sec` is 1: needs rate_mbit_per_sec",
    );
    rate(&format!("rate_steps = [{one}, {one}]"), "`rate_steps[1].at_s` is 1: must come after");
    rate(&format!("rate_steps = [{}]", step("-1")), "`rate_steps[0].at_s` is -1: must be between");
    rate(&format!("rate_steps = [{}]", step("nan")), "`rate_steps[0].at_s` is NaN: must be");
    rate(
        "rate_steps = [{ at_s = 1, rate_mbit_per_sec = 0 }]",
        "`rate_steps[0].rate_mbit_per_sec` is 0: must be between 0.001",
    );
    rate("rate_steps = [{ at_s = 1 }]", "missing field `rate_mbit_per_sec`");
    rate("rate_steps_period_s = 1", "`rate_steps_period_s` is 1: needs the list");
    rate(
        &format!("rate_steps = [{one}]\nrate_steps_period_s = 1"),
        "`rate_steps[0].at_s` is 1: must lie within the period",
    );
    rate(
        &format!("rate_steps = [{one}]\nrate_steps_period_s = 0"),
        "`rate_steps_period_s` is 0: must be between 0.001",
    );
    refused("delay_steps = [{ at_s = 1, delay_ms = -1 }]", "`delay_steps[0].delay_ms` is -1");
    let out = |text: &str, message: &str| refused(&format!("outages = [{text}]"), message);
    out("{ at_s = 1, duration_s = 0 }", "`outages[0].duration_s` is 0: must be above 0");
    out("{ at_s = 1, duration_s = 2 }, { at_s = 2, duration_s = 1 }", "`outages[1].at_s` is 2");
    let all = "outages = [{ at_s = 0, duration_s = 1 }]\noutages_period_s = 1";
    refused(all, "`outages_period_s` is 1: must leave a hundredth");
}

#[test]
fn errors_of_the_parts_name_their_tables() {
    refused(
        "policer = { rate_mbit_per_sec = 1, burst_bytes = 1499 }",
        "`policer.burst_bytes` is 1499: must be between 1500",
    );
    refused(
        "policer = { rate_mbit_per_sec = 0, burst_bytes = 1500 }",
        "`policer.rate_mbit_per_sec` is 0: must be between 0.001",
    );
    refused("policer = { rate_mbit_per_sec = 1 }", "missing field `burst_bytes`");
    refused("reordering = { percent = 101, extra_ms = 1 }", "`reordering.percent` is 101");
    refused("reordering = { percent = 1, extra_ms = -1 }", "`reordering.extra_ms` is -1");
    refused("aggregation = { interval_ms = 0 }", "`aggregation.interval_ms` is 0: must be between");
    refused(
        "aggregation = { interval_ms = 1, packets_max = 0 }",
        "`aggregation.packets_max` is 0: must be at least 1",
    );
}

#[test]
fn a_path_names_the_direction() {
    let down = LinkSpec { delay_ms: -2.0, ..LinkSpec::default() };
    let path = PathSpec { down, ..PathSpec::default() };
    let error = path.build::<u32>().unwrap_err().to_string();
    assert!(error.starts_with("`down.delay_ms` is -2"), "{error}");
}

#[test]
fn bdp_is_rate_times_round_trip_and_at_least_a_packet() {
    let limit = |bdp: f64, rate: f64| {
        let queue = QueueSpec::droptail_bdp(bdp);
        queue.limit(Some(rate * 1e6 / 8.0 * 0.04)).unwrap().bytes
    };
    assert_eq!(limit(1.0, 12.0), Some(60_000));
    assert_eq!(limit(0.5, 12.0), Some(30_000));
    assert_eq!(limit(0.1, 0.1), Some(1_500));
}

/// A spec with most of the keys.
fn full() -> LinkSpec {
    toml::from_str(
        "rate_mbit_per_sec = 12
        rate_steps = [{ at_s = 10, rate_mbit_per_sec = 24 }, { at_s = 20, rate_mbit_per_sec = 6 }]
        rate_steps_period_s = 30
        outages = [{ at_s = 5, duration_s = 0.5 }]
        outages_period_s = 60
        delay_ms = 20
        delay_steps = [{ at_s = 15, delay_ms = 60 }]
        delay_steps_period_s = 40
        jitter_std_ms = 1.5
        reordering = { percent = 1, extra_ms = 5 }
        policer = { rate_mbit_per_sec = 10, burst_bytes = 30_000 }
        aggregation = { interval_ms = 100, packets_max = 10 }
        queue = { kind = 'red', limit_bdp = 2, min_packets = 5, ecn = true }
        seed = 7",
    )
    .unwrap()
}

#[test]
fn a_spec_survives_toml_and_describes_its_queue() {
    let spec = LinkSpec {
        rate_mbit_per_sec: Some(12.0),
        queue: QueueSpec { kind: QueueKind::CoDel, ..QueueSpec::droptail_packets(80) },
        ..LinkSpec::default()
    };
    for spec in [spec.clone(), full()] {
        let text = toml::to_string(&spec).unwrap();
        assert_eq!(toml::from_str::<LinkSpec>(&text).unwrap(), spec);
        spec.build::<u32>(Nanos::from_millis(40), Direction::Down).unwrap();
    }
    assert_eq!(full().rate_text(), "12 Mbit/s, steps, outages");
    assert_eq!(spec.queue.to_string(), "codel [packets=80, target=5, interval=100, ecn=false]");
    assert_eq!(QueueSpec::default().to_string(), "infinite");
    let words = |kind| QueueSpec { kind, ..QueueSpec::droptail_packets(80) }.to_string();
    assert_eq!(
        words(QueueKind::Pie),
        "pie [packets=80, target=15, tupdate=15, max_burst=150, ecn=false]"
    );
    assert_eq!(
        words(QueueKind::FqCoDel),
        "fq-codel [packets=80, target=5, interval=100, ecn=false, flows=1024, quantum=1514]"
    );
    assert_eq!(
        words(QueueKind::Red),
        "red [packets=80, min_packets=5, max_packets=15, max_p=0.1, weight=0.002, gentle=true, \
         ecn=false]"
    );
}

#[test]
fn changes_come_when_the_spec_says() {
    let spec: LinkSpec = toml::from_str(
        "rate_mbit_per_sec = 12
        rate_steps = [{ at_s = 0.004, rate_mbit_per_sec = 24 }]
        rate_steps_period_s = 0.008
        outages = [{ at_s = 0.010, duration_s = 0.005 }]
        delay_ms = 20
        delay_steps = [{ at_s = 0.002, delay_ms = 30 }]",
    )
    .unwrap();
    let mut link = spec.build::<u32>(Nanos::from_millis(40), Direction::Up).unwrap();
    for _ in 0..18 {
        link.push(1500, Nanos::ZERO);
    }
    let arrivals: Vec<f64> = std::iter::from_fn(|| {
        let at = link.next_event()?;
        link.pop(at);
        Some(at.as_millis_f64())
    })
    .collect();
    // 4 packets at 1 ms, 8 at 0.5 ms, 2 at 1 ms. Then the outage from 10 to 15 ms. The faster rate
    // holds from 12 to 16 ms: so 2 packets at 0.5 ms, and 2 at 1 ms.
    let mut sent = vec![1.0, 2.0, 3.0, 4.0];
    sent.extend((1..=8).map(|half| 4.0 + f64::from(half) / 2.0));
    sent.extend([9.0, 10.0, 15.5, 16.0, 17.0, 18.0]);
    let want: Vec<f64> = sent.iter().map(|at| at + if *at < 2.0 { 20.0 } else { 30.0 }).collect();
    assert_eq!(arrivals, want);
}

#[test]
fn one_percent_of_the_packets_is_overtaken() {
    let spec: LinkSpec =
        toml::from_str("delay_ms = 10\nreordering = { percent = 1, extra_ms = 5 }").unwrap();
    let mut link = spec.build::<u32>(Nanos::from_millis(40), Direction::Up).unwrap();
    for number in 0..20_000 {
        link.push(number, Nanos(u64::from(number) * 100_000));
    }
    let mut order = Vec::new();
    while let Some(at) = link.next_event() {
        if let Some(crate::Outcome { packet, fate: crate::Fate::Delivered { at, .. } }) =
            link.pop(at)
        {
            let late = at - Nanos(u64::from(packet) * 100_000);
            assert!([10, 15].map(Nanos::from_millis).contains(&late), "{late}");
            order.push(packet);
        }
    }
    assert_eq!(order.len(), 20_000);
    // About 50 packets that left later overtake each packet on the detour.
    let overtaken = order.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!((150..250).contains(&overtaken), "{overtaken}");
}
