//! Writes the pages of commands: whole ones, or the part of a document that a command writes.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

const END: &str = "<!-- end -->";

fn begin(command: &str) -> String {
    format!("<!-- begin: {command} writes this -->")
}

/// `document` with `part` between the markers; `None` unless both markers are present and in order.
fn with_part(document: &str, begin: &str, part: &str) -> Option<String> {
    let (before, rest) = document.split_once(begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n\n{}\n\n{END}{after}", part.trim()))
}

/// Writes `part` between the markers of a file, the first of which names the command. The rest of
/// the file stays as it is.
///
/// # Errors
///
/// The file cannot be read or written, or lacks the markers.
pub fn write(path: &Path, command: &str, part: &str) -> io::Result<()> {
    let begin = begin(command);
    let document = with_part(&fs::read_to_string(path)?, &begin, part).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("it lacks the lines {begin} and {END}"))
    })?;
    fs::write(path, document)
}

/// Writes a whole page into a file, or to standard output.
///
/// # Errors
///
/// The page cannot be written.
pub fn write_whole(path: Option<&Path>, page: &str) -> io::Result<()> {
    match path {
        Some(path) => fs::write(path, page),
        None => io::stdout().write_all(page.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_markers_changes() {
        let begin = begin("make it");
        let document = format!("# Head\n{begin}\nold\n{END}\ntail\n");
        let new = with_part(&document, &begin, "new\n").expect("it has both");
        assert_eq!(new, format!("# Head\n{begin}\n\nnew\n\n{END}\ntail\n"));
        assert_eq!(with_part(&new, &begin, "new").as_deref(), Some(new.as_str()), "twice is once");
        assert_eq!(with_part(&format!("{END}{begin}"), &begin, "x"), None);
    }
}
