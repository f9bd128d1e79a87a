//! The link model: what happens to a packet between two hosts.
//!
//! One direction of a path is a [`Link`]: a state machine with integer nanoseconds for time and one
//! seed. It reads no clock and does no I/O (except for a trace file when it is built). So the same
//! model serves real TCP (`remuda-live`) and the simulator, and the same seed gives the same bytes.
//!
//! ```
//! use remuda_link::{Direction, LinkSpec, Link, Nanos};
//!
//! let spec = LinkSpec { rate_mbit_per_sec: Some(12.0), delay_ms: 20.0, ..LinkSpec::default() };
//! let mut link: Link<u32> = spec.build(Nanos::from_millis(40), Direction::Up)?;
//! link.push(1500, Nanos::ZERO);
//! // 1 ms to send 1500 bytes at 12 Mbit/s, then 20 ms of delay.
//! let at = link.next_event().expect("a packet is under way");
//! assert_eq!(at, Nanos::from_millis(21));
//! let outcome = link.pop(at).expect("it has arrived");
//! assert_eq!(outcome.delivered(), Some(1500));
//! # Ok::<(), remuda_link::SpecError>(())
//! ```

mod aggregation;
mod books;
mod bottleneck;
mod capacity;
mod chance;
mod delay;
mod delays;
pub mod generator;
mod link;
mod log;
mod loss;
mod packet;
mod passage;
mod policer;
mod queue;
mod queued;
mod reordering;
mod row;
mod rtt_series;
mod schedule;
mod spec;
mod stats;
mod time;
mod trace;
mod varying;

pub use aggregation::Aggregation;
pub use capacity::Capacity;
pub use delay::Delay;
pub use delays::{DelaySummary, Delays};
pub use link::{Fate, Link, LinkModel, Outcome, RateModel};
pub use log::{
    Line, LineError, LogEntry, LogEvent, LogHeader, LogKind, LogReader, LogWriter, ReadError,
};
pub use loss::{GilbertElliott, Loss};
pub use packet::Packet;
pub use policer::Policer;
pub use queue::{
    CoDelParams, Discipline, DropReason, FqCoDelParams, Held, Limit, PieParams, Queue, RedParams,
    RedUnit,
};
pub use reordering::Reordering;
pub use schedule::Schedule;
pub use spec::{
    AggregationSpec, DelayOf, DelayStep, DelayTraceSpec, Direction, FULL_PACKET_BYTES,
    GeneratorSpec, GilbertElliottSpec, LinkSpec, LossStep, OutageSpec, PathSpec, PolicerSpec,
    QueueKind, QueueSpec, RateStep, ReorderingSpec, SpecError,
};
pub use stats::{DropCounts, LinkStats};
pub use time::Nanos;
pub use trace::{LineRule, OPPORTUNITY_BYTES, SeriesError, TUN_HEADER_BYTES, Trace, TraceError};
