//! Plots of logs: throughput and capacity, queueing delay, drops.

use super::{LinkLog, LogBin};
use crate::error::Error;
use crate::plot::{Figure, Line, Panel, paint_png, paint_svg};
use std::collections::BTreeMap;

/// More logs in one plot cannot be told apart.
const LOGS_MAX: usize = 8;

/// The plot of logs, as an SVG document.
pub fn link_log_svg(logs: &[LinkLog]) -> Result<String, Error> {
    paint_svg(&title(logs), &figure(logs))
}

/// The plot of logs, as a PNG file.
pub fn link_log_png(logs: &[LinkLog]) -> Result<Vec<u8>, Error> {
    paint_png(&title(logs), &figure(logs))
}

fn title(logs: &[LinkLog]) -> String {
    match logs {
        [] => "no log".to_owned(),
        [one] => match &one.queue {
            Some(queue) => format!("{} ({queue})", file_name(&one.name)),
            None => file_name(&one.name).to_owned(),
        },
        many => format!("{} logs of links", many.len()),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn figure(logs: &[LinkLog]) -> Figure {
    let count = logs.len();
    let left_out = (count > LOGS_MAX).then(|| format!("the first {LOGS_MAX} of {count}"));
    let logs = &logs[..count.min(LOGS_MAX)];
    let ends = logs.iter().filter_map(|log| {
        let (bin, _) = log.bins.last_key_value()?;
        Some((bin + 1) as f64 * log.bin_ms as f64 / 1e3)
    });
    let capacity = |log: &LinkLog, bin: &LogBin| mbit_per_sec(log, bin.capacity_bytes);
    let throughput = |log: &LinkLog, bin: &LogBin| mbit_per_sec(log, bin.departed_bytes);
    let largest = |_: &LinkLog, bin: &LogBin| bin.delay_ms_max as f64;
    let mean =
        |_: &LinkLog, bin: &LogBin| bin.delay_ms_sum as f64 / bin.departed_packets.max(1) as f64;
    let dropped = |_: &LinkLog, bin: &LogBin| bin.dropped_packets as f64;
    Figure {
        title: format!("{}, in bins of {} ms", title(logs), logs.first().map_or(0, |it| it.bin_ms)),
        left_out,
        end_s: ends.fold(f64::MIN_POSITIVE, f64::max),
        strips: Vec::new(),
        panels: vec![
            panel("Mbit/s", logs, &[("capacity", &capacity), ("throughput", &throughput)]),
            panel("queueing delay, ms", logs, &[("largest", &largest), ("mean", &mean)]),
            panel("drops, packets a bin", logs, &[("dropped", &dropped)]),
        ],
    }
}

type Value<'a> = &'a dyn Fn(&LinkLog, &LogBin) -> f64;

fn panel(title: &'static str, logs: &[LinkLog], values: &[(&str, Value<'_>)]) -> Panel {
    let of_logs = logs.iter().flat_map(|log| values.iter().map(move |value| (log, value)));
    let line = |(at, (log, (what, value))): (usize, (&LinkLog, &(&str, Value<'_>)))| {
        let name = match logs.len() {
            1 => (*what).to_owned(),
            _ => format!("{} {what}", file_name(&log.name)),
        };
        Line::new(name, at, points(&log.bins, log.bin_ms, |bin| value(log, bin)))
    };
    Panel { title, lines: of_logs.enumerate().map(line).collect() }
}

fn mbit_per_sec(log: &LinkLog, bytes: u64) -> f64 {
    bytes as f64 * 8.0 / 1e3 / log.bin_ms as f64
}

/// A point in the middle of each bin, and zeros at both ends of a gap.
fn points(
    bins: &BTreeMap<u64, LogBin>,
    bin_ms: u64,
    value: impl Fn(&LogBin) -> f64,
) -> Vec<(f64, f64)> {
    let at_s = |bin: u64| (bin as f64 + 0.5) * bin_ms as f64 / 1e3;
    let mut points = Vec::with_capacity(bins.len());
    let mut next = 0;
    for (bin, sums) in bins {
        if *bin > next {
            points.extend([(at_s(next), 0.0), (at_s(bin - 1), 0.0)]);
        }
        points.push((at_s(*bin), value(sums)));
        next = bin + 1;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_happened_is_a_line_at_zero() {
        let text = "# base timestamp: 0\n1000 # 1500\n9000 # 3000\n";
        let log = LinkLog::read("x/a.log", text.as_bytes(), 1000).unwrap();
        let figure = figure(&[log]);
        let capacity = [(0.5, 0.0), (0.5, 0.0), (1.5, 0.012), (2.5, 0.0), (8.5, 0.0), (9.5, 0.024)];
        assert_eq!(figure.panels[0].lines[0].points(), capacity);
        assert_eq!((figure.end_s, figure.title.as_str()), (10.0, "a.log, in bins of 1000 ms"));
    }
}
