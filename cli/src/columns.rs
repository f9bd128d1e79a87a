//! Aligned columns of plain text, which fit a terminal and are easy to cut in a pipe.
//!
//! [`crate::table`] draws a box instead, for tables that no other program reads.

use crate::output::visible_name;
use rustix::termios::{isatty, tcgetwinsize};

/// A column of cells under a name.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    /// Text starts at the left, a number ends at the right.
    pub is_number: bool,
    /// The least characters of text that still tell what it is; a cell loses its middle.
    pub least: usize,
    /// Where there is no room for all columns, those of the highest rank go first.
    pub rank: u8,
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub width: usize,
    pub height: usize,
}

/// The size of the terminal that standard output is; `None` in a pipe or a file.
pub fn terminal() -> Option<Size> {
    let out = std::io::stdout();
    if !isatty(&out) {
        return None;
    }
    let size = tcgetwinsize(&out).ok()?;
    // A terminal that does not know its size says 0.
    let or = |value: u16, otherwise| if value == 0 { otherwise } else { usize::from(value) };
    Some(Size { width: or(size.ws_col, 80), height: or(size.ws_row, 24) })
}

/// `text` in at most `width` characters: its middle becomes `…`.
pub fn shortened(text: &str, width: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= width {
        return text.to_owned();
    }
    let Some(kept) = width.checked_sub(1) else { return String::new() };
    let (head, tail) = (kept / 2, kept - kept / 2);
    let ends = [&letters[..head], &['…'], &letters[letters.len() - tail..]];
    ends.concat().into_iter().collect()
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// The width of each column that is shown; 0 for the others.
fn widths(columns: &[Column], natural: &[usize], gap: usize, width: usize) -> Vec<usize> {
    let mut shown: Vec<usize> = natural.to_vec();
    let total = |shown: &[usize]| {
        let count = shown.iter().filter(|it| **it > 0).count();
        shown.iter().sum::<usize>() + gap * count.saturating_sub(1)
    };
    for rank in (1..=columns.iter().map(|it| it.rank).max().unwrap_or(0)).rev() {
        let spare: usize = columns.iter().zip(&shown).map(|(it, now)| spare(it, *now)).sum();
        if total(&shown) - spare <= width {
            break;
        }
        for (column, it) in columns.iter().zip(&mut shown) {
            if column.rank == rank {
                *it = 0;
            }
        }
    }
    // The longest text gives way first, so that a short one is read whole.
    while total(&shown) > width {
        let widest = columns.iter().enumerate().filter(|(at, it)| spare(it, shown[*at]) > 0);
        let Some((at, _)) = widest.max_by_key(|(at, _)| shown[*at]) else { break };
        shown[at] -= 1;
    }
    shown
}

/// By how much a column can become narrower.
fn spare(column: &Column, now: usize) -> usize {
    if column.is_number { 0 } else { now.saturating_sub(column.least) }
}

/// The header and the rows as lines, as wide as `width`; without one, as wide as they are.
pub fn lines(columns: &[Column], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let header: Vec<String> = columns.iter().map(|it| it.name.to_owned()).collect();
    let visible = |cell: &String| visible_name(cell).into_owned();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(visible).collect()).collect();
    let all = || std::iter::once(&header).chain(&rows);
    let natural = |at: usize| all().map(|row| length(&row[at])).max().unwrap_or(0);
    let natural: Vec<usize> = (0..columns.len()).map(natural).collect();
    let is_roomy = |gap| widths(columns, &natural, gap, width.unwrap_or(usize::MAX)) == natural;
    let gap = if is_roomy(2) { 2 } else { 1 };
    let shown = widths(columns, &natural, gap, width.unwrap_or(usize::MAX));
    let line = |row: &Vec<String>| {
        let cells = columns.iter().zip(row).zip(&shown).filter(|(_, width)| **width > 0);
        let cells = cells.map(|((column, cell), &width)| {
            let cell = if column.is_number { cell.clone() } else { shortened(cell, width) };
            if column.is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        let line = cells.collect::<Vec<_>>().join(&" ".repeat(gap));
        let line = line.trim_end();
        width.map_or_else(|| line.to_owned(), |width| line.chars().take(width).collect())
    };
    all().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column { name: "flow", is_number: true, least: 0, rank: 0 },
        Column { name: "peer", is_number: false, least: 9, rank: 0 },
        Column { name: "Mbit/s", is_number: true, least: 0, rank: 1 },
        Column { name: "age", is_number: true, least: 0, rank: 2 },
    ];

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row(["7", "198.51.100.7:443", "12.5", "3s"]),
            row(["1234", "[2001:db8:85a3::8a2e:370:7334]:51820", "0.031", "2h"]),
        ]
    }

    #[test]
    fn in_a_pipe_nothing_is_left_out() {
        assert_eq!(
            lines(&COLUMNS, &rows(), None),
            [
                "flow  peer                                  Mbit/s  age",
                "   7  198.51.100.7:443                        12.5   3s",
                "1234  [2001:db8:85a3::8a2e:370:7334]:51820   0.031   2h",
            ]
        );
    }

    #[test]
    fn text_gives_way_before_columns_do() {
        assert_eq!(
            lines(&COLUMNS, &rows(), Some(34)),
            [
                "flow peer               Mbit/s age",
                "   7 198.51.100.7:443     12.5  3s",
                "1234 [2001:db…34]:51820  0.031  2h",
            ]
        );
        assert_eq!(lines(&COLUMNS, &rows(), Some(21))[0], "flow peer      Mbit/s");
        assert_eq!(lines(&COLUMNS, &rows(), Some(14))[2], "1234 [200…1820");
        // Narrower than what is left: cut.
        assert_eq!(lines(&COLUMNS, &rows(), Some(6)), ["flow p", "   7 1", "1234 ["]);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 0..60 {
            for line in lines(&COLUMNS, &rows(), Some(width)) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_name_stays_in_its_line() {
        let mut rows = rows();
        rows[0][1] = "a\nb\x1b[2J".to_owned();
        assert!(lines(&COLUMNS, &rows, None)[1].contains("a\\u000ab\\u001b[2J"));
    }

    #[test]
    fn what_is_shortened_keeps_both_ends() {
        assert_eq!(
            [0, 1, 2, 5, 9].map(|to| shortened("12345678", to)),
            ["", "…", "…8", "12…78", "12345678"]
        );
    }
}
