//! Reads recorded round trips: what `ping -D` prints, or CSV lines of seconds and milliseconds.
//!
//! ```text
//! [1700000000.123456] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=57 time=12.3 ms
//! 0.0,12.3
//! ```
//!
//! A round trip holds until the moment of the next one. A recording with a gap is refused: nobody
//! knows what the path was like meanwhile.

use crate::trace::{TraceError, read_text, refuse, without_mark};
use std::path::Path;

/// A minute: longer than any path on earth, or to the moon.
const RTT_MS_MAX: f64 = 60_000.0;
/// A longer pause than so many usual ones is a gap.
const GAP: f64 = 5.0;
const SAMPLES_MIN: usize = 2;

/// Round trips, each from its moment on.
#[derive(Clone, Debug, PartialEq)]
pub struct RttSeries {
    /// Seconds since the first, and milliseconds.
    samples: Vec<(f64, f64)>,
    /// How long the last one holds: the usual pause between two.
    last_s: f64,
}

/// One line, before it is compared with the others.
struct Sample {
    line: usize,
    at_s: f64,
    rtt_ms: f64,
    /// The number of the ping; `None` in CSV.
    number: Option<u16>,
}

impl RttSeries {
    /// Reads a file. The error names the file, the line and the rule.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        Self::parse(&path.display().to_string(), &read_text(path)?)
    }

    /// Parses a text. Errors use `name` for the file.
    pub fn parse(name: &str, text: &str) -> Result<Self, TraceError> {
        let failed = |line: usize, rule: String| TraceError::Series {
            name: name.to_owned(),
            source: Box::new(refuse(format!("line {line}"), rule)),
        };
        let mut samples: Vec<Sample> = Vec::new();
        for (index, text) in without_mark(text).lines().enumerate() {
            let line = index + 1;
            let sample = sample(text, line, samples.is_empty()).map_err(|it| failed(line, it))?;
            let Some(sample) = sample else { continue };
            if let Some(before) = samples.last() {
                follows(before, &sample).map_err(|rule| failed(line, rule))?;
            }
            samples.push(sample);
        }
        if samples.len() < SAMPLES_MIN {
            let rule = format!("{} round trips; a series has at least 2", samples.len());
            return Err(failed(samples.last().map_or(1, |it| it.line), rule));
        }
        let mut pauses: Vec<f64> = samples.windows(2).map(|it| it[1].at_s - it[0].at_s).collect();
        pauses.sort_by(f64::total_cmp);
        let usual_s = pauses[pauses.len() / 2];
        for pair in samples.windows(2) {
            let pause_s = pair[1].at_s - pair[0].at_s;
            if pause_s > GAP * usual_s {
                let rule = format!(
                    "comes {pause_s:.3} s after the line before, and the usual pause is \
                     {usual_s:.3} s: the series has a gap; replay the parts apart"
                );
                return Err(failed(pair[1].line, rule));
            }
        }
        let start_s = samples[0].at_s;
        let samples = samples.iter().map(|it| (it.at_s - start_s, it.rtt_ms)).collect();
        Ok(Self { samples, last_s: usual_s })
    }

    /// The moments in seconds, and the round trips in milliseconds.
    pub fn samples(&self) -> &[(f64, f64)] {
        &self.samples
    }

    /// The length of the series in seconds, after which it starts again.
    pub fn period_s(&self) -> f64 {
        self.samples.last().map_or(0.0, |(at_s, _)| *at_s) + self.last_s
    }
}

/// The round trip of a line; `None` for a line that has none and needs none.
fn sample(text: &str, line: usize, is_first: bool) -> Result<Option<Sample>, String> {
    let text = text.trim();
    let is_summary = ["PING ", "---", "rtt ", "round-trip "].iter().any(|it| text.starts_with(it))
        || text.contains("packets transmitted");
    if text.is_empty() || text.starts_with('#') || is_summary {
        return Ok(None);
    }
    let (at, rtt, number) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((at, rest)) => {
            let word = |key: &str| rest.split_whitespace().find_map(|it| it.strip_prefix(key));
            let (Some(rtt), Some(number)) = (word("time="), word("icmp_seq=")) else {
                return Err("has no icmp_seq= and time=: a ping without an answer is a gap".into());
            };
            (at, rtt, Some(number.parse().map_err(|_| "icmp_seq= must be a number".to_owned())?))
        }
        None => {
            let (at, rtt) = text.split_once([',', ';', '\t']).ok_or_else(|| {
                "is neither a line of `ping -D` nor seconds and milliseconds, as in `0.5,12.3`"
                    .to_owned()
            })?;
            (at, rtt, None)
        }
    };
    let (at, rtt) = (at.trim().parse::<f64>(), rtt.trim().parse::<f64>());
    let (Ok(at_s), Ok(rtt_ms)) = (at, rtt) else {
        // A header of a CSV.
        let is_header = is_first && number.is_none() && line == 1;
        let rule = "must be seconds and milliseconds, two numbers, as in `0.5,12.3`";
        return if is_header { Ok(None) } else { Err(rule.to_owned()) };
    };
    if !at_s.is_finite() || at_s < 0.0 {
        return Err(format!("the moment is {at_s} s: it must not be negative"));
    }
    if !(rtt_ms > 0.0 && rtt_ms <= RTT_MS_MAX) {
        return Err(format!("the round trip is {rtt_ms} ms: it must be above 0, at most 60000"));
    }
    Ok(Some(Sample { line, at_s, rtt_ms, number }))
}

/// Whether a line may follow another.
fn follows(before: &Sample, sample: &Sample) -> Result<(), String> {
    if sample.at_s <= before.at_s {
        let (at_s, before_s) = (sample.at_s, before.at_s);
        return Err(format!("{at_s} s does not come after {before_s} s; sort the series"));
    }
    match (before.number, sample.number) {
        // ICMP counts in 16 bits.
        (Some(a), Some(b)) if b != a.wrapping_add(1) => {
            let rule = "the series has a gap; replay the parts apart";
            Err(format!("icmp_seq={b} follows icmp_seq={a}: {rule}"))
        }
        (None, Some(_)) | (Some(_), None) => Err("is in another format than the first".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: &str = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n\
        [1700000000.10] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=57 time=12.3 ms\n\
        [1700000000.30] 64 bytes from 192.0.2.1: icmp_seq=2 ttl=57 time=15 ms\n\
        [1700000000.50] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=57 time=11.9 ms\n\
        \n--- 192.0.2.1 ping statistics ---\n\
        3 packets transmitted, 3 received, 0% packet loss, time 400ms\n\
        rtt min/avg/max/mdev = 11.9/13.0/15.0/1.3 ms\n";

    #[test]
    fn ping_and_csv_are_read() {
        for text in [PING, "0.1,12.3\n0.3,15\n0.5,11.9\n", "s;ms\n0.1;12.3\n0.3;15\n0.5;11.9"] {
            let series = RttSeries::parse("a", text).expect("a series");
            let rtts: Vec<f64> = series.samples().iter().map(|(_, rtt_ms)| *rtt_ms).collect();
            assert_eq!(rtts, [12.3, 15.0, 11.9]);
            assert!((series.period_s() - 0.6).abs() < 1e-6, "{}", series.period_s());
        }
    }

    #[test]
    fn icmp_seq_begins_again_after_16_bits() {
        let text = PING.replace("seq=1", "seq=65534").replace("seq=2", "seq=65535");
        RttSeries::parse("a", &text.replace("seq=3", "seq=0")).expect("no gap");
    }

    #[test]
    fn gaps_and_negative_times_are_refused_by_line_and_rule() {
        for (text, want) in [
            (PING.replace("seq=3", "seq=4"), "a: line 4: icmp_seq=4 follows icmp_seq=2: the"),
            (PING.replace("time=15 ms", ""), "a: line 3: has no icmp_seq= and time="),
            (PING.replace("time=15", "time=-15"), "a: line 3: the round trip is -15 ms"),
            ("-1,12\n0,12\n".to_owned(), "a: line 1: the moment is -1 s"),
            ("0,12\n1,0\n".to_owned(), "a: line 2: the round trip is 0 ms"),
            ("0,12\n0,13\n".to_owned(), "a: line 2: 0 s does not come after 0 s"),
            ("0,1\n1,1\n2,1\n9,1\n".to_owned(), "a: line 4: comes 7.000 s after the line before"),
            ("0,12\n1,x\n".to_owned(), "a: line 2: must be seconds and milliseconds"),
            ("0 12\n".to_owned(), "a: line 1: is neither a line of `ping -D` nor"),
            ("0,12\n".to_owned(), "a: line 1: 1 round trips; a series has at least 2"),
            (String::new(), "a: line 1: 0 round trips"),
        ] {
            let error = RttSeries::parse("a", &text).expect_err(want).to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
