//! The IPv4 addresses that the calling thread's namespace uses or reaches by a route of their own.
//!
//! The kernel lists every routing table over netlink (RTM_GETROUTE, rtnetlink(7)), among them the
//! table `local`, which has the namespace's own addresses, and those of policy routing, which VPNs
//! with addresses of 100.64.0.0/10 use. `/proc/net/route` has the main table only.

use crate::subnet::Subnet;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};
use std::io;
use std::net::Ipv4Addr;

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
/// `struct nlmsghdr` and `struct rtmsg`.
const HEADER_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;
/// The kernel fills messages of up to 32 KiB.
const BUFFER_BYTES: usize = 64 << 10;

/// A route; a namespace's own address is one of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) to: Subnet,
    pub(crate) gateway: Option<Ipv4Addr>,
    /// The index of the device, if the route has just one.
    pub(crate) device: Option<u32>,
}

/// The routes that `keep` wants. A host may have a million others.
pub(crate) fn list(keep: impl Fn(&Route) -> bool) -> io::Result<Vec<Route>> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    // NETLINK_ROUTE is protocol 0.
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut routes = Vec::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let (bytes, _) =
            rustix::io::retry_on_intr(|| recv(&socket, &mut buffer[..], RecvFlags::empty()))?;
        if bytes == 0 || !take(&buffer[..bytes], &keep, &mut routes)? {
            return Ok(routes);
        }
    }
}

fn request() -> [u8; HEADER_BYTES + ROUTE_BYTES] {
    let mut message = [0; HEADER_BYTES + ROUTE_BYTES];
    message[..4].copy_from_slice(&((HEADER_BYTES + ROUTE_BYTES) as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&RTM_GETROUTE.to_ne_bytes());
    message[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    message[HEADER_BYTES] = libc::AF_INET as u8;
    message
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Takes the routes of a datagram. Returns false after the last one.
fn take(
    mut bytes: &[u8],
    keep: &impl Fn(&Route) -> bool,
    routes: &mut Vec<Route>,
) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (long(bytes, 0), word(bytes, 4)) {
        let length = length as usize;
        let Some(body) = bytes.get(HEADER_BYTES..length) else { break };
        match kind {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => {
                let errno = long(body, 0).unwrap_or(0) as i32;
                return Err(io::Error::from_raw_os_error(-errno));
            }
            RTM_NEWROUTE => routes.extend(route(body).filter(keep)),
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

fn route(body: &[u8]) -> Option<Route> {
    let bits = *body.get(1)?;
    let mut route = Route { to: Subnet { bits, ..Subnet::ALL }, gateway: None, device: None };
    let mut attributes = body.get(ROUTE_BYTES..)?;
    while let (Some(length), Some(kind)) = (word(attributes, 0), word(attributes, 2)) {
        let length = usize::from(length);
        let value = attributes.get(4..length)?;
        let address = || Some(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?));
        match kind {
            RTA_DST => route.to.address = address()?,
            RTA_GATEWAY => route.gateway = address(),
            RTA_OIF => route.device = long(value, 0),
            _ => {}
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_among_the_routes() {
        let all = list(|_| true).unwrap();
        let loopback = Subnet { address: Ipv4Addr::LOCALHOST, bits: 32 };
        assert!(all.iter().any(|route| route.to == loopback && route.device.is_some()), "{all:?}");
        assert_eq!(list(|_| false).unwrap(), []);
    }

    #[test]
    fn what_is_cut_short_is_no_route() {
        let attribute = |kind: u16, value: [u8; 4]| {
            let mut bytes = [8u16.to_ne_bytes(), kind.to_ne_bytes()].concat();
            bytes.extend(value);
            bytes
        };
        let mut body = vec![2, 16, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0];
        body.extend(attribute(RTA_DST, [100, 64, 0, 0]));
        body.extend(attribute(RTA_GATEWAY, [10, 0, 0, 1]));
        body.extend(attribute(RTA_OIF, 7u32.to_ne_bytes()));
        let want = Route {
            to: Subnet { address: Ipv4Addr::new(100, 64, 0, 0), bits: 16 },
            gateway: Some(Ipv4Addr::new(10, 0, 0, 1)),
            device: Some(7),
        };
        assert_eq!(route(&body), Some(want));
        for end in 0..body.len() {
            assert_ne!(route(&body[..end]), Some(want));
        }
        let header = |length: u32, kind: u16| {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.resize(HEADER_BYTES, 0);
            bytes
        };
        let mut routes = Vec::new();
        for (bytes, want) in [
            (header(0, RTM_NEWROUTE), true),
            (header(u32::MAX, RTM_NEWROUTE), true),
            (header(16, NLMSG_DONE), false),
        ] {
            assert_eq!(take(&bytes, &|_| true, &mut routes).unwrap(), want);
        }
        let refused = [header(20, NLMSG_ERROR), (-1i32).to_ne_bytes().to_vec()].concat();
        let error = take(&refused, &|_| true, &mut routes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(routes, []);
    }
}
