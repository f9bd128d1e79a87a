//! Every arm on this kernel's TCP: it fills most of a plain link, and hands its flow over.

use ccp_agent::clock;
use ccp_agent::host::Target;
use remuda_live::transfer::{Running, Transfer};
use remuda_tests::{Place, exclusive, skip, wired};
use std::thread;
use std::time::Duration;

/// Flows at a time; each has its own link, and the machine must be fast enough for all of them.
const AT_ONCE: usize = 4;
const RATE_MBIT_PER_SEC: f64 = 12.0;
/// Long enough for arms that have a slow start of their own.
const SPAN: Duration = Duration::from_secs(8);
/// Least share of the link in the first seconds; in words: "most of it".
const SHARE_MIN: f64 = 0.5;

#[test]
fn every_arm_fills_most_of_a_link_and_its_successor_goes_on() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let agent = place.agent(&["--arm", "reno"]);
    let names: Vec<&str> = remuda_algorithms::arms().iter().map(|arm| arm.name).collect();
    // `fixed` finds no window by itself, `remy` needs a table, and `dctcp` needs a path with ECN.
    let moving: Vec<&str> =
        names.into_iter().filter(|name| !["fixed", "remy", "dctcp"].contains(name)).collect();
    for some in moving.chunks(AT_ONCE) {
        let started: Vec<_> = some
            .iter()
            .map(|arm| {
                agent.set(Target::New, arm).expect("it is set");
                let path = wired(RATE_MBIT_PER_SEC, 20.0, 1.0);
                let algorithm = Some(place.name.clone());
                let transfer = Transfer { algorithm, verify: false, ..Transfer::default() };
                let flow = transfer.start(path.server(), path.client()).expect("it starts");
                let since = clock::monotonic_us();
                thread::sleep(Duration::from_millis(200));
                (*arm, path, flow, since)
            })
            .collect();
        thread::sleep(SPAN);
        let rows = agent.flows().expect("the flows");
        let arms: Vec<&str> = rows.iter().map(|row| row.arm.as_str()).collect();
        assert_eq!(arms, some, "{rows:?}");
        assert!(rows.iter().all(|row| row.state == "driven" && row.reports > 100), "{rows:?}");
        let half_way: Vec<(u64, Duration)> = started
            .iter()
            .map(|(_, _, flow, since)| (flow.received_bytes(), elapsed(*since)))
            .collect();
        let switched = clock::monotonic_us();
        agent.set(Target::All, "cubic").expect("it is set");
        thread::sleep(Duration::from_secs(2));
        for ((arm, _, flow, _), (before, span)) in started.iter().zip(half_way) {
            let share = mbit_per_sec(before, span) / RATE_MBIT_PER_SEC;
            let after = flow.received_bytes() - before;
            let successor = mbit_per_sec(after, elapsed(switched)) / RATE_MBIT_PER_SEC;
            println!("{arm}: {share:.2} of the link, its successor {successor:.2}");
            assert!(share > SHARE_MIN, "{arm}: {share:.2} of the link");
            assert!(successor > SHARE_MIN, "{arm} to cubic: {successor:.2} of the link");
        }
        for (_, _, flow, _) in started {
            Running::stop(&flow);
            flow.join().expect("it ends intact");
        }
    }
    agent.stop().expect("it ends");
}

fn elapsed(since_us: u64) -> Duration {
    Duration::from_micros(clock::monotonic_us() - since_us)
}

fn mbit_per_sec(bytes: u64, span: Duration) -> f64 {
    bytes as f64 * 8.0 / 1e6 / span.as_secs_f64()
}
