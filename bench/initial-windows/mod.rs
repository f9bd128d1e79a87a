//! The paths and the requests of TCP-RL's experiment C3: nine groups of users of a web search.
//!
//! `main.rs` measures initial windows on them on real TCP; a test does so in the simulator.

pub mod scene;
