//! How the peer on libccp reaches its agent: a unix datagram socket, or netlink as ccp-kernel.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// The multicast group of ccp-kernel and portus, as a bit of `nl_groups`.
const GROUP: u32 = 1 << (22 - 1);
const HEADER_BYTES: usize = 16;
/// Include/uapi/linux/netlink.h: the type that ccp-kernel gives its messages.
const NLMSG_DONE: u16 = 3;

/// Sends and receives whole messages of CCP, without waiting.
pub enum Transport {
    /// The own socket, and the agent's path.
    Unix(UnixDatagram, PathBuf),
    Netlink(OwnedFd),
}

impl Transport {
    pub fn unix(own: &Path, agent: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::bind(own)?;
        socket.set_nonblocking(true)?;
        Ok(Self::Unix(socket, agent.to_owned()))
    }

    /// At that netlink port, which the agent takes for the kernel's.
    pub fn netlink(port: u32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_USERSOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: an open descriptor that nothing else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let own = address(port, 0);
        // SAFETY: an address of that length.
        let bound = unsafe { libc::bind(fd, (&raw const own).cast(), address_bytes()) };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(Self::Netlink(socket)) }
    }

    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(socket, agent) => socket.send_to(message, agent).map(|_| ()),
            Self::Netlink(socket) => multicast(socket, message),
        }
    }

    /// The next message, if one is there.
    pub fn receive<'a>(&self, room: &'a mut [u8]) -> io::Result<&'a mut [u8]> {
        match self {
            Self::Unix(socket, _) => socket.recv(room).map(|bytes| &mut room[..bytes]),
            Self::Netlink(socket) => {
                let fd = socket.as_raw_fd();
                // SAFETY: a buffer of that length.
                let got = unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), 0) };
                let bytes = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
                room.get_mut(HEADER_BYTES..bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
            }
        }
    }
}

fn address(port: u32, groups: u32) -> libc::sockaddr_nl {
    // SAFETY: all zeros is a valid value of that struct.
    let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    (address.nl_pid, address.nl_groups) = (port, groups);
    address
}

fn address_bytes() -> u32 {
    mem::size_of::<libc::sockaddr_nl>() as u32
}

fn multicast(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    let length = (HEADER_BYTES + message.len()) as u32;
    let mut datagram = length.to_ne_bytes().to_vec();
    datagram.extend(NLMSG_DONE.to_ne_bytes());
    datagram.resize(HEADER_BYTES, 0);
    datagram.extend(message);
    datagram.resize(datagram.len().next_multiple_of(4), 0);
    let (fd, to) = (socket.as_raw_fd(), address(0, GROUP));
    let (at, bytes) = (datagram.as_ptr().cast(), datagram.len());
    // SAFETY: a buffer and an address of these lengths.
    let sent = unsafe { libc::sendto(fd, at, bytes, 0, (&raw const to).cast(), address_bytes()) };
    let error = io::Error::last_os_error();
    // A multicast of a process goes to the kernel's port too, where no module is loaded.
    if sent < 0 && error.kind() != io::ErrorKind::ConnectionRefused { Err(error) } else { Ok(()) }
}
