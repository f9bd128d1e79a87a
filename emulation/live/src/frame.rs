//! An IP packet on its way through the link.

use remuda_link::Packet;

const ECN_MASK: u8 = 0b11;
const ECN_CE: u8 = 0b11;

/// An IP packet as a TUN device gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    bytes: Box<[u8]>,
}

impl Frame {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into() }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
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

    /// The traffic class straddles the first two bytes: ECN is bits 4 and 5 of the second.
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
}
