//! Rules of operators: which arm or policy drives the flows that a selector matches. They come from
//! `[[rule]]` in the configuration and from `remuda rule add`. The first that matches a flow
//! counts: those that were added, the newest first, then the configuration's in their order.
//!
//! ```text
//! flow ─▶ book: index ─▶ first rule that matches ─▶ group ─▶ its driver, or the agent's default
//! ```
//!
//! What drives a flow, in the order in which it counts: a route that locks an algorithm, as the
//! kernel then ignores the agent; `guard.deny`; `remuda set` for the flow; a rule; what the socket
//! asks for; the agent's default.

mod added;
mod book;
mod configured;
mod group;
mod index;
mod rule;

pub use added::{read, set_aside, write};
pub use book::{Book, Missed, Reach, Row, Ruled, Source, Tested, directories};
pub use configured::{RULES_MAX, Rules};
pub use group::Group;
pub use rule::{RESERVED, Rule, Share};

#[cfg(test)]
mod tests;
