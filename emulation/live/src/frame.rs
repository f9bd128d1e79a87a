//! An IP packet on its way through the link.

use remuda_link::{Nanos, Packet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const ECN_MASK: u8 = 0b11;
const ECN_CE: u8 = 0b11;

/// Protocols whose header begins with two ports: TCP, UDP, DCCP, SCTP.
const WITH_PORTS: [u8; 4] = [6, 17, 33, 132];
/// Protocols by name: IANA's numbers.
const PROTOCOLS: [(u8, &str); 6] =
    [(1, "icmp"), (6, "tcp"), (17, "udp"), (33, "dccp"), (58, "icmp6"), (132, "sctp")];
/// RFC 791: the mask of a fragment's offset and of the "more fragments" flag.
const FRAGMENT: u16 = 0x3fff;

/// An IP packet as read from a TUN device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    bytes: Box<[u8]>,
    /// When it came to the link.
    pub(crate) arrived: Nanos,
}

impl Frame {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), arrived: Nanos::ZERO }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Protocol, addresses and, if there are any, ports: the same for all packets of a flow.
    fn five_tuple(&self) -> Option<(u8, &[u8], &[u8])> {
        let bytes = &self.bytes;
        let (protocol, addresses, rest) = match bytes.first()? >> 4 {
            4 => {
                let fragment = u16::from_be_bytes([*bytes.get(6)?, *bytes.get(7)?]) & FRAGMENT;
                // All fragments of a datagram belong to one flow, but only the first has ports: use
                // none.
                let payload = usize::from(bytes[0] & 0xf) * 4;
                let rest = if fragment == 0 { payload } else { bytes.len() };
                (*bytes.get(9)?, bytes.get(12..20)?, rest)
            }
            // Ports behind an IPv6 extension header are not used.
            6 => (*bytes.get(6)?, bytes.get(8..40)?, 40),
            _ => return None,
        };
        let ports = bytes.get(rest..rest + 4).filter(|_| WITH_PORTS.contains(&protocol));
        Some((protocol, addresses, ports.unwrap_or_default()))
    }

    /// The flow's name in a log: `tcp 10.11.0.1:40000 > 10.11.0.2:5201`.
    pub(crate) fn flow_name(&self) -> String {
        let Some((protocol, addresses, ports)) = self.five_tuple() else {
            return "no IP".to_owned();
        };
        let (from, to) = addresses.split_at(addresses.len() / 2);
        let end = |address: &[u8], port: Option<&[u8]>| {
            let address = ip(address);
            let port = port.map(|port| u16::from_be_bytes([port[0], port[1]]));
            port.map_or_else(
                || address.to_string(),
                |port| SocketAddr::new(address, port).to_string(),
            )
        };
        let (from, to) = (end(from, ports.get(..2)), end(to, ports.get(2..4)));
        let known = PROTOCOLS.iter().find(|(number, _)| *number == protocol);
        let protocol =
            known.map_or_else(|| format!("protocol {protocol}"), |(_, name)| (*name).to_owned());
        format!("{protocol} {from} > {to}")
    }

    /// RFC 3168 section 5: CE for packets that are ECT(0) or ECT(1).
    fn mark_ipv4(&mut self) -> bool {
        let Some(header) = self.bytes.get_mut(..20) else { return false };
        if header[1] & ECN_MASK == 0 {
            return false;
        }
        let before = u16::from_be_bytes([header[0], header[1]]);
        header[1] |= ECN_CE;
        let after = u16::from_be_bytes([header[0], header[1]]);
        let checksum = u16::from_be_bytes([header[10], header[11]]);
        let [high, low] = update_checksum(checksum, before, after).to_be_bytes();
        (header[10], header[11]) = (high, low);
        true
    }

    /// The traffic class spans the first two bytes: ECN is bits 4 and 5 of the second.
    fn mark_ipv6(&mut self) -> bool {
        let Some(byte) = self.bytes.get_mut(1) else { return false };
        if *byte >> 4 & ECN_MASK == 0 {
            return false;
        }
        *byte |= ECN_CE << 4;
        true
    }
}

impl Packet for Frame {
    fn bytes(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
    }

    fn mark_ce(&mut self) -> bool {
        match self.bytes.first().map(|byte| byte >> 4) {
            Some(4) => self.mark_ipv4(),
            Some(6) => self.mark_ipv6(),
            _ => false,
        }
    }

    /// FNV-1a of the 5-tuple; 0 for a packet that is not IP.
    fn flow(&self) -> u64 {
        let Some((protocol, addresses, ports)) = self.five_tuple() else { return 0 };
        let bytes = std::iter::once(&protocol).chain(addresses).chain(ports);
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// `bytes` is 4 or 16 bytes long.
fn ip(bytes: &[u8]) -> IpAddr {
    let four: Option<[u8; 4]> = bytes.try_into().ok();
    let sixteen: [u8; 16] = bytes.try_into().unwrap_or_default();
    four.map_or_else(|| Ipv6Addr::from(sixteen).into(), |four| Ipv4Addr::from(four).into())
}

/// RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
fn update_checksum(checksum: u16, before: u16, after: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum_holds(header: &[u8]) -> bool {
        let mut sum: u32 =
            header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum == 0xffff
    }

    fn ipv4(tos: u8) -> Frame {
        let mut header = [0; 20];
        header[..4].copy_from_slice(&[0x45, tos, 5, 220]);
        header[12..].copy_from_slice(&[10, 11, 0, 1, 10, 11, 0, 2]);
        let sum: u32 =
            header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        Frame::new(&header)
    }

    #[test]
    fn ect_becomes_ce_with_a_right_checksum() {
        for (tos, marked, after) in [(0, false, 0), (1, true, 3), (2, true, 3), (0xb9, true, 0xbb)]
        {
            let mut frame = ipv4(tos);
            assert_eq!((frame.mark_ce(), frame.as_bytes()[1]), (marked, after));
            assert!(checksum_holds(frame.as_bytes()));
        }
    }

    #[test]
    fn ipv6_is_marked_in_its_traffic_class_and_rubbish_is_not() {
        let mut frame = Frame::new(&[0x60, 0x20, 0, 0]);
        assert!(frame.mark_ce());
        assert_eq!(frame.as_bytes(), [0x60, 0x30, 0, 0]);
        for rubbish in [&[][..], &[0x60], &[0x60, 0x0f], &[0x45, 2], &[0x12; 40]] {
            assert!(!Frame::new(rubbish).mark_ce());
        }
    }

    /// An IPv4 packet of 24 bytes with this protocol, these ports and this fragment field.
    fn ported(protocol: u8, ports: [u16; 2], fragment: u16) -> Frame {
        let mut bytes = [0; 24];
        bytes[0] = 0x45;
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        bytes[9] = protocol;
        bytes[12..20].copy_from_slice(&[10, 11, 0, 1, 10, 11, 0, 2]);
        bytes[20..22].copy_from_slice(&ports[0].to_be_bytes());
        bytes[22..].copy_from_slice(&ports[1].to_be_bytes());
        Frame::new(&bytes)
    }

    #[test]
    fn a_flow_is_its_5_tuple() {
        let one = ported(6, [80, 5_000], 0).flow();
        assert_eq!(one, ported(6, [80, 5_000], 0x4000).flow(), "do not fragment");
        for other in [(6, [80, 5_001], 0), (17, [80, 5_000], 0), (6, [80, 5_000], 0x2000)] {
            assert_ne!(one, ported(other.0, other.1, other.2).flow());
        }
        // Neither later fragments nor ICMP have ports.
        assert_eq!(ported(17, [1, 2], 1).flow(), ported(17, [3, 4], 185).flow());
        assert_eq!(ported(1, [1, 2], 0).flow(), ported(1, [3, 4], 0).flow());
        for rubbish in [&[][..], &[0x45], &[0x60; 39], &[0x12; 40]] {
            assert_eq!(Frame::new(rubbish).flow(), 0);
        }
        let mut six = [0; 44];
        (six[0], six[6]) = (0x60, 6);
        let before = Frame::new(&six).flow();
        six[43] = 1;
        assert_ne!(before, Frame::new(&six).flow());
        assert_eq!(Frame::new(&six).flow_name(), "tcp [::]:0 > [::]:1");
        assert_eq!(ported(6, [80, 50], 0).flow_name(), "tcp 10.11.0.1:80 > 10.11.0.2:50");
        assert_eq!(ported(17, [1, 2], 185).flow_name(), "udp 10.11.0.1 > 10.11.0.2");
        assert_eq!(ported(89, [1, 2], 0).flow_name(), "protocol 89 10.11.0.1 > 10.11.0.2");
        assert_eq!(Frame::new(&[0x12; 40]).flow_name(), "no IP");
    }
}
