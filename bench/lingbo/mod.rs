//! Compares the arm `lingbo` with its paper, in the simulator: rows E1 to E6.

pub mod rows;
pub mod scene;
