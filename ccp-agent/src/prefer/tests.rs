use super::*;
use crate::select::{Cgroup, Parts, Selector};
use proptest::prelude::*;

fn flow(port: u16, cgroup_id: u64) -> FlowInfo {
    FlowInfo {
        cgroup_id,
        ..FlowInfo::between(([127, 0, 0, 1].into(), port), ([10, 0, 0, 9].into(), 80))
    }
}

fn wants(text: &str) -> Wants {
    text.parse().expect("a name")
}

fn on_port(port: &str, what: &str) -> Order {
    let parts = Parts { local_port: Some(port.to_owned()), ..Parts::default() };
    Order::Rule(Rule::parse(&parts, wants(what)).expect("it parses"))
}

fn configured(text: &str) -> Preferences {
    #[derive(Deserialize)]
    struct File {
        prefer: Rules,
    }
    let file: File = toml::from_str(text).expect("it parses");
    Preferences::new(&file.prefer)
}

#[test]
fn the_first_rule_that_matches_a_flow_counts() {
    let mut known = configured(
        "[[prefer]]\nlocal_port = 443\nwants = 'delay'\n\
         [[prefer]]\ndestination = '10.0.0.0/8'\nwants = 'throughput'\n",
    );
    assert_eq!(known.of(1, &flow(443, 0), None), (wants("delay"), By::Rule(1)));
    assert_eq!(known.of(1, &flow(80, 0), None), (wants("throughput"), By::Rule(2)));
    let elsewhere = FlowInfo { remote: ([11, 0, 0, 1].into(), 80), ..flow(80, 0) };
    assert_eq!(known.of(1, &elsewhere, None), (Wants::DEFAULT, By::Default));
}

#[test]
fn an_operator_comes_before_the_application_and_that_before_the_configuration() {
    let mut known = configured("[[prefer]]\nlocal_port = 443\nwants = 'delay'\n");
    let wish = Some(Wish { wants: wants("throughput"), uid: 1_000 });
    let subject = flow(443, 0);
    assert_eq!(known.of(1, &subject, wish), (wants("throughput"), By::Application(1_000)));
    let first = known.give(on_port("443", "throughput=0.5,delay=1")).expect("it is taken");
    let (got, by) = known.of(1, &subject, wish);
    assert_eq!((got.to_string().as_str(), by), ("throughput=0.5,delay=1", By::Order(first)));
    let one = Order::Flow { flow: 1, wants: Wants::DEFAULT };
    let second = known.give(one).expect("it is taken");
    assert_eq!(known.of(1, &subject, wish), (Wants::DEFAULT, By::Order(second)), "the newest");
    assert_eq!(known.of(2, &subject, wish).1, By::Order(first));
    known.ended(1);
    assert_eq!(known.of(1, &subject, wish).1, By::Order(first));
    assert_eq!(known.take_back(Some(first)).expect("it was there"), 1);
    assert_eq!(known.of(1, &subject, None), (wants("delay"), By::Rule(1)));
}

#[test]
fn orders_are_listed_as_they_count_and_taken_back_by_number() {
    let mut known = configured("[[prefer]]\nlocal_port = 1\nwants = 'delay'\n");
    known.give(on_port("2", "delay")).expect("it is taken");
    known.give(Order::Flow { flow: 9, wants: wants("throughput") }).expect("it is taken");
    known.give(on_port("2", "throughput")).expect("it replaces the first");
    let rows: Vec<String> = known
        .rows()
        .iter()
        .map(|row| format!("{:?} {} {}", row.order, row.on, row.wants))
        .collect();
    assert_eq!(
        rows,
        ["Some(3) local port 2 throughput", "Some(2) flow 9 throughput", "None local port 1 delay"]
    );
    let error = known.take_back(Some(1)).expect_err("it was replaced").to_string();
    assert!(error.contains("no order 1") && error.contains("fix:"), "{error}");
    assert_eq!(known.take_back(None).expect("all"), 2);
    assert_eq!(known.take_back(None).expect("none left"), 0);
}

#[test]
fn orders_have_a_bound() {
    let mut known = Preferences::new(&Rules::default());
    for port in 1..=RULES_MAX {
        known.give(on_port(&port.to_string(), "delay")).expect("there is room");
    }
    let error = known.give(on_port("9999", "delay")).expect_err("it is full").to_string();
    assert!(error.contains("256") && error.contains("fix:"), "{error}");
    known.give(on_port("1", "throughput")).expect("in the place of the old one");
}

#[test]
fn a_directory_that_is_made_anew_is_found_by_its_first_flow() {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("service");
    let cgroup = Some(Cgroup::Path(path.clone()));
    let on = Selector { cgroup, ..Selector::default() };
    let mut known = Preferences::new(&Rules::default());
    let active = ActiveRule::new(Rule { on, wants: wants("delay") });
    known.rules.push(active);
    assert_eq!(known.of(1, &flow(1, 5), None).1, By::Default);
    fs::create_dir(&path).expect("mkdir");
    let id = fs::metadata(&path).expect("it is there").ino();
    assert_eq!(known.of(1, &flow(1, id), None).1, By::Rule(1));
    fs::remove_dir(&path).expect("rmdir");
    assert_eq!(known.of(1, &flow(1, id), None).1, By::Rule(1), "it is what it was");
}

proptest! {
    /// After any sequence of orders and removals, a flow follows the newest order that matches it.
    #[test]
    fn the_newest_order_counts(steps in prop::collection::vec((0u16..4, 1u16..4, 0u8..3), 0..40)) {
        let mut known = Preferences::new(&Rules::default());
        let mut model: Vec<(u32, u16, Wants)> = Vec::new();
        for (what, port, choice) in steps {
            if what == 0 {
                let number = model.first().map(|(number, ..)| *number);
                known.take_back(number).expect("it is there");
                if number.is_some() { model.remove(0); }
                continue;
            }
            let text = ["default", "delay", "throughput"][usize::from(choice)];
            let number = known.give(on_port(&port.to_string(), text)).expect("there is room");
            model.retain(|(_, known, _)| *known != port);
            model.insert(0, (number, port, wants(text)));
        }
        for port in 1..4 {
            let want = model.iter().find(|(_, known, _)| *known == port);
            let want = want.map_or((Wants::DEFAULT, By::Default), |(n, _, w)| (*w, By::Order(*n)));
            prop_assert_eq!(known.of(1, &flow(port, 0), None), want);
        }
    }
}
