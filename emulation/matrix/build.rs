//! Gives the crate the SHA-256 of every source that decides the result of a run, so that two
//! programs can tell whether they run the same code.

use sha2::{Digest, Sha256};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Paths from the root of the repository: this crate, the crates it depends on, and the Python
/// files that run an author's arms.
const SOURCES: [&str; 16] = [
    "Cargo.lock",
    "python/remuda/_portus.py",
    "python/remuda/_serve.py",
    "python/remuda/author.py",
    "algorithms/src",
    "selector/src",
    "datapath/bpf/src",
    "datapath/vm/build.rs",
    "datapath/vm/include",
    "datapath/vm/src",
    "datapath/wire/src",
    "ccp-agent/src",
    "emulation/link/src",
    "emulation/matrix/src",
    "emulation/scenarios/src",
    "emulation/sim/src",
];
/// Eight bytes of the hash: two builds of different sources practically never share them.
const HEX_DIGITS: usize = 16;

/// Adds every file below a folder to `found`; a path that is a file is added itself.
fn files(path: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        files(&entry?.path(), found)?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut hash = Sha256::new();
    for source in SOURCES {
        let path = root.join(source);
        println!("cargo::rerun-if-changed={}", path.display());
        let mut found = Vec::new();
        files(&path, &mut found)?;
        found.sort();
        for file in found {
            // The path from the root, so that the hash does not depend on where the tree lies.
            let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
            let content = fs::read(&file)?;
            for part in [name.as_bytes(), &content] {
                hash.update(part.len().to_le_bytes());
                hash.update(part);
            }
        }
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=REMUDA_SOURCES={}", &hex[..HEX_DIGITS]);
    Ok(())
}
