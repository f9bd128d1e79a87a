//! Tables for people, with columns as wide as their content.

use crate::columns::terminal;
use crate::output::visible;
use crate::wrap::wrapped;
use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Row, Width, presets};
use std::fmt;

/// Longer words are broken where a column has no room for them.
const WORD_MAX: usize = 24;
/// The spaces beside a cell; the border or space after each column; the border before the first.
const PADDING: usize = 2;
const AFTER: usize = 1;
const BEFORE: usize = 1;

/// A table whose cells have control characters escaped, before their width is measured.
pub struct Table(comfy_table::Table);

pub fn table(columns: &[&str]) -> Table {
    let mut table = comfy_table::Table::new();
    table
        .load_preset(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(columns.iter().map(|name| visible(name)));
    Table(table)
}

impl Table {
    pub fn add_row(&mut self, cells: impl IntoIterator<Item: ToString>) {
        let visible = cells.into_iter().map(|cell| visible(&cell.to_string()).into_owned());
        self.0.add_row(visible);
    }
}

fn cells(row: &Row) -> Vec<String> {
    row.cell_iter().map(Cell::content).collect()
}

fn longest<'a>(parts: impl Iterator<Item = &'a str>) -> usize {
    parts.map(|part| part.chars().count()).max().unwrap_or(0)
}

/// The widths of columns that together take `room`, with no word broken: the widest column gives
/// way first. `None` if there is too little room.
fn widths(rows: &[Vec<String>], room: usize) -> Option<Vec<usize>> {
    let columns = || 0..rows.iter().map(Vec::len).max().unwrap_or(0);
    let of = |at: usize| rows.iter().filter_map(move |row| row.get(at).map(String::as_str));
    let least: Vec<usize> =
        columns().map(|at| longest(of(at).flat_map(str::split_whitespace)).min(WORD_MAX)).collect();
    let natural = |at| longest(of(at).flat_map(str::lines)).max(1);
    let mut shown: Vec<usize> = columns().map(natural).collect();
    while shown.iter().sum::<usize>() > room {
        let wide = columns().filter(|at| shown[*at] > least[*at]).max_by_key(|at| shown[*at])?;
        shown[wide] -= 1;
    }
    Some(shown)
}

/// Each row as lines of a name and a cell, and an empty line between two rows.
fn records(header: &[String], rows: &[Vec<String>], width: usize) -> String {
    let line = |(name, cell): (&String, &String)| {
        let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
        wrapped(&format!("{name}{cell}"), width, 2)
    };
    let record = |row: &Vec<String>| header.iter().zip(row).map(line).collect::<Vec<_>>();
    let records: Vec<String> = rows.iter().map(|row| record(row).join("\n")).collect();
    records.join("\n\n")
}

impl Table {
    /// The table in lines of at most `width` characters. A table that has no room is a list.
    fn within(&self, width: usize) -> String {
        let header = self.0.header().map(cells).unwrap_or_default();
        let rows: Vec<Vec<String>> = self.0.row_iter().map(cells).collect();
        let all = [std::slice::from_ref(&header), &rows].concat();
        let frame = BEFORE + (PADDING + AFTER) * header.len();
        let Some(widths) = width.checked_sub(frame).and_then(|room| widths(&all, room)) else {
            return records(&header, &rows, width);
        };
        let mut table = self.0.clone();
        for (column, width) in table.column_iter_mut().zip(widths) {
            let width = u16::try_from(width + PADDING).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
        table.to_string()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match terminal() {
            Some(size) => f.write_str(&self.within(size.width)),
            None => self.0.fmt(f),
        }
    }
}

/// Formats a number: one decimal, or three below 1; a dash for `None`.
pub fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() < 1.0 => format!("{value:.3}"),
        Some(value) => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_rewrite_the_row_that_it_is_in() {
        let mut shown = table(&["arm", "Mbit/s"]);
        shown.add_row(["\x1b[1A\x1b[2Kcubic\r", "1.0"]);
        let text = shown.to_string();
        assert!(!text.contains(['\x1b', '\r']), "{text:?}");
        let width = |line: &str| line.chars().count();
        assert!(text.lines().all(|line| width(line) == width(text.lines().next().unwrap_or(""))));
    }

    #[test]
    fn a_table_fits_the_terminal_and_breaks_no_word() {
        let mut shown = table(&["rule", "flows", "use", "so far"]);
        let on = "destination 198.51.100.0/24, local port 443, user 1000";
        shown.add_row(["web", on, "antelope", "12"]);
        shown.add_row(["rule-3", "mark 7", "bbr3", "0"]);
        assert_eq!(shown.within(200), shown.0.to_string());
        for width in 0..90 {
            let text = shown.within(width);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= width.max(1), "{width}:\n{text}");
            let whole = on.split(' ').chain(["antelope"]).all(|word| text.contains(word));
            assert!(whole || width < 20, "{width}:\n{text}");
        }
        let list = shown.within(30);
        assert!(list.starts_with("rule: web\nflows: destination\n  198.51.100.0/24,"), "{list}");
        assert!(list.ends_with("\n\nrule: rule-3\nflows: mark 7\nuse: bbr3\nso far: 0"), "{list}");
    }

    #[test]
    fn a_figure_is_as_long_as_it_is_worth() {
        let figures = [None, Some(0.0312), Some(1.0), Some(459.26)].map(figure);
        assert_eq!(figures, ["-", "0.031", "1.0", "459.3"]);
    }
}
