//! Flows as lines.

use crate::columns::{Column, Size, lines};
use crate::output::visible_name;
use crate::table::figure;
use crate::wrap::wrapped;
use ccp_agent::flow::Row;
use ccp_agent::prefer::Wants;
use std::fmt::Write as _;

const fn number(name: &'static str, rank: u8) -> Column {
    Column { name, is_number: true, least: 0, rank }
}

const COLUMNS: [Column; 12] = [
    number("flow", 0),
    Column { name: "peer", is_number: false, least: 9, rank: 0 },
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

/// The columns of text, by their places in [`COLUMNS`].
const PEER: usize = 1;
const ARM: usize = 3;

/// What a line below a flow starts with.
const INDENT: &str = "      ";
/// Spaces before the further lines below a flow.
const BELOW: usize = 8;

/// A span of time in at most four characters.
fn span(seconds: f64) -> String {
    match seconds.max(0.0) {
        s if s < 99.5 => format!("{s:.0}s"),
        s if s < 99.5 * 60.0 => format!("{:.0}m", s / 60.0),
        s if s < 99.5 * 3_600.0 => format!("{:.0}h", s / 3_600.0),
        s => format!("{:.0}d", s / 86_400.0),
    }
}

/// A number in few characters, as columns are narrow; a dash for `None`.
fn short(value: Option<f64>) -> String {
    match value {
        Some(large) if large.abs() >= 99.95 => format!("{large:.0}"),
        value => figure(value),
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
        short(row.delivery_mbit_per_sec),
        short(row.rate_mbit_per_sec),
        short(row.srtt_ms),
        short(row.rtt_min_ms),
        row.lost_pkts.to_string(),
        span(row.age_s),
        span(row.idle_s),
    ]
}

/// Why a flow has its arm.
fn reason(row: &Row) -> String {
    let state = if row.state == "driven" { String::new() } else { format!("{}; ", row.state) };
    let wants =
        if row.wants == Wants::DEFAULT { String::new() } else { format!("wants {}; ", row.wants) };
    let rule = row.rule.as_ref().map_or_else(String::new, |name| format!("rule {name}; "));
    format!("{state}{wants}{rule}{}", row.why)
}

fn count(flows: usize) -> String {
    format!("{flows} flow{}", if flows == 1 { "" } else { "s" })
}

/// The peer and the arm if they have no room in their columns, for the line below.
fn no_room(line: &str, cells: &[String]) -> String {
    let whole = |name: &str, cell: &String| {
        let cell = visible_name(cell);
        if line.contains(cell.as_ref()) { String::new() } else { format!("{name} {cell}; ") }
    };
    whole("peer", &cells[PEER]) + &whole("arm", &cells[ARM])
}

/// A line for each flow, with the reason below it, and their number.
pub fn flows(rows: &[Row], width: Option<usize>) -> String {
    let all: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let mut shown = lines(&COLUMNS, &all, width).into_iter();
    let mut text =
        shown.next().filter(|_| !rows.is_empty()).map_or_else(String::new, |it| it + "\n");
    for ((line, row), cells) in shown.zip(rows).zip(&all) {
        let below = format!("{INDENT}{}{}", no_room(&line, cells), reason(row));
        let below = visible_name(&below);
        let below = width.map_or_else(|| below.to_string(), |width| wrapped(&below, width, BELOW));
        let _ = writeln!(text, "{line}\n{below}");
    }
    text + &count(rows.len()) + "\n"
}

/// How many flows there are, what they send together, and as many of them as fit.
pub fn top(rows: &[Row], size: Option<Size>) -> String {
    let rates = rows.iter().filter_map(|row| row.delivery_mbit_per_sec);
    let together: f64 = rates.fold(0.0, |all, rate| all + rate);
    let busy = rows.iter().filter(|row| row.idle_s < 1.0).count();
    let all = count(rows.len());
    let head = format!("{all}, {busy} busy in the last second, {together:.1} Mbit/s together");
    let width = size.map(|it| it.width);
    let mut text = width.map_or(head.clone(), |width| wrapped(&head, width, 2)) + "\n";
    // One line below the head is the columns, and the cursor needs the last.
    let taken = text.lines().count() + 2;
    let room = size.map_or(usize::MAX, |size| size.height.saturating_sub(taken));
    let shown: Vec<Vec<String>> = rows.iter().take(room).map(cells).collect();
    for line in lines(&COLUMNS, &shown, width) {
        let _ = writeln!(text, "{line}");
    }
    if size.is_none() {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(remote: &str) -> Row {
        let row = serde_json::json!({
            "id": 7, "datapath": "bpf", "local": "10.0.0.1:443", "remote": remote,
            "driver": "antelope", "arm": "westwood", "program": "p", "cwnd_pkts": 1234,
            "rate_mbit_per_sec": null, "delivery_mbit_per_sec": 1234.56, "srtt_ms": 141.2,
            "rtt_min_ms": 0.04, "lost_pkts": 0, "acked_bytes": 0, "reports": 1, "switches": 1,
            "state": "driven", "why": "westwood has the largest expected utility of all arms",
            "features": [], "arm_for_s": 12.34, "guarded": null,
        });
        serde_json::from_value(row).expect("a row")
    }

    #[test]
    fn a_peer_and_an_arm_without_room_are_whole_on_the_line_below() {
        let rows = [row("203.0.113.77:51820"), row("[2001:db8:85a3::8a2e:370:7334]:51820")];
        let piped = flows(&rows, None);
        assert_eq!(piped.lines().count(), 6, "{piped}");
        assert!(piped.contains("\n      westwood has"), "{piped}");
        for width in [20, 80] {
            let text = flows(&rows, Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            let joined: String = text.split_whitespace().collect();
            for row in &rows {
                assert!(joined.contains(&row.remote), "{} in\n{text}", row.remote);
            }
            assert!(joined.contains("antelope:westwood"), "{text}");
            assert!(joined.contains("thelargestexpectedutilityofallarms"), "{text}");
        }
    }

    #[test]
    fn all_columns_of_an_ipv4_flow_fit_80() {
        let row =
            Row { driver: "rein".to_owned(), arm: "cubic".to_owned(), ..row("10.11.0.2:5201") };
        let text = flows(&[row], Some(80));
        let header: Vec<&str> = text.lines().next().unwrap_or_default().split(' ').collect();
        assert!(COLUMNS.iter().all(|column| header.contains(&column.name)), "{text}");
        assert!(!text.contains('…'), "{text}");
    }

    #[test]
    fn top_fills_the_screen_but_for_its_last_line() {
        let rows: Vec<Row> = (0..40).map(|_| row("10.11.0.2:5201")).collect();
        for (width, height) in [(80, 24), (20, 10)] {
            let text = top(&rows, Some(Size { width, height }));
            assert_eq!(text.lines().count(), height - 1, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
    }
}
