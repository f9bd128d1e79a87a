//! Arms in Python, for runs in this process.

use ccp_agent::Error;
use ccp_agent::author::{Authors, Line, Process};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The simulator waits for an author's code, so a slow answer delays no other flow.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Starts the process that runs an author's file. Its arms are in `authors` until the returned
/// process is dropped.
pub fn start_author(file: &Path, python: &Path, authors: &Authors) -> Result<Process, Error> {
    let mut process = Process::start(python, file)?;
    let line = Arc::new(Line::new(process.take_socket()?, true, ANSWER_LIMIT));
    let named = |error| Error::Author(format!("{}: {error}", file.display()));
    authors.add(line, &process.hello).map_err(named)?;
    Ok(process)
}
