//! The package that adds an arm, built with this workspace. `outside.rs` builds it by itself.

use remuda_tests::{binary, example_arm};

#[test]
fn a_command_with_one_more_arm_lists_simulates_and_switches_to_it() {
    let command = binary().with_file_name("examples").join("remuda-scalable");
    assert!(command.exists(), "{}: cargo test --no-run builds it", command.display());
    example_arm::check(&command);
}
