//! Writes the log of a link.

use crate::time::Nanos;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Bounds the memory of a log. Flows beyond this number are written as 0, not known.
const FLOWS_MAX: usize = 65_536;

/// What happened on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// The link could have delivered this many bytes.
    Opportunity { bytes: u64 },
    Arrival {
        /// Its length on this link, in bytes: on a trace, with Mahimahi's four bytes of header.
        bytes: u32,
    },
    /// A packet left the bottleneck.
    Departure {
        /// Its length on this link, in bytes.
        bytes: u32,
        delay: Nanos,
    },
    Drop {
        /// Its length on this link, in bytes.
        bytes: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// Since the link's start.
    pub at: Nanos,
    pub kind: LogKind,
    /// The flow's identifier, from [`Packet::flow`](crate::Packet::flow); zero if it is not known.
    pub flow: u64,
}

/// The lines at the top of a log, which describe the link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHeader {
    /// `uplink` or `downlink`.
    pub direction: String,
    /// The trace file, or the rate with its unit.
    pub rate: String,
    /// The log's own file name.
    pub log_file: String,
    pub command_line: String,
    /// A description of the queue.
    pub queue: String,
    /// Wall-clock milliseconds since 1970 at the link's start.
    pub init_timestamp_ms: u64,
    /// Anything else needed to repeat the run, as `key: value`, one setting a line.
    pub settings: Vec<String>,
}

#[derive(Debug)]
pub struct LogWriter<W: Write> {
    out: W,
    /// The number of each flow, by [`Packet::flow`](crate::Packet::flow).
    flows: BTreeMap<u64, u32>,
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
        Ok(Self { out, flows: BTreeMap::new() })
    }

    /// Writes a line with the flow's name, on the first call for that flow.
    pub fn name_flow(&mut self, flow: u64, name: impl FnOnce() -> String) -> io::Result<()> {
        if flow == 0 || self.flows.contains_key(&flow) {
            return Ok(());
        }
        match self.number(flow) {
            0 => Ok(()),
            number => writeln!(self.out, "# flow {number}: {}", one_line(&name())),
        }
    }

    pub fn write(&mut self, event: &LogEvent) -> io::Result<()> {
        let at = event.at.as_millis();
        match event.kind {
            LogKind::Opportunity { bytes } => write!(self.out, "{at} # {bytes}"),
            LogKind::Arrival { bytes } => write!(self.out, "{at} + {bytes}"),
            LogKind::Departure { bytes, delay } => {
                write!(self.out, "{at} - {bytes} {}", delay.as_millis())
            }
            LogKind::Drop { bytes } => write!(self.out, "{at} d 1 {bytes}"),
        }?;
        match event.flow {
            0 => writeln!(self.out),
            flow => {
                let number = self.number(flow);
                writeln!(self.out, " {number}")
            }
        }
    }

    /// Numbers flows from 1 in the order of their first packets; 0 once there are too many.
    fn number(&mut self, flow: u64) -> u32 {
        if let Some(number) = self.flows.get(&flow) {
            return *number;
        }
        if self.flows.len() >= FLOWS_MAX {
            return 0;
        }
        let number = self.flows.len() as u32 + 1;
        self.flows.insert(flow, number);
        number
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the log and returns the writer.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Removes line breaks: a line break in a value would make the rest look like an event.
fn one_line(value: &str) -> String {
    value.replace(['\n', '\r'], " ")
}
