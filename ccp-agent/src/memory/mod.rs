//! The memory of destinations that outlives single flows: on disk, and in the kernel.
//!
//! ```text
//! flow ─ leave ─▶ host.memory ─ recall ─▶ the next flow
//!                   │     │
//!             keeper.rs  kernel.rs
//!                   ▼     ▼
//!          memory.json   the BPF datapath: arm and initial window before the first packet
//! ```
//!
//! [`remuda_selector::antelope::memory`] defines what is remembered, for which destinations and for
//! how long.

mod file;
mod keeper;
mod kernel;

pub use keeper::Keeper;
pub use kernel::InKernel;
