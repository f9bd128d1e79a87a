//! Checks that libccp, the VM and the BPF compiler do the same.
//!
//! Random programs run on random primitives through libccp's own C code (in another process: crate
//! `remuda-oracle`), through the VM, and through the compiled BPF in the running kernel
//! (`BPF_PROG_TEST_RUN`). After every ACK all registers and the report must be equal.
//!
//! A fourth engine, the [`model`], is ours and the slowest. It finds the steps whose result libccp
//! does not define (overflow, underflow, division by 0). From such a step on libccp is not
//! compared, and the others must still be equal to each other.
//!
//! A difference is reduced to a small case and printed with its seed.

pub mod aimd;
pub mod attacks;
pub mod bpf;
pub mod case;
pub mod engines;
pub mod generate;
pub mod model;
pub mod path;
pub mod run;
pub mod shrink;
pub mod source;
pub mod stream;
pub mod summary;
pub mod transport;

/// The error of this crate's functions, meant for a person.
pub type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Returns true, and prints a message, if this user cannot run compiled programs.
pub fn skip() -> bool {
    // SAFETY: no arguments, no failure.
    let skip = unsafe { libc::geteuid() } != 0;
    if skip {
        eprintln!("SKIPPED: the BPF compiler needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON)");
    }
    skip
}
