//! TCP-RL, the half for short flows: the initial window (IW) of each group of destinations.
//!
//! Nie et al., "Dynamic TCP Initial Windows and Congestion Control Schemes through Reinforcement
//! Learning" (IEEE JSAC 37, 2019), sections IV and VI. Most short flows end in slow start, so their
//! initial window is their congestion control.
//!
//! ```text
//! record.rs      one response, as the server measures it
//! geography.rs   address -> subnet -> ISP -> region -> all
//! grouping.rs    records -> groups that are large and steady enough
//! bandit.rs      a group -> the window to play next
//! reward.rs      equation 4
//! learner.rs     records in, a window a group out
//! model.rs       what a file keeps of the learner
//! table.rs       windows by prefix
//! ```
//!
//! Nothing here reads a clock or a file.
//!
//! Differs from the paper:
//!   - it prints `argmax X(gamma + i) + c(gamma + i)` and sums n_t over s; meant are
//!     `X(gamma, i) + c(gamma, i)` and the sum over arms i;
//!   - values that it leaves open or prints twice: gamma 0.98, a step of 5, arms 5, 10, 15 and 20
//!     at first, windows of 2 to 200, B = 1;
//!   - `throughput_max` and `RTT_min` are those of a round's mean in the group, not of one
//!     response, so that one peer cannot set the scale;
//!   - a round lasts until its window has `samples_min` records;
//!   - in a share of the rounds (`control_share`) a group has the standard window, which says what
//!     is gained;
//!   - how bins with several windows are compared: [`grouping`];
//!   - addresses without network features have prefixes alone: [`geography`].

pub mod bandit;
pub mod config;
pub mod geography;
pub mod grouping;
pub mod learner;
pub mod model;
pub mod record;
pub mod reward;
pub mod table;
