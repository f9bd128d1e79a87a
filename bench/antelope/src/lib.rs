//! Antelope's acceptance table: rows A1 to A10 with the paper's figure, the target, and what comes
//! of it here; and a policy head to head with others on environments that nothing was trained on.
//!
//! [`scene`] has the paper's networks, [`figures`] what is taken from a run, [`measure`] runs them
//! by the matrix' runner, [`rows`] makes the table, [`head_to_head`] the comparison, [`page`]
//! writes both down; [`ablations`] takes parts out; [`online`] learns from flows. What a policy
//! costs is measured by `bench/cost`.

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
