//! Logs in Mahimahi's format, which its own graph scripts and others' read.
//!
//! ```text
//! # mahimahi mm-link (uplink) [12 Mbit/s] > up.log
//! # command line: ...
//! # queue: droptail [packets=80]
//! # init timestamp: 1700000000000
//! # base timestamp: 0
//! T # BYTES          the link could have delivered BYTES at T
//! T + BYTES          a packet came
//! T - BYTES DELAY    a packet left the bottleneck, DELAY ms after it came
//! T d PACKETS BYTES  packets were dropped: by the queue (also CoDel's at dequeue) or lost
//! ```
//!
//! Times are whole milliseconds since the link's start. On a trace-driven link BYTES counts four
//! bytes more than the packet, as Mahimahi's does. Mahimahi logs no drop of CoDel's; this does.

use crate::time::Nanos;
use std::io::{self, Write};

/// What happened on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// The link could have delivered this many bytes.
    Opportunity {
        /// Of capacity.
        bytes: u64,
    },
    /// A packet came.
    Arrival {
        /// Its length on this link.
        bytes: u32,
    },
    /// A packet left the bottleneck.
    Departure {
        /// Its length on this link.
        bytes: u32,
        /// Since it came.
        delay: Nanos,
    },
    /// A packet was dropped.
    Drop {
        /// Its length on this link.
        bytes: u32,
    },
}

/// What happened on a link, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// Since the link's start.
    pub at: Nanos,
    /// What.
    pub kind: LogKind,
}

/// The lines at the top of a log, by which it describes itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHeader {
    /// `uplink` or `downlink`.
    pub direction: String,
    /// The trace file, or the rate with its unit.
    pub rate: String,
    /// The log's own file name.
    pub log_file: String,
    /// The command that made it.
    pub command_line: String,
    /// The queue, in words.
    pub queue: String,
    /// Wall-clock milliseconds since 1970 at the link's start.
    pub init_timestamp_ms: u64,
    /// Anything else needed to make the run again: `key: value`, one a line.
    pub settings: Vec<String>,
}

/// Writes a log.
#[derive(Debug)]
pub struct LogWriter<W: Write> {
    out: W,
}

impl<W: Write> LogWriter<W> {
    /// Starts a log with its header.
    pub fn new(mut out: W, header: &LogHeader) -> io::Result<Self> {
        let LogHeader { direction, rate, log_file, .. } = header;
        writeln!(out, "# mahimahi mm-link ({direction}) [{rate}] > {log_file}")?;
        writeln!(out, "# command line: {}", one_line(&header.command_line))?;
        writeln!(out, "# queue: {}", header.queue)?;
        writeln!(out, "# init timestamp: {}", header.init_timestamp_ms)?;
        writeln!(out, "# base timestamp: 0")?;
        writeln!(out, "# remuda-link: {}", env!("CARGO_PKG_VERSION"))?;
        for setting in &header.settings {
            writeln!(out, "# {}", one_line(setting))?;
        }
        Ok(Self { out })
    }

    /// Writes one event.
    pub fn write(&mut self, event: &LogEvent) -> io::Result<()> {
        let at = event.at.as_millis();
        match event.kind {
            LogKind::Opportunity { bytes } => writeln!(self.out, "{at} # {bytes}"),
            LogKind::Arrival { bytes } => writeln!(self.out, "{at} + {bytes}"),
            LogKind::Departure { bytes, delay } => {
                writeln!(self.out, "{at} - {bytes} {}", delay.as_millis())
            }
            LogKind::Drop { bytes } => writeln!(self.out, "{at} d 1 {bytes}"),
        }
    }

    /// Hands on what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the log and gives back what it wrote to.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// A line break in a value would let it pass for an event.
fn one_line(value: &str) -> String {
    value.replace(['\n', '\r'], " ")
}
