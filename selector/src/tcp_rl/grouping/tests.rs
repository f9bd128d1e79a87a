//! The example of figure 4, and what the requirement says of single groups.

use super::super::geography::Place;
use super::super::record::tests::record;
use super::*;
use std::net::Ipv4Addr;

const MUST: Requirement = Requirement { samples_min: 100, jitter_max: 0.1, alpha: 0.8 };
const BIN_S: u64 = 600;

/// The paper's table II: subnet, first and last address, ISP. All are in Beijing.
const TABLE_2: [(&str, &str, &str, &str); 8] = [
    ("S1", "223.72.97.0", "223.72.98.255", "CMNET"),
    ("S2", "223.71.208.0", "223.71.208.255", "CMNET"),
    ("S3", "123.118.89.0", "123.118.93.255", "UNICOM"),
    ("S4", "114.243.33.0", "114.243.33.255", "UNICOM"),
    ("S5", "123.120.72.1", "123.120.72.189", "UNICOM"),
    ("S6", "219.143.38.0", "219.143.38.255", "CHINANET"),
    ("S7", "58.130.48.0", "58.130.54.255", "CHINANET"),
    ("S8", "58.131.131.0", "58.131.132.255", "CHINANET"),
];

fn address(text: &str) -> u32 {
    text.parse::<Ipv4Addr>().expect("an address").to_bits()
}

/// The prefixes that cover the addresses `first` to `last`.
fn prefixes(mut first: u32, last: u32) -> Vec<String> {
    let mut all = Vec::new();
    while first <= last {
        let aligned = first.trailing_zeros().min(31);
        let fits = (last - first + 1).ilog2();
        let free = aligned.min(fits);
        all.push(format!("{}/{}", Ipv4Addr::from_bits(first), 32 - free));
        first += 1 << free;
    }
    all
}

fn beijing() -> Geography {
    let mut places = Vec::new();
    for (subnet, first, last, isp) in TABLE_2 {
        for prefix in prefixes(address(first), address(last)) {
            places.push(Place {
                at: places.len() as u64 + 1,
                prefix: prefix.parse().expect("a prefix"),
                isp: isp.to_owned(),
                region: "Beijing".to_owned(),
                subnet: Some(subnet.to_owned()),
            });
        }
    }
    Geography::new(places).expect("the subnets of table II are disjoint")
}

/// `samples` responses in each of 6 bins, at `rates` that repeat.
fn add(tally: &mut Tally, geography: &Geography, peer: &str, samples: usize, rates: &[f64]) {
    for bin in 0..6 {
        let rate = rates[bin % rates.len()];
        for _ in 0..samples {
            tally.add(geography, &record(peer, bin as u64 * BIN_S, 10, rate, 40.0));
        }
    }
}

fn table(grouping: &Grouping, geography: &Geography) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (subnet, first, ..) in TABLE_2 {
        let leaf = geography.leaf(first.parse().expect("an address"));
        let group = grouping.of(geography, leaf).map(|at| grouping.groups[at].name(geography));
        lines.push(format!("{subnet}: {}\n", group.unwrap_or_else(|| "standard".to_owned())));
    }
    lines.concat()
}

/// S1, S3 and S6 meet the requirement. S2, S4, S5 and S8 have too few samples, S7 too much jitter.
fn figure_4(tally: &mut Tally, geography: &Geography) {
    for (subnet, first, ..) in TABLE_2 {
        let (samples, rates): (_, &[f64]) = match subnet {
            "S1" | "S3" | "S6" => (120, &[1e6, 1.05e6]),
            "S2" => (60, &[1e6]),
            "S4" | "S5" => (70, &[0.8e6]),
            "S7" => (100, &[1e6, 1.25e6]),
            _ => (60, &[1e6]),
        };
        add(tally, geography, first, samples, rates);
    }
}

#[test]
fn the_example_of_figure_4() {
    let geography = beijing();
    let mut tally = Tally::new(BIN_S);
    figure_4(&mut tally, &geography);
    // A peer of another place is alone in the Others of all.
    add(&mut tally, &geography, "198.51.100.7", 20, &[1e6]);
    let grouping = tally.group(&geography, &MUST);
    let want = "\
S1: Beijing/CMNET/S1
S2: Beijing others
S3: Beijing/UNICOM/S3
S4: Beijing/UNICOM others
S5: Beijing/UNICOM others
S6: Beijing/CHINANET/S6
S7: Beijing others
S8: Beijing others
";
    let names: Vec<String> = grouping.groups.iter().map(|it| it.name(&geography)).collect();
    let leaves = ["Beijing/CMNET/S1", "Beijing/UNICOM/S3", "Beijing/CHINANET/S6"];
    assert_eq!(names, [&leaves[..], &["Beijing/UNICOM others", "Beijing others"]].concat());
    assert_eq!(table(&grouping, &geography), want);
    assert_eq!(grouping.rest, Some((120, Fault::FewSamples)), "standard windows for the others");
}

#[test]
fn a_bin_that_has_only_begun_costs_no_group() {
    let geography = beijing();
    let mut tally = Tally::new(BIN_S);
    figure_4(&mut tally, &geography);
    let mut add_to_bin_6 = |peer, samples| {
        let record = record(peer, 6 * BIN_S, 10, 1e6, 40.0);
        (0..samples).for_each(|_| tally.add(&geography, &record));
    };
    add_to_bin_6("123.118.89.0", 150); // S3
    add_to_bin_6("223.72.97.0", 10); // S1
    let grouping = tally.group(&geography, &MUST);
    let names: Vec<String> = grouping.groups.iter().map(|it| it.name(&geography)).collect();
    assert_eq!(names[..2], ["Beijing/CMNET/S1", "Beijing/UNICOM/S3"]);
}

#[test]
fn two_whole_bins_make_a_group_though_a_third_has_begun() {
    let of = |bins: &[usize]| {
        let records = bins.iter().zip(0..).map(|(samples, bin)| (bin, 10, 1e6, *samples));
        fault(&records.collect::<Vec<_>>())
    };
    // Flows of others end in the third bin, enough for a bin.
    let beside_others = |samples: usize| {
        let (geography, mut tally) = (Geography::default(), Tally::new(BIN_S));
        for (peer, bin, samples) in
            [("192.0.2.1", 0, 150), ("192.0.2.1", 1, 150), ("198.51.100.1", 2, samples)]
        {
            let record = record(peer, bin * BIN_S, 10, 1e6, 40.0);
            (0..samples).for_each(|_| tally.add(&geography, &record));
        }
        let leaf = geography.leaf("192.0.2.1".parse().expect("an address"));
        let grouping = tally.group(&geography, &Requirement { samples_min: 10, ..MUST });
        let at = grouping.of(&geography, leaf).expect("a group");
        grouping.groups[at].name(&geography)
    };
    assert_eq!(beside_others(10), "192.0.2.0/24");
    assert_eq!(beside_others(80), "all others", "users that are idle in a busy bin");
    assert!(of(&[100, 300, 100]).is_ok(), "two bins stay");
    assert!(of(&[300, 100]).is_ok());
    assert!(of(&[100, 300]).is_ok());
}

#[test]
fn without_a_table_prefixes_alone_are_merged() {
    let geography = Geography::default();
    let mut tally = Tally::new(BIN_S);
    for (peer, samples) in [("10.1.1.1", 100), ("10.1.2.1", 60), ("10.1.3.1", 60)] {
        add(&mut tally, &geography, peer, samples, &[1e6]);
    }
    for (peer, samples) in [("10.2.1.1", 60), ("11.1.1.1", 60), ("2001:db8::1", 60)] {
        add(&mut tally, &geography, peer, samples, &[1e6]);
    }
    let grouping = tally.group(&geography, &MUST);
    let of = |peer: &str| {
        let leaf = geography.leaf(peer.parse().expect("an address"));
        grouping.of(&geography, leaf).map(|at| grouping.groups[at].name(&geography))
    };
    assert_eq!(of("10.1.1.9").as_deref(), Some("10.1.1.0/24"));
    assert_eq!(of("10.1.2.9").as_deref(), Some("10.1.0.0/16 others"));
    assert_eq!(of("10.1.77.9").as_deref(), Some("10.1.0.0/16 others"), "no sample of it is known");
    for peer in ["10.2.1.1", "11.1.1.1", "2001:db8::1", "192.0.2.1"] {
        assert_eq!(of(peer).as_deref(), Some("all others"), "{peer}");
    }
}

fn fault(records: &[(u64, u32, f64, usize)]) -> Result<f64, Fault> {
    let (geography, mut tally) = (Geography::default(), Tally::new(BIN_S));
    for (bin, pkts, rate, samples) in records {
        let record = record("192.0.2.1", bin * BIN_S, *pkts, *rate, 40.0);
        (0..*samples).for_each(|_| tally.add(&geography, &record));
    }
    let grouping = tally.group(&geography, &MUST);
    match (&grouping.groups[..], grouping.rest) {
        ([group], None) => Ok(group.jitter),
        ([], Some((_, fault))) => Err(fault),
        other => panic!("{other:?}"),
    }
}

#[test]
fn jitter_is_that_of_equation_5() {
    // The reward of a rate r is 0.8 r / 1.1e6 + 0.2.
    let [low, high] = [0.8 / 1.1 + 0.2, 1.0];
    let want = ((high - low) / high + (high - low) / low) / 2.0;
    let got = fault(&[(0, 10, 1e6, 100), (1, 10, 1.1e6, 100), (2, 10, 1e6, 100)]).expect("steady");
    assert!((got - want).abs() < 1e-3, "{got} {want}");
    assert_eq!(fault(&[(0, 10, 1e6, 100), (1, 10, 2e6, 100)]), Err(Fault::Jitter));
    assert_eq!(fault(&[(0, 10, 1e6, 1_000)]), Err(Fault::FewBins));
}

#[test]
fn a_change_of_the_mix_of_windows_is_no_jitter() {
    // A window of 20 has twice the rate of one of 10, and its share grows.
    let mix = [
        (0, 10, 1e6, 180),
        (0, 20, 2e6, 20),
        (1, 10, 1e6, 100),
        (1, 20, 2e6, 100),
        (2, 10, 1e6, 20),
        (2, 20, 2e6, 180),
    ];
    assert!(fault(&mix).expect("steady") < 1e-3);
    // A window is compared with the last bin that had it.
    let alternate = [(0, 10, 1e6, 100), (1, 20, 2e6, 100), (2, 10, 1e6, 100), (3, 20, 2e6, 100)];
    assert!(fault(&alternate).expect("steady") < 1e-3);
    let worse = [(0, 10, 1e6, 100), (1, 20, 2e6, 100), (2, 10, 1e6, 100), (3, 20, 1e6, 100)];
    assert_eq!(fault(&worse), Err(Fault::Jitter), "but a real change is found");
    let never = [(0, 10, 1e6, 100), (1, 20, 1e6, 100)];
    assert_eq!(fault(&never), Err(Fault::Incomparable));
}

#[test]
fn a_bin_in_which_the_service_is_idle_does_not_count() {
    let day = [(0, 10, 1e6, 100), (1, 10, 1e6, 3), (2, 10, 1e6, 100)];
    assert!(fault(&day).is_ok());
    let (geography, mut tally) = (Geography::default(), Tally::new(BIN_S));
    add(&mut tally, &geography, "192.0.2.1", 200, &[1e6]);
    (0..500).for_each(|_| tally.add(&geography, &record("198.51.100.1", 0, 10, 1e6, 40.0)));
    let grouping = tally.group(&geography, &MUST);
    let leaf = geography.leaf("198.51.100.1".parse().expect("an address"));
    assert_eq!(grouping.of(&geography, leaf), None, "it was idle while others were busy");
    assert_eq!(grouping.rest, Some((500, Fault::FewSamples)));
}
