//! The environments that models are trained on, by seed: after each block of the mixture of
//! [`crate::draw`] come two blocks of one family each.
//!
//! The mixture has what long flows meet on usual paths; families are wider, and each can be left
//! out of a training.

use crate::draw::Environment;
use crate::family::Family;

/// Seeds in a block. A block is also one file of the collection.
pub const BLOCK_SEEDS: u64 = 25;
/// Families on whose paths antelope missed most: the best arm has many times the merit of others
/// there, and rate, round trip, loss and queue decide which arm is best.
const OFTEN: [&str; 2] = ["losses", "beside"];
const OFTEN_TURNS: usize = 4;

/// The families in the order of their turns: those of [`OFTEN`] have [`OFTEN_TURNS`].
fn turns() -> Vec<Family> {
    let of = |family: Family| std::iter::repeat_n(family, turns_of(family.name()));
    Family::all().flat_map(of).collect()
}

fn turns_of(family: &str) -> usize {
    if OFTEN.contains(&family) { OFTEN_TURNS } else { 1 }
}

/// The environment of a seed for training.
pub fn to_learn_from(seed: u64) -> Environment {
    let block = seed / BLOCK_SEEDS;
    let (round, turn) = (block / 3, block % 3);
    if turn == 0 {
        return Environment::to_learn_from(round, seed);
    }
    let families = turns();
    let nth = 2 * round + turn - 1;
    families[(nth % families.len() as u64) as usize].draw(seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn two_of_three_blocks_are_of_one_family_each_and_each_family_has_its_turns() {
        let families = turns().len() as u64;
        let mut blocks = BTreeMap::new();
        for block in 0..3 * families {
            let kinds: Vec<&str> =
                (0..BLOCK_SEEDS).map(|at| to_learn_from(block * BLOCK_SEEDS + at).kind).collect();
            let is_one = kinds.iter().all(|kind| *kind == kinds[0]);
            if block % 3 > 0 {
                assert!(is_one, "{block}: {kinds:?}");
                *blocks.entry(kinds[0]).or_insert(0) += 1;
            }
        }
        assert_eq!(blocks.len(), Family::all().count());
        assert!(blocks.iter().all(|(name, count)| *count == 2 * turns_of(name)));
    }
}
