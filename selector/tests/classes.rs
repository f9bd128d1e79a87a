//! Rein on a small network: paths of the three classes, each with CUBIC's own sawtooth on it, alone
//! and against others.

mod fluid;

use fluid::{Driver, Flow, Link, Net, at_ms};
use remuda_algorithms::Loaded;
use remuda_selector::{PolicyConfig, policy};

/// Megabits per second, and milliseconds of an empty link's round trip.
const LINKS: [(u64, u64); 6] = [(24, 40), (12, 80), (96, 40), (48, 20), (4, 60), (24, 160)];
/// When competing flows of CUBIC start, in milliseconds.
const COMPETITORS: [&[u64]; 4] = [&[], &[0], &[3_000], &[0, 5_000]];
/// Two decisions and a bit.
const SECS: u64 = 65;

/// Uniform noise from -1 to 1 by Knuth's MMIX generator: the same on every machine.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// The extra delay of a radio, a minute of it: AR(1), each millisecond `rho` of the one before and
/// the rest noise, about normal, cut off at zero.
fn jitter_ms(mean_ms: f64, std_ms: f64, rho: f64, seed: u64) -> Vec<u64> {
    let mut noise = Noise(seed);
    let mut state = 0.0;
    let mut next = || {
        let normal: f64 = (0..3).map(|_| noise.next()).sum();
        state = rho * state + (1.0 - rho * rho).sqrt() * normal;
        (mean_ms + std_ms * state).max(0.0) as u64
    };
    (0..60_000).map(|_| next()).collect()
}

/// The class and the arm of each decision of a flow that Rein drives.
fn decisions(link: Link, competitors: &[u64]) -> Vec<(String, &'static str)> {
    let rein = policy("rein").expect("Rein").build;
    let cubic = remuda_algorithms::arm("cubic").expect("CUBIC");
    let mut flows =
        vec![Flow::new(Driver::Policy(rein(&PolicyConfig::default(), &Loaded::default())), 0)];
    let other = || Driver::Arm(cubic.build().expect("it is made here"));
    flows.extend(competitors.iter().map(|&start_ms| Flow::new(other(), start_ms)));
    let mut decided = Vec::new();
    Net::new(link, flows).run_with(SECS * 1_000, |flow, now_ms| {
        let Driver::Policy(runner) = &mut flow.driver else { return };
        let Some(proposal) = runner.proposal() else {
            return;
        };
        let class = proposal.why.features.into_iter().find(|(name, _)| *name == "class");
        decided.push((class.expect("a class").1, proposal.to));
        if proposal.to != runner.arm() {
            runner.hand_off(&mut flow.path);
            let switched = runner.switch_to(proposal.to, &flow.path, at_ms(now_ms));
            flow.obey(switched.expect("an arm of Rein"));
        }
    });
    decided
}

/// What holds for every link, buffer and competition: the first decision is `want`, and no later
/// one leaves its arm.
fn check(bdp_tenths: u64, want: (&str, &str)) {
    for (mbit_per_sec, rtt_ms) in LINKS {
        for competitors in COMPETITORS {
            let decided = decisions(Link::wired(mbit_per_sec, rtt_ms, bdp_tenths), competitors);
            let case = format!("{mbit_per_sec} Mbit/s, {rtt_ms} ms, {competitors:?}: {decided:?}");
            let (class, to) = decided.first().unwrap_or_else(|| panic!("undecided: {case}"));
            assert_eq!((class.as_str(), *to), want, "{case}");
            assert!(decided.iter().all(|(_, to)| *to == want.1), "{case}");
        }
    }
}

#[test]
fn half_a_bdp_of_buffer_is_small() {
    check(5, ("small_buffer", "c2tcp"));
}

#[test]
fn one_bdp_of_buffer_is_small() {
    check(10, ("small_buffer", "c2tcp"));
}

#[test]
fn four_bdps_of_buffer_are_large_and_not_wifi() {
    check(40, ("large_buffer", "cubic"));
}

/// Jitter with a mean and a deviation of three quarters to one base RTT, and a correlation time of
/// 10 to 20 ms.
#[test]
fn jitter_of_the_size_of_the_rtt_is_wifi() {
    for (mbit_per_sec, rtt_ms) in LINKS {
        for (mean, std, rho) in [(0.75, 0.75, 0.9), (0.75, 1.0, 0.95)] {
            let mut link = Link::wired(mbit_per_sec, rtt_ms, 10);
            let base_ms = rtt_ms as f64;
            link.jitter_ms = jitter_ms(mean * base_ms, std * base_ms, rho, 7);
            let decided = decisions(link, &[]);
            let case = format!("{mbit_per_sec} Mbit/s, {rtt_ms} ms, {std}, {rho}: {decided:?}");
            assert_eq!(decided.first(), Some(&("wifi".to_owned(), "bbr3")), "{case}");
        }
    }
}
