//! The part of a document that a command writes anew.

use crate::Error;
use std::fs;
use std::path::Path;

/// The lines around what is written.
pub const BEGIN: &str = "<!-- begin: make sim-to-real writes this -->";
/// The one after it.
pub const END: &str = "<!-- end -->";

/// What `document` is with `part` between the markers; none if they are not both there, in order.
fn with_part(document: &str, part: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", part.trim()))
}

/// Writes `part` between the markers of a file, and leaves the rest of it as it is.
pub fn write(path: &Path, part: &str) -> Result<(), Error> {
    let document = fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
    let document = with_part(&document, part)
        .ok_or_else(|| Error::file(path, format!("it lacks the lines {BEGIN} and {END}")))?;
    fs::write(path, document).map_err(|error| Error::file(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_markers_changes() {
        let document = format!("# Head\n{BEGIN}\nold\n{END}\ntail\n");
        let new = with_part(&document, "new\n").expect("it has both");
        assert_eq!(new, format!("# Head\n{BEGIN}\n\nnew\n\n{END}\ntail\n"));
        assert_eq!(with_part(&new, "new").as_deref(), Some(new.as_str()), "twice is once");
        assert_eq!(with_part(&format!("{END}{BEGIN}"), "x"), None);
    }
}
