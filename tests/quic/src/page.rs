//! docs/quic.md: the table between its marks.

use crate::run::{Figures, Path, Side};
use remuda_stats::Spread;
use std::io;
use std::path::Path as FsPath;

const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";

/// The table's head.
pub const HEAD: &str = "\
| path | sender | goodput, Mbit/s: median (spread) | p95 of the queueing delay, ms | dropped, % |
|---|---|---|---|---|";

/// One side on one path.
pub fn row(path: &Path, side: &Side, figures: &[Figures]) -> String {
    let of = |figure: fn(&Figures) -> f64| Spread::of(figures.iter().map(figure));
    format!(
        "| {path} | {side} | {:.2} | {:.1} | {:.2} |",
        of(|f| f.goodput_mbit_per_sec),
        of(|f| f.queueing_p95_ms),
        of(|f| f.dropped_percent)
    )
}

/// Puts it into the page.
pub fn write(path: &FsPath, table: &str) -> io::Result<()> {
    let text = std::fs::read_to_string(path)?;
    let parts = text.split_once(BEGIN).and_then(|(head, rest)| {
        rest.split_once(END).map(|(_, tail)| format!("{head}{BEGIN}\n\n{table}\n\n{END}{tail}"))
    });
    let missing = || io::Error::other(format!("{}: no {BEGIN} and {END}", path.display()));
    std::fs::write(path, parts.ok_or_else(missing)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_replaces_what_is_between_the_marks_and_nothing_else() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, format!("head\n{BEGIN}\nold\n{END}\ntail\n")).expect("written");
        write(file.path(), "new").expect("the marks are there");
        let text = std::fs::read_to_string(&file).expect("text");
        assert_eq!(text, format!("head\n{BEGIN}\n\nnew\n\n{END}\ntail\n"));
        std::fs::write(&file, "no marks").expect("written");
        assert!(write(file.path(), "new").is_err());
    }
}
