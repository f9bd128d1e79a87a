//! The time series of a run as a table, one row for each span of time.

use crate::table::{figure, table};
use remuda_report::{FlowSeries, Series};

/// The number of rows: few enough for a screen.
const ROWS: usize = 30;

/// The mean of the samples in a span; `None` without samples.
fn mean(t_s: &[f64], span: (f64, f64), value: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let inside = t_s.iter().enumerate().filter(|(_, at)| **at > span.0 && **at <= span.1);
    let all: Vec<f64> = inside.filter_map(|(place, _)| value(place)).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

fn goodput(flow: &FlowSeries, span: (f64, f64)) -> Option<f64> {
    mean(&flow.t_s, span, |place| Some(flow.goodput_mbit_per_sec[place]))
}

/// The arm at this moment.
fn arm(flow: &FlowSeries, at_s: f64) -> String {
    let last = flow.arms.iter().rev().find(|(from, _)| *from <= at_s);
    last.map(|(_, arm)| arm.clone()).unwrap_or_default()
}

fn decisions(flow: &FlowSeries, span: (f64, f64)) -> String {
    let inside = flow.decisions.iter().filter(|it| it.t_s > span.0 && it.t_s <= span.1);
    let lines = inside.flat_map(|it| [it.told(), it.derived()]);
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

fn rows(run: &Series, flow: &FlowSeries) -> String {
    let mut others: Vec<&FlowSeries> = run.flows.iter().filter(|it| *it != flow).collect();
    if run.flows_left_out > 0 {
        // The sum would not include all flows, so it is not shown.
        others.clear();
    }
    let mut columns = vec!["until, s", "goodput, Mbit/s"];
    let capacity = &run.link.capacity_mbit_per_sec;
    columns.extend((!capacity.is_empty()).then_some("link, Mbit/s"));
    columns.extend(["srtt, ms", "queue, packets", "arm"]);
    columns.extend((!others.is_empty()).then_some("all others, Mbit/s"));
    columns.push("decision");
    let mut shown = table(&columns);
    for row in 0..ROWS {
        let [from, to] = [row, row + 1].map(|it| run.duration_s * it as f64 / ROWS as f64);
        // The first row includes the sample at the very start.
        let span = (if row == 0 { -1.0 } else { from }, to);
        let queue = mean(&run.link.t_s, span, |at| Some(run.link.queue_pkts[at] as f64));
        let srtt = mean(&flow.t_s, span, |at| flow.srtt_ms[at]);
        let mut cells = vec![format!("{to:.1}"), figure(goodput(flow, span))];
        if !capacity.is_empty() {
            cells.push(figure(mean(&run.link.t_s, span, |at| Some(capacity[at]))));
        }
        cells.extend([figure(srtt), figure(queue), arm(flow, to)]);
        if !others.is_empty() {
            let all = others.iter().filter_map(|it| goodput(it, span));
            cells.push(figure(all.reduce(|sum, it| sum + it)));
        }
        cells.push(decisions(flow, span));
        shown.add_row(cells);
    }
    shown.to_string()
}

/// The tables of all tested flows of a run.
pub fn shown(run: &Series) -> String {
    let mut parts = vec![format!("{} in {}, seed {}", run.driver, run.environment, run.seed)];
    let link = &run.link;
    if !link.name.is_empty() {
        parts[0] += &format!("; the link is `{}`", link.name);
    }
    let tested: Vec<&FlowSeries> = run.flows.iter().filter(|flow| flow.tested).collect();
    for flow in &tested {
        if tested.len() > 1 {
            parts.push(format!("flow `{}`:", flow.name));
        }
        parts.push(rows(run, flow));
    }
    if run.flows_left_out > 0 {
        parts.push(format!("{} more flows are not shown.", run.flows_left_out));
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_report::{Decision, LinkSeries};
    use remuda_scenarios::outcome::Became;

    fn flow(name: &str, tested: bool, mbit_per_sec: f64) -> FlowSeries {
        let t_s: Vec<f64> = (0..=60).map(|it| f64::from(it) / 2.0).collect();
        FlowSeries {
            name: name.to_owned(),
            tested,
            goodput_mbit_per_sec: t_s.iter().map(|_| mbit_per_sec).collect(),
            srtt_ms: t_s.iter().map(|at| (*at > 1.0).then_some(40.0)).collect(),
            cwnd_pkts: t_s.iter().map(|_| 10.0).collect(),
            arms: vec![(0.0, "cubic".to_owned()), (10.2, "bbr".to_owned())],
            decisions: vec![Decision {
                t_s: 10.2,
                became: Became::Switched,
                arm: "cubic".to_owned(),
                to: "bbr".to_owned(),
                why: "it is deep".to_owned(),
                scores: vec![("bbr".to_owned(), "0.5 +- 0.1".to_owned())],
                features: vec![("rtt_min_ms".to_owned(), "40".to_owned())],
            }],
            decisions_left_out: 0,
            t_s,
        }
    }

    fn run() -> Series {
        let t_s: Vec<f64> = (0..=60).map(|it| f64::from(it) / 2.0).collect();
        let queue_pkts = t_s.iter().map(|at| *at as u64).collect();
        let capacity_mbit_per_sec = t_s.iter().map(|_| 12.0).collect();
        Series {
            environment: "s/x".to_owned(),
            driver: "rein".to_owned(),
            seed: 1,
            duration_s: 30.0,
            flows: vec![flow("tested", true, 7.0), flow("a", false, 2.0), flow("b", false, 1.5)],
            flows_left_out: 0,
            link: LinkSeries { name: "down".to_owned(), capacity_mbit_per_sec, t_s, queue_pkts },
        }
    }

    fn cells(text: &str, until: &str) -> Vec<String> {
        let is_row = |line: &&str| line.trim_start_matches(['│', ' ']).starts_with(until);
        let line = text.lines().find(is_row).unwrap_or_else(|| panic!("{text}"));
        line.trim_matches(['│', ' '])
            .split("  ")
            .filter(|it| !it.trim().is_empty())
            .map(|it| it.trim().to_owned())
            .collect()
    }

    #[test]
    fn a_row_is_a_span_of_time_with_its_arm_and_its_decisions() {
        let text = shown(&run());
        let head = "rein in s/x, seed 1; the link is `down`";
        assert!(text.starts_with(head), "{text}");
        assert_eq!(cells(&text, "1.0 ")[1..6], ["7.0", "12.0", "-", "0.333", "cubic"]);
        let row = cells(&text, "11.0 ");
        assert_eq!(row[1..7], ["7.0", "12.0", "40.0", "10.5", "bbr", "3.5"], "{text}");
        assert!(row[7].starts_with("10.2 s: cubic to bbr"), "{row:?}");
        assert_eq!(text.lines().filter(|line| line.contains("it is deep")).count(), 1);
        assert!(text.contains("bbr=0.5 +- 0.1, rtt_min_ms=40"), "{text}");
    }

    #[test]
    fn of_many_flows_no_sum_is_told_that_is_not_of_all() {
        let text = shown(&Series { flows_left_out: 3, ..run() });
        assert!(!text.contains("all others") && text.ends_with("3 more flows are not shown."));
    }
}
