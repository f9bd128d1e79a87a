//! A result in a few figures, and in one line.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use remuda_scenarios::outcome::{FlowOutcome, Outcome};

struct Totals {
    delivered_bytes: u64,
    sent_pkts: u64,
    retransmitted_pkts: u64,
    lost_pkts: u64,
    timeouts: u64,
    switches: usize,
    rtt_p95_ms_max: Option<f64>,
}

fn totals(flows: &[FlowOutcome]) -> Totals {
    let sum = |of: fn(&FlowOutcome) -> u64| flows.iter().map(of).sum();
    let slowest = flows.iter().filter_map(|flow| flow.rtt_p95_ms).reduce(f64::max);
    Totals {
        delivered_bytes: sum(|flow| flow.delivered_bytes),
        sent_pkts: sum(|flow| flow.sent_pkts),
        retransmitted_pkts: sum(|flow| flow.retransmitted_pkts),
        lost_pkts: sum(|flow| flow.lost_pkts),
        timeouts: sum(|flow| flow.timeouts),
        switches: flows.iter().map(|flow| flow.switches.len()).sum(),
        rtt_p95_ms_max: slowest,
    }
}

/// The figures of a result, by name.
pub fn summary<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let totals = totals(&outcome.flows);
    let dict = PyDict::new(py);
    dict.set_item("scenario", &outcome.scenario)?;
    dict.set_item("engine", outcome.engine.name())?;
    dict.set_item("seed", outcome.seed)?;
    dict.set_item("duration_s", outcome.duration_s)?;
    dict.set_item("flows", outcome.flows.len())?;
    dict.set_item("links", outcome.links.len())?;
    dict.set_item("goodput_mbit_per_sec", outcome.goodput_mbit_per_sec())?;
    dict.set_item("jain", outcome.jain())?;
    dict.set_item("delivered_bytes", totals.delivered_bytes)?;
    dict.set_item("packets", outcome.packets)?;
    dict.set_item("sent_pkts", totals.sent_pkts)?;
    dict.set_item("retransmitted_pkts", totals.retransmitted_pkts)?;
    dict.set_item("lost_pkts", totals.lost_pkts)?;
    dict.set_item("timeouts", totals.timeouts)?;
    dict.set_item("switches", totals.switches)?;
    dict.set_item("rtt_p95_ms_max", totals.rtt_p95_ms_max)?;
    Ok(dict)
}

/// The text of `repr(result)`.
pub fn line(outcome: &Outcome) -> String {
    let Outcome { scenario, engine, seed, duration_s, .. } = outcome;
    let totals = totals(&outcome.flows);
    let flows = outcome.flows.len();
    let noun = if flows == 1 { "flow" } else { "flows" };
    let goodput = outcome.goodput_mbit_per_sec();
    let resent = 100.0 * totals.retransmitted_pkts as f64 / totals.sent_pkts.max(1) as f64;
    let rtt = totals.rtt_p95_ms_max.map_or(String::new(), |rtt_ms| {
        format!(", p95 RTT {}{rtt_ms:.1} ms", if flows == 1 { "" } else { "up to " })
    });
    format!(
        "<remuda.Result {scenario:?}: {engine}, {duration_s} s, seed {seed}; {flows} {noun}, \
         {goodput:.2} Mbit/s, {resent:.2} % retransmitted{rtt}>"
    )
}
