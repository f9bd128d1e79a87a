//! The text that Prometheus scrapes.

use super::gather::{RuleFlows, Snapshot};
use crate::flow::ArmTotals;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug)]
struct Shown(Arc<Snapshot>);

/// Writes one counter with its series.
fn counter<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, unit, help): (&str, Option<&Unit>, &str),
    series: impl Iterator<Item = (L, f64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
    for (labels, value) in series {
        ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Writes one gauge with its series.
fn gauge<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, unit, help): (&str, Option<&Unit>, &str),
    series: impl Iterator<Item = (L, f64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    for (labels, value) in series {
        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

const NONE: [(&str, &str); 0] = [];

fn alone(value: u64) -> impl Iterator<Item = ([(&'static str, &'static str); 0], f64)> {
    std::iter::once((NONE, value as f64))
}

/// What is known of all flows together.
fn totals(encoder: &mut DescriptorEncoder<'_>, shown: &Snapshot) -> fmt::Result {
    let Snapshot { counts, flows, fallback_flows, destinations, .. } = shown;
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    gauge(
        encoder,
        ("remuda_build", None, "Always 1; the version of the agent is a label"),
        std::iter::once((version, 1.0)),
    )?;
    gauge(
        encoder,
        ("remuda_flows", None, "Running flows by the arm that has them"),
        flows.iter().map(|(arm, flows)| ([("arm", arm.as_str())], *flows as f64)),
    )?;
    gauge(
        encoder,
        ("remuda_fallback_flows", None, "Running flows that their datapath controls itself"),
        alone(*fallback_flows),
    )?;
    gauge(
        encoder,
        ("remuda_destinations", None, "Addresses and networks that are remembered"),
        alone(*destinations),
    )?;
    for (name, help, value) in [
        ("remuda_flows_created", "Flows that started or were taken over", counts.created),
        ("remuda_flows_closed", "Flows that ended", counts.closed),
        (
            "remuda_flows_refused",
            "Flows refused because their datapath had reached its limit of flows",
            counts.flows_refused,
        ),
        (
            "remuda_sockets_refused",
            "Sockets that did not become flows and run the kernel's own algorithm",
            counts.sockets_refused,
        ),
        ("remuda_reports", "Reports of flows", counts.reports),
        (
            "remuda_stale_reports",
            "Reports with missing fields, or of a program that the flow no longer runs",
            counts.stale_reports,
        ),
        ("remuda_messages_refused", "Messages of datapaths that were refused", counts.refused),
    ] {
        counter(encoder, (name, None, help), alone(value))?;
    }
    Ok(())
}

/// Name, unit and help of a counter by arm, and its value.
type Column<'a> = (&'a str, Option<&'a Unit>, &'a str, fn(&ArmTotals) -> f64);

/// What flows have done, by arm.
fn by_arm(encoder: &mut DescriptorEncoder<'_>, shown: &Snapshot) -> fmt::Result {
    let (bytes, seconds) = (Some(&Unit::Bytes), Some(&Unit::Seconds));
    let columns: [Column<'_>; 5] = [
        ("remuda_acked", bytes, "Payload acknowledged, by arm", |it| it.acked_bytes as f64),
        ("remuda_lost_packets", None, "Segments that were lost, by arm", |it| it.lost_pkts as f64),
        ("remuda_arm_reports", None, "Reports of flows, by arm", |it| it.reports as f64),
        ("remuda_rtt", seconds, "The sum of all round trips, by arm", |it| it.rtt_us as f64 / 1e6),
        ("remuda_rtt_samples", None, "How many round trips the sum has", |it| it.rtts as f64),
    ];
    for (name, unit, help, value) in columns {
        let series =
            shown.arms.iter().map(|(arm, totals)| ([("arm", arm.as_str())], value(totals)));
        counter(encoder, (name, unit, help), series)?;
    }
    Ok(())
}

/// The flows of rules and of their control groups.
fn by_rule(encoder: &mut DescriptorEncoder<'_>, shown: &Snapshot) -> fmt::Result {
    let of_rules = |value: fn(&RuleFlows) -> u64| {
        shown.rules.iter().flat_map(move |(rule, groups)| {
            let series = move |(group, flows)| {
                ([("rule", rule.as_str()), ("group", group)], value(flows) as f64)
            };
            ["rule", "control"].into_iter().zip(groups).map(series)
        })
    };
    gauge(
        encoder,
        ("remuda_rule_flows", None, "Running flows of a rule, or of its control group"),
        of_rules(|flows| flows.running),
    )?;
    counter(
        encoder,
        (
            "remuda_rule_flows_started",
            None,
            "Flows that started under a rule, or in its control group",
        ),
        of_rules(|flows| flows.started),
    )
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        totals(&mut encoder, &self.0)?;
        by_arm(&mut encoder, &self.0)?;
        by_rule(&mut encoder, &self.0)
    }
}

/// The text of a snapshot.
pub fn text(snapshot: Snapshot) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Shown(Arc::new(snapshot))));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::Totals;
    use crate::rules::Group;

    #[test]
    fn every_series_has_help_and_a_name_with_its_unit() {
        let mut snapshot = Snapshot::default();
        snapshot.flow("bbr", true, Some(("web", Group::Rule)));
        snapshot.rule("web", Group::Control).started += 7;
        let mut totals = Totals::default();
        let report =
            ArmTotals { reports: 1, acked_bytes: 1_448, lost_pkts: 2, rtt_us: 40_000, rtts: 1 };
        totals.add("bbr", &report);
        totals.add("bbr", &report);
        snapshot.totals(&totals);
        let text = text(snapshot).expect("it is text");
        for line in [
            "remuda_flows{arm=\"bbr\"} 1.0",
            "remuda_fallback_flows 1.0",
            "remuda_acked_bytes_total{arm=\"bbr\"} 2896.0",
            "remuda_lost_packets_total{arm=\"bbr\"} 4.0",
            "remuda_rtt_seconds_total{arm=\"bbr\"} 0.08",
            "remuda_rule_flows{rule=\"web\",group=\"rule\"} 1.0",
            "remuda_rule_flows_started_total{rule=\"web\",group=\"control\"} 7.0",
            "# TYPE remuda_acked_bytes counter",
            "# UNIT remuda_acked_bytes bytes",
            "# HELP remuda_rtt_seconds The sum of all round trips, by arm",
            "# EOF",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn the_series_are_bounded_and_what_is_beyond_is_counted_together() {
        let mut snapshot = Snapshot::default();
        for flow in 0..10_000_u32 {
            let (arm, rule) = (format!("arm{flow}"), format!("rule {flow}"));
            let group = if flow % 2 == 0 { Group::Rule } else { Group::Control };
            snapshot.flow(&arm, false, Some((&rule, group)));
            snapshot.rule(&rule, group).started += 1;
        }
        let text = text(snapshot).expect("it is text");
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!((200..2_000).contains(&series), "{series}");
        let flows = text.lines().filter(|line| line.starts_with("remuda_flows{"));
        let flows = flows.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        assert_eq!(flows.sum::<f64>(), 10_000.0);
    }
}
