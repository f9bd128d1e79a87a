//! Network devices and their addresses, set with plain ioctls in the calling thread's namespace.

use crate::clock::Clock;
use crate::error::Error;
use crate::subnet::Subnet;
use libc::{c_int, c_short, c_ulong, ifreq};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

/// Ethernet's MTU. Without offloads a TUN device then never returns a larger packet.
const MTU_BYTES: c_int = 1500;

/// Packets the kernel holds for the pump. A TUN device drops packets beyond this, and the link does
/// not see them. The default of 500 is 12 ms at 500 Mbit/s, which is shorter than a scheduling
/// delay on a busy machine.
const TX_QUEUE_PACKETS: c_int = 20_000;

const IPV6_PREFIX_BITS: u32 = 64;

/// Longest wait for the kernel to allow the use of a new IPv6 address.
const USABLE_LIMIT: Duration = Duration::from_secs(60);
const USABLE_TURN: Duration = Duration::from_millis(1);

/// Opens a TUN device in the calling thread's namespace: non-blocking, without a packet header. A
/// `%d` in `name` becomes the lowest free number. Returns the device's name.
pub(crate) fn open_tun(name: &str) -> Result<(OwnedFd, String), Error> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/net/tun", flags, Mode::empty())
        .map_err(|errno| Error::NoTun { source: errno.into() })?;
    let mut request = request(name);
    // TUN and no packet information fit 16 bits.
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as c_short;
    ioctl(&fd, libc::TUNSETIFF as c_ulong, &mut request)
        .map_err(Error::doing(format!("make the TUN device {name}")))?;
    let letters = request.ifr_name.iter().take_while(|letter| **letter != 0);
    Ok((fd, letters.map(|letter| char::from(*letter as u8)).collect()))
}

/// Configures a device of the calling thread's namespace, and brings the loopback up.
pub(crate) fn configure(name: &str, ipv4: Subnet, ipv6: Ipv6Addr) -> Result<(), Error> {
    configure_ipv4(name, ipv4).map_err(Error::doing(format!("set up {name} for IPv4")))?;
    set_up("lo").map_err(Error::doing("bring lo up"))?;
    if ipv6.is_unspecified() {
        return Ok(());
    }
    add_ipv6(name, ipv6).map_err(Error::doing(format!(
        "give {name} its IPv6 address (is IPv6 off? sysctl net.ipv6.conf.all.disable_ipv6)"
    )))
}

/// Routes a subnet over a device of the calling thread's namespace.
pub(crate) fn add_route(name: &str, to: Subnet) -> Result<(), Error> {
    let mut device = request(name).ifr_name;
    // SAFETY: `rtentry` is plain data for which zeros are valid.
    let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
    route.rt_dst = sockaddr(to.network());
    route.rt_genmask = sockaddr(to.mask());
    route.rt_flags = libc::RTF_UP;
    route.rt_dev = device.as_mut_ptr();
    control_socket(AddressFamily::INET)
        .and_then(|socket| ioctl(&socket, libc::SIOCADDRT, &mut route))
        .map_err(Error::doing(format!("route {to} over {name}")))
}

/// The address and subnet of a device of the calling thread's namespace; `None` without that
/// device.
pub(crate) fn subnet_of(name: &str) -> Option<Subnet> {
    let socket = control_socket(AddressFamily::INET).ok()?;
    let ask = |code: libc::Ioctl| {
        let mut request = request(name);
        ioctl(&socket, code as c_ulong, &mut request).ok()?;
        // SAFETY: the kernel has just filled this member of the union.
        let address = unsafe { request.ifr_ifru.ifru_addr }.sa_data;
        let [a, b, c, d] = [2, 3, 4, 5].map(|at| address[at] as u8);
        Some(Ipv4Addr::new(a, b, c, d))
    };
    let mask = ask(libc::SIOCGIFNETMASK)?;
    Some(Subnet { address: ask(libc::SIOCGIFADDR)?, bits: mask.to_bits().leading_ones() as u8 })
}

/// The number of a device of the calling thread's namespace; `None` without that device.
pub(crate) fn index_of(name: &str) -> Option<u32> {
    let mut by_name = request(name);
    let socket = control_socket(AddressFamily::INET).ok()?;
    ioctl(&socket, libc::SIOCGIFINDEX as c_ulong, &mut by_name).ok()?;
    // SAFETY: SIOCGIFINDEX has just filled this member of the union.
    u32::try_from(unsafe { by_name.ifr_ifru.ifru_ifindex }).ok()
}

fn configure_ipv4(name: &str, subnet: Subnet) -> io::Result<()> {
    let socket = control_socket(AddressFamily::INET)?;
    let mut request = request(name);
    request.ifr_ifru.ifru_mtu = MTU_BYTES;
    ioctl(&socket, libc::SIOCSIFMTU, &mut request)?;
    request.ifr_ifru.ifru_metric = TX_QUEUE_PACKETS;
    match ioctl(&socket, libc::SIOCSIFTXQLEN, &mut request) {
        // In a user namespace the kernel does not allow a longer queue. The default of 500 packets
        // is 250 ms at 24 Mbit/s; packets beyond it are counted as lost before the link.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        other => other?,
    }
    request.ifr_ifru.ifru_addr = sockaddr(subnet.address);
    ioctl(&socket, libc::SIOCSIFADDR, &mut request)?;
    request.ifr_ifru.ifru_netmask = sockaddr(subnet.mask());
    ioctl(&socket, libc::SIOCSIFNETMASK, &mut request)?;
    set_up(name)
}

/// Adds addresses of 32 bits to a device of the calling thread's namespace. Each has a label, such
/// as `tun0:1`, as this ioctl replaces the address of a label.
pub(crate) fn add_ipv4(name: &str, addresses: &[Ipv4Addr]) -> io::Result<()> {
    let socket = control_socket(AddressFamily::INET)?;
    for (address, number) in addresses.iter().zip(1..) {
        let mut request = request(&format!("{name}:{number}"));
        request.ifr_ifru.ifru_addr = sockaddr(*address);
        ioctl(&socket, libc::SIOCSIFADDR, &mut request)?;
        request.ifr_ifru.ifru_netmask = sockaddr(Ipv4Addr::BROADCAST);
        ioctl(&socket, libc::SIOCSIFNETMASK, &mut request)?;
    }
    Ok(())
}

fn set_up(name: &str) -> io::Result<()> {
    let socket = control_socket(AddressFamily::INET)?;
    let mut request = request(name);
    ioctl(&socket, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: SIOCGIFFLAGS has just filled this member of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as c_short;
    ioctl(&socket, libc::SIOCSIFFLAGS, &mut request)
}

fn add_ipv6(name: &str, address: Ipv6Addr) -> io::Result<()> {
    let index = index_of(name).ok_or(io::ErrorKind::NotFound)?;
    let ifr6_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    let mut request = libc::in6_ifreq {
        ifr6_addr: libc::in6_addr { s6_addr: address.octets() },
        ifr6_prefixlen: IPV6_PREFIX_BITS,
        ifr6_ifindex,
    };
    ioctl(&control_socket(AddressFamily::INET6)?, libc::SIOCSIFADDR, &mut request)?;
    wait_until_usable(address)
}

/// Waits until a socket can be bound to a new IPv6 address. The kernel holds an address back until
/// a worker of its own has run, also where duplicate address detection is off; on a busy machine
/// that worker may run late.
fn wait_until_usable(address: Ipv6Addr) -> io::Result<()> {
    let clock = Clock::start();
    loop {
        match UdpSocket::bind((address, 0)) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                if clock.elapsed() >= USABLE_LIMIT {
                    return Err(error);
                }
                thread::sleep(USABLE_TURN);
            }
            other => return other.map(drop),
        }
    }
}

fn control_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// An empty request for the device of this name, cut to the kernel's 15 bytes.
fn request(name: &str) -> ifreq {
    // SAFETY: `ifreq` is plain data for which zeros are valid.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn sockaddr(address: Ipv4Addr) -> libc::sockaddr {
    let [a, b, c, d] = address.octets().map(|octet| octet as libc::c_char);
    // A `sockaddr_in`: two bytes of port, then the address.
    let sa_data = [0, 0, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0];
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data }
}

fn ioctl<T>(fd: &OwnedFd, code: c_ulong, request: &mut T) -> io::Result<()> {
    // SAFETY: every caller pairs the code with the structure the kernel defines for it.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), code as _, std::ptr::from_mut(request)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
