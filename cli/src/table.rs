//! Tables for people, with columns as wide as their content.

use comfy_table::{ContentArrangement, Table, presets};

pub fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(columns);
    table
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
    fn a_figure_is_as_long_as_it_is_worth() {
        let figures = [None, Some(0.0312), Some(1.0), Some(459.26)].map(figure);
        assert_eq!(figures, ["-", "0.031", "1.0", "459.3"]);
    }
}
