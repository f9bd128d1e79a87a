//! What this was built from.

/// The commit, with `-dirty` if more had changed by then; `None` of a tree without its history.
pub fn commit() -> Option<String> {
    option_env!("REMUDA_COMMIT").map(str::to_owned)
}
