//! The kernel's own algorithms. Flows go back to one of them when the agent leaves, and native arms
//! run them.

use crate::error::Error;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The names of the algorithms that the kernel has loaded, separated by spaces.
pub fn available() -> String {
    std::fs::read_to_string(AVAILABLE).unwrap_or_default().trim().to_owned()
}

/// Checks that the kernel has an algorithm, by setting it on a socket. That also makes the kernel
/// load the algorithm's module, which the iterator that gives flows back cannot do.
pub fn check(name: &str) -> Result<(), Error> {
    let refused = || {
        let source = io::Error::last_os_error(); // first: another call would overwrite it
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
