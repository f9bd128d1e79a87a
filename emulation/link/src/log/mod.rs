//! Logs in Mahimahi's format, which its own graph scripts and others' read.
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
//! Differs from Mahimahi's in three ways, none of which its readers mind:
//!
//! - `FLOW`, the last column, numbers flows from 1 in the order of their first packets; 0, or no
//!   column, is a flow not known. `mm-delay-graph` and `mm-throughput-graph` split a line at its
//!   blanks and take the first three words, and of a departure the fourth. Pantheon's readers take
//!   the last of a line's four or five words for the flow, and so this.
//! - A line `# flow N: ...` before a flow's first packet names it. Readers skip what begins with
//!   `#`, wherever it stands.
//! - CoDel's drops at dequeue are logged; Mahimahi is silent about its own. As of its drops,
//!   `mm-throughput-graph` dies of the first `d` (mahimahi#136); `mm-delay-graph` takes them.

mod read;
mod write;

pub use read::{Line, LineError, LogEntry, LogReader, ReadError};
pub use write::{LogEvent, LogHeader, LogKind, LogWriter};
