//! A destination: an address, or the network it is in.

use core::net::{IpAddr, Ipv6Addr};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The longest prefix that stands for more than a host.
const PREFIX_BITS_V4: u8 = 24;
const PREFIX_BITS_V6: u8 = 56;
/// An IPv4 address within IPv6 (RFC 4291 section 2.5.5.2) begins with so many bits.
const MAPPED_BITS: u8 = 96;

/// Addresses that begin alike. The bits behind the prefix are 0; an IPv4 address that is written
/// as an IPv6 one is an IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Why a text names no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no destination: {rule}")]
pub struct NetworkError {
    pub text: String,
    /// What it must be.
    pub rule: String,
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(it) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((it.to_bits() & mask).into())
        }
        IpAddr::V6(it) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((it.to_bits() & mask).into())
        }
    }
}

/// The bits of a whole address.
fn whole(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Network {
    pub fn host(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, bits: whole(address) }
    }

    /// The network of an address that is remembered beside it: /24, or /56 of IPv6.
    pub fn around(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let bits = if address.is_ipv4() { PREFIX_BITS_V4 } else { PREFIX_BITS_V6 };
        Self { address: masked(address, bits), bits }
    }

    /// The network of so many bits that an address is in; all of its bits if there are more.
    pub fn within(address: IpAddr, bits: u8) -> Self {
        let address = address.to_canonical();
        let bits = bits.min(whole(address));
        Self { address: masked(address, bits), bits }
    }

    /// The length of its prefix, in bits.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Its first and its last address, as numbers of IPv6 (IPv4 is mapped).
    pub fn range(&self) -> (u128, u128) {
        let (address, bits) = self.mapped();
        let first = u128::from(address);
        (first, first | u128::MAX.checked_shr(bits.into()).unwrap_or(0))
    }

    /// Whether it is of one of the two lengths that are remembered.
    pub fn is_remembered(&self) -> bool {
        *self == Self::host(self.address) || *self == Self::around(self.address)
    }

    /// Whether an address of it can be a destination: it does not lie in what
    /// [`is_destination`] refuses.
    pub fn has_destinations(&self) -> bool {
        // What is refused is whole networks and single addresses at an end of others.
        let (first, last) = self.range();
        let is_one = |bits: u128| is_destination(Ipv6Addr::from_bits(bits).into());
        self.bits == 0 || [first, last, last.min(first + 1)].into_iter().any(is_one)
    }

    /// Whether it is one address.
    pub fn is_host(&self) -> bool {
        self.bits == whole(self.address)
    }

    /// The first address of it.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether all of `other` is in it.
    pub fn contains(&self, other: &Self) -> bool {
        let alike = self.address.is_ipv4() == other.address.is_ipv4();
        alike && self.bits <= other.bits && masked(other.address, self.bits) == self.address
    }

    /// As one of IPv6, and the bits of its prefix there.
    pub fn mapped(&self) -> (Ipv6Addr, u8) {
        match self.address {
            IpAddr::V4(it) => (it.to_ipv6_mapped(), self.bits + MAPPED_BITS),
            IpAddr::V6(it) => (it, self.bits),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let refuse = |rule: &str| NetworkError { text: text.to_owned(), rule: rule.to_owned() };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let form = "an address, or a network as 192.0.2.0/24";
        let address: IpAddr = address.parse().map_err(|_| refuse(form))?;
        if address != address.to_canonical() {
            return Err(refuse("write an IPv4 address as one of IPv4"));
        }
        let Some(bits) = bits else { return Ok(Self::host(address)) };
        let bits: u8 = bits.parse().map_err(|_| refuse(form))?;
        if bits > whole(address) {
            return Err(refuse("its prefix is longer than an address"));
        }
        let network = Self { address: masked(address, bits), bits };
        if network.address != address {
            return Err(refuse(&format!("bits are set behind its prefix; write {network}")));
        }
        Ok(network)
    }
}

impl TryFrom<String> for Network {
    type Error = NetworkError;

    fn try_from(text: String) -> Result<Self, NetworkError> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

/// Whether an address is one destination for as long as a memory lasts. None: an address that
/// names nobody or many, one of this host itself (nothing is between), and one that means another
/// host on each link.
pub fn is_destination(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_local = match address {
        IpAddr::V4(it) => it.is_link_local() || it.is_broadcast(),
        IpAddr::V6(it) => it.is_unicast_link_local(),
    };
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_local)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn networks_are_written_as_people_write_them() {
        for (text, want) in [
            ("192.0.2.7", "192.0.2.7/32"),
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8::/56", "2001:db8::/56"),
            ("2001:db8::1", "2001:db8::1/128"),
        ] {
            assert_eq!(network(text).to_string(), want);
        }
        for (text, part) in [
            ("192.0.2.7/24", "write 192.0.2.0/24"),
            ("192.0.2.0/33", "longer than an address"),
            ("192.0.2.0/-1", "a network as"),
            ("example.org", "a network as"),
            ("::ffff:192.0.2.7", "as one of IPv4"),
            ("", "a network as"),
        ] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn this_host_nobody_many_and_neighbours_are_no_destinations() {
        let none = [
            "0.0.0.0",
            "::",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "169.254.1.1",
            "fe80::1",
        ];
        for address in none {
            assert!(!is_destination(address.parse().unwrap()), "{address}");
        }
        for address in ["192.0.2.1", "10.0.0.1", "2001:db8::1", "fd00::1", "::ffff:10.0.0.1"] {
            assert!(is_destination(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_network_without_destinations_is_told_apart() {
        for none in ["127.0.0.0/8", "127.1.0.0/16", "224.0.0.0/4", "169.254.0.0/16", "ff00::/8"] {
            assert!(!network(none).has_destinations(), "{none}");
        }
        for none in ["::/127", "255.255.255.255", "fe80::/10", "::1"] {
            assert!(!network(none).has_destinations(), "{none}");
        }
        for some in ["0.0.0.0/0", "::/0", "0.0.0.0/1", "128.0.0.0/1", "10.0.0.0/8", "192.0.2.1"] {
            assert!(network(some).has_destinations(), "{some}");
        }
    }

    proptest! {
        /// What is printed can be read back, and an address is in its networks and those around.
        #[test]
        fn a_network_holds_its_addresses(v4: u32, v6: u128, bits in 0u8..=128) {
            for address in [IpAddr::V4(v4.into()), IpAddr::V6(v6.into())] {
                let host = Network::host(address);
                prop_assert_eq!(network(&host.to_string()), host);
                let around = Network::around(address);
                prop_assert!(around.contains(&host) && host.contains(&host));
                prop_assert!(!host.contains(&around) && around.is_remembered());
                let canonical = address.to_canonical();
                let bits = bits.min(whole(canonical));
                let any = Network { address: masked(canonical, bits), bits };
                prop_assert!(any.contains(&host));
                prop_assert_eq!(network(&any.to_string()), any);
                let (mapped, mapped_bits) = host.mapped();
                prop_assert_eq!((mapped.to_canonical(), mapped_bits), (canonical, 128));
                prop_assert_eq!(Network::within(address, bits), any);
                let (first, last) = any.range();
                let (only, end) = host.range();
                prop_assert!((first..=last).contains(&only) && only == end);
                prop_assert_eq!((last - first).count_ones(), u32::from(whole(canonical) - bits));
            }
        }
    }
}
