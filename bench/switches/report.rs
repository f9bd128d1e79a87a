//! The matrix as tables and as a picture; the same figures give the same bytes.

use crate::switches::matrix::{Cell, Plan};
use ccp_agent::guard::HandOff;
use std::fmt::Write;

/// Pixels of a cell of the picture, and of the names beside it.
const CELL_PX: usize = 18;
const NAMES_PX: usize = 80;
/// Least width of a square, which leaves room for its heading.
const SIDE_MIN_PX: usize = 240;
/// The number of retransmissions that makes a cell black.
const BLACK_PKTS: f64 = 5_000.0;

/// The word in headings.
pub fn named(hand_off: HandOff) -> &'static str {
    match hand_off {
        HandOff::Warm => "warm",
        HandOff::Cold => "cold",
    }
}

fn find<'a>(cells: &'a [Cell], from: &str, to: &str, buffer_bdp: f64) -> Option<&'a Cell> {
    cells.iter().find(|cell| cell.from == from && cell.to == to && cell.buffer_bdp == buffer_bdp)
}

/// The matrix of one buffer in Markdown: the retransmissions of each pair; `*` marks a missed
/// bound.
pub fn matrix(arms: &[&str], cells: &[Cell], buffer_bdp: f64) -> String {
    let mut out = String::from("| from, to |");
    for arm in arms {
        let _ = write!(out, " {arm} |");
    }
    out.push_str("\n|---|");
    out.push_str(&"---:|".repeat(arms.len()));
    out.push('\n');
    for from in arms {
        let _ = write!(out, "| {from} |");
        for to in arms {
            let text = find(cells, from, to, buffer_bdp).map_or(String::new(), |cell| {
                let mark = if cell.missed().is_empty() { "" } else { "*" };
                format!("{:.0}{mark}", cell.retransmitted_pkts.0.median)
            });
            let _ = write!(out, " {text} |");
        }
        out.push('\n');
    }
    out
}

/// A line for each pair that misses a bound.
pub fn misses(cells: &[Cell]) -> String {
    let mut out = String::new();
    for cell in cells.iter().filter(|cell| !cell.missed().is_empty()) {
        let (resent, bound) = cell.retransmitted_pkts;
        let _ = writeln!(
            out,
            "| {} to {} | {} | {} | {resent:.0} ({bound:.0}) | {:.2} | {:.2} |",
            cell.from,
            cell.to,
            cell.buffer_bdp,
            cell.missed().join(", "),
            cell.goodput_ratio,
            cell.rtt_ratio
        );
    }
    out
}

/// The number of pairs within all bounds, and the sum of their retransmissions.
pub fn summary(cells: &[Cell]) -> String {
    let met = cells.iter().filter(|cell| cell.missed().is_empty()).count();
    let resent: f64 = cells.iter().map(|cell| cell.retransmitted_pkts.0.median).sum();
    format!("{met} of {} within bounds, {resent:.0} segments sent again in all", cells.len())
}

/// One switch as a line of text.
pub fn line(cell: &Cell) -> String {
    let (resent, bound) = cell.retransmitted_pkts;
    let misses = match cell.missed() {
        none if none.is_empty() => String::new(),
        some => format!("  MISSED: {}", some.join(", ")),
    };
    format!(
        "{} to {}, {} BDP: {resent:.0} sent again ({bound:.0}), goodput {:.2}, RTT {:.2}{misses}",
        cell.from, cell.to, cell.buffer_bdp, cell.goodput_ratio, cell.rtt_ratio
    )
}

const LIVE_HEAD: &str = "\
# What a switch costs on this kernel's TCP

`make switches-live` writes this page (root, some 25 minutes). The path, the moment of the switch
and the bounds are those of [switching.md](switching.md), here on real TCP over an emulated link;
each cell is one run. *Warm* hands the path state to the new arm; *cold* does not. *The kernel's
own* is `setsockopt(TCP_CONGESTION)` between reno, cubic and bbr of the kernel, without an agent;
its column is empty for other pairs. *1 BDP* and *4 BDP* are the sizes of the bottleneck's queue.

Each cell has three figures: segments sent again in the two seconds after the switch; goodput after
the switch, divided by goodput before; and the 95th percentile of the round trips after the switch,
divided by that before or by that of the target arm alone, whichever is larger. `*` marks a cell
outside a bound.

![every pair: warm, cold, the kernel's own](switching-live.svg)

The darker a cell, the more segments are sent again; a ring marks a cell outside a bound.
";

/// The page of live measurements: the same pair by each means side by side.
pub fn live_page(plan: &Plan, columns: &[(&str, &[Cell])], origin: &str) -> String {
    let mut out = format!("{LIVE_HEAD}\n{origin}\n\n");
    for (name, cells) in columns {
        let _ = writeln!(out, "- {name}: {}", summary(cells));
    }
    for buffer_bdp in &plan.buffers_bdp {
        let _ = write!(out, "\n## {buffer_bdp} BDP\n\n| from | to |");
        for (name, _) in columns {
            let _ = write!(out, " {name} |");
        }
        let _ = writeln!(out, "\n|---|---|{}", "---|".repeat(columns.len()));
        for from in &plan.arms {
            for to in plan.arms.iter().filter(|to| *to != from) {
                let _ = write!(out, "| {from} | {to} |");
                for (_, cells) in columns {
                    let text = find(cells, from, to, *buffer_bdp).map_or(String::new(), |cell| {
                        let mark = if cell.missed().is_empty() { "" } else { " *" };
                        format!(
                            "{:.0}; {:.2}; {:.2}{mark}",
                            cell.retransmitted_pkts.0.median,
                            cell.goodput_ratio.median,
                            cell.rtt_ratio.median
                        )
                    });
                    let _ = write!(out, " {text} |");
                }
                out.push('\n');
            }
        }
    }
    out
}

const HEAD: &str = "\
# What a switch costs

`make switches` writes this page and its picture; a test checks that both are up to date.
[switching-live.md](switching-live.md) has part of these measurements on real TCP.

One flow in the simulator, 24 Mbit/s, 40 ms, droptail. One arm drives the flow; then it is switched
to another arm, as by `remuda set`. Each pair is measured at three times of the switch and judged by
the median. The bounds, over the two seconds after the switch:

- retransmissions: at most 40, or 1.5 times what the target arm alone retransmits in two seconds;
- goodput: at least 0.95 of the goodput in the second before;
- round trips: their 95th percentile is at most 1.1 times that of the four seconds before, or that
  of the target arm alone, whichever is larger.

*Warm* is how the agent switches: it hands off the path state, and the guard limits the decisions
after the switch. *Cold* (`guard.hand_off = \"cold\"`) is how Linux' `setsockopt` switches: the new
arm gets the window, the threshold and the round trips, and starts anew without limits. `remy` is
left out, because it needs a rule table.

![warm and cold, every pair](switching.svg)

The darker a cell, the more is retransmitted; a ring marks a missed bound.
";

pub fn page(plan: &Plan, warm: &[Cell], cold: &[Cell]) -> String {
    let mut out = HEAD.to_owned();
    for (hand_off, cells) in [(HandOff::Warm, warm), (HandOff::Cold, cold)] {
        let _ = writeln!(out, "\n- {}: {}", named(hand_off), summary(cells));
    }
    for (hand_off, cells) in [(HandOff::Warm, warm), (HandOff::Cold, cold)] {
        for buffer_bdp in &plan.buffers_bdp {
            let _ = writeln!(
                out,
                "\n## {}, {buffer_bdp} BDP: segments sent again\n\n{}",
                named(hand_off),
                matrix(&plan.arms, cells, *buffer_bdp).trim_end()
            );
        }
    }
    let _ = writeln!(
        out,
        "\n## Warm switches that miss a bound\n\n| pair | BDP | misses | sent again (bound) | \
         goodput, after / before | RTT p95, after / bound's base |\n\
         |---|---:|---|---:|---:|---:|\n{}",
        misses(warm).trim_end()
    );
    out
}

/// A row for each means, such as warm and cold, and a square for each buffer.
pub fn picture(plan: &Plan, means: &[(&str, &[Cell])]) -> String {
    let side = (NAMES_PX + plan.arms.len() * CELL_PX + CELL_PX).max(SIDE_MIN_PX);
    let (width, height) = (side * plan.buffers_bdp.len(), means.len() * side);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"10\">\n<rect width=\"{width}\" \
         height=\"{height}\" fill=\"white\"/>\n"
    );
    for (row, (name, cells)) in means.iter().enumerate() {
        for (column, buffer_bdp) in plan.buffers_bdp.iter().enumerate() {
            let (x, y) = (column * side, row * side);
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{}\" font-size=\"12\">{name}, {buffer_bdp} BDP (rows: from)\
                 </text>",
                x + 4,
                y + 14,
            );
            square(&mut out, plan, cells, (*buffer_bdp, x, y));
        }
    }
    out.push_str("</svg>\n");
    out
}

fn square(out: &mut String, plan: &Plan, cells: &[Cell], (buffer_bdp, x, y): (f64, usize, usize)) {
    for (index, arm) in plan.arms.iter().enumerate() {
        let at = NAMES_PX + index * CELL_PX + CELL_PX / 2;
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{arm}</text>\n\
             <text transform=\"translate({},{}) rotate(-90)\">{arm}</text>",
            x + NAMES_PX - 4,
            y + at + 4,
            x + at + 4,
            y + NAMES_PX - 4
        );
        for (other, to) in plan.arms.iter().enumerate() {
            let Some(cell) = find(cells, arm, to, buffer_bdp) else { continue };
            let resent = cell.retransmitted_pkts.0.median;
            let light = 1.0 - ((1.0 + resent).ln() / (1.0 + BLACK_PKTS).ln()).min(1.0);
            let grey = (40.0 + 210.0 * light) as u8;
            let ring = if cell.missed().is_empty() { "none" } else { "#d55e00" };
            let _ = writeln!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{size}\" height=\"{size}\" \
                 fill=\"rgb({grey},{grey},{grey})\" stroke=\"{ring}\" stroke-width=\"2\"/>",
                x + NAMES_PX + other * CELL_PX + 2,
                y + NAMES_PX + index * CELL_PX + 2,
                size = CELL_PX - 4
            );
        }
    }
}
