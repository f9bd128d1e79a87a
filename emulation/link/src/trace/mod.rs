//! Mahimahi's packet-delivery traces, with its exact semantics; and series of rates, which are
//! turned into such traces ([`series`]).
//!
//! A trace is a text file with one integer a line: a moment in milliseconds at which the link may
//! deliver [`OPPORTUNITY_BYTES`]. Several lines with the same number are several opportunities. An
//! opportunity is lost if no packet waits. After the last line the trace starts again, shifted by
//! its last timestamp, so a leading `0` of the next round is at the same moment as the last line of
//! this one.

mod series;
mod series_error;
mod table;

pub use series_error::SeriesError;
pub(crate) use series_error::refuse;

use crate::time::Nanos;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// What one opportunity delivers: 1500 bytes of packet and [`TUN_HEADER_BYTES`].
///
/// Mahimahi's `PACKET_SIZE`. Its README says 1500; its code says 1504, because its TUN devices put
/// four bytes of packet information before each packet and count them.
pub const OPPORTUNITY_BYTES: u32 = 1504;

/// The packet information that Mahimahi counts with each packet on a trace-driven link.
pub const TUN_HEADER_BYTES: u32 = 4;

/// Hours at a gigabit. The longest published traces have a few megabytes.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Traces longer than 49 days are refused; a timestamp then fits 32 bits.
const TIMESTAMP_MS_MAX: u64 = u32::MAX as u64;

/// The rule that a line of a trace breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineRule {
    /// The line holds no number.
    Empty,
    /// The line is not an integer.
    NotANumber,
    /// The number is below zero.
    Negative,
    /// The number is smaller than the one on the line before.
    Decreasing,
    /// The number is above 2^32 - 1 ms.
    TooLarge,
}

impl fmt::Display for LineRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "is empty; remove it: each line is one timestamp in milliseconds",
            Self::NotANumber => "is not a number; a line is one integer, in milliseconds",
            Self::Negative => "is negative; timestamps count up from 0",
            Self::Decreasing => "is smaller than the line before; sort the trace (sort -n)",
            Self::TooLarge => "is beyond 4294967295 ms (49 days); shift the trace to start near 0",
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("{path}: cannot read the trace: {source}", path = .path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The path is a folder, a pipe or a device.
    #[error("{path}: is not a regular file; a trace is a text file", path = .path.display())]
    NotAFile { path: PathBuf },
    /// The file is not UTF-8. Spreadsheets save text as UTF-16, for example.
    #[error(
        "{path}: is no text in UTF-8; convert it (iconv -f UTF-16 -t UTF-8, or save it as CSV \
         UTF-8)", path = .path.display()
    )]
    NotUtf8 { path: PathBuf },
    #[error("{path}: is above 256 MiB; shorten the trace (head -c)", path = .path.display())]
    TooLong { path: PathBuf },
    #[error("{name}:{line}: `{text}` {rule}")]
    Line {
        name: String,
        /// The line, counted from 1.
        line: usize,
        /// The text of the line, cut to 40 characters.
        text: String,
        rule: LineRule,
    },
    /// Lines of two numbers, in a file whose name does not end in `.csv`.
    #[error(
        "{name}:{line}: `{text}` has two columns, as a series of seconds and Mbit/s has \
         (Pensieve's form), and each line of Mahimahi's form is one integer, in milliseconds; if \
         it is such a series, name the file .csv"
    )]
    TwoColumns { name: String, line: usize, text: String },
    /// The series of rates breaks a rule.
    #[error("{name}: {source}")]
    Series { name: String, source: Box<SeriesError> },
    #[error("{name}: the trace is empty; it needs at least one timestamp above 0")]
    NoLines { name: String },
    /// All timestamps are 0, so a round would take no time.
    #[error("{name}:{line}: all timestamps are 0; the last must be above 0 for the trace to last")]
    AllZero {
        name: String,
        /// The last line, counted from 1.
        line: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    name: String,
    timestamps_ms: Vec<u32>,
}

impl Trace {
    /// Reads a trace file: a series of rates if its name ends in `.csv` or `.json`, and otherwise
    /// Mahimahi's.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        let text = read_text(path)?;
        let name = path.display().to_string();
        let kind = path.extension().map(|kind| kind.to_ascii_lowercase());
        let series = match kind.as_ref().and_then(|kind| kind.to_str()) {
            Some("csv") => series::csv(&name, without_mark(&text)),
            Some("json") => series::json(&name, without_mark(&text)),
            _ => return Self::parse(&name, &text),
        };
        series.map_err(|source| TraceError::Series { name, source: Box::new(source) })
    }

    /// A trace from a generator. The moments must not decrease, and the last must be above 0.
    pub(crate) fn generated(name: &str, timestamps_ms: Vec<u32>) -> Self {
        debug_assert!(timestamps_ms.is_sorted(), "the moments of a trace rise");
        debug_assert!(timestamps_ms.last().is_some_and(|end| *end > 0), "a trace takes time");
        Self { name: name.to_owned(), timestamps_ms }
    }

    /// The text of a trace file in Mahimahi's format.
    pub fn to_text(&self) -> String {
        self.timestamps_ms.iter().fold(String::new(), |text, at| text + &at.to_string() + "\n")
    }

    /// Parses the text of a trace. Errors use `name` for the file.
    pub fn parse(name: &str, text: &str) -> Result<Self, TraceError> {
        let mut timestamps_ms = Vec::new();
        let mut previous = 0;
        for (index, line) in without_mark(text).lines().enumerate() {
            let stamp = parse_line(line, previous).map_err(|rule| {
                let (name, line, text) =
                    (name.to_owned(), index + 1, line.chars().take(40).collect::<String>());
                if line == 1 && rule == LineRule::NotANumber && has_two_numbers(&text) {
                    return TraceError::TwoColumns { name, line, text };
                }
                TraceError::Line { name, line, text, rule }
            })?;
            timestamps_ms.push(stamp);
            previous = stamp;
        }
        match timestamps_ms.last() {
            None => Err(TraceError::NoLines { name: name.to_owned() }),
            Some(0) => {
                Err(TraceError::AllZero { name: name.to_owned(), line: timestamps_ms.len() })
            }
            Some(_) => Ok(Self { name: name.to_owned(), timestamps_ms }),
        }
    }

    /// The name of the trace's file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The opportunities of one round, in milliseconds.
    pub fn timestamps_ms(&self) -> &[u32] {
        &self.timestamps_ms
    }

    /// How long one round lasts: its last timestamp.
    pub fn period(&self) -> Nanos {
        Nanos::from_millis(u64::from(self.timestamps_ms.last().copied().unwrap_or(0)))
    }

    /// The mean rate over one round. An opportunity counts as 1500 bytes of packet.
    pub fn mean_bits_per_sec(&self) -> u64 {
        let bytes = OPPORTUNITY_BYTES - TUN_HEADER_BYTES;
        let bits = self.timestamps_ms.len() as u128 * u128::from(bytes) * 8;
        let rate = (bits * 1_000_000_000).checked_div(u128::from(self.period().0)).unwrap_or(0);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

/// Reads a text file of at most 256 MiB.
pub(crate) fn read_text(path: &Path) -> Result<String, TraceError> {
    let failed = |source| TraceError::Read { path: path.to_owned(), source };
    // Reading a pipe would block, and a device has no end.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(TraceError::NotAFile { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    let mut limited = File::open(path).map_err(failed)?.take(FILE_BYTES_MAX + 1);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TraceError::TooLong { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|_| TraceError::NotUtf8 { path: path.to_owned() })
}

/// The text without the byte-order mark with which Windows' programs begin a text in UTF-8.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn has_two_numbers(line: &str) -> bool {
    let cells = line.split(|c: char| c == ',' || c == ';' || c.is_whitespace());
    let mut cells = cells.filter(|cell| !cell.is_empty());
    let mut is_number = || cells.next().is_some_and(|cell| cell.parse::<f64>().is_ok());
    is_number() && is_number()
}

fn parse_line(line: &str, previous_ms: u32) -> Result<u32, LineRule> {
    let text = line.trim();
    if text.is_empty() {
        return Err(LineRule::Empty);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(LineRule::NotANumber);
    }
    if digits.len() < text.len() {
        return Err(LineRule::Negative);
    }
    let wide = digits.parse::<u64>().map_err(|_| LineRule::TooLarge)?;
    if wide > TIMESTAMP_MS_MAX {
        return Err(LineRule::TooLarge);
    }
    let stamp = u32::try_from(wide).map_err(|_| LineRule::TooLarge)?;
    if stamp < previous_ms { Err(LineRule::Decreasing) } else { Ok(stamp) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, message: &str) {
        let error = Trace::parse("cell.trace", text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error:?} does not start with {message:?}");
    }

    #[test]
    fn each_broken_rule_names_file_line_and_rule() {
        check("1\n\n2\n", "cell.trace:2: `` is empty");
        check("1\n2x\n", "cell.trace:2: `2x` is not a number");
        check("1.5\n", "cell.trace:1: `1.5` is not a number");
        check("+3\n", "cell.trace:1: `+3` is not a number");
        check("-\n", "cell.trace:1: `-` is not a number");
        check("1\n2\n-1\n", "cell.trace:3: `-1` is negative");
        check("5\n4\n", "cell.trace:2: `4` is smaller");
        check("4294967296\n", "cell.trace:1: `4294967296` is beyond");
        check("99999999999999999999999\n", "cell.trace:1: `99999999999999999999999` is beyond");
        check("0\n0\n", "cell.trace:2: all timestamps are 0");
        check("", "cell.trace: the trace is empty");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Trace::load(Path::new("/nonexistent/x.trace")).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent/x.trace: cannot read the trace"), "{error}");
        for path in ["/dev/zero", "/tmp"] {
            let error = Trace::load(Path::new(path)).unwrap_err().to_string();
            assert_eq!(error, format!("{path}: is not a regular file; a trace is a text file"));
        }
    }

    #[test]
    fn a_series_is_told_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let load = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            Trace::load(&path).map_err(|error| error.to_string())
        };
        assert_eq!(load("a.csv", "0,12\n0.002,12\n").unwrap().timestamps_ms(), [1, 2, 3, 4]);
        let json = r#"{"timestamps": [0, 0.002], "bandwidths": [12, 12]}"#;
        assert_eq!(load("a.JSON", json).unwrap().timestamps_ms(), [1, 2]);
        assert_eq!(load("a.trace", "3\n").unwrap().to_text(), "3\n");
        let error = load("b.csv", "0,x\n").unwrap_err();
        assert!(error.contains("b.csv: line 1: must be seconds and Mbit/s"), "{error}");
    }

    #[test]
    fn a_series_in_the_form_of_another_project_is_named_with_the_fix() {
        for text in ["0.0\t1.35\n0.5\t2.1\n", "0 4.2\n", "0.5, 12.3\n"] {
            let error = Trace::parse("norway_bus_1", text).unwrap_err().to_string();
            assert!(error.starts_with("norway_bus_1:1: `0"), "{error}");
            assert!(error.contains("Pensieve's form") && error.ends_with("name the file .csv"));
        }
        check("1\n2 3\n", "cell.trace:2: `2 3` is not a number");
    }

    #[test]
    fn a_byte_order_mark_is_skipped_and_another_encoding_named() {
        let folder = tempfile::tempdir().unwrap();
        let load = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            Trace::load(&path).map_err(|error| error.to_string())
        };
        let marked = |text: &str| format!("\u{feff}{text}").into_bytes();
        let json = r#"{"timestamps": [0, 0.002], "bandwidths": [12, 12]}"#;
        for (name, text, want) in [
            ("a.trace", "1\n2\n", [1, 2]),
            ("a.csv", "s,mbps\n0,12\n0.001,12\n", [1, 2]),
            ("b.csv", "0,12\n0.001,12\n", [1, 2]),
            ("a.json", json, [1, 2]),
        ] {
            assert_eq!(load(name, &marked(text)).unwrap().timestamps_ms(), want, "{name}");
        }
        let wide: Vec<u8> = "\u{feff}0,12\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let error = load("wide.csv", &wide).unwrap_err();
        assert!(error.contains("wide.csv: is no text in UTF-8; convert it (iconv"), "{error}");
    }

    #[test]
    fn windows_line_ends_and_a_missing_last_newline_are_read() {
        let trace = Trace::parse("t", "0\r\n1\r\n1\r\n7").unwrap();
        assert_eq!(trace.timestamps_ms(), [0, 1, 1, 7]);
        assert_eq!(trace.period(), Nanos::from_millis(7));
    }

    #[test]
    fn one_opportunity_a_millisecond_is_12_mbit_per_sec() {
        assert_eq!(Trace::parse("t", "1\n").unwrap().mean_bits_per_sec(), 12_000_000);
    }
}
