//! The file of a unix socket that listens.

use std::fs;
use std::path::PathBuf;

/// Removes the file when dropped.
#[derive(Debug)]
pub struct SocketFile(pub PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that is gone needs nothing.
        let _ = fs::remove_file(&self.0);
    }
}
