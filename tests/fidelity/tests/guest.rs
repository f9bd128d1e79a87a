//! The agent drives TCP of Debian's kernel, in a guest, as it does this machine's.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn reno_on_debians_kernel_is_the_kernels_own_reno() {
    let kernel = root().join("target/guest/6.12");
    let remuda = std::env::var_os("REMUDA_BIN").map(PathBuf::from);
    let (true, Some(remuda)) = (kernel.join("vmlinuz").exists(), remuda) else {
        eprintln!("SKIPPED: needs a kernel for guests and REMUDA_BIN; `make test-guest` has both");
        return;
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_remuda-fidelity"));
    command.args(["--arms", "reno", "--rates", "24", "--buffers", "1"]);
    command.args(["--rounds", "1", "--seconds", "6", "--guest"]).arg(kernel);
    let output = command.arg("--remuda").arg(remuda).output().expect("it is there");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complaint}");
    assert!(said.contains("1 processor.\n1 of 1 scenarios within bounds."), "{said}");
}
