//! What the agent remembers of destinations, beyond its flows: on disk, and in the kernel.
//!
//! ```text
//! flow ─ leave ─▶ host.memory ─ recall ─▶ the next flow
//!                   │     │
//!             keeper.rs  kernel.rs
//!                   ▼     ▼
//!          memory.json   the BPF datapath: arm and initial window before the first packet
//! ```
//!
//! What is remembered, for how long and of whom is [`remuda_selector::antelope::memory`].

mod file;
mod keeper;
mod kernel;

pub use keeper::Keeper;
pub use kernel::InKernel;
pub use remuda_selector::antelope::memory::Memory;
