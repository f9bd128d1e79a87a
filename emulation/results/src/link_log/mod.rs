//! Totals and time series of links' logs, both of remuda and of Mahimahi.
//!
//! The figures are those of `mm-throughput-graph` and `mm-delay-graph`, from the first event to the
//! last. As in these, a quantile `q` of `n` sorted values is the value at index `n * q`, rounded
//! down. Differs from them: drops count, and a log with drops is read to its end.

mod delays;
mod figure;
mod totals;

pub use figure::{link_log_png, link_log_svg};
pub use totals::{LogBin, LogTotals};

use delays::{Delays, SignalDelays};
use remuda_link::{Line, LogEntry, LogReader, ReadError};
use std::collections::BTreeMap;
use std::io::BufRead;

/// The figures of one log.
#[derive(Clone, Debug)]
pub struct LinkLog {
    /// The path from which the log was read.
    pub name: String,
    /// The queue, as the log's head names it.
    pub queue: Option<String>,
    /// Length of a bin of [`bins`](Self::bins).
    pub bin_ms: u64,
    /// Totals of the whole log.
    pub totals: LogTotals,
    /// Totals of each flow, by number; flow 0 has the packets without a flow.
    pub flows: BTreeMap<u32, LogTotals>,
    /// The names of flows, where the log has them.
    pub flow_names: BTreeMap<u32, String>,
    /// The bins, by number counted from the base timestamp; a bin without an event is absent.
    pub bins: BTreeMap<u64, LogBin>,
    span_ms: Option<(u64, u64)>,
    signal: SignalDelays,
}

/// Why a log has no figures.
#[derive(Debug, thiserror::Error)]
pub enum LinkLogError {
    /// The file cannot be read, or a line is invalid.
    #[error("{name}: {error}")]
    Read { name: String, error: ReadError },
    /// The log has no event.
    #[error("{name}: no event; is it a log of a link, and did a packet pass?")]
    Empty { name: String },
}

impl LinkLog {
    /// Reads a log to its end. The memory grows with the milliseconds that have events, not with
    /// the events.
    ///
    /// # Panics
    ///
    /// If `bin_ms` is zero.
    pub fn read(name: &str, from: impl BufRead, bin_ms: u64) -> Result<Self, LinkLogError> {
        assert!(bin_ms > 0, "a bin has a length");
        let mut log = Self {
            name: name.to_owned(),
            queue: None,
            bin_ms,
            totals: LogTotals::default(),
            flows: BTreeMap::new(),
            flow_names: BTreeMap::new(),
            bins: BTreeMap::new(),
            span_ms: None,
            signal: SignalDelays::default(),
        };
        let mut reader = LogReader::new(from);
        let read = |error| LinkLogError::Read { name: name.to_owned(), error };
        while let Some(line) = reader.next_line().map_err(read)? {
            match line {
                Line::Event(event) => log.count(event),
                Line::Queue(queue) => log.queue = Some(queue),
                Line::Flow(number, flow) => {
                    log.flow_names.insert(number, flow);
                }
                Line::Base(_) | Line::Comment => {}
            }
        }
        if log.span_ms.is_none() {
            return Err(LinkLogError::Empty { name: name.to_owned() });
        }
        Ok(log)
    }

    fn count(&mut self, event: LogEntry) {
        let (at_ms, flow) = match event {
            LogEntry::Opportunity { at_ms, .. } => (at_ms, None),
            LogEntry::Arrival { at_ms, flow, .. }
            | LogEntry::Departure { at_ms, flow, .. }
            | LogEntry::Drop { at_ms, flow, .. } => (at_ms, Some(flow)),
        };
        let (first, last) = self.span_ms.unwrap_or((at_ms, at_ms));
        self.span_ms = Some((first, last.max(at_ms)));
        self.totals.count(event);
        if let Some(flow) = flow {
            self.flows.entry(flow).or_default().count(event);
        }
        self.bins.entry(at_ms / self.bin_ms).or_default().count(event);
        if let LogEntry::Departure { at_ms, delay, .. } = event {
            self.signal.count(at_ms - delay.as_millis(), delay.as_millis());
        }
    }

    /// Time from the first event to the last.
    pub fn duration_s(&self) -> f64 {
        self.span_ms.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e3)
    }

    /// Mean rate over the log's duration; `None` if the duration is zero.
    pub fn mbit_per_sec(&self, bytes: u64) -> Option<f64> {
        let seconds = self.duration_s();
        (seconds > 0.0).then(|| bytes as f64 * 8.0 / 1e6 / seconds)
    }

    /// Mean capacity; `None` on a link without a rate.
    pub fn capacity_mbit_per_sec(&self) -> Option<f64> {
        let bytes = self.totals.capacity_bytes;
        self.mbit_per_sec(bytes).filter(|_| bytes > 0)
    }

    pub fn utilisation_percent(&self) -> Option<f64> {
        let capacity = self.totals.capacity_bytes as f64;
        (capacity > 0.0).then(|| 100.0 * self.totals.departed_bytes as f64 / capacity)
    }

    /// A quantile of the delay of a message that is sent at some millisecond, over all
    /// milliseconds. The delay is that of the packet that arrived in that millisecond and left
    /// first. A millisecond without an arrival has 1 ms more than the next one.
    pub fn signal_delay_ms(&self, percent: u64) -> Option<u64> {
        self.signal.quantile_ms(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> LinkLog {
        let text = format!("# base timestamp: 10\n{text}");
        LinkLog::read("a.log", text.as_bytes(), 500).unwrap()
    }

    #[test]
    fn means_are_from_the_first_event_to_the_last() {
        let log = log("1010 # 1500\n1010 + 1000 1\n1020 - 1000 10 1\n1510 # 1500\n2010 d 2 2000\n");
        assert_eq!(log.duration_s(), 1.0);
        assert_eq!(log.capacity_mbit_per_sec(), Some(0.024));
        assert_eq!(log.mbit_per_sec(log.totals.departed_bytes), Some(0.008));
        assert_eq!(log.utilisation_percent().map(f64::round), Some(33.0));
        assert_eq!((log.totals.dropped_packets, log.totals.dropped_bytes), (2, 2000));
        let bins: Vec<u64> = log.bins.keys().copied().collect();
        assert_eq!(bins, [2, 3, 4]);
        assert_eq!(log.flows.keys().copied().collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_log_of_one_moment_has_no_mean_and_an_empty_one_is_refused() {
        let one = log("10 + 1500\n");
        assert_eq!((one.duration_s(), one.mbit_per_sec(1500)), (0.0, None));
        assert_eq!((one.utilisation_percent(), one.signal_delay_ms(95)), (None, None));
        let none = LinkLog::read("a.log", &b"# base timestamp: 0\n"[..], 500).unwrap_err();
        assert!(none.to_string().starts_with("a.log: no event;"), "{none}");
        let text = &b"# base timestamp: 0\n1 + x\n"[..];
        let wrong = LinkLog::read("a.log", text, 500).unwrap_err();
        assert!(wrong.to_string().starts_with("a.log: line 2: a length in bytes"), "{wrong}");
    }
}
