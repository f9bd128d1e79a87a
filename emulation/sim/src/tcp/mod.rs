//! A TCP flow that behaves like Linux in everything that affects congestion control.

pub mod pacing;
pub mod rack;
pub mod rate_sample;
pub mod receive_window;
pub mod receiver;
pub mod rtt;
pub mod scoreboard;
pub mod sender;
pub mod undo;
