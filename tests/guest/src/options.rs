//! The options of a guest.

/// The default is for measurements, and for tests that should run alike each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The processors, and the clock that they use.
    pub processors: Processors,
    /// Memory, in MiB. The image takes part of it, both packed and unpacked.
    pub memory_mib: u32,
    /// More kernel parameters, as `panic_on_warn=1`.
    pub parameters: Vec<String>,
    /// The modules in `/modules` that are loaded before the command runs, in this order.
    pub modules: Vec<String>,
}

/// A guest's processors, and with them its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processors {
    /// One processor, whose instructions each take a nanosecond of the guest's time: its speed does
    /// not depend on the host's load.
    Counted,
    /// This many processors, each a thread of the host, with the host's clock: for races, not for
    /// figures.
    Parallel(u32),
}

impl Default for Options {
    /// One counted processor, 1 GiB, and the modules that emulated paths and the agent need.
    fn default() -> Self {
        Self {
            processors: Processors::Counted,
            memory_mib: 1024,
            parameters: Vec::new(),
            modules: ["tcp_bbr", "tun", "veth"].map(String::from).to_vec(),
        }
    }
}
