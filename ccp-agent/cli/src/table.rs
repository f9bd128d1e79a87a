//! Tables for people: columns as wide as they need, nothing drawn that does not help.

use comfy_table::{ContentArrangement, Table, presets};

/// A table with these columns.
pub fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(columns);
    table
}

/// A figure, or a dash where there is none.
pub fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}
