//! Compares the arm `anole` with its paper, in the simulator: rows B1 to B9, figures 2, 6, 8, 11.

pub mod measure;
pub mod page;
pub mod rows;
pub mod scene;
