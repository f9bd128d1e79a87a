//! The systemd units keep the exposure that the pages name.

use remuda_tests::root;
use std::process::Command;

/// Exposure of each unit at most, in tenths, by `systemd-analyze security`.
const EXPOSURE_MAX: [(&str, u32); 2] = [("remuda.service", 20), ("remuda-broker.service", 40)];

#[test]
fn the_units_expose_no_more_than_the_page_says() {
    for (unit, most) in EXPOSURE_MAX {
        let path = root().join("packaging/systemd").join(unit);
        let threshold = format!("--threshold={most}");
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true", "--no-pager", &threshold]).arg(&path);
        let Ok(output) = command.output() else {
            return eprintln!("SKIPPED: no systemd-analyze here (Debian's package systemd has it)");
        };
        let (said, why) = (output.stdout, output.stderr);
        let text = String::from_utf8_lossy(&said);
        let last = text.lines().last().unwrap_or_default();
        println!("{last}");
        assert!(output.status.success(), "{unit}: {last}\n{}", String::from_utf8_lossy(&why));
    }
}
