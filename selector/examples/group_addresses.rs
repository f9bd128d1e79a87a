//! Groups 1.5 million addresses, as many as section VII-A of TCP-RL's paper has, with a table of
//! 100,000 prefixes and with prefixes alone. Run it under `time`.

use remuda_selector::tcp_rl::config::IwConfig;
use remuda_selector::tcp_rl::geography::{Geography, Place};
use remuda_selector::tcp_rl::grouping::Tally;
use remuda_selector::tcp_rl::record::Record;
use std::net::{IpAddr, Ipv4Addr};

const ADDRESSES: u32 = 1_500_000;
const BINS: u64 = 6;
/// The table has every /20 of this space.
const PREFIXES: u32 = 100_000;

/// A response to the address number `at`; addresses are spread over the table's space.
fn record(at: u32, bin: u64) -> Record {
    let spread = at.wrapping_mul(2_654_435_761) % (PREFIXES << 12);
    Record {
        ended_unix_s: bin * 600,
        peer: IpAddr::V4(Ipv4Addr::from_bits((16 << 24) + spread)),
        uid: 0,
        size_bytes: 120_000,
        response_us: 200_000 + u64::from(spread % 1_000),
        srtt_us: 40_000,
        lost_share: 0.0,
        mss_bytes: 1_448,
        peer_window_bytes: 0,
        initial_cwnd_pkts: 10,
        arm: "cubic".to_owned(),
    }
}

fn table() -> Geography {
    let place = |at: u32| Place {
        at: at.into(),
        prefix: format!("{}/20", Ipv4Addr::from_bits((16 << 24) + (at << 12)))
            .parse()
            .expect("one"),
        isp: format!("ISP {}", at % 5),
        region: format!("Region {}", at % 30),
        subnet: None,
    };
    Geography::new((0..PREFIXES).map(place)).expect("they are apart")
}

fn main() {
    let config = IwConfig::default();
    for (name, geography) in [("a table", table()), ("prefixes alone", Geography::default())] {
        let mut tally = Tally::new(config.bin_s);
        for bin in 0..BINS {
            (0..ADDRESSES).for_each(|at| tally.add(&geography, &record(at, bin)));
        }
        let leaves = tally.leaves();
        let grouping = tally.group(&geography, &config.requirement());
        let (groups, rest) = (grouping.groups.len(), grouping.rest);
        println!("{name}: {ADDRESSES} addresses in {BINS} bins, {leaves} leaves, {groups} groups");
        println!("in no group: {rest:?}");
    }
}
