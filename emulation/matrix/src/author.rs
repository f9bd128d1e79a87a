//! Arms in Python, for runs in this process.

use ccp_agent::Error;
use ccp_agent::author::{Authors, Line, Process};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// In the simulator an author may take its time: nobody else's flow is there to wait.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Starts the process of an author's file, whose arms are among `authors` until it is dropped.
pub fn start_author(file: &Path, python: &Path, authors: &Authors) -> Result<Process, Error> {
    let mut process = Process::start(python, file)?;
    let line = Arc::new(Line::new(process.take_socket()?, true, ANSWER_LIMIT));
    let named = |error| Error::Author(format!("{}: {error}", file.display()));
    authors.add(line, &process.hello).map_err(named)?;
    Ok(process)
}
