//! The arms that the baselines choose from.
//!
//! Zhou et al., Antelope (ICNP 2021), section V, have six: BBR, CUBIC, C2TCP, Vegas, Illinois and
//! Westwood. BBRv3 and Copa are added, which the paper's kernel did not have, and the learned arms.
//! The shipped model of [`crate::antelope`] knows the same, and starts with the same, so that its
//! results can be compared with those of the baselines.

/// The arms that the baselines choose from. All but `random` start with the first.
pub const CANDIDATES: [&str; 10] =
    ["learned", "cubic", "bbr", "bbr3", "c2tcp", "vegas", "illinois", "westwood", "copa", "lingbo"];

/// The place of that arm among [`CANDIDATES`].
pub fn place(arm: &str) -> Option<usize> {
    CANDIDATES.iter().position(|candidate| *candidate == arm)
}

/// The arm that is remembered of a flow's destination, if it is one of them; otherwise the first.
pub fn first(remembered_arm: Option<&str>) -> &'static str {
    CANDIDATES[remembered_arm.and_then(place).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::antelope::model::Model;
    use std::collections::BTreeSet;

    #[test]
    fn each_is_an_arm_and_there_once() {
        for (at, name) in CANDIDATES.iter().enumerate() {
            assert_eq!(remuda_algorithms::arm(name).map(|arm| arm.name), Some(*name));
            assert_eq!(place(name), Some(at));
        }
        assert_eq!(place("reno"), None);
    }

    #[test]
    fn they_are_those_of_the_shipped_model_which_starts_with_the_same() {
        let model = Model::shipped();
        let sorted = |arms: &[&'static str]| arms.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(sorted(&CANDIDATES), sorted(model.arms()));
        assert_eq!(CANDIDATES[0], model.home());
    }

    #[test]
    fn what_suited_before_is_first_if_it_is_a_candidate() {
        assert_eq!(
            [Some("copa"), Some("reno"), None].map(first),
            ["copa", CANDIDATES[0], CANDIDATES[0]]
        );
    }
}
