//! Turns series of rates, as published measurements have them, into a trace's opportunities.
//!
//! Two forms:
//!
//! - **CSV**: one rate a line: seconds and Mbit/s, separated by a comma, a semicolon or blanks. A
//!   first line with names is skipped, and so are lines that begin with `#`. A rate holds until the
//!   moment of the next line. The last rate holds as long as the one before it; a single rate holds
//!   for a second.
//! - **JSON**, the format of Genet's Pantheon runs: an object with `timestamps` (seconds) and
//!   `bandwidths` (Mbit/s), two lists of equal length. A rate holds until the next moment; the last
//!   moment is the end. `delays`, `loss`, `queue`, `delay_noise` and `T_s` describe the path, not
//!   the rate: they are not read, and a scenario sets them with its own keys.
//!
//! Rates are not interpolated. They count IP bytes: at 12 Mbit/s there is one opportunity of a full
//! packet each millisecond. An opportunity falls in the millisecond in which the bytes so far reach
//! another packet; a part of a packet carries over to the next rate. The first moment counts as 0.
//! The round ends with the series, and has an opportunity there.

use super::{OPPORTUNITY_BYTES, TIMESTAMP_MS_MAX, TUN_HEADER_BYTES, Trace};
use serde::Deserialize;
use std::fmt;

/// The largest number of opportunities in a round: hours at a gigabit.
const OPPORTUNITIES_MAX: f64 = 100e6;
const MBIT_PER_SEC_MAX: f64 = 100_000.0;

/// A rule that a series breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesError {
    /// The line, counted from 1; or the position in a list, counted from 0.
    pub place: String,
    pub rule: String,
}

impl fmt::Display for SeriesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.rule)
    }
}

impl std::error::Error for SeriesError {}

fn refuse(place: impl fmt::Display, rule: impl Into<String>) -> SeriesError {
    SeriesError { place: place.to_string(), rule: rule.into() }
}

/// Rates in Mbit/s, each from its moment in seconds, and the end.
#[derive(Debug, Default)]
struct Series {
    rates: Vec<(f64, f64)>,
    end_s: f64,
}

#[derive(Deserialize)]
struct Json {
    timestamps: Vec<f64>,
    bandwidths: Vec<f64>,
}

impl Series {
    fn push(
        &mut self,
        place: impl Fn() -> String,
        at_s: f64,
        rate: f64,
    ) -> Result<(), SeriesError> {
        if !at_s.is_finite() {
            return Err(refuse(place(), "the moment must be a number of seconds"));
        }
        if !(0.0..=MBIT_PER_SEC_MAX).contains(&rate) {
            let rule = format!("the rate is {rate}: it must be between 0 and 100000 Mbit/s");
            return Err(refuse(place(), rule));
        }
        if self.rates.last().is_some_and(|(before_s, _)| *before_s >= at_s) {
            let rule =
                format!("{at_s} s does not come after the moment before it; sort the series");
            return Err(refuse(place(), rule));
        }
        self.rates.push((at_s, rate));
        Ok(())
    }

    fn csv(text: &str) -> Result<Self, SeriesError> {
        let mut series = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = || format!("line {}", index + 1);
            let apart = |c: char| c == ',' || c == ';' || c.is_whitespace();
            let mut cells = line.split(apart).filter(|cell| !cell.is_empty());
            let number = |cell: Option<&str>| cell.and_then(|cell| cell.parse::<f64>().ok());
            let (first, second) = (number(cells.next()), number(cells.next()));
            match (first, second) {
                (Some(at_s), Some(rate)) => series.push(place, at_s, rate)?,
                (None, _) if series.rates.is_empty() && index == 0 => {}
                _ => return Err(refuse(place(), "must be seconds and Mbit/s, as in `0.5, 12.3`")),
            }
        }
        let times = series.rates.iter().rev().map(|(at_s, _)| *at_s);
        let [last, before] = [0, 1].map(|n| times.clone().nth(n));
        let last_s = last.ok_or_else(|| refuse("the series", "is empty"))?;
        series.end_s = last_s + before.map_or(1.0, |before_s| last_s - before_s);
        Ok(series)
    }

    fn json(text: &str) -> Result<Self, SeriesError> {
        let json: Json =
            serde_json::from_str(text).map_err(|error| refuse("the JSON", error.to_string()))?;
        let (times, rates) = (json.timestamps, json.bandwidths);
        if times.len() != rates.len() || times.len() < 2 {
            let rule = format!(
                "{} timestamps and {} bandwidths: there must be as many, and at least 2",
                times.len(),
                rates.len()
            );
            return Err(refuse("the JSON", rule));
        }
        let mut series = Self::default();
        for (index, (at_s, rate)) in times.into_iter().zip(rates).enumerate() {
            series.push(|| format!("timestamps[{index}]"), at_s, rate)?;
        }
        series.end_s = series.rates.pop().map_or(0.0, |(end_s, _)| end_s);
        Ok(series)
    }

    /// The opportunities in whole milliseconds from the start.
    fn stamps(&self) -> Result<Vec<u32>, SeriesError> {
        let start_s = self.rates.first().map_or(0.0, |(at_s, _)| *at_s);
        let end_ms = (self.end_s - start_s) * 1e3;
        if end_ms > TIMESTAMP_MS_MAX as f64 {
            return Err(refuse("the series", "lasts longer than 49 days"));
        }
        let ends = self.rates.iter().skip(1).map(|(at_s, _)| *at_s).chain([self.end_s]);
        let spans: Vec<(f64, f64, f64)> = self
            .rates
            .iter()
            .zip(ends)
            .map(|((at_s, rate), end_s)| ((at_s - start_s) * 1e3, (end_s - start_s) * 1e3, *rate))
            .collect();
        let bits = f64::from((OPPORTUNITY_BYTES - TUN_HEADER_BYTES) * 8);
        let packets = |from_ms: f64, to_ms: f64, rate: f64| (to_ms - from_ms) * rate * 1e3 / bits;
        let total: f64 = spans.iter().map(|(from, to, rate)| packets(*from, *to, *rate)).sum();
        if total > OPPORTUNITIES_MAX {
            return Err(refuse("the series", "holds more than 100 million packets; cut it"));
        }
        let mut stamps = Vec::with_capacity(total as usize + 1);
        let mut owed = 0.0;
        for (from_ms, to_ms, rate) in spans {
            let due = owed + packets(from_ms, to_ms, rate);
            // The nth opportunity is when the bytes so far reach n packets, rounded up to a
            // millisecond.
            for n in 1..=due as u64 {
                let at_ms = from_ms + (n as f64 - owed) * bits / (rate * 1e3);
                stamps.push(at_ms.min(to_ms).ceil() as u32);
            }
            owed = due.fract();
        }
        let end = (end_ms.round() as u32).max(1);
        stamps.iter_mut().for_each(|at| *at = (*at).min(end));
        if stamps.last() != Some(&end) {
            stamps.push(end);
        }
        Ok(stamps)
    }
}

pub(super) fn csv(name: &str, text: &str) -> Result<Trace, SeriesError> {
    Ok(Trace::generated(name, Series::csv(text)?.stamps()?))
}

pub(super) fn json(name: &str, text: &str) -> Result<Trace, SeriesError> {
    Ok(Trace::generated(name, Series::json(text)?.stamps()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn stamps(text: &str, want: &[u32]) {
        assert_eq!(csv("t", text).unwrap().timestamps_ms(), want, "{text:?}");
    }

    #[test]
    fn a_rate_holds_until_the_next_and_the_last_as_long_as_the_one_before() {
        stamps("0,12\n0.003,0\n0.005,24\n", &[1, 2, 3, 6, 6, 7, 7]);
        stamps("s;Mbit/s\n10;6\n10.004;6", &[2, 4, 6, 8]);
        stamps("# what\n0 8\n0.003 8\n", &[2, 3, 5, 6]);
        let second = csv("t", "0,12").unwrap();
        assert_eq!((second.timestamps_ms().len(), second.mean_bits_per_sec()), (1000, 12_000_000));
    }

    #[test]
    fn the_last_moment_of_json_is_the_end() {
        let text = r#"{"timestamps": [0, 0.002, 0.004], "bandwidths": [12, 24, 9],
                       "delays": [20], "loss": 0, "queue": 10, "T_s": 0}"#;
        assert_eq!(json("t", text).unwrap().timestamps_ms(), [1, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn a_refusal_says_where_and_why() {
        for (text, message) in [
            ("", "the series: is empty"),
            ("a,b\n", "the series: is empty"),
            ("a,b\nc,d\n", "line 2: must be seconds and Mbit/s"),
            ("0,12\n1\n", "line 2: must be seconds and Mbit/s"),
            ("0,12\n0,13\n", "line 2: 0 s does not come after"),
            ("0,-1\n", "line 1: the rate is -1: it must be between 0"),
            ("0,nan\n", "line 1: the rate is NaN"),
            ("inf,1\n", "line 1: the moment must be a number"),
            ("0,100000\n100,100000\n", "the series: holds more than 100 million"),
            ("0,1\n5000000,1\n", "the series: lasts longer than 49 days"),
        ] {
            let error = csv("t", text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
        for (text, message) in [
            ("{}", "the JSON: missing field `timestamps`"),
            (r#"{"timestamps": [0], "bandwidths": [1]}"#, "the JSON: 1 timestamps and 1"),
            (r#"{"timestamps": [1, 0], "bandwidths": [1, 1]}"#, "timestamps[1]: 0 s does not"),
        ] {
            let error = json("t", text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
    }

    proptest! {
        /// For any steps: opportunities are in order, within the round, and as many as the rates
        /// bring.
        #[test]
        fn no_packet_is_made_up_or_lost(
            steps in proptest::collection::vec((1u32..3_000, 0.0f64..200.0), 1..30),
        ) {
            let mut at_ms = 0;
            let mut packets = 0.0;
            let mut text = String::new();
            for (span_ms, rate) in &steps {
                text.push_str(&format!("{},{rate}\n", f64::from(at_ms) / 1e3));
                at_ms += span_ms;
                packets += f64::from(*span_ms) * rate / 12.0;
            }
            text.push_str(&format!("{},0\n", f64::from(at_ms) / 1e3));
            let trace = csv("t", &text).unwrap();
            let stamps = trace.timestamps_ms();
            prop_assert!(stamps.is_sorted());
            // One more is allowed at the end of the round, where a rate of zero leaves none.
            let off = stamps.len() as f64 - packets;
            prop_assert!((-1e-6..=1.0 + 1e-6).contains(&off), "{off}");
        }
    }
}
