//! libccp, the VM and the BPF compiler do the same.
//!
//! Random programs run on random primitives through libccp's own C (a process of its own: crate
//! `remuda-oracle`), through the VM, and through the compiled BPF in the running kernel
//! (`BPF_PROG_TEST_RUN`). After every ACK all registers and the report must be equal.
//!
//! A fourth one, the [`model`], is ours and the slowest: it says which steps leave what libccp
//! defines (overflow, underflow, division by 0). From there on libccp is not compared, and the
//! others must still be equal to each other.
//!
//! A difference is shrunk, and printed with its seed.

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

/// What the parts of this crate fail with; a person reads it.
pub type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Says so, loudly, and answers true, where the host cannot run compiled programs.
pub fn skip() -> bool {
    // SAFETY: no arguments, no failure.
    let skip = unsafe { libc::geteuid() } != 0;
    if skip {
        eprintln!("SKIPPED: the BPF compiler needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON)");
    }
    skip
}
