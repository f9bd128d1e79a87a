//! The agent dies or hangs, and the flows go on: on the BPF datapath.

use remuda_tests::{Place, exclusive, skip, survival};

#[test]
fn killed_and_restarted() {
    let _one = exclusive();
    if !skip() {
        survival::killed_and_restarted(&Place::new());
    }
}

/// Once with a window arm and once with a paced arm.
#[test]
fn stopped_and_continued() {
    let _one = exclusive();
    if skip() {
        return;
    }
    for arm in ["cubic", "bbr"] {
        println!("{arm}:");
        survival::stopped_and_continued(&Place::new(), arm);
    }
}

#[test]
fn a_clean_end_leaves_the_flows_with_the_kernels_own_algorithm() {
    let _one = exclusive();
    if !skip() {
        survival::ended(&Place::new());
    }
}
