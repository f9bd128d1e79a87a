//! Tables for people, with columns as wide as their content.

use crate::output::visible;
use comfy_table::{ContentArrangement, presets};
use std::fmt;

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

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
    fn a_figure_is_as_long_as_it_is_worth() {
        let figures = [None, Some(0.0312), Some(1.0), Some(459.26)].map(figure);
        assert_eq!(figures, ["-", "0.031", "1.0", "459.3"]);
    }
}
