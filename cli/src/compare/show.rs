//! The table of `remuda compare`.

use super::Row;
use crate::table::table;
use ccp_agent::interval::Interval;
use std::fmt::Write;

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

fn verdict(row: &Row) -> String {
    let Interval { least, most, .. } = row.difference;
    let better = if row.more_is_better { least > 0.0 } else { most < 0.0 };
    let worse = if row.more_is_better { most < 0.0 } else { least > 0.0 };
    match row.pairs_left {
        _ if row.drifts => "cannot say: the difference changes with time".to_owned(),
        _ if better => "better".to_owned(),
        _ if worse => "worse".to_owned(),
        Some(pairs) => format!("cannot say; about {pairs} more flows of the smaller group"),
        None => "cannot say".to_owned(),
    }
}

/// A table of all rows, and how to read it.
pub fn text(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no flow of a rule has ended yet\n\
                fix: give a rule a share below 1, and wait for its flows to end\n"
            .to_owned();
    }
    let mut out = table(&["rule", "measure", "flows", "control", "change", "95 %", "verdict"]);
    for row in rows {
        let Interval { mean, least, most } = row.difference;
        out.add_row([
            row.rule.clone(),
            row.measure.to_owned(),
            row.flows.to_string(),
            row.control_flows.to_string(),
            percent(mean),
            format!("{} to {}", percent(least), percent(most)),
            verdict(row),
        ]);
    }
    let mut text = format!("{out}\n");
    let _ = writeln!(
        text,
        "change: the rule's flows less those of its control group; the intervals hold at every look"
    );
    if rows.iter().any(|row| row.control_flows == 0) {
        let _ = writeln!(text, "note: a rule without a control group: give it a share below 1");
    }
    text
}
