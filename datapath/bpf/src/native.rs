//! The kernel's own algorithms: what flows go back to, and what native arms are.

use crate::error::Error;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// What it has loaded, by name.
pub fn available() -> String {
    std::fs::read_to_string(AVAILABLE).unwrap_or_default().trim().to_owned()
}

/// Whether the kernel has it, by asking for it. The kernel loads its module if that is missing: the
/// iterator that lets flows go cannot.
pub fn check(name: &str) -> Result<(), Error> {
    let refused = || {
        let source = io::Error::last_os_error(); // before another call has its own
        Error::NoNative { name: name.to_owned(), available: available(), source }
    };
    // SAFETY: integers alone.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(refused());
    }
    // SAFETY: just opened, and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let length = libc::socklen_t::try_from(name.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the option's value is the name's bytes, as many as are said.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            length,
        )
    };
    if set == 0 { Ok(()) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_reno_and_none_has_this() {
        check("reno").expect("every kernel has it");
        let error = check("no-such-cca").expect_err("no kernel has it").to_string();
        assert!(error.contains("\"no-such-cca\"") && error.contains("reno"), "{error}");
    }
}
