//! The agent drives TCP of Debian's kernel, in a guest, as it does this machine's.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What `remuda-fidelity` says of these; `None`, said loudly, where there are no guests.
fn fidelity(words: &str) -> Option<Output> {
    let kernel = root().join("target/guest/6.12");
    let remuda = std::env::var_os("REMUDA_BIN").map(PathBuf::from);
    let (true, Some(remuda)) = (kernel.join("vmlinuz").exists(), remuda) else {
        eprintln!("SKIPPED: needs a kernel for guests and REMUDA_BIN; `make test-guest` has both");
        return None;
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_remuda-fidelity"));
    command.args(words.split(' ')).arg("--guest").arg(kernel).arg("--remuda").arg(remuda);
    Some(command.output().expect("it is there"))
}

#[test]
fn reno_on_debians_kernel_is_the_kernels_own_reno() {
    let words = "--arms reno --rates 24 --buffers 1 --rounds 1 --seconds 6";
    let Some(output) = fidelity(words) else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complaint}");
    assert!(said.contains("1 processor.\n1 of 1 scenarios within bounds."), "{said}");
}

/// Two seconds are too short for bounds; what is not there, or refuses the path, is an error.
#[test]
fn what_the_kernel_has_as_modules_is_loaded_and_runs_beside_ours() {
    let words = "--arms vegas,westwood,illinois,dctcp --rates 12 --buffers mark --rounds 1 \
                 --seconds 2";
    let Some(output) = fidelity(words) else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    for arm in ["vegas", "westwood", "illinois", "dctcp"] {
        let row = format!("| {arm} | 12 | 1 BDP, marks above 10 packets | 1 |");
        assert!(said.contains(&row), "{said}\n{complaint}");
    }
    assert!(said.contains(" of 4 scenarios within bounds."), "{said}\n{complaint}");
}
