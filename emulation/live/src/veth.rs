//! Two hosts joined by a plain pair of veth devices: what the machine can do without a link.

use crate::device;
use crate::error::Error;
use crate::namespace::Namespace;
use crate::testbed::{CLIENT, SERVER, subnet};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const DEVICE: &str = "veth0";

/// `struct nlmsghdr`, and the two 16-byte headers of the message and of the peer within it.
const HEADER_BYTES: usize = 16;
const IFINFOMSG: [u8; 16] = [0; 16];

/// From `linux/veth.h`; libc does not define it.
const VETH_INFO_PEER: u16 = 1;

/// Two network namespaces joined by a pair of veth devices. Dropping it frees everything.
#[derive(Debug)]
pub struct VethPair {
    client: Namespace,
    server: Namespace,
}

impl VethPair {
    /// Makes the namespaces and the devices, with the addresses of a testbed.
    pub fn new() -> Result<Self, Error> {
        let client = Namespace::create(DEVICE, CLIENT.0, CLIENT.1)?;
        let server = Namespace::create(DEVICE, SERVER.0, SERVER.1)?;
        client
            .run(|| create_pair(server.fd()))?
            .map_err(Error::doing("make a pair of veth devices"))?;
        for end in [&client, &server] {
            end.run(|| device::configure(end.device(), subnet(end.ipv4()), end.ipv6()))??;
        }
        Ok(Self { client, server })
    }

    pub fn client(&self) -> &Namespace {
        &self.client
    }

    pub fn server(&self) -> &Namespace {
        &self.server
    }
}

/// Asks the kernel for a pair of devices: one in the calling thread's namespace, one in the peer's.
fn create_pair(peer: BorrowedFd<'_>) -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    rustix::net::send(&socket, &request(peer), SendFlags::empty())?;
    let mut answer = [0; 256];
    let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?;
    // After the header comes `struct nlmsgerr`: a negative errno, or zero for success.
    let code = answer[..length]
        .get(HEADER_BYTES..HEADER_BYTES + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map(i32::from_ne_bytes)
        .ok_or_else(|| io::Error::other("the kernel's answer is too short"))?;
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
}

fn request(peer: BorrowedFd<'_>) -> Vec<u8> {
    let name = [DEVICE.as_bytes(), &[0]].concat();
    let there = [
        IFINFOMSG.to_vec(),
        attribute(libc::IFLA_IFNAME, &name),
        attribute(libc::IFLA_NET_NS_FD, &peer.as_raw_fd().to_ne_bytes()),
    ];
    let kind = [
        attribute(libc::IFLA_INFO_KIND, b"veth"),
        attribute(libc::IFLA_INFO_DATA, &attribute(VETH_INFO_PEER, &there.concat())),
    ];
    let body = [
        IFINFOMSG.to_vec(),
        attribute(libc::IFLA_IFNAME, &name),
        attribute(libc::IFLA_LINKINFO, &kind.concat()),
    ]
    .concat();
    let flags =
        (libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
    let mut message = Vec::new();
    message.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend(libc::RTM_NEWLINK.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Sequence number and port are zero: one request gets one answer.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// `struct rtattr`: length, type, value, and padding to four bytes, which the length does not
/// count.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
