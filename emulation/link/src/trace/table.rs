//! Finds the columns of a CSV file that hold seconds and Mbit/s.
//!
//! A file has one separator, which its first line shows: a semicolon, a comma, a tab, or blanks.
//! Without a header, a file has exactly two columns. A header names the columns: by these names the
//! two are found among others, in any order. A header of two columns whose names say neither a
//! quantity nor a unit is taken in the order seconds, Mbit/s. A name with another unit, such as
//! `time_ms`, is refused: the file would be read as another trace.

use super::series_error::{SeriesError, refuse};

/// Names that say a time, and units of it that are seconds.
const TIME_WORDS: [&str; 12] = [
    "s",
    "sec",
    "secs",
    "second",
    "seconds",
    "t",
    "time",
    "times",
    "timestamp",
    "timestamps",
    "elapsed",
    "moment",
];
/// Names that say a rate, and units of it that are Mbit/s.
const RATE_WORDS: [&str; 12] = [
    "mbit",
    "mbits",
    "mbps",
    "megabit",
    "megabits",
    "rate",
    "bandwidth",
    "bandwidths",
    "bw",
    "throughput",
    "capacity",
    "goodput",
];
/// Units other than seconds and Mbit/s.
const OTHER_UNITS: [&str; 36] = [
    "ms",
    "msec",
    "msecs",
    "millis",
    "millisecond",
    "milliseconds",
    "us",
    "usec",
    "micros",
    "ns",
    "nanos",
    "min",
    "minute",
    "minutes",
    "h",
    "hour",
    "hours",
    "date",
    "bit",
    "bits",
    "bps",
    "kbit",
    "kbits",
    "kbps",
    "gbit",
    "gbits",
    "gbps",
    "byte",
    "bytes",
    "kb",
    "mb",
    "gb",
    "kbytes",
    "mbytes",
    "pkts",
    "packets",
];
/// Cells that stand for a missing value.
const MISSING: [&str; 6] = ["na", "n/a", "nan", "null", "none", "-"];

/// Seconds and Mbit/s, with the number of the line they are from.
pub(super) struct Row {
    pub(super) line: usize,
    pub(super) at_s: f64,
    pub(super) rate: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Character(char),
    Blanks,
}

impl Separator {
    fn of(line: &str) -> Self {
        let found = [';', ',', '\t'].into_iter().find(|separator| line.contains(*separator));
        found.map_or(Self::Blanks, Self::Character)
    }

    /// The cells of a line, without the blanks and quotation marks around them.
    fn cells(self, line: &str) -> Vec<&str> {
        match self {
            Self::Character(separator) => line.split(separator).map(unquoted).collect(),
            Self::Blanks => line.split_whitespace().map(unquoted).collect(),
        }
    }
}

fn unquoted(cell: &str) -> &str {
    let cell = cell.trim();
    let inner = cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"'));
    inner.map_or(cell, str::trim)
}

/// What the name of a column says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Seconds,
    Rate,
    /// A unit that is neither seconds nor Mbit/s.
    OtherUnit,
    Nothing,
    /// A name in which no word is known.
    Unknown,
}

impl Says {
    fn of(name: &str) -> Self {
        let words = words(name);
        let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
        // `MB/s` counts bytes, and `Mb/s` bits.
        let is_megabit = name.contains("Mb/s") || name.contains("Mb_per_s");
        if name.is_empty() {
            Self::Nothing
        } else if has(&OTHER_UNITS) && !is_megabit {
            Self::OtherUnit
        } else if has(&RATE_WORDS) || is_megabit {
            Self::Rate
        } else if has(&TIME_WORDS) {
            Self::Seconds
        } else {
            Self::Unknown
        }
    }
}

/// The words of a name, in lower case: `timeMs` and `time (ms)` are `time` and `ms`.
fn words(name: &str) -> Vec<String> {
    let mut apart = String::new();
    let mut was_lower = false;
    for letter in name.chars() {
        if was_lower && letter.is_uppercase() {
            apart.push(' ');
        }
        was_lower = letter.is_lowercase();
        apart.push(if letter.is_alphanumeric() { letter } else { ' ' });
    }
    apart.split_whitespace().map(str::to_lowercase).collect()
}

/// How to read the lines of a file.
struct Columns {
    separator: Separator,
    count: usize,
    seconds: usize,
    rate: usize,
}

/// Reads all lines. Empty lines and those that begin with `#` are skipped.
pub(super) fn rows(text: &str) -> Result<Vec<Row>, SeriesError> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
    let Some((number, first)) = lines.peek().copied() else { return Ok(Vec::new()) };
    let place = format!("line {number}");
    let separator = Separator::of(first);
    if let Some(cell) = first.split_whitespace().find(|cell| has_decimal_comma(cell))
        && first.split_whitespace().nth(1).is_some()
    {
        return Err(refuse(place, decimal_comma(cell)));
    }
    let cells = separator.cells(first);
    let columns = if is_header(&cells) {
        lines.next();
        named(separator, &cells).map_err(|rule| refuse(place, rule))?
    } else if cells.len() == 2 {
        Columns { separator, count: 2, seconds: 0, rate: 1 }
    } else {
        return Err(refuse(place, unnamed(cells.len())));
    };
    lines.map(|(number, line)| columns.row(number, line)).collect()
}

/// Whether no cell looks like data: a header's cells are words, and pandas leaves the name of its
/// index empty.
fn is_header(cells: &[&str]) -> bool {
    let is_word = |cell: &str| {
        cell.parse::<f64>().is_err()
            && !MISSING.contains(&cell.to_lowercase().as_str())
            && !cell.starts_with(|c: char| c.is_ascii_digit() || ['-', '+', '.'].contains(&c))
    };
    cells.iter().any(|cell| !cell.is_empty()) && cells.iter().all(|cell| is_word(cell))
}

fn unnamed(count: usize) -> String {
    let columns = if count == 1 { "column" } else { "columns" };
    let comma =
        if count > 2 { "; if its numbers have decimal commas, write decimal points" } else { "" };
    format!(
        "has {count} {columns}: must be seconds and Mbit/s, as in `0.5, 12.3`. A file with other \
         columns needs a header that names these two, such as `time_s` and `mbps`{comma}"
    )
}

/// The columns that a header names.
fn named(separator: Separator, names: &[&str]) -> Result<Columns, String> {
    let says: Vec<Says> = names.iter().map(|name| Says::of(name)).collect();
    let all = |wanted: Says| -> Vec<usize> {
        (0..says.len()).filter(|column| says[*column] == wanted).collect()
    };
    let columns = |seconds, rate| Columns { separator, count: names.len(), seconds, rate };
    let (times, rates) = (all(Says::Seconds), all(Says::Rate));
    if let ([seconds], [rate]) = (&times[..], &rates[..]) {
        return Ok(columns(*seconds, *rate));
    }
    if let [first, second] = says[..]
        && matches!(first, Says::Unknown | Says::Seconds)
        && matches!(second, Says::Unknown | Says::Rate)
    {
        return Ok(columns(0, 1));
    }
    let list = |columns: &[usize]| {
        let quoted: Vec<String> = columns.iter().map(|at| format!("`{}`", names[*at])).collect();
        quoted.join(", ")
    };
    let others = all(Says::OtherUnit);
    let cause = if times.len() > 1 {
        format!("{} are all times", list(&times))
    } else if rates.len() > 1 {
        format!("{} are all rates", list(&rates))
    } else if !others.is_empty() {
        format!("{}: another unit; convert the numbers", list(&others))
    } else if says.len() == 2 && says[0] == Says::Nothing {
        let pandas = "that is pandas' index, not a time; save with `index_label=\"time_s\"` if it \
                      holds seconds";
        format!("the first column has no name: {pandas}")
    } else {
        let what = if times.is_empty() { "seconds" } else { "Mbit/s" };
        format!("no column is named as {what}")
    };
    let rule = "one column must hold seconds (named `time_s`) and one Mbit/s (named `mbps`)";
    Err(format!("the header names {} columns: {rule}; {cause}", names.len()))
}

impl Columns {
    fn row(&self, line: usize, text: &str) -> Result<Row, SeriesError> {
        let place = || format!("line {line}");
        let cells = self.separator.cells(text);
        let number = |column: usize| {
            let cell = cells.get(column).copied().unwrap_or_default();
            cell.parse::<f64>().map_err(|_| refuse(place(), self.not_a_number(cell, column)))
        };
        if let Some(cell) = cells.iter().find(|cell| has_decimal_comma(cell)) {
            return Err(refuse(place(), decimal_comma(cell)));
        }
        if cells.len() != self.count {
            let rule = format!(
                "must be seconds and Mbit/s, as in `0.5, 12.3`: the line has {} columns and the \
                 first line {}; a file has one separator",
                cells.len(),
                self.count
            );
            return Err(refuse(place(), rule));
        }
        Ok(Row { line, at_s: number(self.seconds)?, rate: number(self.rate)? })
    }

    fn not_a_number(&self, cell: &str, column: usize) -> String {
        let rule = "must be seconds and Mbit/s, as in `0.5, 12.3`";
        if cell.is_empty() {
            let fix = "remove the line or fill it in";
            return format!("{rule}: column {} is empty; {fix}", column + 1);
        }
        let cell: String = cell.chars().take(40).collect();
        format!("{rule}: `{cell}` in column {} is not a number", column + 1)
    }
}

fn has_decimal_comma(cell: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = cell.trim_start_matches(['-', '+']);
    number.split_once(',').is_some_and(|(whole, part)| digits(whole) && digits(part))
}

fn decimal_comma(cell: &str) -> String {
    let fix = "separate the columns by `;`, a tab or blanks, and run `sed -i 's/,/./g' FILE`";
    format!("`{cell}` has a decimal comma; write decimal points: {fix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(f64, f64)>, String> {
        let rows = rows(text).map_err(|error| error.to_string())?;
        Ok(rows.into_iter().map(|row| (row.at_s, row.rate)).collect())
    }

    #[test]
    fn two_columns_or_columns_by_name_are_read() {
        for text in [
            "0,12\n0.5,6\n",
            "0, 12\r\n0.5, 6\r\n",
            "# numpy's header\n0 12\n0.5   6\n",
            "0\t12\n0.5\t6",
            "s;Mbit/s\n0;12\n0.5;6",
            "s Mbit/s\n0 12\n0.5 6",
            "a,b\n0,12\n0.5,6",
            "mbps,time_s\n12,0\n6,0.5",
            ",time_s,mbps\n0,0,12\n1,0.5,6",
            "\"\",\"time\",\"rate\"\n\"1\",0,12\n\"2\",\"0.5\",6",
            "rtt_ms,Time (s),Bandwidth [Mb/s],note\n1,0,12,\n1,0.5,6,x",
            "timestamps,rssi,bandwidths\n0,-80,12\n0.5,,6",
        ] {
            assert_eq!(read(text), Ok(vec![(0.0, 12.0), (0.5, 6.0)]), "{text:?}");
        }
        assert_eq!(read("# nothing\n\n"), Ok(Vec::new()));
    }

    #[test]
    fn what_would_be_read_as_another_trace_is_refused() {
        for (text, want) in [
            // pandas' index, without and with names.
            ("0,0.0,12\n1,0.5,6\n", "line 1: has 3 columns: must be seconds and Mbit/s"),
            (",0,1\n0,0.0,12\n", "line 1: has 3 columns"),
            (",mbps\n0,12\n", "the first column has no name: that is pandas' index"),
            (",rate,throughput\n0,1,2", "`rate`, `throughput` are all rates"),
            // Empty cells.
            ("0,12\n0.5,\n", "line 2: must be seconds and Mbit/s, as in `0.5, 12.3`: column 2 is"),
            ("0,12\n,6\n", "line 2: must be seconds and Mbit/s, as in `0.5, 12.3`: column 1 is"),
            ("0\t12\n0.5\t\t6\n", "line 2: must be seconds and Mbit/s, as in `0.5, 12.3`: the"),
            ("0,12\n0.5,,6\n", "the line has 3 columns and the first line 2"),
            (",12\n0.5,6\n", "line 1: must be seconds and Mbit/s"),
            ("0,12,\n0.5,6,\n", "line 1: has 3 columns"),
            // Decimal commas.
            ("0,0;12,5\n", "line 1: `0,0` has a decimal comma; write decimal points"),
            ("s;Mbit/s\n0,5;12\n", "line 2: `0,5` has a decimal comma"),
            ("0,0 12,5\n", "line 1: `0,0` has a decimal comma"),
            ("0,0\t12\n", "line 1: `0,0` has a decimal comma"),
            ("0,0,12,5\n", "line 1: has 4 columns: must be seconds and Mbit/s, as in `0.5, 12.3`"),
            ("0,12\n1,12,5\n", "line 2: must be seconds and Mbit/s"),
            // A first line that is no header.
            ("0,12x\n1,12\n", "line 1: must be seconds and Mbit/s, as in `0.5, 12.3`: `12x` in"),
            ("NA,12\n1,12\n", "line 1: must be seconds and Mbit/s, as in `0.5, 12.3`: `NA` in"),
            ("NA,NA\n1,12\n", "line 1: must be seconds and Mbit/s"),
            ("12 Mbit/s\n", "line 1: must be seconds and Mbit/s"),
            ("0\n1\n", "line 1: has 1 column: must be seconds and Mbit/s"),
            ("hello\n1,2\n", "line 1: the header names 1 columns"),
            ("a,b\nc,d\n1,2", "line 2: must be seconds and Mbit/s"),
            // Other units, other orders, other separators.
            ("time_ms,mbps\n0,12\n", "`time_ms`: another unit; convert the numbers"),
            ("timeMs,Kbps\n0,12\n", "`timeMs`, `Kbps`: another unit"),
            ("s,MB/s\n0,12\n", "`MB/s`: another unit"),
            ("rate,x\n12,0\n", "no column is named as seconds"),
            ("x,y,mbps\n1,0,12\n", "no column is named as seconds"),
            ("time,x,y\n1,0,12\n", "no column is named as Mbit/s"),
            ("0,12\n0.5;6\n", "the line has 1 columns and the first line 2; a file has one sep"),
            ("time,rate\n0 12\n", "the line has 1 columns and the first line 2; a file has one"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(want), "{text:?}: {error}");
        }
    }
}
