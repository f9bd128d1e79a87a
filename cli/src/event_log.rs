//! Reads the agent's event log.

use crate::Failure;
use ccp_agent::run_dir;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

/// The event logs of the agent, the oldest first.
pub fn logs(run_dir: &Path) -> Vec<PathBuf> {
    // With agent.event_log_dir, run_dir has a link to the log; the rotated log lies beside the log.
    let here = run_dir::event_log(run_dir);
    let old = |newest: &Path| newest.with_extension("old.jsonl");
    let linked = here.read_link().ok();
    let mut all = vec![old(&here)];
    all.extend(linked.as_deref().map(old));
    all.push(linked.unwrap_or(here));
    all.retain(|path| path.exists());
    all
}

/// Calls `take` with each line; it says whether the line is an event. Returns how many are not.
pub fn read(path: &Path, mut take: impl FnMut(&str) -> bool) -> Result<u64, Failure> {
    let named = |error: io::Error| format!("{}: {error}", path.display());
    let mut odd = 0;
    for line in BufReader::new(File::open(path).map_err(named)?).lines() {
        match line {
            Ok(line) => odd += u64::from(!take(&line)),
            Err(error) if error.kind() == ErrorKind::InvalidData => odd += 1,
            Err(error) => return Err(named(error).into()),
        }
    }
    Ok(odd)
}
