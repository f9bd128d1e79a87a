//! Every arm does in the simulator what its paper says, and the page about it is what is measured.

use remuda_arms::expectations::Scene;
use remuda_arms::{Row, page, rows};
use std::path::Path;

/// What arms do not do that their sources say; the page shows them as misses.
const KNOWN_MISSES: [(&str, Scene); 1] = [
    // At 24 Mbit/s a trial is some 80 segments, and whether one or two of them are lost is what its
    // gradient sees.
    ("vivace", Scene::Loss),
];

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "minutes without optimisation; `make test` runs it optimised"
)]
fn every_arm_does_what_its_paper_says() {
    let rows = rows(None).expect("scenes are scenarios");
    let known = |row: &&Row| KNOWN_MISSES.contains(&(row.expectation.arm, row.expectation.scene));
    let (known, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(known);
    let missed: Vec<String> =
        others.iter().filter(|row| !row.met()).map(|row| row.line()).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    assert!(known.iter().all(|row| !row.met()), "a known miss is met: take it off the list");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/arms.md");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page(&rows), "docs/arms.md is not what is measured: run `make arms`");
}
