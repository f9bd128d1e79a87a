//! The behaviour of each arm according to its source, in words, and the bounds of its figures.
//!
//! If a source has a formula for this path, the bound is the formula's value within [`TOLERANCE`];
//! if it has words, the words are turned into a number. Both were written when the figures of a
//! first survey were known. No formula was changed to fit them, and an arm that misses a bound is
//! shown to miss it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// 24 Mbit/s, 40 ms, 1 BDP of buffer.
    Alone,
    /// The same with 4 BDPs.
    Deep,
    /// 1 BDP, and 1 % of the packets are lost.
    Loss,
    /// 2 BDPs, and a CUBIC flow that starts a second later.
    BesideCubic,
    /// 4 BDPs, and ECN marks above 20 packets.
    Marks,
}

impl Scene {
    /// The name in the table.
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

/// The origin of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The formula in the words, within [`TOLERANCE`].
    Formula,
    /// A number for the words "most of it", "starves nobody" or "leaves it to others".
    Words,
}

impl Basis {
    /// The name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Formula => "formula",
            Self::Words => "words",
        }
    }
}

/// The expected behaviour of an arm in a scene.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    pub arm: &'static str,
    pub scene: Scene,
    /// The behaviour in words, with the source.
    pub words: &'static str,
    /// The origin of the bounds.
    pub basis: Basis,
    /// The least and the largest share of the link, 0 to 1.
    pub share: (f64, f64),
    /// The least and the largest 95th percentile of the queueing delay.
    pub queue_p95_ms: (f64, f64),
}

/// The formulas hold for averages, and for a sender whose ACKs do not come in pairs.
pub const TOLERANCE: f64 = 0.25;

/// A bound around a value, within [`TOLERANCE`].
const fn about(value: f64) -> (f64, f64) {
    span(value, value)
}

/// A bound from `low` to `high`, each within [`TOLERANCE`].
const fn span(low: f64, high: f64) -> (f64, f64) {
    (low * (1.0 - TOLERANCE), high * (1.0 + TOLERANCE))
}

const fn words(
    arm: &'static str,
    scene: Scene,
    share: (f64, f64),
    queue_p95_ms: (f64, f64),
    words: &'static str,
) -> Expectation {
    Expectation { arm, scene, words, basis: Basis::Words, share, queue_p95_ms }
}

const fn formula(
    arm: &'static str,
    scene: Scene,
    share: (f64, f64),
    queue_p95_ms: (f64, f64),
    words: &'static str,
) -> Expectation {
    Expectation { basis: Basis::Formula, ..self::words(arm, scene, share, queue_p95_ms, words) }
}

/// The whole link, less the cost of the start and of probing.
const FULL: (f64, f64) = (0.95, 1.01);
/// A queue of any length.
pub const ANY: (f64, f64) = (0.0, 1e6);
/// Less than half a BDP.
const SHORT: (f64, f64) = (0.0, 20.0);
/// Neither flow starves: each has at least a quarter.
const FAIR: (f64, f64) = (0.25, 0.75);
/// One packet's transmission time at the bottleneck.
const PACKET_MS: f64 = 0.5;
/// `sqrt(3 / (2 p))` at p = 0.01, over the 80 segments that the path holds (Mathis 1997).
const MATHIS: f64 = 12.25 / 80.0;

/// At least twice [`MATHIS`].
const TWICE_RENO: (f64, f64) = (2.0 * MATHIS * (1.0 - TOLERANCE), 1.01);

/// All expectations. A BDP is 40 ms, or 80 packets.
#[rustfmt::skip]
pub const ALL: &[Expectation] = &[
    formula("reno", Scene::Alone, FULL, about(38.0),
        "a window of 1 to 2 BDP: full; the queue spreads evenly over 0 to 40 ms (RFC 5681)"),
    formula("reno", Scene::Deep, FULL, about(155.0),
        "a window of 2.5 to 5 BDP: the queue spreads evenly over 60 to 160 ms"),
    formula("reno", Scene::Loss, about(MATHIS), (0.0, 1.0),
        "sqrt(3 / 2p) is 12 of 80 segments (Mathis 1997)"),
    words("reno", Scene::BesideCubic, FAIR, ANY,
        "shares"),
    formula("cubic", Scene::Deep, FULL, about(158.0),
        "0.7 to 1 of 5 BDP, most of the time near the top (RFC 9438)"),
    formula("cubic", Scene::Loss, about(MATHIS), (0.0, 1.0),
        "Reno's share at short round trips (RFC 9438, 4.3)"),
    words("cubic", Scene::BesideCubic, (0.35, 0.65), ANY,
        "two CUBIC flows get even shares"),
    formula("bbr", Scene::Deep, FULL, about(10.0),
        "a quarter BDP, one round in eight: 10 ms (ACM Queue 2016)"),
    words("bbr", Scene::Loss, (0.90, 1.01), SHORT,
        "does not react to loss (ACM Queue 2016)"),
    words("bbr", Scene::BesideCubic, FAIR, ANY,
        "starves nobody with 2 BDPs of buffer"),
    words("bbr3", Scene::Deep, FULL, SHORT,
        "the queue stays short whatever the buffer"),
    words("bbr3", Scene::Loss, (0.60, 1.01), SHORT,
        "does not slow down below 2 % loss: at least four times Reno's"),
    words("bbr3", Scene::BesideCubic, FAIR, ANY,
        "starves nobody with 2 BDPs of buffer"),
    formula("vegas", Scene::Alone, FULL, span(PACKET_MS, 3.0 * PACKET_MS),
        "two to four segments queued, one of them in transmission: 0.5 to 1.5 ms (JSAC 1995)"),
    formula("vegas", Scene::Deep, FULL, span(PACKET_MS, 3.0 * PACKET_MS),
        "the same, whatever the buffer"),
    formula("vegas", Scene::BesideCubic, span(2.0 / 126.0, 4.0 / 126.0), ANY,
        "its two to four of the 126 queued segments: starves, by design"),
    words("westwood", Scene::Loss, TWICE_RENO, SHORT,
        "at least twice Reno's at random loss (MobiCom 2001)"),
    words("westwood", Scene::BesideCubic, FAIR, ANY,
        "shares"),
    formula("illinois", Scene::Deep, FULL, about(155.0),
        "a full queue halves the window, as with Reno: up to 160 ms (VALUETOOLS 2006)"),
    words("illinois", Scene::Loss, TWICE_RENO, SHORT,
        "grows fast while the queue is empty: at least twice Reno's"),
    words("illinois", Scene::BesideCubic, FAIR, ANY,
        "shares"),
    formula("c2tcp", Scene::Deep, FULL, about(40.0),
        "a delay of twice the least is the setpoint: 40 ms queued (JSAC 2019)"),
    words("c2tcp", Scene::BesideCubic, (0.0, 0.15), ANY,
        "gives way where others hold the delay above its setpoint"),
    formula("copa", Scene::Deep, FULL, span(2.0 * PACKET_MS, 5.0 * PACKET_MS),
        "1 / delta is two segments on average, up to 2.5 of that (NSDI 2018, 2.1 and 3)"),
    words("copa", Scene::Loss, (0.90, 1.01), SHORT,
        "does not react to loss in the default mode"),
    words("copa", Scene::BesideCubic, FAIR, ANY,
        "its competitive mode holds its share (2.3)"),
    words("allegro", Scene::Loss, (0.90, 1.01), ANY,
        "full at 1 % loss (NSDI 2015)"),
    words("allegro", Scene::BesideCubic, (0.75, 1.01), ANY,
        "takes nearly everything where loss is below 5 %; this is known"),
    words("vivace", Scene::Deep, (0.88, 1.01), SHORT,
        "a growing delay lowers utility: the queue stays short (NSDI 2018)"),
    words("vivace", Scene::Loss, (0.80, 1.01), SHORT,
        "tolerates 5 % of random loss (NSDI 2018, 11.35); of 80 segments a trial, one is 1.25 %"),
    words("vivace", Scene::BesideCubic, (0.0, 0.40), ANY,
        "less than its share in a filled buffer"),
    words("proteus", Scene::Deep, FULL, SHORT,
        "like Vivace, steadier with three pairs of trials (SIGCOMM 2020)"),
    words("proteus", Scene::Loss, (0.80, 1.01), ANY,
        "tolerates random loss"),
    words("proteus_s", Scene::Alone, FULL, SHORT,
        "alone, a scavenger takes the link"),
    words("proteus_s", Scene::BesideCubic, (0.0, 0.10), ANY,
        "leaves the link to others"),
    formula("ledbat", Scene::Deep, (0.88, 1.01), about(60.0),
        "60 ms of queue; a tenth less throughput for slowdowns (draft)"),
    words("ledbat", Scene::BesideCubic, (0.0, 0.10), ANY,
        "leaves the link to others"),
    formula("dctcp", Scene::Marks, (0.97, 1.01), about(21.0 * PACKET_MS),
        "full, the queue up to K + 1, 21 packets (SIGCOMM 2010, 3.3; RFC 8257)"),
    formula("dctcp", Scene::Loss, about(MATHIS), (0.0, 1.0),
        "reacts to a loss like Reno"),
    words("nimbus", Scene::Deep, FULL, SHORT,
        "alone, in delay mode: queues a quarter of the least RTT, plus its pulses"),
    words("nimbus", Scene::BesideCubic, FAIR, ANY,
        "finds CUBIC elastic, and competes"),
    formula("verus", Scene::Deep, FULL, (0.0, 40.0 * (1.0 + TOLERANCE)),
        "at most twice the least delay (SIGCOMM 2015, R = 2)"),
    formula("sprout", Scene::Deep, FULL, (0.0, 100.0 * (1.0 + TOLERANCE)),
        "a queue of 100 ms at most (NSDI 2013)"),
    words("lingbo", Scene::Alone, FULL, SHORT,
        "fills the path; without jitter, next to no queue (section 4.3)"),
    words("lingbo", Scene::Loss, FULL, SHORT,
        "random losses change nothing (figure 9)"),
    words("learned", Scene::Alone, FULL, SHORT,
        "goodput squared over delay is what it was rewarded for: full, with a short queue"),
    words("learned", Scene::Loss, FULL, SHORT,
        "up to 5 % of random loss in training: loss that costs no rate is no reason to slow down"),
    words("anole", Scene::Deep, (0.88, 1.01), SHORT,
        "a queue above mu is drained, so that both rate and queue converge (section III-B)"),
    words("anole", Scene::Loss, (0.80, 1.01), SHORT,
        "loss is no reason to send less (section III-B)"),
    words("anole", Scene::BesideCubic, (0.0, 0.40), ANY,
        "its utility weighs the delay that CUBIC makes: less than its share in a filled buffer"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_algorithms::ARMS;

    /// `remy` follows its rule table, and `fixed` does nothing: there is nothing to expect.
    #[test]
    fn every_arm_is_expected_to_do_something() {
        for arm in ARMS.iter().filter(|arm| arm.adapts && arm.loads.is_none()) {
            assert!(ALL.iter().any(|e| e.arm == arm.name), "nothing is expected of {}", arm.name);
        }
    }

    /// The rule in words: no arm takes more than three quarters of a link from CUBIC. Allegro is
    /// the exception: its paper tolerates loss that starves others.
    #[test]
    fn no_arm_but_allegro_is_expected_to_starve_cubic() {
        for e in ALL.iter().filter(|e| e.scene == Scene::BesideCubic && e.arm != "allegro") {
            assert!(e.share.1 <= 0.75, "{}", e.arm);
        }
    }
}
