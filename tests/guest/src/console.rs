//! Reads a guest's console: the status of the command, and the faults that the kernel reported.

/// `init.sh` prints this when the command has ended.
const ENDED: &str = "guest: ended with status ";
/// `init.sh` prints this first.
const BEGUN: &str = "guest: begins";
/// Number of lines that an error shows if the kernel reported no fault.
const LAST_LINES: usize = 60;
/// Number of lines that an error shows from the first complaint on: enough for two reports of
/// lockdep.
const COMPLAINT_LINES: usize = 400;

/// The first words with which the kernel, or one of its detectors, reports a fault.
const COMPLAINTS: [&str; 9] = [
    // KASAN, SLUB, sleeping in atomic context, the watchdog of soft lockups.
    "BUG",
    // From WARN_ON(), refcount_t, lockdep and RCU.
    "WARNING:",
    "UBSAN:",
    "Oops",
    "general protection fault",
    "Kernel panic",
    "Call Trace:",
    // From the watchdog of hung tasks, RCU's stall detector, and locks that were never initialised.
    "INFO: ",
    // A reference to a device, and so to its namespace, is never released.
    "unregister_netdevice: waiting for",
];

/// The lines in which the kernel reports a fault.
pub(crate) fn complaints(console: &str) -> Vec<&str> {
    console.lines().filter(|line| is_complaint(line)).collect()
}

fn is_complaint(line: &str) -> bool {
    COMPLAINTS.iter().any(|complaint| {
        // `DEBUG` contains `BUG`, but is not a complaint.
        line.match_indices(complaint).any(|(at, _)| !line[..at].ends_with(char::is_alphanumeric))
    })
}

/// Whether the kernel came as far as its first process.
pub(crate) fn has_begun(console: &str) -> bool {
    console.lines().any(|line| line.ends_with(BEGUN))
}

/// The status of the command, if the command ended.
pub(crate) fn status(console: &str) -> Option<i32> {
    console.lines().rev().find_map(|line| line.strip_prefix(ENDED)?.trim().parse().ok())
}

/// The part of the console that an error shows: from the first complaint on, or the end.
pub(crate) fn last_words(console: &str) -> String {
    let lines: Vec<&str> = console.lines().collect();
    let end = lines.len().saturating_sub(LAST_LINES);
    let from = lines.iter().position(|line| is_complaint(line)).unwrap_or(end).min(end);
    let shown = lines[from..].iter().take(COMPLAINT_LINES);
    shown.copied().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_in_the_consoles_last_lines() {
        assert_eq!(status("boot\nguest: ended with status 3\n[ 2.0] Power down\n"), Some(3));
        assert_eq!(status("boot\nKernel panic\n"), None);
    }

    #[test]
    fn the_first_process_says_that_it_begins() {
        assert!(has_begun("[ 1.0] boot\nguest: begins\n[ 2.0] Oops\n"));
        assert!(!has_begun("[ 6.3] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI\n"));
    }

    #[test]
    fn what_the_kernel_finds_wrong_is_a_complaint() {
        for line in [
            "[    5.1] BUG: KASAN: slab-out-of-bounds in f+0x1/0x2 [m]",
            "[    5.1] BUG: sleeping function called from invalid context at mm/slab.h:1",
            "[    5.1] BUG: scheduling while atomic: sh/1/0x00000002",
            "[    5.1] BUG: unable to handle page fault for address: ffff",
            "[    5.1] BUG kmalloc-64 (Tainted: G    B      O): Poison overwritten",
            "[    5.1] kernel BUG at net/ipv4/tcp.c:1!",
            "[    5.1] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [sh:1]",
            "[    5.1] WARNING: CPU: 0 PID: 1 at m.c:1 f+0x1/0x2 [m]",
            "[    5.1] WARNING: possible circular locking dependency detected",
            "[    5.1] WARNING: inconsistent lock state",
            "[    5.1] WARNING: suspicious RCU usage",
            "[    5.1] UBSAN: array-index-out-of-bounds in m.c:1:2",
            "[    5.1] INFO: task sh:1 blocked for more than 120 seconds.",
            "[    5.1] rcu: INFO: rcu_preempt self-detected stall on CPU",
            "[    5.1] INFO: trying to register non-static key.",
            "[    5.1] Oops: 0002 [#1] SMP",
            "[    5.1] general protection fault, probably for non-canonical address",
            "[    5.1]  Call Trace:",
            "printed without an end[    5.1] Kernel panic - not syncing: panic_on_warn set ...",
            "[    5.1] unregister_netdevice: waiting for lo to become free. Usage count = 2",
        ] {
            let console = format!("boot\n{line}\nguest: ended with status 0\n");
            assert_eq!(complaints(&console), [line]);
        }
    }

    #[test]
    fn what_kernels_say_anyway_is_none() {
        for line in [
            "[    1.1] m: loading out-of-tree module taints kernel.",
            "[    1.1] m: module verification failed: signature and/or required key missing",
            "[    1.1] DEBUG: a module's own words",
            "  WARN remuda: the agent's own words",
            "[    9.9] reboot: Power down",
        ] {
            assert_eq!(complaints(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn an_error_shows_the_first_complaint_and_what_follows() {
        let late = format!("first\n{}BUG: a\nlast\n", "more\n".repeat(LAST_LINES));
        assert!(last_words(&late).ends_with("more\nBUG: a\nlast"));
        assert_eq!(last_words(&late).lines().count(), LAST_LINES);
        let early = format!("first\nBUG: a\n{}", "more\n".repeat(2 * LAST_LINES));
        assert!(last_words(&early).starts_with("BUG: a\nmore"));
        assert_eq!(last_words(&early).lines().count(), 1 + 2 * LAST_LINES);
        let endless = "BUG: a\n".repeat(2 * COMPLAINT_LINES);
        assert_eq!(last_words(&endless).lines().count(), COMPLAINT_LINES);
    }
}
