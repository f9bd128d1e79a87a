//! Rules for every scenario: packets are neither invented nor forgotten, no flow is faster than its
//! link, and the same seed gives the same bytes.

use proptest::prelude::*;
use remuda_scenarios::outcome::Outcome;
use remuda_scenarios::{Driver, FlowSpec, LinkSpec, Nanos, Scenario};
use remuda_sim::Simulation;
use std::collections::BTreeMap;

/// All flows have stopped by then.
const STOP_S: f64 = 2.0;
/// All packets have arrived by then: from two full queues at the lowest rate, after timeouts that
/// repair losses, and after the longest delays.
const END_S: f64 = 12.0;
const MSS_BYTES: u64 = 1448;

fn queue() -> impl Strategy<Value = remuda_link::QueueSpec> {
    let kinds = prop_oneof![
        Just(remuda_link::QueueKind::DropTail),
        Just(remuda_link::QueueKind::DropHead),
        Just(remuda_link::QueueKind::CoDel),
    ];
    (kinds, 2u64..80, any::<bool>()).prop_map(|(kind, packets, ecn)| remuda_link::QueueSpec {
        kind,
        limit_packets: Some(packets),
        ecn,
        ..remuda_link::QueueSpec::default()
    })
}

prop_compose! {
    fn link()(
        rate in 2.0..60.0f64,
        delay_ms in 0.5..40.0f64,
        loss_percent in prop_oneof![Just(0.0), 0.0..5.0f64],
        jitter_std_ms in prop_oneof![Just(0.0), 0.0..5.0f64],
        queue in queue(),
    ) -> LinkSpec {
        LinkSpec {
            rate_mbit_per_sec: Some(rate),
            delay_ms,
            loss_percent,
            jitter_std_ms,
            queue,
            ..LinkSpec::default()
        }
    }
}

fn driver() -> impl Strategy<Value = Driver> {
    let named = |name: &str| Just(Driver::Named(name.to_owned()));
    prop_oneof![
        named("reno"),
        named("cubic"),
        named("bbr"),
        named("westwood"),
        named("rein"),
        (1u32..60).prop_map(Driver::Window),
        Just(Driver::Unresponsive),
    ]
}

prop_compose! {
    fn flow()(
        driver in driver(),
        start_s in 0.0..1.0f64,
        bytes in proptest::option::of(1u64..300_000),
        app_rate in 0.5..8.0f64,
        has_rate in proptest::bool::weighted(0.2),
        write_bytes in proptest::option::of(1u64..400_000),
        poisson: bool,
        delayed_acks: bool,
        ecn: bool,
        extra_delay_ms in prop_oneof![Just(0.0), 0.0..50.0f64],
    ) -> FlowSpec {
        let unresponsive = driver == Driver::Unresponsive;
        FlowSpec {
            start_s,
            bytes,
            stop_s: Some(STOP_S),
            app_rate_mbit_per_sec: (unresponsive || has_rate).then_some(app_rate),
            app_write_bytes: write_bytes.filter(|_| has_rate && !unresponsive),
            poisson: unresponsive && poisson,
            delayed_acks,
            ecn,
            extra_delay_ms,
            ..FlowSpec::driven_by(driver)
        }
    }
}

/// A flow on a link of its own, at the very end. A simulation ends with its last flow, and packets
/// on the other links must arrive before that.
fn last_flow() -> FlowSpec {
    FlowSpec {
        start_s: END_S - 0.01,
        app_rate_mbit_per_sec: Some(1.0),
        route: vec!["other".to_owned()],
        ..FlowSpec::driven_by(Driver::Unresponsive)
    }
}

prop_compose! {
    fn scenario()(
        down in link(),
        up in link(),
        flows in proptest::collection::vec(flow(), 1..5),
        control_delay_ms in prop_oneof![Just(0.0), 0.0..50.0f64],
        seed in 0u64..1_000_000,
    ) -> Scenario {
        Scenario {
            name: "random".to_owned(),
            duration_s: END_S,
            seed,
            control_delay_ms,
            sample_ms: 50.0,
            links: BTreeMap::from([
                ("down".to_owned(), down),
                ("other".to_owned(), LinkSpec::default()),
                ("up".to_owned(), up),
            ]),
            flows: flows.into_iter().chain([last_flow()]).collect(),
        }
    }
}

fn run(scenario: &Scenario) -> Outcome {
    remuda_sim::run(scenario).expect("a scenario")
}

fn json(outcome: &Outcome) -> String {
    serde_json::to_string(outcome).expect("plain data")
}

/// The payload that a link can carry in `seconds`, in bytes.
fn capacity_bytes(link: &LinkSpec, seconds: f64) -> f64 {
    link.rate_mbit_per_sec.map_or(f64::INFINITY, |rate| rate * 1e6 / 8.0 * seconds)
}

fn check_links(scenario: &Scenario, outcome: &Outcome) -> Result<(), TestCaseError> {
    let sent: u64 = outcome.flows.iter().map(|flow| flow.sent_pkts).sum();
    let [down, other, up] = &outcome.links[..] else { panic!("three links") };
    // A SYN-ACK of each flow that starts late also goes down; by `STOP_S` at most two of each.
    let shakes = |spec: &&FlowSpec| spec.driver != Driver::Unresponsive && spec.start_s > 0.0;
    let late = scenario.flows.iter().filter(shakes).count() as u64;
    let least = if down.dropped_pkts + up.dropped_pkts > 0 { 0 } else { late };
    let shaken = (down.packets_in + other.packets_in).checked_sub(sent);
    let is_known = shaken.is_some_and(|pkts| (least..=2 * late).contains(&pkts));
    prop_assert!(is_known, "segments go down: {shaken:?} more");
    prop_assert_eq!(outcome.packets, sent);
    for link in [down, up] {
        prop_assert_eq!(
            link.packets_in,
            link.packets_out + link.dropped_pkts,
            "{}: in = out + dropped, once it has drained",
            &link.name
        );
        let capacity = capacity_bytes(&scenario.links[&link.name], outcome.duration_s);
        prop_assert!(link.bytes_out as f64 <= capacity + 1500.0, "{}: too fast", &link.name);
    }
    Ok(())
}

fn check_flows(scenario: &Scenario, outcome: &Outcome) -> Result<(), TestCaseError> {
    for (flow, spec) in outcome.flows.iter().zip(scenario.flows_expanded()) {
        let unique_pkts = flow.sent_pkts - flow.retransmitted_pkts;
        prop_assert!(flow.delivered_bytes <= unique_pkts * MSS_BYTES, "{flow:?}");
        prop_assert!(flow.lost_pkts <= flow.sent_pkts, "{flow:?}");
        if let Some(bytes) = spec.bytes.filter(|_| spec.driver != Driver::Unresponsive) {
            prop_assert!(flow.delivered_bytes <= bytes, "{flow:?}");
            let is_whole = flow.delivered_bytes == bytes;
            prop_assert!(is_whole || flow.end_s.is_none_or(|at| at >= STOP_S), "{flow:?}");
        }
        if let (Some(rtt_min), Some(mean)) = (flow.rtt_min_ms, flow.rtt_mean_ms) {
            // Jitter may make a delay shorter.
            let jitters = scenario.links.values().any(|link| link.jitter_std_ms > 0.0);
            let idle_ms = scenario.rtt_of(&spec).as_millis_f64();
            prop_assert!(jitters || rtt_min >= idle_ms, "{rtt_min} ms below {idle_ms} ms");
            prop_assert!(rtt_min <= mean * 1.02, "{flow:?}");
        }
    }
    Ok(())
}

fn check_samples(scenario: &Scenario, outcome: &Outcome) -> Result<(), TestCaseError> {
    let mut last: BTreeMap<u32, (f64, u64, u64)> = BTreeMap::new();
    let mut at_once: (f64, u64) = (0.0, 0);
    for sample in &outcome.flow_samples {
        let now = (sample.t_s, sample.delivered_bytes, sample.retransmitted_pkts);
        if let Some(before) = last.insert(sample.flow, now) {
            prop_assert!(before.0 < now.0, "time goes on");
            prop_assert!(before.1 <= now.1 && before.2 <= now.2, "{before:?} {now:?}");
        }
        at_once = match at_once {
            (t_s, sum) if t_s == sample.t_s => (t_s, sum + sample.delivered_bytes),
            _ => (sample.t_s, sample.delivered_bytes),
        };
        let capacity = capacity_bytes(&scenario.links["down"], sample.t_s);
        prop_assert!(at_once.1 as f64 <= capacity, "more than the link carries: {sample:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 24 } else { 1_000 }))]

    #[test]
    fn nothing_is_made_or_forgotten_and_nothing_beats_its_link(scenario in scenario()) {
        let outcome = run(&scenario);
        check_links(&scenario, &outcome)?;
        check_flows(&scenario, &outcome)?;
        check_samples(&scenario, &outcome)?;
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_steps_do_not_matter(
        scenario in scenario(),
        step_ms in 1u64..400,
    ) {
        let once = json(&run(&scenario));
        let elsewhere = std::thread::scope(|scope| {
            scope.spawn(|| json(&run(&scenario))).join().expect("it does not panic")
        });
        prop_assert_eq!(&once, &elsewhere, "on another thread");
        let mut simulation = Simulation::new(&scenario).expect("a scenario");
        while !simulation.is_over() {
            let until = simulation.now() + Nanos::from_millis(step_ms);
            while !simulation.run_some(until.min(simulation.end()), 100 * step_ms) {}
        }
        prop_assert_eq!(&once, &json(&simulation.outcome()), "step by step");
    }
}

#[test]
fn round_trips_of_minutes_are_counted_as_they_are() {
    let text = "duration_s = 400\n[links.down]\nrate_mbit_per_sec = 1\ndelay_ms = 60000\n\
                [links.up]\ndelay_ms = 30000\n[[flows]]\ndriver = 'window:4'\n";
    let outcome = run(&Scenario::parse(text, "far").expect("a scenario"));
    let flow = &outcome.flows[0];
    let (least, mean) = (flow.rtt_min_ms.expect("it has some"), flow.rtt_mean_ms.expect("as well"));
    assert!((90_000.0..90_100.0).contains(&least) && mean >= least, "{least} {mean}");
}

#[test]
fn another_seed_gives_other_losses() {
    let text = |seed: u32| {
        format!(
            "seed = {seed}\nduration_s = 5\n[links.down]\nrate_mbit_per_sec = 12\ndelay_ms = 10\n\
             loss_percent = 1\n[links.up]\ndelay_ms = 10\n[[flows]]\ndriver = 'cubic'\n"
        )
    };
    let [one, two] = [1, 2].map(|seed| {
        let scenario = Scenario::parse(&text(seed), "seeded").expect("a scenario");
        json(&run(&scenario)).replace(&format!("\"seed\":{seed}"), "")
    });
    assert_ne!(one, two);
}
