//! A scenario on real TCP: the same file as the simulator's, and the same outcome of it.
//!
//! [`Agents`] are started for the arms and policies that drive flows; [`run()`] has the scenario
//! happen between two network namespaces. What real TCP cannot have is refused by name
//! ([`check()`]).

mod agents;
mod error;
mod flow;
mod plan;
mod run;

pub use agents::{Agents, AuthorsFiles, named_drivers};
pub use error::Error;
pub use plan::check;
pub use run::{Run, run};
