//! Explains to a person why a flow has its arm.

use crate::table::table;
use ccp_agent::catalogue::{self, Kind};
use ccp_agent::flow::Guarded;
use ccp_agent::flow::Row;
use remuda_selector::features::schema;

/// The unit of a feature by the end of its name, for features that are not in the schema.
const UNITS: [(&str, &str); 7] = [
    ("_mbit_per_sec", "Mbit/s"),
    ("_percent", "%"),
    ("_pkts", "segments"),
    ("_bdps", "BDPs"),
    ("_ms", "ms"),
    ("_us", "us"),
    ("_s", "s"),
];

/// The unit of a feature; empty if it has none, like a class or a ratio.
fn unit(name: &str) -> &'static str {
    let known = schema().features.iter().find(|feature| feature.name == name);
    let by_name = || UNITS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, unit)| *unit);
    known.map(|feature| feature.unit.as_str()).or_else(by_name).unwrap_or_default()
}

/// A duration in words.
fn span(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}

fn guard(guarded: Option<&Guarded>) -> String {
    let Some(Guarded { against, undone, reason, ago_s }) = guarded else {
        return "guard: it has let all pass".to_owned();
    };
    let did = if *undone { "undid the switch to" } else { "refused" };
    format!("guard: {did} {against} {} ago: {reason}", span(*ago_s))
}

fn shown(row: &Row) -> String {
    let Row { id, remote, driver, arm, why, .. } = row;
    let by = if driver == arm { String::new() } else { format!(", picked by {driver}") };
    let mut parts = vec![
        format!("flow {id} to {remote}: {arm}{by}, for {}", span(row.arm_for_s)),
        format!("why: {why}"),
        guard(row.guarded.as_ref()),
    ];
    let is_arm = |name: &str| matches!(catalogue::kind(name), Ok(Kind::Arm));
    let (scores, features): (Vec<_>, Vec<_>) =
        row.features.iter().partition(|(name, _)| is_arm(name));
    if !scores.is_empty() {
        let mut out = table(&["arm", "expected", "unsure by"]);
        for (name, value) in scores {
            let (value, unsure) = value.split_once(" +- ").unwrap_or((value, "-"));
            out.add_row([name.as_str(), value, unsure]);
        }
        parts.push(out.to_string());
    }
    if !features.is_empty() {
        let mut out = table(&["feature", "value", "unit"]);
        for (name, value) in features {
            out.add_row([name.as_str(), value, unit(name)]);
        }
        parts.push(out.to_string());
    }
    parts.join("\n")
}

/// The explanation for each flow: its arm and since when, the reason, the guard's last action, what
/// the policy expected of each arm, and from which inputs.
pub fn text(rows: &[Row]) -> String {
    let mut parts: Vec<String> = rows.iter().map(shown).collect();
    parts.push(format!("{} flows", rows.len()));
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(guarded: serde_json::Value, features: &[[&str; 2]]) -> Row {
        let row = serde_json::json!({
            "id": 7, "datapath": "bpf", "local": "10.0.0.1:1", "remote": "10.0.0.2:2",
            "driver": "linucb", "arm": "copa", "program": "p", "cwnd_pkts": 10,
            "rate_mbit_per_sec": null, "delivery_mbit_per_sec": null, "srtt_ms": 40.0,
            "rtt_min_ms": 40.0, "lost_pkts": 0, "acked_bytes": 0, "reports": 1, "switches": 1,
            "state": "driven", "why": "copa has the highest bound", "features": features,
            "arm_for_s": 12.34, "guarded": guarded,
        });
        serde_json::from_value(row).expect("a row")
    }

    #[test]
    fn scores_and_features_have_tables_of_their_own_with_units() {
        let guarded = serde_json::json!({
            "against": "bbr", "undone": true, "reason": "power fell to 40 %", "ago_s": 180.0,
        });
        let features = [
            ["copa", "0.500 +- 0.100"],
            ["bbr", "0.2"],
            ["rtt_p95_ms", "41.0"],
            ["bdp_pkts", "120"],
            ["class", "wifi"],
        ];
        let text = text(&[row(guarded, &features)]);
        for part in [
            "flow 7 to 10.0.0.2:2: copa, picked by linucb, for 12.3 s",
            "why: copa has the highest bound",
            "guard: undid the switch to bbr 3 min ago: power fell to 40 %",
            "1 flows",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let cells = |name: &str| {
            let line = text.lines().find(|line| line.trim_matches(['│', ' ']).starts_with(name));
            let line = line.unwrap_or_else(|| panic!("{name} in\n{text}"));
            line.trim_matches(['│', ' ']).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(cells("copa "), ["copa", "0.500", "0.100"]);
        assert_eq!(cells("bbr "), ["bbr", "0.2", "-"]);
        assert_eq!(cells("rtt_p95_ms"), ["rtt_p95_ms", "41.0", "ms"]);
        assert_eq!(cells("bdp_pkts"), ["bdp_pkts", "120", "segments"]);
        assert_eq!(cells("class"), ["class", "wifi"]);
    }

    #[test]
    fn a_flow_without_reasons_has_no_empty_tables() {
        let text = text(&[row(serde_json::Value::Null, &[])]);
        assert!(text.contains("guard: it has let all pass") && !text.contains("feature"), "{text}");
    }

    #[test]
    fn spans_are_as_long_as_people_say_them() {
        assert_eq!([1.26, 300.0, 7_200.0].map(span), ["1.3 s", "5 min", "2.0 h"]);
    }
}
