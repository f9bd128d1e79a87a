//! The kernel's own memory, from `/proc/meminfo`: slabs, and memory that is mapped page by page, as
//! the module's tables are.

use std::fmt::{self, Display, Formatter};
use std::fs;

/// A folder for each kind of object in slabs.
const KINDS: &str = "/sys/kernel/slab";

/// Growth above these limits is not noise. Slabs hold partly empty pages, and processes have stacks
/// in mapped pages.
const SLAB_NOISE_KIB: u64 = 2_048;
const MAPPED_NOISE_KIB: u64 = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    slab_kib: u64,
    mapped_kib: u64,
}

impl Memory {
    /// The current memory, without page cache and empty slabs. A kernel with KASAN keeps freed
    /// objects in a quarantine, which fills more slowly on a busy host; shrinking the slabs empties
    /// it.
    pub fn now() -> Self {
        fs::write("/proc/sys/vm/drop_caches", "3").expect("root may");
        for kind in fs::read_dir(KINDS).expect("it is in a kernel with SLUB").flatten() {
            fs::write(kind.path().join("shrink"), "1").expect("root may");
        }
        let text = fs::read_to_string("/proc/meminfo").expect("every kernel has it");
        let kib = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("it is there");
            line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
        };
        Self { slab_kib: kib("Slab:"), mapped_kib: kib("VmallocUsed:") }
    }

    /// The larger value of each field.
    pub fn most(all: &[Self]) -> Self {
        let most = |of: fn(&Self) -> u64| all.iter().map(of).max().unwrap_or(0);
        Self { slab_kib: most(|at| at.slab_kib), mapped_kib: most(|at| at.mapped_kib) }
    }

    /// Panics if memory has grown beyond noise since `before`.
    pub fn check_since(&self, before: &Self) {
        let slab_kib = before.slab_kib + SLAB_NOISE_KIB;
        let mapped_kib = before.mapped_kib + MAPPED_NOISE_KIB;
        assert!(self.slab_kib <= slab_kib, "{self}, where it was {before}");
        assert!(self.mapped_kib <= mapped_kib, "{self}, where it was {before}");
    }
}

impl Display for Memory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "slabs {} KiB, mapped {} KiB", self.slab_kib, self.mapped_kib)
    }
}
