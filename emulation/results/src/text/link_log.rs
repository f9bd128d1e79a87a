//! Text tables of links' logs.

use super::{figure, maybe, table};
use crate::link_log::{LinkLog, LogTotals};

/// A row for each log: the figures of mm-throughput-graph and mm-delay-graph, and the drops.
pub fn link_logs(logs: &[LinkLog]) -> String {
    let mut rows = table(
        &[
            "log",
            "duration\ns",
            "capacity\nMbit/s",
            "throughput\nMbit/s",
            "used\n%",
            "delay p50\nms",
            "delay p95\nms",
            "delay p99\nms",
            "signal p95\nms",
            "dropped\npackets",
            "dropped\nbytes",
            "dropped\n%",
        ],
        1,
    );
    for log in logs {
        let mut row = vec![
            log.name.clone(),
            figure(log.duration_s()),
            maybe(log.capacity_mbit_per_sec()),
            maybe(log.mbit_per_sec(log.totals.departed_bytes)),
            maybe(log.utilisation_percent()),
        ];
        row.extend([50, 95, 99].map(|percent| whole(log.totals.delay_ms(percent))));
        row.push(whole(log.signal_delay_ms(95)));
        row.extend(drops(&log.totals));
        rows.add_row(row);
    }
    format!("{rows}\n")
}

/// A row for each flow of each log, by number.
pub fn link_flows(logs: &[LinkLog]) -> String {
    let mut rows = table(
        &[
            "log",
            "flow",
            "throughput\nMbit/s",
            "delay p50\nms",
            "delay p95\nms",
            "delay p99\nms",
            "dropped\npackets",
            "dropped\nbytes",
            "dropped\n%",
        ],
        2,
    );
    for log in logs {
        for (number, totals) in &log.flows {
            let name = log.flow_names.get(number).map(String::as_str).unwrap_or_default();
            let mut row = vec![
                log.name.clone(),
                format!("{number} {name}").trim_end().to_owned(),
                maybe(log.mbit_per_sec(totals.departed_bytes)),
            ];
            row.extend([50, 95, 99].map(|percent| whole(totals.delay_ms(percent))));
            row.extend(drops(totals));
            rows.add_row(row);
        }
    }
    format!("{rows}\n")
}

fn whole(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn drops(totals: &LogTotals) -> [String; 3] {
    [
        totals.dropped_packets.to_string(),
        totals.dropped_bytes.to_string(),
        maybe(totals.dropped_percent()),
    ]
}
