use super::*;
use crate::select::{Live, Parts};
use index::Index;
use proptest::prelude::*;
use remuda_wire::to_agent::{FlowInfo, Origin};
use serde::Deserialize;

#[derive(Debug, Deserialize, serde::Serialize, PartialEq)]
struct File {
    #[serde(default)]
    rule: Rules,
}

fn parse(text: &str) -> Result<Rules, String> {
    toml::from_str::<File>(text).map(|file| file.rule).map_err(|error| error.to_string())
}

fn flow(port: u16, remote: &str) -> FlowInfo {
    FlowInfo::between(([10, 0, 0, 1].into(), port), (remote.parse().expect("an address"), 9))
}

fn any_driver(_: &str) -> Result<(), String> {
    Ok(())
}

fn on_port(port: &str, driver: &str) -> Rule {
    let parts = Parts { local_port: Some(port.to_owned()), ..Parts::default() };
    Rule::parse(&parts, driver.to_owned()).expect("it parses")
}

fn drives(book: &mut Book, flow: &FlowInfo) -> Option<String> {
    book.of(flow).map(|ruled| format!("{} by {}", ruled.driver().unwrap_or("none"), ruled.source))
}

#[test]
fn every_key_is_read_and_written_again() {
    let text = "[[rule]]\ndestination = '10.0.0.0/8'\nuse = 'bbr3'\nname = 'far'\n\
                [[rule]]\nlocal_port = '8000-8099'\nmark = '0x10/0xff'\nuse = 'native:cubic'\n\
                share = 0.99\n\
                [[rule]]\ncgroup = '/sys/fs/cgroup/a'\nuid = 7\nnetns = 'own'\nuse = 'rein'\n\
                attach = true\n";
    let rules = parse(text).expect("it parses");
    let shown: Vec<String> = rules.as_slice().iter().map(ToString::to_string).collect();
    let want = [
        "destination 10.0.0.0/8: bbr3",
        "local port 8000-8099, mark 0x10/0xff: native:cubic for 99 %",
        "cgroup /sys/fs/cgroup/a, uid 7, netns own: rein",
    ];
    assert_eq!(shown, want);
    let printed = toml::to_string(&File { rule: rules.clone() }).expect("it prints");
    assert_eq!(parse(&printed), Ok(rules), "{printed}");
}

#[test]
fn a_bad_rule_is_named_by_number_key_and_rule() {
    let first = "[[rule]]\nmark = 1\nuse = 'bbr'\n[[rule]]\n";
    for (text, parts) in [
        ("use = 'bbr'", &["rule 2", "selects no flows", "fix:"][..]),
        ("mark = 2", &["rule 2", "use"]),
        ("mark = 2\nuse = 'bbr'\nshare = 1.01", &["rule 2", "share = 1.01", "0 to 1"]),
        ("mark = 2\nuse = 'bbr'\nshare = -0.5", &["rule 2", "share = -0.5", "0 to 1"]),
        ("mark = 2\nuse = 'bbr'\nshare = nan", &["rule 2", "share", "0 to 1"]),
        ("mark = 2\nuse = 'bbr'\nshare = 'all'", &["rule 2", "all", "expected f64"]),
        ("mark = 2\nuse = 'bbr'\nname = ''", &["rule 2", "name = \"\"", "letters"]),
        ("mark = 2\nuse = 'bbr'\nname = 'a b'", &["rule 2", "name = \"a b\"", "letters"]),
        ("mark = 2\nuse = 'bbr'\nattach = true", &["rule 2", "attach", "no directory"]),
        ("cgroup = 7\nuse = 'bbr'\nattach = true", &["rule 2", "attach", "no directory"]),
        ("remote_port = 1\nmark = 2\nuse = 'bbr'", &["rule 2", "remote_port", "local_port"]),
        ("destination = '10.0.0.1/8'\nuse = 'bbr'", &["rule 2", "fix: \"10.0.0.0/8\""]),
    ] {
        let error = parse(&format!("{first}{text}\n")).expect_err(text);
        for part in parts {
            assert!(error.contains(part), "{text}: {part:?} is not in {error}");
        }
    }
    let many: String =
        (0..=RULES_MAX).map(|mark| format!("[[rule]]\nmark = {mark}\nuse = 'bbr'\n")).collect();
    assert!(parse(&many).is_err_and(|error| error.contains("at most 10000")));
}

#[test]
fn rules_that_never_count_or_contradict_are_refused() {
    for (text, why) in [
        (
            "[[rule]]\ndestination = '10.0.0.0/8'\nuse = 'bbr'\n\
             [[rule]]\nmark = 1\nuse = 'bbr'\n\
             [[rule]]\ndestination = '10.1.0.0/16'\nuse = 'reno'\n",
            "rule 3: it never counts, because rule 1 matches every flow that it matches\nfix: \
             remove it, or move it before rule 1",
        ),
        (
            "[[rule]]\nmark = 1\nuse = 'bbr'\n[[rule]]\nmark = 1\nuse = 'reno'\n",
            "rule 2: it never counts, because rule 1",
        ),
    ] {
        let error = parse(text).expect("it parses").check(any_driver).expect_err(text);
        assert!(error.contains(why), "{error}");
    }
    let known = |name: &str| if name == "bbr" { Ok(()) } else { Err("unknown".to_owned()) };
    let rules = parse("[[rule]]\nmark = 1\nuse = 'brr'\n").expect("it parses");
    assert_eq!(rules.check(known), Err("rule 1: use = \"brr\": unknown".to_owned()));
    let rules = parse("[[rule]]\ncgroup = '/proc'\nuse = 'bbr'\n").expect("it parses");
    assert!(rules.check(known).is_err_and(|error| error.contains("not a directory of cgroup v2")));
    let rules = parse("[[rule]]\ncgroup = '/nonexistent'\nuse = 'bbr'\n").expect("it parses");
    assert_eq!(rules.check(known), Ok(()), "it is waited for");
}

#[test]
fn the_first_that_matches_counts_and_what_is_added_comes_first() {
    let configured = parse(
        "[[rule]]\nlocal_port = 443\nuse = 'bbr'\n\
         [[rule]]\ndestination = '192.0.2.0/24'\nuse = 'copa'\n",
    );
    let mut book = Book::new(&configured.expect("it parses"), Reach::default());
    let (web, other) = (flow(443, "192.0.2.7"), flow(80, "192.0.2.7"));
    assert_eq!(drives(&mut book, &web).as_deref(), Some("bbr by rule 1"));
    assert_eq!(drives(&mut book, &other).as_deref(), Some("copa by rule 2"));
    assert_eq!(drives(&mut book, &flow(80, "192.0.3.7")), None);
    assert_eq!(book.add(on_port("80-500", "reno")).expect("it is added"), 1);
    assert_eq!(book.add(on_port("443", "vegas")).expect("it is added"), 2);
    assert_eq!(drives(&mut book, &web).as_deref(), Some("vegas by added rule 2"));
    assert_eq!(drives(&mut book, &other).as_deref(), Some("reno by added rule 1"));
    assert_eq!(book.add(on_port("443", "ledbat")).expect("it replaces 2"), 3);
    assert_eq!(book.added().len(), 2);
    let rows = book.rows();
    assert_eq!(rows[2].notes, ["never counts: added rule 3 matches all its flows"]);
    assert!(book.remove(Some(2)).is_err_and(|error| error.to_string().contains("fix:")));
    assert_eq!(book.remove(Some(3)).expect("it was there"), 1);
    assert_eq!(drives(&mut book, &web).as_deref(), Some("reno by added rule 1"));
    assert_eq!(book.remove(None).expect("the rest"), 1);
    assert_eq!(drives(&mut book, &web).as_deref(), Some("bbr by rule 1"));
}

#[test]
fn a_control_group_is_driven_as_the_next_rules_say() {
    let text = "[[rule]]\nlocal_port = 443\nuse = 'bbr'\nshare = 0\n\
                [[rule]]\nlocal_port = '400-500'\nuse = 'copa'\nshare = 0.5\n\
                [[rule]]\nmark = 0\nuse = 'vegas'\n";
    let mut book = Book::new(&parse(text).expect("it parses"), Reach::default());
    let mut drivers = std::collections::BTreeMap::new();
    for last in 1..101_u8 {
        let ruled = book.of(&flow(443, &format!("192.0.2.{last}"))).expect("a rule");
        assert_eq!((ruled.source, ruled.group), (Source::Configured(1), Group::Control));
        *drivers.entry(ruled.driver().expect("one of the next").to_owned()).or_insert(0) += 1;
    }
    assert!(drivers["copa"] > 25 && drivers["vegas"] > 25 && drivers.len() == 2, "{drivers:?}");
    let marked = FlowInfo { mark: 1, ..flow(443, "192.0.2.1") };
    assert!(book.of(&marked).is_some_and(|ruled| ruled.driver() != Some("bbr")));
}

#[test]
fn two_rules_have_no_name_in_common() {
    let text = "[[rule]]\nmark = 1\nuse = 'bbr'\nname = 'web'\n\
                [[rule]]\nmark = 2\nuse = 'bbr'\nname = 'web'\n";
    let error = parse(text).expect("it parses").check(any_driver).expect_err("twice");
    assert!(error.contains("rule 2: name = \"web\": rule 1 has that name"), "{error}");
    let one = &text[..text.rfind("[[").expect("two rules")];
    let mut book = Book::new(&parse(one).expect("it parses"), Reach::default());
    let named = |port: &str| on_port(port, "reno").named(Some("web".to_owned())).expect("a name");
    let error = book.add(named("80")).expect_err("taken").to_string();
    assert!(error.contains("rule 1 has that name") && error.contains("fix:"), "{error}");
    let other = on_port("80", "reno").named(Some("net".to_owned())).expect("a name");
    book.add(other.clone()).expect("it is free");
    book.add(other).expect("it replaces the former one");
    assert!(on_port("80", "reno").named(Some("other".to_owned())).is_err());
}

#[test]
fn a_test_names_the_winner_and_why_others_do_not_match() {
    let text = "[[rule]]\nuid = 7\nuse = 'bbr'\n\
                [[rule]]\nlocal_port = 443\ndestination = '192.0.2.0/24'\nuse = 'copa'\n\
                [[rule]]\nmark = 0\nuse = 'reno'\nshare = 0.5\nname = 'rest'\n";
    let mut book = Book::new(&parse(text).expect("it parses"), Reach::default());
    let tested = book.test(&flow(443, "198.51.100.7"));
    let won = tested.won.expect("a rule wins");
    assert_eq!((won.name.as_str(), won.driver.as_str(), won.share), ("rest", "reno", 0.5));
    let missed: Vec<_> = tested.missed.iter().map(|it| (&*it.name, &*it.key)).collect();
    assert_eq!(missed, [("rule 1", "uid"), ("rule 2", "destination")]);
    let none = book.test(&FlowInfo { mark: 1, ..flow(80, "198.51.100.7") });
    assert!(none.won.is_none() && none.missed.len() == 3);
}

#[test]
fn a_reload_keeps_what_was_added_and_the_counts_of_rules_that_stay() {
    let old = "[[rule]]\nmark = 1\nuse = 'bbr'\n[[rule]]\nmark = 2\nuse = 'bbr'\n";
    let new = "[[rule]]\nmark = 2\nuse = 'bbr'\n[[rule]]\nmark = 1\nuse = 'reno'\n";
    let mut book = Book::new(&parse(old).expect("it parses"), Reach::default());
    book.add(on_port("80", "copa")).expect("it is added");
    for mark in [1, 2, 2] {
        let ruled = book.of(&FlowInfo { mark, ..flow(9, "::1") }).expect("a rule");
        book.count(&ruled);
    }
    book.configure(&parse(new).expect("it parses"));
    let counts: Vec<_> = book.rows().iter().map(|row| (row.driver.clone(), row.flows)).collect();
    assert_eq!(counts, [("copa".into(), 0), ("bbr".into(), 2), ("reno".into(), 0)]);
}

#[test]
fn a_cgroup_is_found_when_its_directory_appears_and_when_it_is_made_again() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("service");
    let text = format!("[[rule]]\ncgroup = '{}'\nuse = 'bbr'\n", path.display());
    let mut book = Book::new(&parse(&text).expect("it parses"), Reach::default());
    assert!(book.rows()[0].notes[0].contains("does not exist yet"), "{:?}", book.rows());
    assert_eq!(drives(&mut book, &FlowInfo { cgroup_id: 1, ..flow(9, "::1") }), None);
    let mut keep = Vec::new(); // so that no inode number is used twice
    for round in 0..2 {
        std::fs::create_dir(&path).expect("mkdir");
        let cgroup_id = std::fs::metadata(&path).expect("it is there").ino();
        let subject = FlowInfo { cgroup_id, ..flow(9, "::1") };
        assert_eq!(drives(&mut book, &subject).as_deref(), Some("bbr by rule 1"));
        let aside = folder.path().join(format!("old-{round}"));
        std::fs::rename(&path, &aside).expect("it moves");
        keep.push(aside);
    }
}

#[test]
fn added_rules_outlive_a_restart_and_a_spoilt_file_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    assert_eq!(read(&state), Ok(Vec::new()));
    let mut book = Book::new(&Rules::default(), Reach::default());
    let half = Rule { share: Share::new(0.5).expect("a share"), ..on_port("80", "bbr") };
    book.add(half).expect("it is added");
    book.add(on_port("443", "copa").named(Some("web".into())).expect("a name")).expect("added");
    write(&state, book.added()).expect("they are kept");
    let mut next = Book::new(&Rules::default(), Reach::default());
    next.restore(read(&state).expect("they are read"));
    assert_eq!(next.rows(), book.rows());
    assert_eq!(next.add(on_port("1", "reno")).expect("it is added"), 3, "numbers go on");
    write(&state, Vec::new()).expect("the file goes");
    assert_eq!(read(&state), Ok(Vec::new()));
    for text in
        ["", "{", "[{\"number\": 1}]", "[1]", "[{\"number\": 1, \"rule\": {\"use\": \"x\"}}]"]
    {
        std::fs::write(state.join("rules.json"), text).expect("it is written");
        assert!(read(&state).is_err_and(|why| why.contains("rules.json")), "{text}");
    }
}

fn any_parts() -> impl Strategy<Value = Parts> {
    let port = proptest::option::of(prop_oneof!["[1-4]", Just("2-3".to_owned())]);
    let cgroup = proptest::option::of("[1-3]");
    let mark = proptest::option::of(prop_oneof!["[0-3]", Just("1/1".to_owned())]);
    let destination = proptest::option::of(prop_oneof![
        (0u8..=32, 0u32..4).prop_map(|(bits, last)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            format!("{}/{bits}", std::net::Ipv4Addr::from((0x0a00_0000 | last) & mask))
        }),
        Just("::/0".to_owned()),
    ]);
    let uid = proptest::option::of("[0-2]");
    let netns = proptest::option::of("[0-2]");
    let all = (port, cgroup, mark, destination, uid, netns);
    all.prop_map(|(local_port, cgroup, mark, destination, uid, netns)| Parts {
        local_port,
        cgroup,
        mark,
        destination,
        uid,
        netns,
    })
}

fn any_flow() -> impl Strategy<Value = FlowInfo> {
    (1u16..5, 0u64..4, 0u32..4, 0u32..4, 0u32..3, 0u64..3, any::<bool>()).prop_map(
        |(port, cgroup_id, mark, last, uid, netns, is_v6)| {
            let v4 = std::net::Ipv4Addr::from(0x0a00_0000 | last);
            let remote = if is_v6 { "fd00::1".to_owned() } else { v4.to_string() };
            let origin = Origin { uid, netns, is_of_host: true };
            FlowInfo { cgroup_id, mark, origin, ..flow(port, &remote) }
        },
    )
}

proptest! {
    #[test]
    fn the_index_finds_what_a_look_at_every_rule_finds(
        parts in proptest::collection::vec(any_parts(), 0..40),
        flows in proptest::collection::vec(any_flow(), 1..40),
    ) {
        let parsed = parts.iter().filter_map(|it| it.parse().ok());
        let rules: Vec<Live> = parsed.map(Live::new).collect();
        let index = Index::of(&rules);
        for flow in &flows {
            let want = rules.iter().position(|rule| rule.matches(flow));
            prop_assert_eq!(index.first(&rules, flow, 0), want);
            let from = rules.len() / 2;
            let want = (from..rules.len()).find(|at| rules[*at].matches(flow));
            prop_assert_eq!(index.first(&rules, flow, from), want);
        }
    }

    #[test]
    fn what_covers_matches_whatever_the_other_matches(
        wide in any_parts(), narrow in any_parts(), flow in any_flow(),
    ) {
        let (Ok(wide), Ok(narrow)) = (wide.parse(), narrow.parse()) else { return Ok(()) };
        let (covers, wide, narrow) = (wide.covers(&narrow), Live::new(wide), Live::new(narrow));
        if covers && narrow.matches(&flow) {
            prop_assert!(wide.matches(&flow), "{} covers {}", wide.selector(), narrow.selector());
        }
    }
}
