//! What the measuring programs share with each other and with their tests.
//!
//! Each folder beside this file with a `main.rs` is one program. The modules here are the parts of
//! those programs that `bench/tests` checks; [`stats`] serves all programs, [`kept`] those that
//! continue after a stop, and [`only`] those that give a single arm the memory of destinations.

pub mod advise;
pub mod anole;
pub mod antelope;
pub mod arms;
mod error;
#[path = "initial-windows/mod.rs"]
pub mod initial_windows;
pub mod kept;
pub mod lingbo;
pub mod only;
pub mod rein;
#[path = "sim-to-real/mod.rs"]
pub mod sim_to_real;
pub mod stats;
pub mod switches;
pub mod thread_time;

pub use error::Error;
