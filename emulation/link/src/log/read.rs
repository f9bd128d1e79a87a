//! Reads logs, ours and Mahimahi's. Every line is checked.

use crate::time::Nanos;
use std::io::{self, BufRead, Read};

/// No valid line is longer; the longest is the command line in the head.
const LINE_BYTES_MAX: u64 = 65_536;
/// 49 days: the largest value of 32 bits, and far beyond any run.
const AT_MS_MAX: u64 = u32::MAX as u64;
/// 12 Tbit/s for a millisecond: faster than any link.
const BYTES_MAX: u64 = 1_500_000_000;
/// More packets than any queue holds.
const PACKETS_MAX: u64 = 1_000_000_000;

const BASE: &str = "# base timestamp: ";
const QUEUE: &str = "# queue: ";
const FLOW: &str = "# flow ";

/// One event of a log. Times count from the log's base timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEntry {
    /// The link could have delivered this many bytes.
    Opportunity { at_ms: u64, bytes: u64 },
    Arrival {
        at_ms: u64,
        bytes: u64,
        /// The flow's number, or 0 if it is not known.
        flow: u32,
    },
    /// A packet left the bottleneck.
    Departure {
        at_ms: u64,
        bytes: u64,
        delay: Nanos,
        /// The flow's number, or 0 if it is not known.
        flow: u32,
    },
    Drop {
        at_ms: u64,
        packets: u64,
        /// The sum over all dropped packets.
        bytes: u64,
        /// The flow's number, or 0 if it is not known.
        flow: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Event(LogEntry),
    /// A description of the queue.
    Queue(String),
    /// A flow's number and its name.
    Flow(u32, String),
    /// The base timestamp in ms, from which all times count.
    Base(u64),
    /// Any other comment, which readers skip.
    Comment,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line is not UTF-8, or is too long.
    #[error("must be UTF-8 text of at most 65536 bytes a line")]
    NotText,
    #[error(
        "`{line}`: must be `T # BYTES`, `T + BYTES [FLOW]`, `T - BYTES DELAY_MS [FLOW]` or \
         `T d PACKETS BYTES [FLOW]`"
    )]
    Form {
        /// The line, cut to 80 characters.
        line: String,
    },
    #[error("{what} is `{word}`: must be a whole number from {min} to {max}")]
    Number { what: &'static str, word: String, min: u64, max: u64 },
    #[error("an event before `# base timestamp: MS`; is the head of the log missing?")]
    NoBase,
    #[error("a second `# base timestamp:`; two logs in one file? Give each its own")]
    SecondBase,
    /// The event's time is before the log's base timestamp.
    #[error("the time is {at_ms} ms, before the base timestamp, {base_ms} ms")]
    BeforeBase {
        /// The event's time as written in the log.
        at_ms: u64,
        base_ms: u64,
    },
    /// The packet would have arrived before the log began.
    #[error("a delay of {delay_ms} ms at {at_ms} ms: the packet came before the log began")]
    DelayTooLong {
        /// When the packet left, since the base timestamp.
        at_ms: u64,
        /// How long the packet had waited.
        delay_ms: u64,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("line {number}: {error}")]
    Line { number: u64, error: LineError },
}

#[derive(Debug)]
pub struct LogReader<R> {
    from: R,
    number: u64,
    base_ms: Option<u64>,
    buffer: Vec<u8>,
}

impl<R: BufRead> LogReader<R> {
    pub fn new(from: R) -> Self {
        Self { from, number: 0, base_ms: None, buffer: Vec::new() }
    }

    /// Reads the next line; `None` at the end of the log.
    pub fn next_line(&mut self) -> Result<Option<Line>, ReadError> {
        self.buffer.clear();
        let length = self.from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.buffer)?;
        if length == 0 {
            return Ok(None);
        }
        self.number += 1;
        let read = parse(&self.buffer, &mut self.base_ms);
        read.map(Some).map_err(|error| ReadError::Line { number: self.number, error })
    }
}

fn parse(bytes: &[u8], base_ms: &mut Option<u64>) -> Result<Line, LineError> {
    let text = std::str::from_utf8(bytes).map_err(|_| LineError::NotText)?;
    let whole = text.ends_with('\n') || (bytes.len() as u64) < LINE_BYTES_MAX;
    let line = if whole { text.trim_end() } else { return Err(LineError::NotText) };
    if line.starts_with('#') {
        return parse_comment(line, base_ms);
    }
    let base = base_ms.ok_or(LineError::NoBase);
    Ok(Line::Event(parse_event(line, base)?))
}

fn parse_comment(line: &str, base_ms: &mut Option<u64>) -> Result<Line, LineError> {
    if let Some(word) = line.strip_prefix(BASE) {
        let base = number("the base timestamp in ms", word.trim(), 0, u64::MAX)?;
        if base_ms.replace(base).is_some() {
            return Err(LineError::SecondBase);
        }
        return Ok(Line::Base(base));
    }
    if let Some(queue) = line.strip_prefix(QUEUE) {
        return Ok(Line::Queue(queue.to_owned()));
    }
    let Some((word, name)) = line.strip_prefix(FLOW).and_then(|rest| rest.split_once(": ")) else {
        return Ok(Line::Comment);
    };
    Ok(Line::Flow(flow(Some(word))?, name.to_owned()))
}

fn parse_event(line: &str, base: Result<u64, LineError>) -> Result<LogEntry, LineError> {
    let form = || LineError::Form { line: line.chars().take(80).collect() };
    let words: Vec<&str> = line.split_whitespace().take(6).collect();
    let (at, kind, rest) = match words.as_slice() {
        [at, kind, rest @ ..] => (at, *kind, rest),
        _ => return Err(form()),
    };
    let at_ms = number("the time in ms", at, 0, u64::MAX)?;
    let base_ms = base?;
    let at_ms = at_ms.checked_sub(base_ms).ok_or(LineError::BeforeBase { at_ms, base_ms })?;
    if at_ms > AT_MS_MAX {
        return Err(wrong("the time in ms since the base timestamp", at, 0, AT_MS_MAX));
    }
    let bytes = |word: &str| number("a length in bytes", word, 0, BYTES_MAX);
    match (kind, rest) {
        ("#", [capacity]) => Ok(LogEntry::Opportunity { at_ms, bytes: bytes(capacity)? }),
        ("+", [length, tail @ ..]) if tail.len() <= 1 => {
            let flow = flow(tail.first().copied())?;
            Ok(LogEntry::Arrival { at_ms, bytes: bytes(length)?, flow })
        }
        ("-", [length, delay, tail @ ..]) if tail.len() <= 1 => {
            let delay_ms = number("the delay in ms", delay, 0, AT_MS_MAX)?;
            if delay_ms > at_ms {
                return Err(LineError::DelayTooLong { at_ms, delay_ms });
            }
            let (bytes, delay) = (bytes(length)?, Nanos::from_millis(delay_ms));
            Ok(LogEntry::Departure { at_ms, bytes, delay, flow: flow(tail.first().copied())? })
        }
        ("d", [packets, length, tail @ ..]) if tail.len() <= 1 => {
            let packets = number("the packets dropped", packets, 1, PACKETS_MAX)?;
            let flow = flow(tail.first().copied())?;
            Ok(LogEntry::Drop { at_ms, packets, bytes: bytes(length)?, flow })
        }
        _ => Err(form()),
    }
}

fn flow(word: Option<&str>) -> Result<u32, LineError> {
    let Some(word) = word else { return Ok(0) };
    let number = number("a flow's number", word, 0, u64::from(u32::MAX))?;
    Ok(number as u32)
}

/// Accepts digits only: `parse` would accept `+5` too.
fn number(what: &'static str, word: &str, min: u64, max: u64) -> Result<u64, LineError> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    let number = word.parse().ok().filter(|number| digits && (min..=max).contains(number));
    number.ok_or_else(|| wrong(what, word, min, max))
}

fn wrong(what: &'static str, word: &str, min: u64, max: u64) -> LineError {
    LineError::Number { what, word: word.chars().take(40).collect(), min, max }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &[u8]) -> Result<Vec<Line>, String> {
        let mut reader = LogReader::new(text);
        let mut lines = Vec::new();
        while let Some(line) = reader.next_line().map_err(|error| error.to_string())? {
            lines.push(line);
        }
        Ok(lines)
    }

    fn events(text: &str) -> Vec<LogEntry> {
        let lines = read(text.as_bytes()).unwrap().into_iter();
        lines.filter_map(|line| if let Line::Event(it) = line { Some(it) } else { None }).collect()
    }

    #[test]
    fn mahimahis_lines_count_from_its_base_and_have_no_flow() {
        let text = "# mahimahi mm-link (Uplink) [a] > b\n# init timestamp: 1700000000000\n\
                    # base timestamp: 5\n5 + 1504\n6 # 1504\n7 - 1504 2\r\n9 d 2 3008";
        assert_eq!(
            events(text),
            [
                LogEntry::Arrival { at_ms: 0, bytes: 1504, flow: 0 },
                LogEntry::Opportunity { at_ms: 1, bytes: 1504 },
                LogEntry::Departure {
                    at_ms: 2,
                    bytes: 1504,
                    delay: Nanos::from_millis(2),
                    flow: 0
                },
                LogEntry::Drop { at_ms: 4, packets: 2, bytes: 3008, flow: 0 },
            ]
        );
    }

    #[test]
    fn our_lines_have_flows_and_their_names() {
        let text = "# queue: droptail [packets=5]\n# base timestamp: 0\n# flow 1: tcp a > b\n\
                    # flow\n0 + 40 1\n1 - 40 1 1\n1 d 1 40 2\n";
        let lines = read(text.as_bytes()).unwrap();
        assert_eq!(lines[0], Line::Queue("droptail [packets=5]".to_owned()));
        assert_eq!(lines[2], Line::Flow(1, "tcp a > b".to_owned()));
        assert_eq!(lines[3], Line::Comment);
        let flows = events(text).into_iter().map(|event| match event {
            LogEntry::Opportunity { .. } => 0,
            LogEntry::Arrival { flow, .. }
            | LogEntry::Departure { flow, .. }
            | LogEntry::Drop { flow, .. } => flow,
        });
        assert_eq!(flows.collect::<Vec<_>>(), [1, 1, 2]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&[b"# base timestamp: 0\n", bytes.as_slice()].concat());
        }

        #[test]
        fn any_words_of_a_log_are_read_or_refused(
            words in proptest::collection::vec("[0-9]{1,22}|[-+#d]|# flow 1: x|\\n", 0..40),
        ) {
            let _ = read(format!("# base timestamp: 7\n{}", words.join(" ")).as_bytes());
        }
    }

    #[test]
    fn each_broken_rule_names_line_and_rule() {
        let form = "must be `T # BYTES`";
        for (line, message) in [
            ("", form),
            ("5", form),
            ("5 +", form),
            ("5 - 1500", form),
            ("5 d 1", form),
            ("5 x 1500", form),
            ("5 # 1500 1", form),
            ("5 + 1500 1 2", form),
            ("-5 + 1500", "the time in ms is `-5`: must be a whole number from 0"),
            ("+5 + 1500", "the time in ms is `+5`"),
            ("5.5 + 1500", "the time in ms is `5.5`"),
            ("99999999999999999999 + 1", "the time in ms is `99999999999999999999`"),
            ("4294967297 + 1500", "since the base timestamp is `4294967297`"),
            ("5 + x", "a length in bytes is `x`: must be a whole number from 0 to 1500000000"),
            ("5 + 1500000001", "a length in bytes is `1500000001`"),
            ("5 + 1500 a", "a flow's number is `a`"),
            ("5 - 1500 5000", "a delay of 5000 ms at 4 ms: the packet came before"),
            ("5 - 1500 -1", "the delay in ms is `-1`"),
            ("5 d 0 0", "the packets dropped is `0`: must be a whole number from 1"),
            ("0 + 1500", "the time is 0 ms, before the base timestamp, 1 ms"),
            ("# base timestamp: 3", "a second `# base timestamp:`"),
            ("# flow x: tcp", "a flow's number is `x`"),
        ] {
            let text = format!("# base timestamp: 1\n{line}\n");
            let said = read(text.as_bytes()).unwrap_err();
            assert!(said.starts_with("line 2: ") && said.contains(message), "{line}: {said}");
        }
        assert!(read(b"5 + 1500\n").unwrap_err().contains("line 1: an event before `# base"));
        assert!(read(b"# base timestamp: x\n").unwrap_err().contains("the base timestamp in ms"));
        assert!(read(b"# \xff\n").unwrap_err().contains("line 1: must be UTF-8"));
        assert!(read(&[b'#'; 100_000]).unwrap_err().contains("at most 65536 bytes"));
    }
}
