//! The arms that policies choose from.
//!
//! Zhou et al., Antelope (ICNP 2021), section V, have six: BBR, CUBIC, C2TCP, Vegas, Illinois and
//! Westwood. BBRv3 and Copa are added, which the paper's kernel did not have. The eight differ in
//! what they take for congestion: loss, delay, or a model of the path. All policies that learn
//! choose from the same, so that they can be compared.

/// The arms that policies choose from, that which takes any path first.
pub const CANDIDATES: [&str; 8] =
    ["cubic", "bbr", "bbr3", "c2tcp", "vegas", "illinois", "westwood", "copa"];

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

    #[test]
    fn each_is_an_arm_and_there_once() {
        for (at, name) in CANDIDATES.iter().enumerate() {
            assert_eq!(remuda_algorithms::arm(name).map(|arm| arm.name), Some(*name));
            assert_eq!(place(name), Some(at));
        }
        assert_eq!(place("reno"), None);
    }

    #[test]
    fn what_suited_before_is_first_if_it_is_a_candidate() {
        assert_eq!(
            [Some("copa"), Some("reno"), None].map(first),
            ["copa", CANDIDATES[0], CANDIDATES[0]]
        );
    }
}
