//! Unnamed network namespaces.
//!
//! A namespace made here is kept alive only by a file descriptor and by the processes in it; there
//! is no file under `/run/netns`. When the process that made it ends in any way, the kernel frees
//! the namespace and its devices.

use crate::device;
use crate::error::Error;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;

/// Buffers large enough that the path limits a TCP flow, not its window. The bandwidth-delay
/// product of 1 Gbit/s and 100 ms is 12.5 MB, and a window needs a few times that.
const TCP_SYSCTLS: [(&str, &str); 3] = [
    ("net.ipv4.tcp_rmem", "4096 131072 67108864"),
    ("net.ipv4.tcp_wmem", "4096 16384 67108864"),
    // A flow must not start with the metrics of an earlier one: runs must be comparable.
    ("net.ipv4.tcp_no_metrics_save", "1"),
];

/// No router solicitations, no duplicate address detection, no link-local address: the link carries
/// only the user's packets.
const IPV6_SYSCTLS: [(&str, &str); 3] = [
    ("net.ipv6.conf.default.router_solicitations", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.addr_gen_mode", "1"),
];

/// Packets a device has lost, from the kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Lost on the way out of the namespace, because the pump did not read fast enough.
    pub tx_dropped: u64,
    /// Lost on the way into the namespace.
    pub rx_dropped: u64,
}

/// One end of a path: a network namespace with a device and two addresses.
#[derive(Debug)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
    ipv4: Ipv4Addr,
    ipv6: Ipv6Addr,
    device: String,
}

impl Namespace {
    /// Makes a namespace. The caller then creates `device` and sets the addresses.
    pub(crate) fn create(device: &str, ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> Result<Self, Error> {
        let fd = thread::scope(|scope| scope.spawn(unshare_network).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let namespace = Self { fd: Arc::new(fd), ipv4, ipv6, device: device.to_owned() };
        for (key, value) in TCP_SYSCTLS.into_iter().chain(IPV6_SYSCTLS) {
            namespace.set_sysctl(key, value)?;
        }
        Ok(namespace)
    }

    /// The calling process's own namespace as an end of a path. Its settings stay as they are.
    pub(crate) fn current(device: &str, ipv4: Ipv4Addr) -> Result<Self, Error> {
        let fd = Arc::new(open_own()?);
        Ok(Self { fd, ipv4, ipv6: Ipv6Addr::UNSPECIFIED, device: device.to_owned() })
    }

    /// The same namespace as the end of another path, with a device and an address of that path.
    pub(crate) fn another_end(&self, device: &str, ipv4: Ipv4Addr) -> Self {
        let (fd, device) = (Arc::clone(&self.fd), device.to_owned());
        Self { fd, ipv4, ipv6: Ipv6Addr::UNSPECIFIED, device }
    }

    /// Gives the device these further IPv4 addresses, each as a host's (/32).
    ///
    /// # Errors
    ///
    /// The kernel refuses an address.
    pub fn add_ipv4(&self, addresses: &[Ipv4Addr]) -> Result<(), Error> {
        self.run(|| device::add_ipv4(&self.device, addresses))?
            .map_err(Error::doing(format!("give {} more addresses", self.device)))
    }

    pub fn ipv4(&self) -> Ipv4Addr {
        self.ipv4
    }

    /// The IPv6 address; unspecified if the namespace has none, like the ends of `mm-link`.
    pub fn ipv6(&self) -> Ipv6Addr {
        self.ipv6
    }

    pub fn device(&self) -> &str {
        &self.device
    }

    /// The file descriptor that keeps the namespace alive; usable with `setns`.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A command that runs in the namespace and is killed when its parent dies.
    ///
    /// Its parent is the *thread* that spawns it, so that thread must outlive the command.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let fd = Arc::clone(&self.fd);
        let parent = rustix::process::getpid();
        let enter = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() != Some(parent) {
                // The parent died before the line above.
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            move_into_link_name_space(fd.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(())
        };
        // SAFETY: between fork and exec, `enter` makes three system calls and allocates nothing.
        unsafe { command.pre_exec(enter) };
        command
    }

    /// Runs a closure on its own thread in the namespace and returns the closure's value. Sockets
    /// the closure makes stay in the namespace, wherever they are used.
    ///
    /// A panic of the closure continues in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let inside = || {
            move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(Error::doing("enter a network namespace"))?;
            Ok(work())
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Sets a kernel parameter of this namespace, such as `net.ipv4.tcp_congestion_control` to
    /// `bbr`.
    ///
    /// Except in the first namespace, the kernel allows only the entries of
    /// `net.ipv4.tcp_allowed_congestion_control` as default congestion control. Root may give a
    /// *socket* any.
    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<(), Error> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        self.run(|| fs::write(path, value))?.map_err(|source| Error::Sysctl {
            key: key.to_owned(),
            value: value.to_owned(),
            fix: sysctl_fix(key, &source),
            source,
        })
    }

    /// Reads a kernel parameter of this namespace.
    pub fn sysctl(&self, key: &str) -> Result<String, Error> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        let text = self
            .run(|| fs::read_to_string(path))?
            .map_err(Error::doing(format!("read the kernel parameter {key}")))?;
        Ok(text.trim().to_owned())
    }

    /// The losses of this namespace's device.
    pub fn device_counters(&self) -> Result<DeviceCounters, Error> {
        let table = self
            .run(|| fs::read_to_string("/proc/thread-self/net/dev"))?
            .map_err(Error::doing("read the counters of a device"))?;
        Ok(parse_counters(&table, &self.device).unwrap_or_default())
    }
}

/// `/proc/net/dev` has 16 columns after the name: 8 for received packets (the fourth counts drops),
/// then 8 for sent ones.
fn parse_counters(table: &str, device: &str) -> Option<DeviceCounters> {
    let line =
        table.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'))?;
    let columns: Vec<u64> =
        line.split_whitespace().map_while(|column| column.parse().ok()).collect();
    Some(DeviceCounters { rx_dropped: *columns.get(3)?, tx_dropped: *columns.get(11)? })
}

fn sysctl_fix(key: &str, source: &io::Error) -> &'static str {
    let denied = source.kind() == io::ErrorKind::PermissionDenied;
    if denied && key == "net.ipv4.tcp_congestion_control" {
        "a namespace's default must be in net.ipv4.tcp_allowed_congestion_control; add it there \
         on the host, or set TCP_CONGESTION on the socket"
    } else {
        "`sysctl -a` lists the keys of this kernel"
    }
}

fn unshare_network() -> Result<OwnedFd, Error> {
    // SAFETY: the thread does nothing else and ends at once, so no other code uses the namespace it
    // leaves.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(Error::doing("make a network namespace"))?;
    open_own()
}

fn open_own() -> Result<OwnedFd, Error> {
    rustix::fs::open("/proc/thread-self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(Error::doing("keep a network namespace"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_found_in_the_kernels_table() {
        let table = "Inter-| Receive | Transmit\n face |bytes packets errs drop\n    \
                     lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  \
                     tun0: 10 20 0 3 0 0 0 0 30 40 0 7 0 0 0 0\n";
        let counters = DeviceCounters { tx_dropped: 7, rx_dropped: 3 };
        assert_eq!(parse_counters(table, "tun0"), Some(counters));
        assert_eq!(parse_counters(table, "tun"), None);
    }
}
