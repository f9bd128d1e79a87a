//! The operator's order for new flows (`remuda set new`, `remuda set all`) outlives a restart: it
//! lies in the state directory.
//!
//! It holds as long as the configuration names the same default as when it was given, so that an
//! operator who changes the configuration gets what it says.

use crate::Error;
use crate::error::on;
use crate::state_file;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const BYTES_MAX: u64 = 4_096;

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Order {
    /// The default of the configuration when the order was given.
    configured: String,
    ordered: String,
}

fn file(state_dir: &Path) -> PathBuf {
    state_dir.join("default.json")
}

/// The driver that was ordered in place of `configured`; `None` without an order, or if the
/// configuration has changed since. The error says why the file is not used.
pub fn read(state_dir: &Path, configured: &str) -> Result<Option<String>, String> {
    let path = file(state_dir);
    let named = |rule: String| format!("{}: {rule}", path.display());
    let text = state_file::read(&path, "order for new flows", BYTES_MAX).map_err(named)?;
    let Some(text) = text else { return Ok(None) };
    let order: Order = serde_json::from_str(&text).map_err(|error| named(error.to_string()))?;
    Ok((order.configured == configured).then_some(order.ordered))
}

/// Keeps an order; one for the configured driver itself is deleted.
pub fn write(state_dir: &Path, configured: &str, ordered: &str) -> Result<(), Error> {
    let path = file(state_dir);
    if configured == ordered {
        return match state_file::absent_is_none(fs::remove_file(&path)) {
            Ok(_) => Ok(()),
            Err(error) => Err(on(path.display())(error)),
        };
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(state_dir);
    made.map_err(on(state_dir.display()))?;
    let order = Order { configured: configured.to_owned(), ordered: ordered.to_owned() };
    let text = serde_json::to_string(&order).map_err(|error| Error::Refused(error.to_string()))?;
    state_file::write(&path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_holds_until_the_configuration_or_another_order_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        assert_eq!(read(&state, "rein"), Ok(None));
        write(&state, "rein", "bbr").expect("it is kept");
        assert_eq!(read(&state, "rein"), Ok(Some("bbr".to_owned())));
        assert_eq!(read(&state, "cubic"), Ok(None), "the configuration has changed");
        write(&state, "rein", "reno").expect("it is kept");
        assert_eq!(read(&state, "rein"), Ok(Some("reno".to_owned())));
        write(&state, "rein", "rein").expect("it goes");
        assert_eq!(read(&state, "rein"), Ok(None));
        write(&state, "rein", "rein").expect("and is gone already");
    }

    #[test]
    fn a_spoilt_file_is_named_and_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        for text in ["", "{", "{\"configured\": \"rein\"}", "[1]", "\u{0}"] {
            fs::write(file(folder.path()), text).expect("it is written");
            let error = read(folder.path(), "rein").expect_err(text);
            assert!(error.contains("default.json"), "{error}");
        }
        fs::write(file(folder.path()), "x".repeat(5_000)).expect("it is written");
        assert!(read(folder.path(), "rein").expect_err("too long").contains("4096"));
    }
}
