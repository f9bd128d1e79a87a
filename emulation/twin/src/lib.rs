//! The path of a destination, simulated from what the flows to the destination have measured, and
//! what another arm would do there.
//!
//! ```text
//! ended flows ─▶ summary ─▶ guesses of the path ─▶ simulate: which resemble ─▶ simulate: gains
//! ```

mod calibration;
mod observed;
mod path;
mod summary;
mod twin;

pub use calibration::interval_percent;
pub use observed::{Destination, Flow, Unfit, destinations, network};
pub use twin::{Estimate, estimates};
