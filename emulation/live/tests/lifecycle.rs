//! Dropping a testbed frees everything. The test is alone in its file because it counts the
//! process's descriptors and threads.

mod common;

use common::{constant, or_skip, testbed};
use remuda_live::{Clock, PathSpec, VethPair};
use std::fs;
use std::time::Duration;

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).expect("a /proc").count()
}

#[test]
fn dropping_frees_descriptors_threads_and_namespaces() {
    let path = PathSpec::symmetric(constant(10.0, 1.0));
    let Some(first) = testbed(&path) else { return };
    drop(first);
    let before = (entries("/proc/self/fd"), entries("/proc/self/task"));
    let clock = Clock::start();
    let testbeds: Vec<_> = (0..20).map(|_| testbed(&path).expect("as the first")).collect();
    println!("20 testbeds in {:?}", clock.elapsed());
    let pair = or_skip(VethPair::new()).expect("as the testbeds");
    assert!(entries("/proc/self/task") >= before.1 + 20);
    drop((testbeds, pair));
    // A thread leaves /proc a moment after it has been joined.
    let after = || (entries("/proc/self/fd"), entries("/proc/self/task"));
    let clock = Clock::start();
    while after() != before && clock.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(after(), before);
}
