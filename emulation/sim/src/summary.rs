//! Turns flows and links into an outcome.

use crate::control::Control;
use crate::flow::TcpFlow;
use crate::packet::Packet;
use crate::series::Series;
use crate::simulation::Flow;
use crate::unresponsive::Unresponsive;
use remuda_link::Link;
use remuda_scenarios::Scenario;
use remuda_scenarios::outcome::{Engine, FlowOutcome, LinkOutcome, Outcome};

/// The outcome at `now_ns`.
pub fn outcome(
    scenario: &Scenario,
    flows: &[Flow],
    (links, now_ns): (&[Link<Packet>], u64),
    series: &Series,
) -> Outcome {
    let of = |(index, flow): (u32, &Flow)| match flow {
        Flow::Tcp(tcp) => of_tcp(index, tcp, now_ns),
        Flow::Unresponsive(open) => of_unresponsive(index, open, now_ns),
    };
    let flows: Vec<FlowOutcome> = (0..).zip(flows).map(of).collect();
    let names = scenario.links.keys();
    Outcome {
        scenario: scenario.name.clone(),
        engine: Engine::Sim,
        seed: scenario.seed,
        duration_s: scenario.duration_s,
        packets: flows.iter().map(|flow| flow.sent_pkts).sum(),
        flows,
        links: names.zip(links).map(|(name, link)| of_link(name, link)).collect(),
        flow_samples: series.flows.clone(),
        link_samples: series.links.clone(),
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn goodput(bytes: u64, (start_ns, end_ns): (u64, u64)) -> f64 {
    let life_s = seconds(end_ns.saturating_sub(start_ns));
    if life_s > 0.0 { bytes as f64 * 8.0 / 1e6 / life_s } else { 0.0 }
}

fn of_tcp(flow: u32, tcp: &TcpFlow, now_ns: u64) -> FlowOutcome {
    let counts = tcp.sender.counts;
    let life = (tcp.start_ns, tcp.end_ns.or(tcp.stop_ns).unwrap_or(now_ns));
    let (reports, decisions) = match &tcp.control {
        Control::Datapath(datapath) => {
            (datapath.agent().reports(), Some(datapath.agent().decisions()))
        }
        _ => (0, None),
    };
    FlowOutcome {
        flow,
        name: tcp.spec.name.clone(),
        driver: tcp.spec.driver.to_string(),
        arm: tcp.control.arm().to_string(),
        start_s: seconds(tcp.start_ns),
        end_s: tcp.end_ns.map(seconds),
        delivered_bytes: tcp.delivered_bytes(),
        goodput_mbit_per_sec: goodput(tcp.delivered_bytes(), life),
        sent_pkts: counts.sent_pkts,
        retransmitted_pkts: counts.resent_pkts,
        lost_pkts: counts.lost_pkts,
        timeouts: counts.timeouts,
        ecn_marked_pkts: counts.ce_pkts,
        rtt_min_ms: tcp.sender.rtt().min_ns().map(|ns| ns as f64 / 1e6),
        rtt_mean_ms: tcp.rtts.mean_ms(),
        rtt_p50_ms: tcp.rtts.quantile_ms(0.5),
        rtt_p95_ms: tcp.rtts.quantile_ms(0.95),
        rtt_p99_ms: tcp.rtts.quantile_ms(0.99),
        one_way_mean_ms: tcp.one_ways.mean_ms(),
        one_way_p50_ms: tcp.one_ways.quantile_ms(0.5),
        one_way_p95_ms: tcp.one_ways.quantile_ms(0.95),
        one_way_p99_ms: tcp.one_ways.quantile_ms(0.99),
        reports,
        switches: decisions.map(|it| it.switches.clone()).unwrap_or_default(),
        decisions: decisions.map(|it| it.kept.clone()).unwrap_or_default(),
        decisions_left_out: decisions.map_or(0, |it| it.left_out),
    }
}

fn of_unresponsive(flow: u32, open: &Unresponsive, now_ns: u64) -> FlowOutcome {
    let life = (open.start_ns, open.stop_ns.unwrap_or(now_ns));
    FlowOutcome {
        flow,
        name: open.spec.name.clone(),
        driver: open.spec.driver.to_string(),
        arm: open.spec.driver.to_string(),
        start_s: seconds(open.start_ns),
        delivered_bytes: open.delivered_bytes(),
        goodput_mbit_per_sec: goodput(open.delivered_bytes(), life),
        sent_pkts: open.sent_pkts.into(),
        ..FlowOutcome::default()
    }
}

fn of_link(name: &str, link: &Link<Packet>) -> LinkOutcome {
    let stats = link.stats();
    let queueing = stats.queueing_delay;
    LinkOutcome {
        name: name.to_owned(),
        packets_in: stats.packets_in,
        packets_out: stats.packets_out,
        bytes_out: stats.bytes_out,
        dropped_pkts: stats.dropped.total(),
        marked_pkts: stats.ecn_marked,
        queueing_mean_ms: queueing.mean_ms,
        queueing_p50_ms: queueing.p50_ms,
        queueing_p95_ms: queueing.p95_ms,
        queueing_p99_ms: queueing.p99_ms,
        queueing_max_ms: queueing.max_ms,
        queue_packets_max: stats.queue_packets_max,
    }
}
