//! In the simulator every arm behaves as its paper says, and docs/arms.md has the measured figures.

use remuda_bench::arms::{page, rows};
use std::path::Path;

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "minutes without optimisation; `make test` runs it optimised"
)]
fn every_arm_does_what_its_paper_says() {
    let rows = rows(None).expect("scenes are scenarios");
    let missed = rows.iter().filter(|row| !row.met()).map(|row| row.line());
    let missed: Vec<String> = missed.collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/arms.md");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page(&rows), "docs/arms.md is not what is measured: run `make arms`");
}
