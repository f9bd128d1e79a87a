//! The `remuda` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    remuda::main()
}
