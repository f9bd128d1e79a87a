//! Turns series of rates, as published measurements have them, into a trace's opportunities.
//!
//! Two forms:
//!
//! - **CSV**: one rate a line: seconds and Mbit/s, two columns, or two that a header names (see
//!   [`table`](super::table)). Lines that begin with `#` are skipped. A rate holds until the moment
//!   of the next line. The last rate holds as long as the one before it; a single rate holds for a
//!   second.
//! - **JSON**, the format of Genet's Pantheon runs: an object with `timestamps` (seconds) and
//!   `bandwidths` (Mbit/s), two lists of equal length. A rate holds until the next moment; the last
//!   moment is the end. `delays`, `loss`, `queue`, `delay_noise` and `T_s` describe the path, not
//!   the rate: they are not read, and a scenario sets them with its own keys.
//!
//! Rates are not interpolated. They count IP bytes: at 12 Mbit/s there is one opportunity of a full
//! packet each millisecond. An opportunity falls in the millisecond in which the bytes so far reach
//! another packet; a part of a packet carries over to the next rate. The first moment counts as 0.
//! The round ends with the series, and has an opportunity there.

use super::series_error::{SeriesError, refuse};
use super::{OPPORTUNITY_BYTES, TIMESTAMP_MS_MAX, TUN_HEADER_BYTES, Trace, table};
use serde::Deserialize;
use serde_json::Value;

/// The largest number of opportunities in a round: hours at a gigabit.
const OPPORTUNITIES_MAX: f64 = 100e6;
const MBIT_PER_SEC_MAX: f64 = 100_000.0;
/// The year 5138, as seconds since 1970. Later moments are milliseconds or less.
const AT_S_MAX: f64 = 1e11;

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

/// The cause and the fix for a trace of AlphaRTC, as OpenNetLab's gym has it too.
const ALPHARTC: &str = "is a trace of AlphaRTC, which lists `duration` (ms) and `capacity` \
                        (kbit/s); write a .csv, with `jq -r '.uplink.trace_pattern | foreach .[] \
                        as $p (0; . + $p.duration; \"\\((. - $p.duration) / 1000),\\($p.capacity \
                        / 1000)\")' FILE`";

fn is_alphartc(value: &Value) -> bool {
    let is_pattern = |value: &Value| value.get("trace_pattern").is_some();
    is_pattern(value)
        || ["uplink", "downlink"].iter().filter_map(|key| value.get(key)).any(is_pattern)
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
        if at_s.abs() > AT_S_MAX {
            let rule = format!("the moment {at_s} is no number of seconds; divide milliseconds");
            return Err(refuse(place(), rule + " by 1000"));
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
        for row in table::rows(text)? {
            series.push(|| format!("line {}", row.line), row.at_s, row.rate)?;
        }
        let times = series.rates.iter().rev().map(|(at_s, _)| *at_s);
        let [last, before] = [0, 1].map(|n| times.clone().nth(n));
        let last_s = last.ok_or_else(|| refuse("the series", "is empty"))?;
        series.end_s = last_s + before.map_or(1.0, |before_s| last_s - before_s);
        Ok(series)
    }

    fn json(text: &str) -> Result<Self, SeriesError> {
        let failed = |error: serde_json::Error| refuse("the JSON", error.to_string());
        let value: Value = serde_json::from_str(text).map_err(failed)?;
        if is_alphartc(&value) {
            return Err(refuse("the JSON", ALPHARTC));
        }
        let json = Json::deserialize(value).map_err(failed)?;
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
            ("1573034400000,1\n", "line 1: the moment 1573034400000 is no number of seconds"),
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
            (
                r#"{"type": "video", "downlink": {}, "uplink": {"trace_pattern": []}}"#,
                "the JSON: is a trace of AlphaRTC, which lists `duration` (ms) and `capacity`",
            ),
        ] {
            let error = json("t", text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
    }

    /// The command that the error of a trace of AlphaRTC names.
    #[test]
    fn a_trace_of_alphartc_is_converted_by_the_command_in_its_error() {
        let text = r#"{"uplink": {"trace_pattern": [{"duration": 500, "capacity": 300},
                       {"duration": 1000, "capacity": 1500}]}}"#;
        let error = json("t", text).unwrap_err().to_string();
        let (_, command) =
            error.split_once('`').and_then(|(_, rest)| rest.split_once("`jq")).unwrap();
        assert!(command.ends_with(" FILE`"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("FILE"), text).unwrap();
        let line = format!("jq{}", command.trim_end_matches('`'));
        let mut shell = std::process::Command::new("sh");
        match shell.args(["-c", &line]).current_dir(folder.path()).output() {
            Ok(output) if output.status.success() => {
                assert_eq!(String::from_utf8_lossy(&output.stdout), "0,0.3\n0.5,1.5\n");
            }
            Ok(output) if output.status.code() == Some(127) => println!("SKIPPED: no jq"),
            other => panic!("{line}: {other:?}"),
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
