//! The training environments. `native` makes a Python module of them.
//!
//! [`Env`] is one flow that an outside program drives, step by step; [`Envs`] is many of them at
//! once.
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

mod baseline;
pub mod config;
mod env;
mod envs;
mod error;
mod path;
pub mod pilot;
mod reward;
mod saved;
pub mod set;
mod sharing;

pub use baseline::{Baseline, baseline};
pub use config::{Config, Control, Paths, Range, Ranges, RewardKind, Weights};
pub use env::{Env, FLAGS, METRICS, Metrics, Step};
pub use envs::{Autoreset, Batch, Envs};
pub use error::{Error, hold_length};
pub use pilot::Pilot;
pub use remuda_algorithms::learned::observation::{FEATURES, Feature, Features, RATIOS};
pub use saved::Saved;
pub use set::Set;
