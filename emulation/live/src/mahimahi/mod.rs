//! `mm-link`, `mm-delay` and `mm-loss`: Mahimahi's command lines, over this link.
//!
//! A command runs in a network namespace of its own, behind a link to where it was called. So they
//! nest: `mm-delay 20 mm-link up down -- cmd` is `mm-link`'s bottleneck and `mm-delay`'s 20 ms, one
//! after the other, and `MAHIMAHI_BASE` names the outermost end, where servers listen.
//!
//! Differs from Mahimahi's:
//!
//! - Random draws come from a seed, `--seed` or `SEED`: the same seed loses the same packets.
//! - Root runs them; there is no setuid. The command keeps root's rights.
//! - No DNS and no NAT: what is called from behind the link is the host that called it. Packets
//!   for others go on if that host forwards (`net.ipv4.ip_forward`) and translates addresses.
//! - CoDel's target and interval, and PIE's, have the RFCs' values where Mahimahi wants them said.
//! - `--meter-...` is taken with a warning: a meter needs an X display, and changes nothing of the
//!   link. `remuda graph` draws the same from a log.
//! - `MAHIMAHI_PASSTHROUGH_UNTIL_SIGNAL` is refused, for it changes what is measured.

mod args;
mod block;
mod queue;
mod shell;

pub use args::{MmDelayArgs, MmDirection, MmLinkArgs, MmLossArgs};
pub use queue::MmQueue;
pub(crate) use shell::let_through;
