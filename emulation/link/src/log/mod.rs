//! Logs in Mahimahi's format, which Mahimahi's graph scripts and Pantheon's tools read.
//!
//! ```text
//! # mahimahi mm-link (uplink) [12 Mbit/s] > up.log
//! # command line: ...
//! # queue: droptail [packets=80]
//! # init timestamp: 1700000000000
//! # base timestamp: 0
//! # flow 1: tcp 10.11.0.1:40000 > 10.11.0.2:5201
//! T # BYTES               the link could have delivered BYTES at T
//! T + BYTES FLOW          a packet came
//! T - BYTES DELAY FLOW    a packet left the bottleneck, DELAY ms after it came
//! T d PACKETS BYTES FLOW  packets were dropped: by the queue (also CoDel's at dequeue) or lost
//! ```
//!
//! Times are whole milliseconds since the link's start. On a trace-driven link BYTES counts four
//! bytes more than the packet, as Mahimahi's does.
//!
//! Our logs differ from Mahimahi's in three ways, which its readers accept:
//!
//! - `FLOW`, the last column, numbers flows from 1 in the order of their first packets. 0, or no
//!   column, means that the flow is not known. `mm-delay-graph` and `mm-throughput-graph` split a
//!   line at its blanks and use the first three words, and the fourth of a departure. Pantheon's
//!   readers take the last of four or five words for the flow.
//! - A line `# flow N: ...` before a flow's first packet names the flow. Readers skip lines that
//!   begin with `#`, wherever they are.
//! - CoDel's drops at dequeue are logged; Mahimahi does not log its own. `mm-throughput-graph`
//!   stops at the first `d` line (mahimahi#136); `mm-delay-graph` accepts them.

mod read;
mod write;

pub use read::{Line, LineError, LogEntry, LogReader, ReadError};
pub use write::{LogEvent, LogHeader, LogKind, LogWriter};
