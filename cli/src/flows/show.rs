//! Flows as lines.

use crate::columns::{Column, Size, lines, shortened};
use crate::output::visible_name;
use crate::table::figure;
use ccp_agent::flow::Row;
use ccp_agent::prefer::Wants;
use std::fmt::Write as _;

const fn number(name: &'static str, rank: u8) -> Column {
    Column { name, is_number: true, least: 0, rank }
}

const COLUMNS: [Column; 12] = [
    number("flow", 0),
    Column { name: "peer", is_number: false, least: 12, rank: 0 },
    number("port", 4),
    Column { name: "arm", is_number: false, least: 8, rank: 0 },
    number("cwnd", 3),
    number("Mbit/s", 1),
    number("pace", 8),
    number("srtt", 2),
    number("min", 7),
    number("lost", 6),
    number("age", 5),
    number("idle", 5),
];

/// What a line below a flow starts with.
const INDENT: &str = "      ";

/// A span of time in at most four characters.
fn span(seconds: f64) -> String {
    match seconds.max(0.0) {
        s if s < 99.5 => format!("{s:.0}s"),
        s if s < 99.5 * 60.0 => format!("{:.0}m", s / 60.0),
        s if s < 99.5 * 3_600.0 => format!("{:.0}h", s / 3_600.0),
        s => format!("{:.0}d", s / 86_400.0),
    }
}

/// The port of `address:port`.
fn port(socket: &str) -> String {
    socket.rsplit_once(':').map_or("-", |(_, port)| port).to_owned()
}

fn cells(row: &Row) -> Vec<String> {
    let picked = format!("{}:{}", row.driver, row.arm);
    vec![
        row.id.to_string(),
        row.remote.clone(),
        port(&row.local),
        if row.driver == row.arm { row.arm.clone() } else { picked },
        row.cwnd_pkts.to_string(),
        figure(row.delivery_mbit_per_sec),
        figure(row.rate_mbit_per_sec),
        figure(row.srtt_ms),
        figure(row.rtt_min_ms),
        row.lost_pkts.to_string(),
        span(row.age_s),
        span(row.idle_s),
    ]
}

/// Why a flow has its arm, as the line below it.
fn reason(row: &Row) -> String {
    let state = if row.state == "driven" { String::new() } else { format!("{}; ", row.state) };
    let wants =
        if row.wants == Wants::DEFAULT { String::new() } else { format!("wants {}; ", row.wants) };
    let rule = row.rule.as_ref().map_or_else(String::new, |name| format!("rule {name}; "));
    format!("{INDENT}{state}{wants}{rule}{}", row.why)
}

fn count(flows: usize) -> String {
    format!("{flows} flow{}", if flows == 1 { "" } else { "s" })
}

/// A line for each flow, with the reason below it, and their number.
pub fn flows(rows: &[Row], width: Option<usize>) -> String {
    let all: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let mut shown = lines(&COLUMNS, &all, width).into_iter();
    let mut text =
        shown.next().filter(|_| !rows.is_empty()).map_or_else(String::new, |it| it + "\n");
    for (line, row) in shown.zip(rows) {
        let why = reason(row);
        let why = visible_name(&why);
        let why = width.map_or_else(|| why.to_string(), |width| cut(&why, width));
        let _ = writeln!(text, "{line}\n{why}");
    }
    text + &count(rows.len()) + "\n"
}

/// `text` in at most `width` characters, with `…` at its end if it has more.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { kept } else { kept + "…" }
}

/// How many flows there are, what they send together, and as many of them as fit.
pub fn top(rows: &[Row], size: Option<Size>) -> String {
    let rates = rows.iter().filter_map(|row| row.delivery_mbit_per_sec);
    let together: f64 = rates.fold(0.0, |all, rate| all + rate);
    let busy = rows.iter().filter(|row| row.idle_s < 1.0).count();
    let all = count(rows.len());
    let head = format!("{all}, {busy} busy in the last second, {together:.1} Mbit/s together");
    let (width, height) = (size.map(|it| it.width), size.map(|it| it.height));
    // One line is the head, one the columns, and the cursor needs the last.
    let room = height.map_or(rows.len(), |height| height.saturating_sub(3).min(rows.len()));
    let shown: Vec<Vec<String>> = rows[..room].iter().map(cells).collect();
    let head = width.map_or(head.clone(), |width| shortened(&head, width));
    let mut text = head + "\n";
    for line in lines(&COLUMNS, &shown, width) {
        let _ = writeln!(text, "{line}");
    }
    if size.is_none() {
        text.push('\n');
    }
    text
}
