//! The outcome of a call of libbpf.

/// A negative number is an errno.
pub fn done(returned: libc::c_int) -> libbpf_rs::Result<()> {
    if returned < 0 { Err(libbpf_rs::Error::from_raw_os_error(-returned)) } else { Ok(()) }
}
