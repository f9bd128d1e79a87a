//! What each arm does by its source, in words, and the bounds it is held to.
//!
//! The bounds were set after a first survey (`remuda-arms --survey`) had shown the figures: they
//! notice a change, and prove nothing about the papers.

/// Where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// 24 Mbit/s, 40 ms, 1 BDP of buffer.
    Alone,
    /// The same with 4 BDPs.
    Deep,
    /// 1 BDP, and 1 % of the packets lost.
    Loss,
    /// 2 BDPs, and a CUBIC that starts a second later.
    BesideCubic,
    /// 4 BDPs, marks above 20 packets.
    Marks,
}

impl Scene {
    /// As the table names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone, 1 BDP",
            Self::Deep => "alone, 4 BDP",
            Self::Loss => "1 % loss",
            Self::BesideCubic => "beside CUBIC",
            Self::Marks => "marks above 20",
        }
    }
}

/// What is expected of an arm in a scene.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    /// Whose.
    pub arm: &'static str,
    /// Where.
    pub scene: Scene,
    /// In words, with the source.
    pub words: &'static str,
    /// The least and the most of the link that it has.
    pub share: (f64, f64),
    /// The least and the most of the queue's 95th percentile, in milliseconds.
    pub queue_p95_ms: (f64, f64),
}

const fn expect(
    arm: &'static str,
    scene: Scene,
    share: (f64, f64),
    queue_p95_ms: (f64, f64),
    words: &'static str,
) -> Expectation {
    Expectation { arm, scene, words, share, queue_p95_ms }
}

/// The whole link, but for what start and probing cost.
const FULL: (f64, f64) = (0.95, 1.01);
/// A queue of whatever length.
pub const ANY: (f64, f64) = (0.0, 1e6);
/// A buffer of 4 BDPs, filled.
const FILLED: (f64, f64) = (100.0, 165.0);
/// Less than half a BDP.
const SHORT: (f64, f64) = (0.0, 20.0);

/// All of them.
#[rustfmt::skip]
pub const ALL: &[Expectation] = &[
    expect("reno", Scene::Alone, FULL, ANY,
        "a whole BDP of buffer keeps the link full (RFC 5681)"),
    expect("reno", Scene::Deep, FULL, FILLED,
        "fills any buffer"),
    expect("reno", Scene::Loss, (0.10, 0.20), SHORT,
        "1 / sqrt(p): 12 of 80 segments (Mathis 1997)"),
    expect("reno", Scene::BesideCubic, (0.25, 0.60), ANY,
        "shares, with the smaller part"),
    expect("cubic", Scene::Deep, FULL, FILLED,
        "fills any buffer (RFC 9438)"),
    expect("cubic", Scene::Loss, (0.10, 0.20), SHORT,
        "Reno's share at short round trips (RFC 9438, 4.3)"),
    expect("cubic", Scene::BesideCubic, (0.35, 0.65), ANY,
        "two are even"),
    expect("bbr", Scene::Deep, FULL, SHORT,
        "the queue stays short whatever the buffer"),
    expect("bbr", Scene::Loss, (0.90, 1.01), SHORT,
        "loss is no signal (ACM Queue 2016)"),
    expect("bbr", Scene::BesideCubic, (0.25, 0.75), ANY,
        "starves nobody with 2 BDPs of buffer"),
    expect("bbr3", Scene::Deep, FULL, SHORT,
        "the queue stays short whatever the buffer"),
    expect("bbr3", Scene::Loss, (0.60, 1.01), SHORT,
        "below 2 % of loss it goes on: four times Reno's and more"),
    expect("bbr3", Scene::BesideCubic, (0.25, 0.75), ANY,
        "starves nobody with 2 BDPs of buffer"),
    expect("vegas", Scene::Alone, FULL, (0.0, 3.0),
        "two to four segments queued: 1 to 2 ms (JSAC 1995)"),
    expect("vegas", Scene::Deep, FULL, (0.0, 3.0),
        "the same, whatever the buffer"),
    expect("vegas", Scene::BesideCubic, (0.0, 0.15), ANY,
        "starved by who fills buffers: known, by design"),
    expect("westwood", Scene::Loss, (0.25, 1.01), SHORT,
        "twice Reno's at random loss (MobiCom 2001)"),
    expect("westwood", Scene::BesideCubic, (0.15, 0.65), ANY,
        "shares"),
    expect("illinois", Scene::Deep, FULL, FILLED,
        "loss ends its growth, delay only slows it"),
    expect("illinois", Scene::Loss, (0.25, 1.01), SHORT,
        "bold while the queue is empty: twice Reno's"),
    expect("illinois", Scene::BesideCubic, (0.25, 0.65), ANY,
        "shares"),
    expect("c2tcp", Scene::Deep, FULL, (0.0, 60.0),
        "round trips stay around twice the least (JSAC 2019)"),
    expect("c2tcp", Scene::BesideCubic, (0.0, 0.15), ANY,
        "gives way where others hold the delay above its setpoint"),
    expect("copa", Scene::Deep, FULL, (0.0, 5.0),
        "some two segments queued (NSDI 2018, 2.1)"),
    expect("copa", Scene::Loss, (0.90, 1.01), SHORT,
        "loss is no signal in the default mode"),
    expect("copa", Scene::BesideCubic, (0.30, 0.70), ANY,
        "its competitive mode holds its share (2.3)"),
    expect("allegro", Scene::Loss, (0.90, 1.01), ANY,
        "full at 1 % of loss (NSDI 2015)"),
    expect("allegro", Scene::BesideCubic, (0.75, 1.01), ANY,
        "takes nearly all where loss is below 5 %: known"),
    expect("vivace", Scene::Deep, (0.88, 1.01), SHORT,
        "a growing delay costs: the queue stays short (NSDI 2018)"),
    expect("vivace", Scene::Loss, (0.50, 1.01), SHORT,
        "tolerates random loss; with 80 segments a trial it is noisy"),
    expect("vivace", Scene::BesideCubic, (0.0, 0.40), ANY,
        "less than its share in a filled buffer"),
    expect("proteus", Scene::Deep, FULL, SHORT,
        "as Vivace, steadier by three pairs (SIGCOMM 2020)"),
    expect("proteus", Scene::Loss, (0.80, 1.01), ANY,
        "tolerates random loss"),
    expect("proteus_s", Scene::Alone, FULL, SHORT,
        "alone, a scavenger takes the link"),
    expect("proteus_s", Scene::BesideCubic, (0.0, 0.10), ANY,
        "and leaves it to others"),
    expect("ledbat", Scene::Deep, (0.88, 1.01), (40.0, 75.0),
        "60 ms of queue, less a tenth for slowdowns (draft)"),
    expect("ledbat", Scene::BesideCubic, (0.0, 0.10), ANY,
        "leaves the link to others"),
    expect("dctcp", Scene::Marks, (0.97, 1.01), (0.0, 15.0),
        "a full link with a queue around K, 20 packets (RFC 8257)"),
    expect("dctcp", Scene::Loss, (0.10, 0.20), SHORT,
        "a loss is Reno's"),
    expect("nimbus", Scene::Deep, FULL, SHORT,
        "alone in the delay mode: a quarter of the least RTT queued"),
    expect("nimbus", Scene::BesideCubic, (0.30, 0.70), ANY,
        "finds CUBIC elastic, and competes"),
    expect("verus", Scene::Deep, FULL, (0.0, 50.0),
        "at most twice the least delay (SIGCOMM 2015, R = 2)"),
    expect("sprout", Scene::Deep, FULL, (0.0, 110.0),
        "a queue of 100 ms at most (NSDI 2013)"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_algorithms::ARMS;

    /// Remy does what its table says, and `fixed` nothing.
    #[test]
    fn every_arm_is_expected_to_do_something() {
        for arm in ARMS.iter().filter(|arm| !["fixed", "remy"].contains(&arm.name)) {
            assert!(ALL.iter().any(|e| e.arm == arm.name), "nothing is expected of {}", arm.name);
        }
    }

    /// In words: no arm but Allegro, whose paper tolerates what starves others, takes more than
    /// three quarters of a link from CUBIC.
    #[test]
    fn nobody_is_expected_to_starve_cubic() {
        for e in ALL.iter().filter(|e| e.scene == Scene::BesideCubic && e.arm != "allegro") {
            assert!(e.share.1 <= 0.75, "{}", e.arm);
        }
    }
}
