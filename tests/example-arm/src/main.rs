//! `remuda` with one more arm: everything that the command can do, it can do with `scalable` too.
//!
//! ```text
//! remuda-scalable programs
//! remuda-scalable sim emulation/scenarios/examples/one-cubic.toml --set 'flows.*.driver=scalable'
//! remuda-scalable agent --arm scalable
//! ```

mod scalable;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(refusal) = remuda_algorithms::add(&scalable::ARM) {
        eprintln!("remuda-scalable: {refusal}");
        return ExitCode::FAILURE;
    }
    remuda::main()
}
