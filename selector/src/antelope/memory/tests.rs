//! Of addresses, arms and time.

use super::*;
use proptest::prelude::*;
use remuda_algorithms::Preference;
use std::time::Duration;

fn at(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn network(text: &str) -> Network {
    text.parse().unwrap()
}

fn memory() -> Memory {
    Memory::new(&MemoryConfig::default())
}

fn arm(memory: &mut Memory, address: &str, now_s: u64) -> Option<&'static str> {
    memory.remembered(at(address), now_s).map(|it| it.arm)
}

#[test]
fn the_heaviest_arm_is_recalled_and_older_picks_lose_weight() {
    let mut memory = memory();
    let here = at("192.0.2.7");
    for _ in 0..3 {
        memory.note(here, "bbr", 1.0, 100);
    }
    assert_eq!(arm(&mut memory, "192.0.2.7", 100), Some("bbr"));
    // 1 + .9 + .81 = 2.71 for bbr; three of cubic leave it 1.98.
    for (round, want) in [(1, "bbr"), (2, "bbr"), (3, "cubic")] {
        memory.note(here, "cubic", 1.0, 100);
        assert_eq!(arm(&mut memory, "192.0.2.7", 100), Some(want), "{round}");
    }
}

#[test]
fn a_pick_counts_by_its_reward_and_what_is_none_does_not() {
    let mut memory = memory();
    memory.note(at("192.0.2.7"), "bbr", 0.2, 100);
    memory.note(at("192.0.2.7"), "cubic", 0.9, 100);
    memory.note(at("192.0.2.7"), "bbr", 0.2, 100);
    let revision = memory.revision();
    for (arm, reward) in [("vegas", f64::NAN), ("vegas", f64::INFINITY), ("nobody", 1.0)] {
        assert!(!memory.note(at("192.0.2.7"), arm, reward, 100), "{arm} {reward}");
    }
    assert!(!memory.note(at("127.0.0.1"), "vegas", 1.0, 100));
    assert_eq!(memory.revision(), revision);
    assert_eq!(arm(&mut memory, "192.0.2.7", 100), Some("cubic"));
}

#[test]
fn an_unknown_address_is_answered_by_its_network() {
    let mut memory = memory();
    memory.note(at("192.0.2.7"), "bbr", 1.0, 100);
    memory.note(at("2001:db8:1:ff00::1"), "copa", 1.0, 100);
    let rows = [
        ("192.0.2.200", Some("bbr"), "192.0.2.0/24"),
        ("::ffff:192.0.2.7", Some("bbr"), "192.0.2.7/32"),
        ("192.0.3.7", None, ""),
        ("2001:db8:1:ffff::9", Some("copa"), "2001:db8:1:ff00::/56"),
        ("2001:db8:1:fe00::1", None, ""),
    ];
    for (address, want, of) in rows {
        let got = memory.remembered(at(address), 100);
        assert_eq!(got.map(|it| it.arm), want, "{address}");
        assert_eq!(got.map(|it| it.of.to_string()).unwrap_or_default(), of);
    }
}

#[test]
fn what_is_old_is_forgotten() {
    let mut memory = memory();
    memory.note(at("192.0.2.7"), "bbr", 1.0, 10_000);
    assert_eq!(arm(&mut memory, "192.0.2.7", 13_600), Some("bbr"));
    assert_eq!(arm(&mut memory, "192.0.2.7", 13_601), None);
    assert_eq!(arm(&mut memory, "192.0.2.200", 13_601), None);
    assert_eq!(memory.starts(13_601).count(), 0);
    assert_eq!(memory.len(), 2);
    memory.prune(13_601);
    assert!(memory.is_empty());
    memory.note(at("192.0.2.7"), "bbr", 1.0, 10_000);
    memory.note(at("192.0.2.7"), "cubic", 0.1, 14_000);
    assert_eq!(arm(&mut memory, "192.0.2.7", 14_000), Some("cubic"), "nothing is left of before");
}

#[test]
fn the_least_recently_used_makes_room() {
    let config = MemoryConfig { entries_max: 2, ..MemoryConfig::default() };
    let mut memory = Memory::new(&config);
    for third in 0..10u8 {
        memory.note(at(&format!("198.51.{third}.1")), "bbr", 1.0, 100);
    }
    assert_eq!(memory.len(), 4);
    assert_eq!(arm(&mut memory, "198.51.9.1", 100), Some("bbr"));
    assert_eq!(arm(&mut memory, "198.51.0.1", 100), None);
}

#[test]
fn a_memory_that_is_off_remembers_nothing() {
    let mut memory = Memory::new(&MemoryConfig { enabled: false, ..MemoryConfig::default() });
    assert!(!memory.note(at("192.0.2.7"), "bbr", 1.0, 100));
    assert_eq!(memory.remembered(at("192.0.2.7"), 100), None);
    assert_eq!(memory.set_initial_cwnd(network("192.0.2.7"), 10), Err(Refusal::Off));
    assert!(memory.is_empty());
}

fn begins(memory: &Memory, address: &str) -> (Option<&'static str>, u32) {
    let RememberedStart { arm, initial_cwnd_pkts } = memory.start(at(address), 100);
    (arm, initial_cwnd_pkts)
}

#[test]
fn an_initial_window_is_the_addresss_or_its_networks_or_that_of_all() {
    for (of_all, unknown_here) in [(0, 0), (25, 25)] {
        let config = MemoryConfig { initial_cwnd_pkts: of_all, ..MemoryConfig::default() };
        let mut memory = Memory::new(&config);
        memory.note(at("192.0.2.7"), "bbr", 1.0, 100);
        assert_eq!(begins(&memory, "192.0.2.9"), (Some("bbr"), unknown_here));
        assert_eq!(begins(&memory, "192.0.3.9"), (None, 0));
        memory.set_initial_cwnd(network("192.0.2.0/24"), 40).unwrap();
        memory.set_initial_cwnd(network("192.0.2.8"), 50).unwrap();
        for (address, pkts) in [("192.0.2.7", 40), ("192.0.2.8", 50), ("192.0.2.9", 40)] {
            assert_eq!(begins(&memory, address), (Some("bbr"), pkts), "{address}");
        }
        memory.set_initial_cwnd(network("192.0.2.8"), 0).unwrap();
        assert_eq!(begins(&memory, "192.0.2.8"), (Some("bbr"), 40));
    }
}

fn learned(lines: &[(&str, u32)]) -> Arc<Table> {
    let mut table = Table::default();
    for (prefix, cwnd_pkts) in lines {
        let group = "g".to_owned();
        table
            .0
            .insert(network(prefix), crate::tcp_rl::table::Entry { cwnd_pkts: *cwnd_pkts, group });
    }
    Arc::new(table)
}

#[test]
fn an_operators_window_counts_before_a_learned_one_and_that_before_the_configurations() {
    let mut memory = Memory::new(&MemoryConfig { initial_cwnd_pkts: 25, ..Default::default() });
    memory.note(at("192.0.2.7"), "bbr", 1.0, 100);
    memory.note(at("198.51.100.7"), "bbr", 1.0, 100);
    memory.set_learned(learned(&[("192.0.2.128/25", 60), ("0.0.0.0/0", 15)]));
    memory.set_initial_cwnd(network("192.0.0.0/16"), 40).unwrap();
    for (address, want) in [
        ("192.0.2.7", (Some("bbr"), 40)),
        ("192.0.2.200", (Some("bbr"), 40)),
        ("192.0.77.1", (None, 40)),
        ("198.51.100.7", (Some("bbr"), 15)),
        ("203.0.113.1", (None, 15)),
        ("2001:db8::1", (None, 0)),
    ] {
        assert_eq!(begins(&memory, address), want, "{address}");
    }
    memory.set_initial_cwnd(network("192.0.0.0/16"), 0).unwrap();
    assert_eq!(begins(&memory, "192.0.2.200"), (Some("bbr"), 60));
    memory.set_learned(Arc::default());
    assert_eq!(begins(&memory, "192.0.2.200"), (Some("bbr"), 25));
    assert_eq!(begins(&memory, "203.0.113.1"), (None, 0));
}

#[test]
fn every_prefix_of_the_kernels_map_has_what_its_addresses_begin_with() {
    let mut memory = memory();
    memory.note(at("192.0.2.7"), "bbr", 1.0, 100);
    memory.set_learned(learned(&[("192.0.2.128/25", 60), ("192.0.0.0/8", 15)]));
    memory.set_initial_cwnd(network("192.0.0.0/16"), 40).unwrap();
    let starts: Vec<_> = memory.starts(100).collect();
    let mut map = crate::prefix_map::PrefixMap::default();
    for (route, start) in &starts {
        map.insert(route.network, *start);
    }
    assert_eq!((starts.len(), map.len()), (5, 5), "each prefix is there once");
    for address in ["192.0.2.7", "192.0.2.8", "192.0.2.200", "192.0.3.1", "192.9.0.1"] {
        let in_kernel = map.longest(Network::host(at(address))).map(|(_, start)| *start);
        assert_eq!(in_kernel, Some(memory.start(at(address), 100)), "{address}");
    }
}

#[test]
fn so_many_prefixes_have_a_window_and_all_are_forgotten() {
    let mut memory = memory();
    for index in 0..WINDOWS_MAX {
        let of = network(&format!("10.{}.{}.0/28", index >> 8, index & 0xff));
        memory.set_initial_cwnd(of, 20).unwrap();
    }
    let refused = memory.set_initial_cwnd(network("192.0.2.0/24"), 20);
    assert_eq!(refused, Err(Refusal::TooMany));
    assert!(memory.set_initial_cwnd(network("10.0.0.0/28"), 30).is_ok(), "one that is there");
    assert_eq!(memory.forget(&network("10.0.0.0/16")), 256);
    assert_eq!((memory.len(), memory.forget_all()), (768, 768));
    assert!(memory.is_empty());
}

const MS_100: Duration = Duration::from_millis(100);
const CARRIED: Carried = Carried { bdp: Bytes(200_000), rtt: MS_100, is_least: false };

fn jump(memory: &mut Memory, address: &str, flow: u32) -> Option<u64> {
    let (cwnd, mss, wants) = (Bytes(10_000), Bytes(1_000), Preference::DEFAULT);
    let jumper = Jumper { flow, cwnd, mss, srtt: MS_100, wants };
    memory.jump(at(address), &jumper, 100).map(|window| window.0)
}

#[test]
fn a_flow_jumps_by_what_flows_had_there_and_the_kernel_knows_nothing_of_it() {
    let mut memory = memory();
    memory.note_carried(at("192.0.2.7"), CARRIED, 100);
    assert!(memory.is_empty(), "its flows heed nothing");
    memory.note(at("192.0.2.7"), "bbr", 1.0, 100);
    memory.note_carried(at("192.0.2.7"), CARRIED, 100);
    assert_eq!(begins(&memory, "192.0.2.7"), (Some("bbr"), 0), "not before it has shown itself");
    assert_eq!(memory.rows(100)[0].resumed_bytes, 100_000);
    assert_eq!(jump(&mut memory, "192.0.2.9", 1), Some(100_000), "its network's");
    assert_eq!(jump(&mut memory, "192.0.2.7", 2), None, "one network, one path");
    memory.landed(at("192.0.2.9"), 1, Some(0.5));
    assert_eq!(jump(&mut memory, "192.0.2.8", 3), Some(50_000), "of its network one failed");
    memory.landed(at("192.0.2.8"), 3, None);
    assert_eq!(jump(&mut memory, "192.0.2.7", 4), Some(100_000), "of itself none did");
    assert_eq!(jump(&mut memory, "198.51.100.7", 5), None, "nothing is known of it");
    let mut never = Memory::new(&MemoryConfig { resumed_cwnd_pkts_max: 0, ..Default::default() });
    never.note(at("192.0.2.7"), "bbr", 1.0, 100);
    never.note_carried(at("192.0.2.7"), CARRIED, 100);
    assert_eq!(jump(&mut never, "192.0.2.7", 1), None);
}

#[test]
fn what_is_no_window_or_no_destination_changes_nothing() {
    let mut memory = memory();
    for (to, pkts, part) in [
        ("192.0.2.0/24", 1_001, "1..=1000"),
        ("127.0.0.1", 10, "this host"),
        ("127.0.0.0/8", 10, "this host"),
    ] {
        let error = memory.set_initial_cwnd(network(to), pkts).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!((memory.len(), memory.revision()), (0, 0));
}

#[test]
fn what_is_in_a_network_is_forgotten_with_it() {
    let mut memory = memory();
    for address in ["192.0.2.7", "192.0.2.8", "198.51.100.1", "2001:db8::1"] {
        memory.note(at(address), "bbr", 1.0, 100);
    }
    for (of, want) in [
        ("192.0.2.7", 1),
        ("192.0.2.7", 0),
        ("192.0.0.0/16", 2),
        ("2001:db8::/32", 2),
        ("0.0.0.0/0", 2),
    ] {
        let revision = memory.revision();
        assert_eq!(memory.forget(&network(of)), want, "{of}");
        assert_eq!(memory.revision() > revision, want > 0);
    }
    memory.note(at("192.0.2.7"), "bbr", 1.0, 100);
    assert_eq!((memory.forget_all(), memory.len()), (2, 0));
}

#[test]
fn rows_have_the_heaviest_arm_first_and_the_last_used_on_top() {
    let mut memory = memory();
    memory.note(at("192.0.2.7"), "cubic", 0.2, 100);
    memory.note(at("192.0.2.7"), "bbr", 0.8, 110);
    memory.note(at("198.51.100.1"), "copa", 0.5, 120);
    let rows = memory.rows(130);
    let tos: Vec<String> = rows.iter().map(|row| row.to.to_string()).collect();
    let want = ["198.51.100.0/24", "198.51.100.1/32", "192.0.2.0/24", "192.0.2.7/32"];
    assert_eq!(tos, want);
    assert_eq!(rows[3].idle_s, 20);
    assert_eq!(rows[3].arms[0], ("bbr".to_owned(), 0.8));
}

#[test]
fn bad_settings_are_refused_by_name() {
    let of = |change: fn(&mut MemoryConfig)| {
        let mut config = MemoryConfig::default();
        change(&mut config);
        config.validate().expect_err("refused").to_string()
    };
    assert!(of(|it| it.ttl_s = 0).contains("memory.ttl_s = 0: it must lie in"));
    assert!(of(|it| it.entries_max = 40_000).contains("memory.entries_max = 40000"));
    assert!(of(|it| it.initial_cwnd_pkts = 1_001).contains("1..=1000"));
    assert!(of(|it| it.save_interval_s = 0).contains("memory.save_interval_s"));
    assert_eq!(MemoryConfig::default().validate(), Ok(()));
}

proptest! {
    /// However much is noted, the bounds hold, and what a datapath is given is what is recalled.
    #[test]
    fn bounds_hold_and_beginnings_are_what_is_recalled(
        notes in
            prop::collection::vec((0u8..4, 0u8..4, 0usize..20, 0.0f64..20.0, 0u64..40), 0..200),
    ) {
        let config = MemoryConfig { entries_max: 3, ttl_s: 500, ..MemoryConfig::default() };
        let mut memory = Memory::new(&config);
        let (arms, mut now_s) = (remuda_algorithms::arms(), 0);
        for (third, fourth, arm, reward, later_s) in notes {
            now_s += later_s;
            let address = at(&format!("10.0.{third}.{fourth}"));
            memory.note(address, arms[arm % arms.len()].name, reward, now_s);
            prop_assert!(memory.len() <= 6);
            prop_assert!(memory.entries.iter().all(|(_, it)| it.weights.len() <= ARMS_MAX));
        }
        let starts = memory.starts(now_s).map(|(route, start)| (route.network, start));
        let starts: Vec<(Network, RememberedStart)> = starts.collect();
        for (network, beginning) in starts {
            if network.is_host() {
                let recalled = memory.remembered(network.address(), now_s).map(|it| it.arm);
                prop_assert_eq!(recalled, beginning.arm);
            }
        }
    }
}

/// A flow of that user, in that namespace.
fn remote(address: &str, netns: u64, uid: u32) -> Remote {
    Remote { netns, uid, ..Remote::from(at(address)) }
}

#[test]
fn what_one_namespace_taught_holds_for_no_other() {
    let mut memory = memory();
    assert!(memory.note(remote("192.0.2.7", 5, 0), "bbr", 1.0, 100));
    let mut arm = |to: Remote| memory.remembered(to, 100).map(|it| it.arm);
    assert_eq!(arm(remote("192.0.2.7", 5, 0)), Some("bbr"));
    assert_eq!(arm(remote("192.0.2.9", 5, 0)), Some("bbr"), "its network");
    assert_eq!(arm(remote("192.0.2.7", 6, 0)), None, "another namespace");
    assert_eq!(arm(at("192.0.2.7").into()), None, "nor the host's own");
    assert_eq!(memory.start(at("192.0.2.7"), 100), RememberedStart::default());
    let starts: Vec<u64> = memory.starts(100).map(|(route, _)| route.netns).collect();
    assert_eq!(starts, [5, 5]);
}

#[test]
fn what_the_host_knows_holds_for_its_namespaces_until_they_know_better() {
    let mut memory = memory();
    assert!(memory.note(at("192.0.2.7"), "bbr", 1.0, 100));
    let of_user = Remote { follows_host: false, ..remote("192.0.2.7", 7, 1_000) };
    let arm = |memory: &mut Memory, to| memory.remembered(to, 100).map(|it| it.arm);
    assert_eq!(arm(&mut memory, remote("192.0.2.7", 5, 0)), Some("bbr"));
    assert_eq!(arm(&mut memory, of_user), None, "a namespace that a user has made");
    assert!(memory.note(remote("192.0.2.7", 5, 0), "copa", 1.0, 100));
    assert_eq!(arm(&mut memory, remote("192.0.2.7", 5, 0)), Some("copa"));
    assert_eq!(arm(&mut memory, remote("192.0.2.7", 6, 0)), Some("bbr"));
    assert_eq!(memory.forget(&"192.0.2.0/24".parse().unwrap()), 4, "in every namespace");
}

#[test]
fn another_boot_forgets_the_namespaces_and_keeps_the_host() {
    let mut memory = memory();
    memory.begin_boot("one");
    memory.note(at("192.0.2.7"), "bbr", 1.0, 100);
    memory.note(remote("192.0.2.7", 5, 1_000), "copa", 1.0, 100);
    let text = memory.to_json(100, 1_000);
    let again = |boot: &str| {
        let mut again = Memory::parse(&text, &MemoryConfig::default(), 100, 1_000).unwrap();
        again.begin_boot(boot);
        again.rows(100).iter().map(|row| (row.netns, row.uid)).collect::<Vec<_>>()
    };
    assert_eq!(again("one"), [(5, 1_000), (5, 1_000), (0, 0), (0, 0)]);
    assert_eq!(again("two"), [(0, 0), (0, 0)]);
}

#[test]
fn a_user_adds_a_bounded_number_of_entries_and_root_any() {
    let config = MemoryConfig { user_entries_max: 4, ..MemoryConfig::default() };
    let mut memory = Memory::new(&config);
    let note = |memory: &mut Memory, uid, net: u8| {
        memory.note(remote(&format!("10.0.{net}.1"), 0, uid), "bbr", 1.0, 100)
    };
    let taken: Vec<bool> = (0..4).map(|net| note(&mut memory, 1_000, net)).collect();
    assert_eq!(taken, [true, true, false, false]);
    assert!(note(&mut memory, 1_000, 0), "what is known may be confirmed");
    assert!(note(&mut memory, 1_001, 2) && note(&mut memory, 1_000, 2), "by another user");
    assert!((10..20).all(|net| note(&mut memory, 0, net)));
    memory.forget(&"10.0.0.0/24".parse().unwrap());
    assert!(note(&mut memory, 1_000, 5), "what is forgotten makes room");
    assert!(!note(&mut memory, 1_000, 6));
}

#[test]
fn entries_that_are_pushed_out_make_room_for_their_user() {
    let config = MemoryConfig { entries_max: 2, user_entries_max: 2, ..MemoryConfig::default() };
    let mut memory = Memory::new(&config);
    assert!(memory.note(remote("10.0.0.1", 0, 1_000), "bbr", 1.0, 100));
    assert!(!memory.note(remote("10.0.1.1", 0, 1_000), "bbr", 1.0, 100));
    for net in 2..4 {
        memory.note(at(&format!("10.0.{net}.1")), "bbr", 1.0, 100);
    }
    assert!(memory.note(remote("10.0.1.1", 0, 1_000), "bbr", 1.0, 100));
}
