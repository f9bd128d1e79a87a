//! The environments that models are trained on, by seed: blocks of the mixture of [`crate::draw`]
//! and blocks of one family each, by turns.
//!
//! The mixture has what long flows meet on usual paths; families are wider, and each can be left
//! out of a training.

use crate::draw::Environment;
use crate::family::Family;

/// Seeds in a block. A block is also one file of the collection.
pub const BLOCK_SEEDS: u64 = 25;

/// The environment of a seed for training.
pub fn to_learn_from(seed: u64) -> Environment {
    let block = seed / BLOCK_SEEDS;
    let turn = block / 2;
    if block.is_multiple_of(2) {
        return Environment::to_learn_from(turn, seed);
    }
    let families: Vec<Family> = Family::all().collect();
    families[(turn % families.len() as u64) as usize].draw(seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_second_block_is_of_one_family_and_each_family_has_its_turn() {
        let families = Family::all().count() as u64;
        let mut blocks = BTreeMap::new();
        for block in 0..2 * families {
            let kinds: Vec<&str> =
                (0..BLOCK_SEEDS).map(|at| to_learn_from(block * BLOCK_SEEDS + at).kind).collect();
            let is_one = kinds.iter().all(|kind| *kind == kinds[0]);
            if block % 2 == 1 {
                assert!(is_one, "{block}: {kinds:?}");
                *blocks.entry(kinds[0]).or_insert(0) += 1;
            }
        }
        assert_eq!(blocks.len() as u64, families);
        assert!(blocks.values().all(|count| *count == 1));
    }
}
