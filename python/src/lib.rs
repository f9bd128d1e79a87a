//! The native part of the `remuda` Python package, and the training environments.
//!
//! [`Env`] is one flow that an outside program drives, step by step; [`Envs`] is many of them at
//! once. Both are plain Rust and work without Python. The feature `python`, which maturin enables,
//! adds the Python module; without it, this crate builds and tests without Python.
//!
//! ```
//! use remuda_python::{Config, Env};
//!
//! let mut env = Env::new(Config::default())?;
//! let mut observation = vec![0.0; env.observation_len()];
//! env.reset(Some(1), &mut observation)?;
//! let step = env.step(0.5, &mut observation)?;
//! assert!(step.reward.is_finite() && !step.terminated);
//! # Ok::<(), remuda_python::Error>(())
//! ```

pub mod config;
mod env;
mod envs;
mod error;
pub mod observe;
mod path;
#[cfg(feature = "python")]
mod python;
mod saved;

pub use config::{Config, Control, Paths, Range, Ranges, Weights};
pub use env::{Env, METRICS, Metrics, Step};
pub use envs::{Autoreset, Batch, Envs};
pub use error::Error;
pub use observe::{FEATURES, Feature};
pub use saved::Saved;
