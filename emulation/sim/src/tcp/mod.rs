//! A TCP flow that behaves like Linux, where that matters to congestion control.

pub mod pacing;
pub mod rack;
pub mod rate_sample;
pub mod receive_window;
pub mod receiver;
pub mod rtt;
pub mod scoreboard;
pub mod sender;
pub mod undo;
