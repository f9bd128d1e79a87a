//! qlog files of flows, for qvis and other tools.
//!
//! A contained JSON file of draft-ietf-quic-qlog-main-schema-02 (`qlog_version` 0.3), the version
//! that qvis reads. Differs from a QUIC endpoint's qlog: there are no packets, only samples of the
//! flow every `sample_ms`. `transport:packet_sent` stands for all bytes that arrived between two
//! samples, because qvis takes its time axis from that event alone. `recovery:packet_lost` stands
//! for all segments that were sent again between two samples; it names the last such packet,
//! because qvis draws a loss at its packet.

use remuda_scenarios::outcome::{FlowOutcome, FlowSample, Outcome, Switch};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

fn event(t_s: f64, name: &str, data: Value) -> Value {
    // A sample's time is exact to the microsecond.
    json!({ "time": (t_s * 1e6).round() / 1e3, "name": name, "data": data })
}

fn metrics(sample: &FlowSample, mss_bytes: u32) -> Value {
    let mss_bytes = u64::from(mss_bytes);
    let mut data = Map::new();
    let window = (sample.cwnd_pkts * mss_bytes as f64).round();
    data.insert("congestion_window".to_owned(), json!(window as u64));
    let in_flight = u64::from(sample.in_flight_pkts);
    data.insert("bytes_in_flight".to_owned(), json!(in_flight * mss_bytes));
    data.insert("packets_in_flight".to_owned(), json!(in_flight));
    if let Some(srtt_ms) = sample.srtt_ms {
        data.insert("smoothed_rtt".to_owned(), json!(srtt_ms));
    }
    if let Some(rate) = sample.pacing_mbit_per_sec {
        data.insert("pacing_rate".to_owned(), json!((rate * 1e6).round() as u64));
    }
    event(sample.t_s, "recovery:metrics_updated", Value::Object(data))
}

/// The bytes that arrived since the sample before, as one packet.
fn arrived(sample: &FlowSample, number: usize, bytes: u64) -> Value {
    let header = json!({ "packet_type": "1RTT", "packet_number": number });
    let data = json!({ "header": header, "raw": { "length": bytes } });
    event(sample.t_s, "transport:packet_sent", data)
}

/// The segments that were sent again since the sample before.
fn lost(sample: &FlowSample, number: usize, segments: u64) -> Value {
    let header = json!({ "packet_type": "1RTT", "packet_number": number });
    let data = json!({ "header": header, "segments_sent_again": segments });
    event(sample.t_s, "recovery:packet_lost", data)
}

fn switched(switch: &Switch) -> Value {
    let data = json!({ "old": switch.from, "new": switch.to, "trigger": switch.why });
    event(switch.t_s, "recovery:congestion_state_updated", data)
}

fn events(flow: &FlowOutcome, samples: &[&FlowSample], mss_bytes: u32) -> Vec<Value> {
    // The list is never empty, because qvis reads the last event.
    let data = json!({ "max_datagram_size": mss_bytes, "driver": flow.driver });
    let mut events = vec![event(flow.start_s, "recovery:parameters_set", data)];
    let mut switches = flow.switches.iter().peekable();
    // Numbers start at 1: some versions of qvis treat packet number 0 as a missing number.
    let (mut number, mut before, mut resent) = (0, 0, 0);
    for sample in samples.iter().filter(|sample| sample.t_s >= flow.start_s) {
        while let Some(switch) = switches.next_if(|switch| switch.t_s <= sample.t_s) {
            events.push(switched(switch));
        }
        let bytes = sample.delivered_bytes.saturating_sub(before);
        before = sample.delivered_bytes;
        if bytes > 0 {
            number += 1;
            events.push(arrived(sample, number, bytes));
        }
        // Before the first packet there is none to name, so segments sent again until then count at
        // the first packet.
        let again = sample.retransmitted_pkts.saturating_sub(resent);
        if again > 0 && number > 0 {
            resent = sample.retransmitted_pkts;
            events.push(lost(sample, number, again));
        }
        events.push(metrics(sample, mss_bytes));
    }
    events.extend(switches.map(switched));
    events
}

fn file(outcome: &Outcome, flow: &FlowOutcome, events: Vec<Value>) -> Value {
    let description = format!(
        "remuda {}, engine {}, seed {}: looks at the flow at every sample_ms; each packet_sent \
         stands for the bytes that arrived between two looks, each packet_lost for the segments \
         sent again",
        env!("CARGO_PKG_VERSION"),
        outcome.engine,
        outcome.seed
    );
    let trace = json!({
        "title": flow.name,
        "description": description,
        "vantage_point": { "name": flow.name, "type": "server" },
        "common_fields": {
            "ODCID": format!("{:016x}", flow.flow),
            "time_format": "relative",
            "reference_time": 0,
            "protocol_type": ["TCP"],
        },
        "events": events,
    });
    json!({
        "qlog_version": "0.3",
        "qlog_format": "JSON",
        "title": format!("{} {}", outcome.scenario, flow.name),
        "traces": [trace],
    })
}

/// The qlog of each flow as JSON text, in the order of [`Outcome::flows`]. `mss_bytes` returns the
/// payload of a flow's segment, by the flow's index in the scenario.
pub fn qlog<'a>(
    outcome: &'a Outcome,
    mss_bytes: impl Fn(u32) -> u32 + 'a,
) -> impl Iterator<Item = (&'a FlowOutcome, String)> {
    let mut samples: BTreeMap<u32, Vec<&FlowSample>> = BTreeMap::new();
    for sample in &outcome.flow_samples {
        samples.entry(sample.flow).or_default().push(sample);
    }
    outcome.flows.iter().map(move |flow| {
        let samples = samples.remove(&flow.flow).unwrap_or_default();
        let events = events(flow, &samples, mss_bytes(flow.flow));
        (flow, format!("{}\n", file(outcome, flow, events)))
    })
}
