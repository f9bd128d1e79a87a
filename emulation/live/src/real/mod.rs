//! Runs a scenario on real TCP: from the same file as the simulator, with the same kind of outcome.
//!
//! [`Agents`] run the arms and policies that drive flows; [`run()`] runs the scenario between two
//! network namespaces. [`check()`] refuses settings that real TCP does not support, and names them.

mod agents;
mod error;
mod flow;
mod plan;
mod run;

pub use agents::{Agents, AuthorsFiles, named_drivers};
pub use error::Error;
pub use plan::check;
pub use run::{Run, run};
