//! Text tables for the terminal.

mod link_log;

pub use link_log::{link_flows, link_logs};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use remuda_scenarios::outcome::{FlowOutcome, LinkOutcome, Outcome};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// With more flows, the table has a row for each driver instead.
const FLOWS_MAX: usize = 20;
/// With more links, the table has those with the longest queues.
const LINKS_MAX: usize = 20;

/// A table with these columns, of which the first `texts` hold words and the others figures.
fn table(columns: &[&str], texts: usize) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(columns);
    for column in table.column_iter_mut().skip(texts) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Three significant digits; a whole number keeps all its digits.
fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        0.01..1.0 => format!("{value:.3}"),
        1.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        size if size >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.1e}"),
    }
}

fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), figure)
}

/// `part` as a percentage of `whole`.
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

fn mbit_per_sec(bytes: u64, span_s: f64) -> f64 {
    bytes as f64 * 8.0 / 1e6 / span_s.max(f64::MIN_POSITIVE)
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

const FLOW_COLUMNS: [&str; 10] = [
    "flow",
    "driver",
    "arm",
    "goodput\nMbit/s",
    "RTT min\nms",
    "RTT p50\nms",
    "RTT p95\nms",
    "resent\n%",
    "timeouts",
    "done at\ns",
];

fn flow_row(flow: &FlowOutcome) -> [String; 10] {
    [
        flow.name.clone(),
        flow.driver.clone(),
        match flow.switches.len() {
            0 => flow.arm.clone(),
            switches => format!("{} (switch {switches})", flow.arm),
        },
        figure(flow.goodput_mbit_per_sec),
        maybe(flow.rtt_min_ms),
        maybe(flow.rtt_p50_ms),
        maybe(flow.rtt_p95_ms),
        maybe(percent(flow.retransmitted_pkts, flow.sent_pkts)),
        flow.timeouts.to_string(),
        seconds(flow.end_s),
    ]
}

fn flow_table(flows: &[FlowOutcome]) -> Table {
    let mut table = table(&FLOW_COLUMNS, 3);
    for flow in flows {
        table.add_row(flow_row(flow));
    }
    table
}

/// The least value, the median and the largest value.
fn spread(mut values: Vec<f64>) -> [Option<f64>; 3] {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    [values.first().copied(), values.get(last / 2).copied(), values.last().copied()]
}

/// A row for each driver.
fn driver_table(outcome: &Outcome) -> Table {
    let mut by_driver: BTreeMap<&str, Vec<&FlowOutcome>> = BTreeMap::new();
    for flow in &outcome.flows {
        by_driver.entry(&flow.driver).or_default().push(flow);
    }
    let columns = [
        "driver",
        "flows",
        "goodput\nMbit/s",
        "of a flow\nleast",
        "middle",
        "most",
        "RTT p95\nworst, ms",
        "resent\n%",
        "timeouts",
        "done",
        "last at\ns",
    ];
    let mut table = table(&columns, 1);
    for (driver, flows) in by_driver {
        let sum = |of: fn(&FlowOutcome) -> u64| flows.iter().map(|flow| of(flow)).sum::<u64>();
        let [least, middle, most] =
            spread(flows.iter().map(|flow| flow.goodput_mbit_per_sec).collect());
        let p95 = flows.iter().filter_map(|flow| flow.rtt_p95_ms).max_by(f64::total_cmp);
        let ends = || flows.iter().filter_map(|flow| flow.end_s);
        table.add_row([
            driver.to_owned(),
            flows.len().to_string(),
            figure(mbit_per_sec(sum(|flow| flow.delivered_bytes), outcome.duration_s)),
            maybe(least),
            maybe(middle),
            maybe(most),
            maybe(p95),
            maybe(percent(sum(|flow| flow.retransmitted_pkts), sum(|flow| flow.sent_pkts))),
            sum(|flow| flow.timeouts).to_string(),
            ends().count().to_string(),
            seconds(ends().max_by(f64::total_cmp)),
        ]);
    }
    table
}

fn link_table(links: &[&LinkOutcome], duration_s: f64) -> Table {
    let columns = [
        "link",
        "carried\nMbit/s",
        "queueing mean\nms",
        "p50\nms",
        "p95\nms",
        "max\nms",
        "queue max\npackets",
        "dropped\n%",
        "marked\n%",
    ];
    let mut table = table(&columns, 1);
    for link in links {
        table.add_row([
            link.name.clone(),
            figure(mbit_per_sec(link.bytes_out, duration_s)),
            figure(link.queueing_mean_ms),
            figure(link.queueing_p50_ms),
            figure(link.queueing_p95_ms),
            figure(link.queueing_max_ms),
            link.queue_packets_max.to_string(),
            maybe(percent(link.dropped_pkts, link.packets_in)),
            maybe(percent(link.marked_pkts, link.packets_in)),
        ]);
    }
    table
}

/// One outcome: a line with its totals, a table of its flows, and a table of its links.
pub fn details(outcome: &Outcome) -> String {
    let mut text = format!(
        "{}: {} s of {}, seed {}; {} Mbit/s together",
        outcome.scenario,
        outcome.duration_s,
        outcome.engine,
        outcome.seed,
        figure(outcome.goodput_mbit_per_sec())
    );
    if let (Some(jain), 2..) = (outcome.jain(), outcome.flows.len()) {
        let _ = write!(text, ", Jain's index {jain:.3}");
    }
    let flows = if outcome.flows.len() > FLOWS_MAX {
        driver_table(outcome)
    } else {
        flow_table(&outcome.flows)
    };
    let mut links: Vec<&LinkOutcome> = outcome.links.iter().collect();
    if links.len() > LINKS_MAX {
        links.sort_by(|one, other| other.queueing_p95_ms.total_cmp(&one.queueing_p95_ms));
        links.truncate(LINKS_MAX);
        let _ = write!(text, "; the {LINKS_MAX} links with the longest queues");
    }
    let _ = write!(text, "\n{flows}\n{}", link_table(&links, outcome.duration_s));
    text
}

/// The largest value over the rows.
fn worst<T>(rows: &[T], of: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    rows.iter().filter_map(of).max_by(f64::total_cmp)
}

/// Many outcomes, a row for each, in the given order.
pub fn overview<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> String {
    let columns = [
        "scenario",
        "seed",
        "flows",
        "goodput\nMbit/s",
        "Jain",
        "RTT p95\nworst flow, ms",
        "queueing p95\nworst link, ms",
        "dropped\nworst link, %",
        "resent\n%",
        "switches",
        "done",
    ];
    let mut table = table(&columns, 1);
    for outcome in outcomes {
        let sum = |of: fn(&FlowOutcome) -> u64| outcome.flows.iter().map(of).sum::<u64>();
        table.add_row([
            outcome.scenario.clone(),
            outcome.seed.to_string(),
            outcome.flows.len().to_string(),
            figure(outcome.goodput_mbit_per_sec()),
            outcome.jain().map_or_else(|| "-".to_owned(), |jain| format!("{jain:.3}")),
            maybe(worst(&outcome.flows, |flow| flow.rtt_p95_ms)),
            maybe(worst(&outcome.links, |link| Some(link.queueing_p95_ms))),
            maybe(worst(&outcome.links, |link| percent(link.dropped_pkts, link.packets_in))),
            maybe(percent(sum(|flow| flow.retransmitted_pkts), sum(|flow| flow.sent_pkts))),
            sum(|flow| flow.switches.len() as u64).to_string(),
            outcome.flows.iter().filter(|flow| flow.end_s.is_some()).count().to_string(),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_three_digits() {
        for (value, want) in [
            (0.0, "0"),
            (0.012_34, "0.012"),
            (0.1234, "0.123"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (12345.6, "12346"),
            (0.000_123, "1.2e-4"),
        ] {
            assert_eq!(figure(value), want);
        }
        assert_eq!((maybe(None), maybe(percent(1, 0))), ("-".to_owned(), "-".to_owned()));
        assert_eq!(maybe(percent(1, 8)), "12.5");
    }

    #[test]
    fn many_flows_are_summed_up() {
        let flow = |n: u32| FlowOutcome {
            name: format!("f-{n}"),
            driver: if n < 25 { "cubic" } else { "bbr" }.to_owned(),
            delivered_bytes: u64::from(n) * 125_000,
            ..FlowOutcome::default()
        };
        let of = |flows: u32| Outcome {
            duration_s: 1.0,
            flows: (0..flows).map(flow).collect(),
            ..Outcome::default()
        };
        let (few, many) = (of(20), of(30));
        assert!(details(&few).contains("f-19"));
        let text = details(&many);
        assert!(!text.contains("f-19"), "{text}");
        assert!(text.contains("435 Mbit/s together"), "{text}");
        assert!(text.contains("cubic") && text.contains("300"), "{text}");
        assert_eq!(overview([&few, &many]).lines().count(), 7);
    }

    #[test]
    fn a_spread_has_its_middle() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), [Some(1.0), Some(2.0), Some(3.0)]);
        assert_eq!(spread(vec![]), [None, None, None]);
    }
}
