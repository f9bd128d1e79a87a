//! Samples the resident memory of processes and checks whether it grows.

use std::fs;

/// Most growth of a process from the first half of a run to the second. Connections come and go,
/// and an allocator keeps memory that it once had. A leak of one flow's state, 1.3 kB, in each of
/// 4,000 transfers would be more.
pub const GROWTH_KIB_MAX: u64 = 4_096;

/// Makes all threads of this process share one malloc arena. With glibc's default, an arena for
/// each of the many short threads, memory use depends on how threads happen to share arenas, and
/// hides a leak.
pub fn one_arena() {
    // SAFETY: a number for the allocator, before there are threads.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// The samples of one process, or of all processes that had one role.
#[derive(Clone, Debug)]
pub struct Memory {
    pub name: &'static str,
    /// Time as a share of the run, and resident memory in KiB.
    samples: Vec<(f64, u64)>,
}

impl Memory {
    pub fn of(name: &'static str) -> Self {
        Self { name, samples: Vec::new() }
    }

    /// Samples a process at time `share` of the run. A process that has ended gives no sample.
    pub fn look(&mut self, pid: u32, share: f64) {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        self.samples.extend(resident_kib(&status).map(|kib| (share, kib)));
    }

    pub fn last_kib(&self) -> u64 {
        self.samples.last().map_or(0, |(_, kib)| *kib)
    }

    /// The largest samples of the first and of the second half.
    pub fn halves_kib(&self) -> (u64, u64) {
        let most = |is_of: fn(f64) -> bool| {
            let of = self.samples.iter().filter(|(share, _)| is_of(*share));
            of.map(|(_, kib)| *kib).max().unwrap_or(0)
        };
        (most(|share| share < 0.5), most(|share| share >= 0.5))
    }

    /// Whether the second half is within the bound.
    pub fn keeps_bound(&self) -> bool {
        let (first, second) = self.halves_kib();
        second <= first + GROWTH_KIB_MAX
    }
}

/// Reads `VmRSS` of /proc/PID/status.
fn resident_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_set_is_found() {
        assert_eq!(resident_kib("Name:\tx\nVmRSS:\t   1234 kB\n"), Some(1_234));
        assert_eq!(resident_kib("Name:\tx\n"), None);
    }

    #[test]
    fn growth_is_what_the_second_half_has_more() {
        let mut memory = Memory::of("agent");
        assert!(memory.keeps_bound(), "nothing seen");
        memory.samples = vec![(0.1, 9_000), (0.4, 5_000), (0.5, 9_000 + GROWTH_KIB_MAX)];
        assert!(memory.keeps_bound());
        memory.samples.push((0.9, 9_001 + GROWTH_KIB_MAX));
        assert_eq!((memory.halves_kib(), memory.keeps_bound()), ((9_000, 13_097), false));
    }
}
