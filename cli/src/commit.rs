//! The commit of the build.

/// The commit, with `-dirty` if files had changed since; `None` if the build had no Git history.
pub fn commit() -> Option<String> {
    option_env!("REMUDA_COMMIT").map(str::to_owned)
}
