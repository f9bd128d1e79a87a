//! The learner over rounds, its table, and what a file keeps of it.

use super::super::geography::Place;
use super::super::grouping::Tally;
use super::super::model::ModelError;
use super::super::record::tests::record;
use super::*;
use proptest::prelude::*;

fn config() -> IwConfig {
    IwConfig { enabled: true, control_share: 0.0, samples_min: 10, ..IwConfig::default() }
}

/// Two peers' networks are groups; a third has too little.
fn learner(config: IwConfig, geography: &Geography) -> Learner {
    let mut tally = Tally::new(config.bin_s);
    for bin in 0..3 {
        for (peer, samples) in [("10.1.1.1", 20), ("10.1.2.1", 20), ("198.51.100.1", 3)] {
            let record = record(peer, bin * config.bin_s, 10, 1e6, 40.0);
            (0..samples).for_each(|_| tally.add(geography, &record));
        }
    }
    let must = config.requirement();
    let mut learner = Learner::new(config);
    learner.regroup(geography, tally.group(geography, &must));
    learner
}

/// A round of `peer`'s group: the rate falls with the distance from the best window.
fn play(learner: &mut Learner, peer: &str, best: u32) -> u32 {
    let geography = Geography::default();
    let group = learner.grouping.of(&geography, geography.leaf(peer.parse().expect("one")));
    let pkts = learner.states[group.expect("a group")].playing_pkts;
    let rate = 1e6 * (1.0 - f64::from(pkts.abs_diff(best)) / 200.0);
    for _ in 0..10 {
        let taken = learner.take(&geography, &record(peer, 0, pkts, rate, 40.0));
        assert!(taken.is_some());
    }
    learner.decide();
    pkts
}

#[test]
fn each_group_finds_a_window_of_its_own() {
    let geography = Geography::default();
    let mut learner = learner(config(), &geography);
    for _ in 0..40 {
        play(&mut learner, "10.1.1.1", 150);
        play(&mut learner, "10.1.2.1", 5);
    }
    let rows = learner.rows();
    let best = |name: &str| rows.iter().find(|row| row.name == name).expect(name).best_pkts;
    assert_eq!((best("10.1.1.0/24"), best("10.1.2.0/24")), (Some(150), Some(5)));
    let other = learner.take(&geography, &record("198.51.100.1", 0, 10, 1e6, 40.0));
    assert_eq!(other, None, "too little data, so the standard window");
    assert_eq!(learner.rest().map(|(samples, _)| samples), Some(9));
    let (table, left_out) = learner.table(&geography);
    let network = "198.51.100.1".parse().expect("an address");
    assert_eq!((table.0.len(), left_out, table.0.longest(network)), (2, 0, None));
}

#[test]
fn a_round_lasts_until_its_own_window_has_enough_records() {
    let geography = Geography::default();
    let mut learner = learner(config(), &geography);
    let of = |pkts| record("10.1.1.1", 0, pkts, 1e6, 40.0);
    (0..50).for_each(|_| assert!(learner.take(&geography, &of(20)).is_none()));
    (0..9).for_each(|_| assert!(learner.take(&geography, &of(5)).is_some()));
    learner.decide();
    assert_eq!((learner.states[0].playing_pkts, learner.states[0].rounds), (5, 0));
    learner.take(&geography, &of(5));
    learner.decide();
    assert_eq!((learner.states[0].playing_pkts, learner.states[0].rounds), (10, 1));
}

#[test]
fn a_share_of_the_rounds_has_the_standard_window() {
    let mut learner = learner(IwConfig { control_share: 0.1, ..config() }, &Geography::default());
    let mut control = 0;
    for _ in 0..1_000 {
        control += u32::from(learner.states[0].is_control);
        let before = learner.states[0].bandit.clone();
        let (is_control, pkts) =
            (learner.states[0].is_control, play(&mut learner, "10.1.1.1", 150));
        assert!(!is_control || pkts == STANDARD_PKTS && learner.states[0].bandit == before);
    }
    assert!((70..=130).contains(&control), "{control}");
}

#[test]
fn an_operator_pins_unpins_and_forgets_a_group() {
    let geography = Geography::default();
    let mut learner = learner(config(), &geography);
    play(&mut learner, "10.1.1.1", 150);
    learner.pin("10.1.1.0/24", Some(33)).expect("it is there");
    let of = |learner: &Learner| {
        let (table, _) = learner.table(&geography);
        table.0.longest("10.1.1.1".parse().expect("one")).map(|(_, entry)| entry.cwnd_pkts)
    };
    assert_eq!(of(&learner), Some(33));
    assert!(learner.rows()[0].is_pinned);
    let taken = learner.take(&geography, &record("10.1.1.1", 0, 33, 1e6, 40.0));
    assert_eq!(taken, None, "a pinned window teaches nothing");
    learner.pin("10.1.1.0/24", None).expect("it is pinned");
    assert_eq!(of(&learner), Some(10));
    learner.forget("10.1.1.0/24").expect("it is there");
    assert_eq!((of(&learner), learner.rows()[0].rounds), (Some(5), 0));
    let refused = learner.pin("nowhere", Some(9)).expect_err("no group").to_string();
    assert!(refused.contains("\"nowhere\""), "{refused}");
    assert_eq!(learner.pin("10.1.1.0/24", Some(10_000)), Err(Refusal::Cwnd(10_000)));
    assert_eq!(learner.pin("10.1.1.0/24", Some(0)), Err(Refusal::Cwnd(0)));
}

#[test]
fn a_place_in_no_group_keeps_the_standard_window_within_an_unknown_network() {
    let place = |at, prefix: &str| Place {
        at,
        prefix: prefix.parse().expect("a prefix"),
        isp: "ISP".to_owned(),
        region: "Region".to_owned(),
        subnet: None,
    };
    let geography = Geography::new([place(1, "10.1.128.0/24"), place(2, "192.0.2.0/24")]);
    let geography = geography.expect("they are apart");
    let mut tally = Tally::new(600);
    for (bin, peer) in (0..3).flat_map(|bin| [(bin, "10.1.1.1"), (bin, "10.1.2.1")]) {
        (0..6).for_each(|_| tally.add(&geography, &record(peer, bin * 600, 10, 1e6, 40.0)));
    }
    let mut learner = Learner::new(config());
    learner.regroup(&geography, tally.group(&geography, &config().requirement()));
    assert_eq!(learner.rows()[0].name, "10.1.0.0/16 others");
    let (table, _) = learner.table(&geography);
    let of = |address: &str| {
        let (_, entry) = table.0.longest(address.parse().expect("an address"))?;
        Some((entry.cwnd_pkts, entry.group.as_str()))
    };
    assert_eq!(of("10.1.1.1"), Some((5, "10.1.0.0/16 others")));
    assert_eq!(of("10.1.128.1"), Some((10, "none")));
    assert_eq!(of("192.0.2.1"), None);
}

#[test]
fn a_model_that_breaks_a_rule_is_refused_with_place_and_rule() {
    let geography = Geography::default();
    let text = learner(config(), &geography).to_json(&geography);
    let parse = |text: &str| Learner::parse(text, config(), &geography);
    assert!(parse(&text).is_ok());
    for (from, to, part) in [
        ("\"version\":1", "\"version\":7", "version 7: it must be 1"),
        ("\"playing_pkts\":5", "\"playing_pkts\":0", "group \"10.1.1.0/24\": playing_pkts"),
        ("\"cwnd_pkts\":20", "\"cwnd_pkts\":10000", "group \"10.1.1.0/24\": each window"),
        ("\"pins\":{}", "\"pins\":{\"a\":0}", "pin of \"a\" = 0"),
        ("10.1.2.0/24", "10.1.1.0/24", "it must be there once"),
        ("\"jitter\":", "\"jitter\":-1", "jitter must be"),
        ("\"groups\"", "\"grouped\"", "unknown field"),
        ("}", "", "it is not what"),
    ] {
        let bad = text.replace(from, to);
        assert_ne!(bad, text, "{from}");
        let error: ModelError = parse(&bad).expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
    }
}

proptest! {
    /// A learner that a file has kept makes the same choices.
    #[test]
    fn a_restart_changes_no_choice(
        rates in prop::collection::vec(1e3..1e9_f64, 1..60),
        restart in 0_usize..60,
    ) {
        let geography = Geography::default();
        let config = IwConfig { control_share: 0.2, ..config() };
        let mut one = learner(config.clone(), &geography);
        let mut other = one.clone();
        for (at, rate) in rates.iter().enumerate() {
            if at == restart {
                let text = other.to_json(&geography);
                let parsed = Learner::parse(&text, config.clone(), &geography);
                other = parsed.expect("it wrote it");
            }
            for learner in [&mut one, &mut other] {
                let pkts = learner.states[0].playing_pkts;
                let record = record("10.1.1.1", 0, pkts, *rate, 40.0);
                for _ in 0..10 {
                    learner.take(&geography, &record);
                }
                learner.decide();
            }
            prop_assert_eq!(one.table(&geography), other.table(&geography));
            prop_assert_eq!(&one.states, &other.states);
        }
    }
}
