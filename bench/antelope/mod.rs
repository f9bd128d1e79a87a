//! Antelope's acceptance table: rows A1 to A10 with the paper's figure, the target and our result,
//! and a comparison of a policy with others in environments that no model was trained on.
//!
//! [`scene`] has the paper's networks, [`figures`] defines the figures of a run, [`measure`] runs
//! the scenes with the matrix' runner, [`rows`] makes the table, [`head_to_head`] the comparison,
//! and [`page`] writes both. [`ablations`] leaves parts of the policy out; [`online`] learns from
//! flows. `bench/cost` measures the cost of a policy.

pub mod ablations;
pub mod card;
mod error;
pub mod figures;
pub mod head_to_head;
pub mod live;
pub mod measure;
pub mod online;
pub mod page;
mod pairs;
pub mod requests;
pub mod rows;
pub mod scene;

pub use error::Error;
