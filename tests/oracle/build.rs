//! Compiles libccp's own C files, unmodified and from cargo's copy of the `libccp` crate, with a
//! shim.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the crate's C files.
fn libccp() -> PathBuf {
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let listed = Command::new(variable("CARGO"))
        .args(["metadata", "--format-version", "1", "--filter-platform", &variable("TARGET")])
        .current_dir(variable("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "cargo metadata: {said}");
    let metadata: serde_json::Value =
        serde_json::from_slice(&listed.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("cargo metadata lists packages");
    let package = packages.iter().find(|package| package["name"] == "libccp");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = Path::new(manifest.expect("libccp is a dependency of this crate"));
    manifest.parent().expect("a manifest lies in a folder").join("libccp")
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/oracle.c");
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    cc::Build::new()
        .file("src/oracle.c")
        .include(libccp())
        .define("__LOG_ERROR__", None)
        .opt_level(2)
        .warnings(false)
        .compile("remuda_oracle");
}
