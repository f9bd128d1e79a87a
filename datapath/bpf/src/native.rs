//! The kernel's own algorithms. Flows go back to one of them when the agent leaves, and native arms
//! run them.

use crate::error::Error;
use crate::layout;
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Algorithms of BPF programs that are looked at: agents and other tools.
const BPF_ALGORITHMS_MAX: usize = 1_024;

/// The names of the algorithms that the kernel has loaded, those of agents and other BPF programs
/// too, separated by spaces.
pub fn registered() -> String {
    std::fs::read_to_string(AVAILABLE).unwrap_or_default().trim().to_owned()
}

/// The names of the kernel's own algorithms, separated by spaces. Without CAP_SYS_ADMIN a process
/// cannot see which algorithms are of BPF programs, and this is the same as [`registered`].
pub fn available() -> String {
    let registered = registered();
    let of_bpf = of_bpf();
    let is_own = |name: &&str| !of_bpf.iter().any(|value| holds(value, name));
    registered.split_whitespace().filter(is_own).collect::<Vec<_>>().join(" ")
}

/// The bytes of each struct_ops object, with the name of its algorithm somewhere in it.
fn of_bpf() -> Vec<Vec<u8>> {
    let maps = MapInfoIter::default().filter(|info| info.ty == MapType::StructOps);
    maps.take(BPF_ALGORITHMS_MAX)
        .filter_map(|info| {
            let map = MapHandle::from_map_id(info.id).ok()?;
            map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()?
        })
        .collect()
}

/// Whether an object has this name: `char name[16]`, filled up with zeros.
fn holds(value: &[u8], name: &str) -> bool {
    let mut field = [0; layout::NAME_BYTES];
    let Some(start) = field.get_mut(..name.len()) else { return false };
    start.copy_from_slice(name.as_bytes());
    value.windows(field.len()).any(|window| window == field)
}

/// Checks that the kernel has an algorithm of its own with this name.
pub fn check(name: &str) -> Result<(), Error> {
    /// The kernel's own algorithms, as found before. What is the kernel's own stays so.
    static OWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    set_on_a_socket(name)?;
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if !own.contains(name) {
        if of_bpf().iter().any(|value| holds(value, name)) {
            return Err(Error::NotNative(name.to_owned()));
        }
        own.insert(name.to_owned());
    }
    Ok(())
}

/// Like [`check`], for a process that does not use the algorithm itself: also one that this process
/// may not use is there.
pub fn check_exists(name: &str) -> Result<(), Error> {
    match check(name) {
        Err(Error::NativeForbidden { .. }) => Ok(()),
        checked => checked,
    }
}

/// Sets the algorithm on a socket. That also makes the kernel load the algorithm's module, which
/// the iterator that gives flows back cannot do.
fn set_on_a_socket(name: &str) -> Result<(), Error> {
    // SAFETY: integers alone.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        let source = io::Error::last_os_error();
        return Err(Error::File { path: format!("a TCP socket, to look for {name:?}"), source });
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
    if set == 0 {
        return Ok(());
    }
    let (name, source) = (name.to_owned(), io::Error::last_os_error());
    Err(match source.kind() {
        io::ErrorKind::PermissionDenied => Error::NativeForbidden { name, source },
        _ => Error::NoNative { name, available: available(), source },
    })
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

    #[test]
    fn a_name_is_found_whole_in_an_object() {
        let mut value = vec![7; 40];
        value[11..27].copy_from_slice(b"remuda\0\0\0\0\0\0\0\0\0\0");
        assert!(holds(&value, "remuda"));
        for other in ["remud", "emuda", "remuda2", "a-name-of-seventeen"] {
            assert!(!holds(&value, other), "{other}");
        }
    }
}
