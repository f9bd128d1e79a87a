//! Asks the kernel which of its congestion-control algorithms are of BPF programs. Needs CAP_BPF
//! and CAP_PERFMON, as the datapath does.

use crate::Error;
use crate::error::tried;
use crate::iterator;
use crate::layout::SocketOwner;
use crate::load::program;
use crate::namespaces::in_time;
use libbpf_rs::ObjectBuilder;
use rustix::net::sockopt::{set_ip_freebind, socket_cookie};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/owner.bpf.o"));

/// The longest that the kernel may take for the answer. The iterator locks each socket of its
/// network namespace, and a process can hold the lock of its own socket for ever. So the walk is in
/// a new namespace, with no socket of others, wherever this process may make one.
const PATIENCE: Duration = Duration::from_secs(5);

/// The kernel's `BPF_MODULE_OWNER`, which owns the algorithms of BPF programs, without the part
/// that differs between processors. A module's address is a multiple of eight, so it cannot end so.
const BPF_OWNER_END: u64 = 0xeb9f << 2;
const OWNER_END_MASK: u64 = 0xffff_ffff;

impl SocketOwner {
    fn is_bpf(&self) -> bool {
        self.owner & OWNER_END_MASK == BPF_OWNER_END
    }
}

/// Whether the algorithm of each of the new TCP sockets that `make` makes is of a BPF program; an
/// error of kind `PermissionDenied` if this process may not ask. Each socket listens, at any port
/// of the loopback interface: the iterator visits listening sockets.
pub fn of_bpf(
    make: impl FnOnce() -> io::Result<Vec<OwnedFd>> + Send + 'static,
) -> Result<Vec<bool>, Error> {
    let asking = "finding out which algorithms belong to BPF programs";
    libbpf_rs::set_print(None);
    let open = ObjectBuilder::default().open_memory(OBJECT).map_err(tried(asking))?;
    let object = open.load().map_err(tried(asking))?;
    let link = program(&object, "remuda_owner")?.attach().map_err(tried(asking))?;
    let failed = |source| Error::File { path: asking.to_owned(), source };
    let link = link.as_fd().try_clone_to_owned().map_err(failed)?;
    // The thread ends with its walk, and its namespace with the sockets.
    let walk = move || {
        leave_namespace();
        let sockets = make()?;
        let cookies = sockets.iter().map(listen).collect::<io::Result<Vec<u64>>>()?;
        Ok((cookies, iterator::records::<SocketOwner>(link.as_fd())?))
    };
    let (cookies, owners) = in_time(PATIENCE, walk).map_err(failed)?;
    let of = |cookie: &u64| owners.iter().find(|owner| owner.cookie == *cookie);
    let found: Option<Vec<bool>> =
        cookies.iter().map(|cookie| of(cookie).map(SocketOwner::is_bpf)).collect();
    found.ok_or_else(|| {
        failed(io::Error::other(
            "the BPF iterator skipped a socket that this check opened; try again",
        ))
    })
}

/// Moves this thread into a new network namespace, if this process may: it needs CAP_SYS_ADMIN.
fn leave_namespace() {
    // SAFETY: an integer; it changes this thread only.
    let _ = unsafe { libc::unshare(libc::CLONE_NEWNET) };
}

/// Has a socket listen. Returns its cookie.
fn listen(socket: &OwnedFd) -> io::Result<u64> {
    // The loopback interface of a namespace may be down.
    set_ip_freebind(socket, true)?;
    rustix::net::bind(socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    rustix::net::listen(socket, 1)?;
    Ok(socket_cookie(socket)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_module_nor_nobody_is_a_bpf_program() {
        for (owner, is_bpf) in
            [(0, false), (0xffff_ffff_c02a_3040, false), (0xdead_0000_0003_ae7c, true)]
        {
            assert_eq!(SocketOwner { cookie: 0, owner }.is_bpf(), is_bpf, "{owner:x}");
        }
    }
}
