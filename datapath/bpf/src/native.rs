//! The kernel's own algorithms. Flows go back to one of them when the agent leaves, and native arms
//! run them.

use crate::error::Error;
use crate::owner;
use libbpf_rs::ErrorKind;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The names of the algorithms that the kernel has loaded, those of agents and other BPF programs
/// too, separated by spaces.
pub fn registered() -> String {
    std::fs::read_to_string(AVAILABLE).unwrap_or_default().trim().to_owned()
}

/// The names of the kernel's own algorithms, separated by spaces. A process that may not load BPF
/// programs, or not use an algorithm, cannot tell whose that algorithm is, and gets its name too.
pub fn available() -> String {
    let registered = registered();
    let is_ours = |name: &&str| socket_with(name).is_ok();
    let (names, mut own): (Vec<&str>, Vec<&str>) = registered.split_whitespace().partition(is_ours);
    let of_bpf = are_of_bpf(&names).unwrap_or_else(|_| vec![false; names.len()]);
    own.extend(
        names.into_iter().zip(of_bpf).filter_map(|(name, of_bpf)| (!of_bpf).then_some(name)),
    );
    own.join(" ")
}

/// Whether each algorithm is of a BPF program. A process that may not load BPF
/// programs cannot see that, and gets false. Such a process cannot set the algorithm of a flow
/// either: its broker sets the algorithm, and checks the name first.
fn are_of_bpf(names: &[&str]) -> Result<Vec<bool>, Error> {
    let all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    match owner::of_bpf(move || all.iter().map(|name| socket_with(name)).collect()) {
        Err(Error::Kernel { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            Ok(vec![false; names.len()])
        }
        answer => answer,
    }
}

/// Checks that the kernel has an algorithm of its own with this name.
pub fn check(name: &str) -> Result<(), Error> {
    /// The kernel's own algorithms, as found before. What is the kernel's own stays so.
    static OWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    on_a_socket(name)?;
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if !own.contains(name) {
        if are_of_bpf(&[name])?.contains(&true) {
            return Err(not_native(name));
        }
        own.insert(name.to_owned());
    }
    Ok(())
}

/// The error for a name that is not of the kernel's own algorithms.
pub fn not_native(name: &str) -> Error {
    Error::NotNative { name: name.to_owned(), available: available() }
}

/// Like [`check`], for a process that does not use the algorithm itself: also one that this process
/// may not use is there.
pub fn check_exists(name: &str) -> Result<(), Error> {
    match check(name) {
        Err(Error::NativeForbidden { .. }) => Ok(()),
        checked => checked,
    }
}

/// A socket with this algorithm. Setting it also makes the kernel load the algorithm's module,
/// which the iterator that gives flows back cannot do.
fn on_a_socket(name: &str) -> Result<OwnedFd, Error> {
    let failed =
        |source| Error::File { path: format!("a TCP socket, to look for {name:?}"), source };
    let socket = tcp_socket().map_err(failed)?;
    set_algorithm(&socket, name).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => Error::NativeForbidden { name: name.to_owned(), source },
        _ => Error::NoNative { name: name.to_owned(), available: available(), source },
    })?;
    Ok(socket)
}

/// Like [`on_a_socket`], without the list of available algorithms in its error: [`available`] calls
/// this function to make that list.
fn socket_with(name: &str) -> io::Result<OwnedFd> {
    let socket = tcp_socket()?;
    set_algorithm(&socket, name)?;
    Ok(socket)
}

fn tcp_socket() -> io::Result<OwnedFd> {
    // SAFETY: integers alone.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

fn set_algorithm(socket: &OwnedFd, name: &str) -> io::Result<()> {
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
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
