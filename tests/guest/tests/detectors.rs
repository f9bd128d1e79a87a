//! The debug kernel detects the faults for which it is built: a module (`faults/`) commits one
//! fault of each kind in a guest. This shows that a test that passes on that kernel is meaningful.

use remuda_guest::{Ended, Guest, Options, Processors};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

/// The kernel of `tools/debug-kernel.sh`; prints a message and returns `None` if it is not built.
fn kernel() -> Option<PathBuf> {
    let folder = root().join("target/guest/debug");
    if folder.join("vmlinuz").exists() {
        return Some(folder);
    }
    eprintln!("SKIPPED: no debug kernel; tools/debug-kernel.sh builds one");
    None
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The module with the faults, built for that kernel.
fn module() -> &'static Path {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    MODULE.get_or_init(|| {
        let mut build = Command::new("bash");
        build.args(["tools/module.sh", "target/guest/debug", "tests/guest/faults"]);
        let built = build.current_dir(root()).output().expect("bash is there");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        PathBuf::from(String::from_utf8_lossy(&built.stdout).trim())
    })
}

/// Boots the guest and commits these faults, one after the other.
fn commit(kernel: &Path, faults: &[&str], then: &str) -> Ended {
    let options = Options {
        processors: Processors::Parallel(2),
        // Without this option KASAN reports only the first fault.
        parameters: vec!["kasan_multi_shot".into()],
        modules: Vec::new(),
        ..Options::default()
    };
    let guest = Guest::new(kernel, &[]).expect("there is a kernel").with_options(options);
    let guest = guest.with_module(module()).expect("it is built");
    let commit = |fault| format!("insmod /modules/faults.ko fault={fault} && rmmod faults\n");
    let script: String = faults.iter().map(commit).collect();
    guest.run(&["sh", "-c", &(script + then)], LIMIT).expect("it boots, and ends")
}

fn assert_complains(ended: &Ended, of: &str) {
    let complaints = ended.console_complaints();
    let said = complaints.iter().any(|line| line.contains(of));
    assert!(said, "no complaint of {of}; these:\n{}\n{}", complaints.join("\n"), ended.console);
}

#[test]
fn faults_of_memory_and_of_context_are_found() {
    let Some(kernel) = kernel() else { return };
    let found = [
        ("write-behind-the-end", "BUG: KASAN: slab-out-of-bounds in write_behind_the_end"),
        ("read-after-free", "BUG: KASAN: use-after-free in read_after_free"),
        ("index-behind-the-end", "UBSAN: array-index-out-of-bounds"),
        ("shift-too-far", "UBSAN: shift-out-of-bounds"),
        ("sleep-under-a-spinlock", "BUG: sleeping function called from invalid context"),
        ("ask-for-the-processor", "BUG: using smp_processor_id() in preemptible"),
    ];
    let faults = found.map(|(fault, _)| fault);
    let ended = commit(&kernel, &faults, "");
    assert_eq!(ended.status, 0, "{}", ended.console);
    for (_, complaint) in found {
        assert_complains(&ended, complaint);
    }
}

/// Each fault in a guest of its own: lockdep reports once, and not at all after memory is corrupt.
#[test]
fn faults_of_locks_are_found() {
    let Some(kernel) = kernel() else { return };
    for (fault, complaint) in [
        ("lock-in-both-orders", "WARNING: possible circular locking dependency"),
        ("lock-as-softirqs-do", "WARNING: inconsistent lock state"),
        ("look-without-rcu", "WARNING: suspicious RCU usage"),
    ] {
        assert_complains(&commit(&kernel, &[fault], ""), complaint);
    }
}

#[test]
fn lost_memory_is_found_and_nothing_else_is_wrong() {
    let Some(kernel) = kernel() else { return };
    let ended =
        commit(&kernel, &[], "leaks && insmod /modules/faults.ko fault=lose-memory && leaks");
    assert_eq!(ended.status, 1, "{}", ended.console);
    assert!(ended.output.contains("lose_memory"), "{}", ended.output);
    assert_eq!(ended.console_complaints(), [""; 0]);
}
