//! IPv4 subnets.

use std::fmt;
use std::net::Ipv4Addr;

/// An address, and the number of its bits that name the subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subnet {
    pub(crate) address: Ipv4Addr,
    pub(crate) bits: u8,
}

impl Subnet {
    pub(crate) const ALL: Self = Self { address: Ipv4Addr::UNSPECIFIED, bits: 0 };

    pub(crate) fn mask(self) -> Ipv4Addr {
        let host_bits = 32 - u32::from(self.bits.min(32));
        Ipv4Addr::from_bits(u32::MAX.checked_shl(host_bits).unwrap_or(0))
    }

    /// The address of the subnet: the host's bits are zero.
    pub(crate) fn network(self) -> Ipv4Addr {
        self.address & self.mask()
    }

    /// Whether the two have an address in common.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        let bits = self.bits.min(other.bits);
        Self { bits, ..self }.network() == Self { bits, ..other }.network()
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_has_a_mask_and_a_network() {
        let of = |bits| Subnet { address: Ipv4Addr::new(100, 64, 17, 2), bits };
        assert_eq!(of(20).mask(), Ipv4Addr::new(255, 255, 240, 0));
        assert_eq!(of(20).network(), Ipv4Addr::new(100, 64, 16, 0));
        assert_eq!((of(32).network(), of(0).network()), (of(0).address, Subnet::ALL.address));
        assert_eq!(of(20).to_string(), "100.64.17.2/20");
    }

    #[test]
    fn subnets_overlap_if_one_contains_the_other() {
        let of = |c, bits| Subnet { address: Ipv4Addr::new(100, 64, c, 2), bits };
        assert!(of(17, 16).overlaps(of(99, 32)) && of(99, 32).overlaps(of(17, 16)));
        assert!(of(17, 24).overlaps(Subnet::ALL) && of(17, 24).overlaps(of(17, 24)));
        assert!(!of(17, 24).overlaps(of(18, 24)) && !of(17, 32).overlaps(of(18, 24)));
    }
}
