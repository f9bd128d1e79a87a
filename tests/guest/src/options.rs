//! What a guest is, beside its kernel and what lies in it.

/// The default is for measuring, and for what is to happen alike each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many, and whose time they take.
    pub processors: Processors,
    /// Memory, in MiB. Its image takes of it, packed and unpacked.
    pub memory_mib: u32,
    /// For the kernel, in addition: `panic_on_warn=1`.
    pub parameters: Vec<String>,
    /// Which of the modules in `/modules` are loaded before the command runs, in this order.
    pub modules: Vec<String>,
}

/// A guest's processors, and its clock with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processors {
    /// One, of which each instruction takes a nanosecond of the guest's time: it does the same
    /// however busy the host is.
    Counted,
    /// So many, each a thread of the host, whose time is the guest's: for races, not for figures.
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
