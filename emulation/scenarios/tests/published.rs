//! The suites contain the numbers of their sources, path by path.

use remuda_link::Direction;
use remuda_scenarios::{Environment, LinkSpec, Nanos, Scenario, suite};
use std::collections::BTreeSet;

/// An environment of a suite that comes with the program.
fn environment(suite_name: &str, name: &str) -> Environment {
    let all = suite(suite_name).expect("it comes with us").expect("it is one").environments();
    let found = all.expect("it has some").into_iter().find(|it| it.name == name);
    found.unwrap_or_else(|| panic!("{suite_name} has no {name}"))
}

fn scenario(suite_name: &str, name: &str) -> Scenario {
    environment(suite_name, name).scenario("cubic", 1).unwrap_or_else(|error| panic!("{error}"))
}

/// Describes a link: rate in Mbit/s, delay in ms, loss in percent, and queue limit.
fn described(link: &LinkSpec) -> String {
    let rate = match (&link.rate_mbit_per_sec, &link.generator) {
        (Some(rate), None) => format!("{rate}"),
        (None, Some(generator)) => toml::to_string(generator).expect("it can be written"),
        (None, None) => "any rate".to_owned(),
        _ => panic!("{link:?}"),
    };
    let rate = rate.lines().filter(|line| !line.starts_with("round_s")).collect::<Vec<_>>();
    let queue = (link.queue.limit_packets, link.queue.limit_bytes, link.queue.limit_bdp);
    let queue = match queue {
        (None, None, None) => "infinite".to_owned(),
        (Some(packets), None, None) => format!("{packets} pkt"),
        (None, Some(bytes), None) => format!("{bytes} B"),
        (None, None, Some(bdps)) => format!("{bdps} BDP"),
        _ => panic!("{link:?}"),
    };
    format!("{} {} ms {} % {queue}", rate.join(" "), link.delay_ms, link.loss_percent)
}

/// StanfordSNR/observatory, experiments.yml: the data link, then the ACK link.
#[test]
fn pantheons_paths_are_the_observatorys() {
    let poisson = |mean: &str| format!("kind = \"poisson\" mean_mbit_per_sec = {mean}");
    let together = |packets: u32, interval: &str| {
        format!("kind = \"periodic\" packets = {packets} interval_ms = {interval}")
    };
    let paths = [
        ("01-nepal-india", poisson("0.57"), "28 ms 4.77 % 14 pkt", "infinite"),
        ("02-mexico-cellular", poisson("2.64"), "88 ms 0 % 130 pkt", "infinite"),
        ("03-brazil-colombia-cellular", poisson("3.04"), "130 ms 0 % 426 pkt", "infinite"),
        ("04-india", "100.42".into(), "27 ms 0 % 173 pkt", "infinite"),
        ("05-korea-china", "77.72".into(), "51 ms 0.06 % 94 pkt", "infinite"),
        ("06-california-mexico", "114.68".into(), "45 ms 0 % 450 pkt", "infinite"),
        ("07-policer-12mbit-20ms", "12".into(), "10 ms 0 % 1 pkt", "1 pkt"),
        ("08-policer-60mbit-20ms", "60".into(), "10 ms 0 % 1 pkt", "1 pkt"),
        ("09-policer-108mbit-20ms", "108".into(), "10 ms 0 % 1 pkt", "1 pkt"),
        ("10-policer-12mbit-100ms", "12".into(), "50 ms 0 % 1 pkt", "1 pkt"),
        ("11-policer-60mbit-100ms", "60".into(), "50 ms 0 % 1 pkt", "1 pkt"),
        ("12-policer-108mbit-100ms", "108".into(), "50 ms 0 % 1 pkt", "1 pkt"),
        ("15-buffer-bdp-10", "12".into(), "30 ms 0 % 9000 B", "infinite"),
        ("16-buffer-bdp-3", "12".into(), "30 ms 0 % 30000 B", "infinite"),
        ("17-buffer-bdp-2", "12".into(), "30 ms 0 % 45000 B", "infinite"),
        ("18-buffer-bdp", "12".into(), "30 ms 0 % 90000 B", "infinite"),
    ];
    let check = |name: &str, down: &str, up: &str| {
        for (flows, starts) in [("1", &[0.0][..]), ("3", &[0.0, 10.0, 20.0])] {
            let scenario = scenario("pantheon", &format!("{name}/flows={flows}"));
            let links = ["down", "up"].map(|link| described(&scenario.links[link]));
            assert_eq!(links, [down, up], "{name}");
            let flows = scenario.flows_expanded();
            assert!(flows.iter().map(|flow| flow.start_s).eq(starts.iter().copied()), "{name}");
            assert_eq!(scenario.duration_s, 30.0);
        }
    };
    for (name, rate, data, room) in paths {
        let delay = data.split_once(" ms").expect("it says a delay").0;
        check(name, &format!("{rate} {data}"), &format!("{rate} {delay} ms 0 % {room}"));
    }
    let acks = |periodic: String| format!("{periodic} 10 ms 0 % infinite");
    check("13-acks-1-in-100ms", "12 10 ms 0 % infinite", &acks(together(1, "100.0")));
    check("14-acks-10-in-200ms", "12 10 ms 0 % infinite", &acks(together(10, "200.0")));
}

/// The value of `what` for every environment of a group and these families.
fn places<T: Ord>(
    suites: &[&str],
    (group, families): (&str, &[&str]),
    what: impl Fn(&Scenario) -> T,
) -> BTreeSet<T> {
    let mut all = BTreeSet::new();
    for name in suites {
        let suite = suite(name).expect("it comes with us").expect("it is one");
        for environment in suite.environments().expect("it has some") {
            if environment.group == group && families.contains(&environment.family.as_str()) {
                all.insert(what(&environment.scenario("cubic", 1).expect("it is one")));
            }
        }
    }
    all
}

/// Scales and rounds a value to a whole number, because floats have no total order.
fn whole(value: f64, of: f64) -> u64 {
    (value * of).round() as u64
}

/// Group A: rate in Mbit/s, one-way delay in ms, queue in BDPs.
#[test]
fn the_steady_grid_is_whole() {
    let place = |scenario: &Scenario| {
        let down = &scenario.links["down"];
        let is_steady = down.rate_steps.is_empty();
        let rate = down.rate_mbit_per_sec.filter(|_| is_steady).unwrap_or(0.0);
        let queue = down.queue.limit_bdp.unwrap_or(0.0);
        assert_eq!(down.delay_ms, scenario.links["up"].delay_ms);
        (whole(rate, 1.0), whole(down.delay_ms, 1.0), whole(queue, 1e3))
    };
    let all = places(&["one-flow", "ccbench-solo"], ("A", &["steady", "solo"]), place);
    for rate in [1, 12, 24, 48, 96, 192] {
        for owd_ms in [5, 10, 20, 40, 80] {
            for queue in [500, 1_000, 2_000, 4_000, 8_000, 16_000] {
                assert!(all.contains(&(rate, owd_ms, queue)), "{rate} {owd_ms} {queue}");
            }
        }
    }
}

/// Group B: on 12 and 48 Mbit/s and 60 ms, a queue holds one full packet, or from a tenth of a BDP
/// to sixteen.
#[test]
fn buffers_are_the_published_parts_of_a_bdp() {
    let packets = |scenario: &Scenario| {
        let down = &scenario.links["down"];
        assert_eq!(scenario.rtt(), Nanos::from_millis(60));
        let bytes = down.queue_bytes(scenario.rtt(), Direction::Down).expect("it has a rate");
        (whole(down.rate_mbit_per_sec.unwrap_or(0.0), 1.0), bytes.expect("a limit") as u64 / 1500)
    };
    let all = places(&["one-flow"], ("B", &["one-packet", "buffer"]), packets);
    let of = |rate, bdp: u64| {
        let parts = [bdp / 10, bdp / 3, bdp / 2, bdp, 2 * bdp, 4 * bdp, 8 * bdp, 16 * bdp];
        std::iter::once((rate, 1)).chain(parts.map(|packets| (rate, packets)))
    };
    assert_eq!(all, of(12, 60).chain(of(48, 240)).collect());
}

/// Group C: RFC 7928, section 8.2.6: 100 and 10 Mbit/s in turns, for 20 s and for 100 ms.
#[test]
fn capacity_changes_as_in_rfc_7928() {
    for (name, each_s) in [("rfc7928-slow-change", 20.0), ("rfc7928-fast-change", 0.1)] {
        let scenario = scenario("one-flow", name);
        let down = &scenario.links["down"];
        assert_eq!((down.rate_mbit_per_sec, down.rate_steps.len()), (Some(100.0), 1));
        assert_eq!((down.rate_steps[0].at_s, down.rate_steps[0].rate_mbit_per_sec), (each_s, 10.0));
        assert_eq!(down.rate_steps_period_s, Some(2.0 * each_s));
        assert!(environment("one-flow", name).look_at.starts_with("RFC 7928 section 8.2.6"));
    }
}

/// Groups E and G: the mean rates of Poisson paths; the rates and round trips of policers.
#[test]
fn poisson_paths_and_policers_have_the_published_rates() {
    let mean = |scenario: &Scenario| described(&scenario.links["down"]);
    let all = places(&["wireless"], ("E", &["poisson"]), mean);
    for mean in ["0.57", "2.64", "3.04"] {
        assert!(all.iter().any(|it| it.contains(&format!("= {mean} "))), "{mean} of {all:?}");
    }
    let policer = |scenario: &Scenario| {
        let policer = scenario.links["down"].policer.as_ref().expect("there is one");
        (whole(policer.rate_mbit_per_sec, 1.0), scenario.rtt().as_millis())
    };
    let all = places(&["policers-and-acks"], ("G", &["policer"]), policer);
    let want = [12, 60, 108].into_iter().flat_map(|rate| [(rate, 20), (rate, 100)]);
    assert_eq!(all, want.collect());
}

/// Groups I to K: the number of flows, which start 10 s apart; a flow of 100 ms beside another
/// round trip, with a queue for the longer; the neighbour of the tested flow, which starts second,
/// and the buffer.
#[test]
fn flows_share_a_link_in_all_published_ways() {
    let flows = |scenario: &Scenario| {
        let starts: Vec<u64> =
            scenario.flows_expanded().iter().map(|flow| whole(flow.start_s, 1.0)).collect();
        assert!(starts.iter().zip(0..).all(|(start_s, place)| *start_s == 10 * place));
        starts.len()
    };
    assert_eq!(places(&["sharing"], ("I", &["same"]), flows), [2, 3, 4, 10, 50].into());
    let rtts = |scenario: &Scenario| {
        let flows = scenario.flows_expanded();
        let [long, other] = [0, 1].map(|flow| scenario.rtt_of(&flows[flow]).as_millis());
        (long, other, scenario.links["down"].queue.limit_packets)
    };
    let want = [(5, 400), (20, 400), (200, 800), (560, 2_240)];
    let want = want.map(|(other, packets)| (100, other, Some(packets)));
    assert_eq!(places(&["sharing"], ("J", &["rtt"]), rtts), want.into());
    let beside = |scenario: &Scenario| {
        let suite = scenario.flows.iter().find(|flow| flow.name == "neighbour");
        let neighbour = suite.expect("there is one");
        let is_second = neighbour.start_s > 0.0;
        let queue = whole(scenario.links["down"].queue.limit_bdp.unwrap_or(0.0), 10.0);
        (neighbour.driver.to_string(), neighbour.count, is_second, queue)
    };
    let all = places(&["sharing"], ("K", &["beside"]), beside);
    for driver in ["cubic", "reno", "bbr"] {
        for (count, is_second) in [(1, false), (1, true), (4, false)] {
            for queue in [5, 10, 20, 40, 80, 160] {
                let place = (driver.to_owned(), count, is_second, queue);
                assert!(all.contains(&place), "{place:?}");
            }
        }
    }
}

/// ccp-project/eval-scripts: the paths of fidelity, and that of completion times.
#[test]
fn ccps_paths_are_those_of_its_scripts() {
    let of = |suite_name: &str, name: &str| {
        let scenario = scenario(suite_name, name);
        ["down", "up"].map(|link| described(&scenario.links[link]))
    };
    assert_eq!(of("ccp", "fixed"), ["96 10 ms 0 % 160 pkt"; 2]);
    assert_eq!(of("ccp", "drop"), ["96 10 ms 0.01 % infinite", "96 10 ms 0 % infinite"]);
    assert!(of("ccp", "cell").iter().all(|link| link.ends_with(" 10 ms 0 % 100 pkt")));
    let completion = ["96 25 ms 0 % 800 pkt", "any rate 25 ms 0 % infinite"];
    assert_eq!(of("short-flows", "load/percent=75"), completion);
    let scenario = scenario("short-flows", "load/percent=75");
    let load = scenario.flows[0].arrivals.map(|arrivals| arrivals.load_mbit_per_sec);
    assert_eq!(load, Some(72.0), "three quarters of 96");
}

/// Rein, section 5.1: 2 Mbit/s, 30 ms, 4 % loss, from CUBIC to BBR to Westwood.
#[test]
fn reins_first_scenario_switches_twice() {
    let scenario = scenario("rein", "continuity");
    assert_eq!(described(&scenario.links["down"]), "2 15 ms 4 % 1 BDP");
    assert_eq!(scenario.rtt(), Nanos::from_millis(30));
    let [flow] = &scenario.flows[..] else { panic!("{:?}", scenario.flows) };
    let order: Vec<&str> = flow.switches.iter().map(|switch| switch.to.as_str()).collect();
    assert_eq!((flow.driver.to_string().as_str(), &order[..]), ("cubic", &["bbr", "westwood"][..]));
}
