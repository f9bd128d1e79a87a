//! How much of a doubt counts against a change of arm, by what the flow measures.
//!
//! The model says of each arm how far its score may be wrong ([`super::model`]). How much this
//! doubt should count depends on the path:
//!
//! - behind the queue of others the home arm yields, and little of it can be lost: doubt counts in
//!   proportion to the home arm's score;
//! - without a queue and without loss nothing keeps the home arm from its share: doubt counts half
//!   as much again;
//! - where packets are lost, no queue stands and round trips are steady, the losses are the path's
//!   own, and arms differ by how they answer them: doubt does not count;
//! - where rate and round trip vary and the rate has fallen without a queue of others, a radio link
//!   fades: every arm looks bad for some seconds, and doubt counts threefold.

use crate::features::Features;

/// From this ratio on, of the smallest round trip of 4 s to that of 300 s, a queue stands. The home
/// arm leaves a short one, so the queue is that of others while the home arm has the flow.
const QUEUE_OF_OTHERS: f32 = 1.2;
/// A queue of fewer packets may be the flow's own: on a thin link two packets take a fifth of a
/// round trip to send.
const PKTS_OF_OTHERS: f32 = 3.0;
/// Behind the queue of others, all doubt counts from this score of the home arm on.
const HOME_SCORE: f32 = 0.8;
/// Below this ratio no queue stands.
const NO_QUEUE: f32 = 1.1;
/// Below this percentage nothing is lost.
const NO_LOSS_PERCENT: f32 = 0.5;
pub(super) const WITHOUT_QUEUE: f32 = 1.5;
/// From this percentage on, losses without a queue are the path's own,
const PATH_LOSS_PERCENT: f32 = 1.0;
/// if round trips vary by less than this share of their mean.
const STEADY: f32 = 0.05;
/// Below this share of the highest rate, the rate has fallen.
const FALLEN: f32 = 0.8;
const IN_FADE: f32 = 3.0;

/// How many times a doubt counts; `home` is the score of the home arm.
pub(super) fn weight(features: &Features, home: f32) -> f32 {
    let known = |name| features.get(name).unwrap_or(f32::NAN);
    let (floor, lost) = (known("rtt_floor_4s_over_min"), known("lost_percent_long"));
    let is_own = (floor - 1.0) * known("bdp_pkts") < PKTS_OF_OTHERS;
    if floor >= QUEUE_OF_OTHERS && !is_own {
        return (home / HOME_SCORE).clamp(0.0, 1.0);
    }
    let varies = known("rtt_cov_slow");
    let fade = if known("rate_4s_over_max") < FALLEN && varies > STEADY { IN_FADE } else { 1.0 };
    let without_queue = match lost {
        _ if floor >= NO_QUEUE => 1.0,
        lost if lost >= PATH_LOSS_PERCENT && varies < STEADY => 0.0,
        lost if lost < NO_LOSS_PERCENT => WITHOUT_QUEUE,
        _ => 1.0,
    };
    fade * without_queue
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{COUNT, schema};

    /// The ratio of the smallest round trips, the percentage lost, how round trips vary, and the
    /// rate over the highest.
    fn of(path: [f32; 4], home: f32) -> f32 {
        on(100.0, path, home)
    }

    /// The same with a bandwidth-delay product of so many packets.
    fn on(bdp: f32, [floor, lost, varies, rate]: [f32; 4], home: f32) -> f32 {
        let mut features = Features([f32::NAN; COUNT]);
        for (name, value) in [
            ("rtt_floor_4s_over_min", floor),
            ("lost_percent_long", lost),
            ("rtt_cov_slow", varies),
            ("rate_4s_over_max", rate),
            ("bdp_pkts", bdp),
        ] {
            let at = schema().features.iter().position(|it| it.name == name);
            features.0[at.expect("a feature")] = value;
        }
        weight(&features, home)
    }

    #[test]
    fn behind_the_queue_of_others_doubt_counts_by_what_home_has() {
        let weights = [0.0, 0.2, 0.4, 0.9].map(|home| of([1.3, 0.0, 0.2, 0.5], home));
        assert_eq!(weights, [0.0, 0.25, 0.5, 1.0]);
    }

    #[test]
    fn two_packets_of_the_flows_own_are_no_queue_of_others() {
        let thin = |bdp| on(bdp, [1.3, 0.0, 0.2, 0.5], 0.2);
        assert_eq!([9.0, 11.0].map(thin), [3.0, 0.25]);
    }

    #[test]
    fn without_a_queue_it_counts_more_unless_the_path_loses() {
        let weights = [0.0, 0.4, 0.7, 1.5].map(|lost| of([1.0, lost, 0.01, 1.0], 0.2));
        assert_eq!(weights, [1.5, 1.5, 1.0, 0.0]);
        assert_eq!(of([1.15, 5.0, 0.01, 1.0], 0.2), 1.0, "a queue");
        assert_eq!(of([1.0, 5.0, 0.2, 1.0], 0.2), 1.0, "round trips vary");
    }

    #[test]
    fn in_a_fade_it_counts_threefold() {
        let weights = [0.9, 0.5].map(|rate| of([1.0, 0.0, 0.2, rate], 0.2));
        assert_eq!(weights, [1.5, 4.5]);
        assert_eq!(of([1.0, 0.0, 0.01, 0.5], 0.2), 1.5, "round trips are steady");
    }

    #[test]
    fn what_is_not_known_changes_nothing() {
        assert_eq!(of([f32::NAN; 4], 0.2), 1.0);
    }
}
