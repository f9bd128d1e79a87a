//! `mm-link`, `mm-delay` and `mm-loss`: Mahimahi's command lines, over this link.
//!
//! A command runs in its own network namespace, behind a link to the namespace of the caller. So
//! shells nest: `mm-delay 20 mm-link up down -- cmd` puts `mm-link`'s bottleneck behind
//! `mm-delay`'s 20 ms. `MAHIMAHI_BASE` is the address of the outermost end, where servers listen.
//!
//! Differs from Mahimahi:
//!
//! - Random draws come from a seed, `--seed` or `SEED`: the same seed loses the same packets.
//! - Only root can run them; there is no setuid. The command keeps root's rights.
//! - No DNS and no NAT: the command behind the link reaches the host it was called on. Packets for
//!   other hosts go on only if that host forwards (`net.ipv4.ip_forward`) and translates addresses.
//! - CoDel's target and interval, and PIE's, default to the RFCs' values. Mahimahi has no defaults.
//! - `--meter-...` prints a warning and has no other effect: a meter needs an X display. `remuda
//!   graph` draws the same from a log.
//! - `MAHIMAHI_PASSTHROUGH_UNTIL_SIGNAL` is refused, because it changes what is measured.

mod args;
mod block;
mod queue;
mod shell;

pub use args::{MmDelayArgs, MmDirection, MmLinkArgs, MmLossArgs};
pub use queue::MmQueue;
pub(crate) use shell::let_through;
