//! Parts of a selector that are read off a packet or a socket: ports, mark, destination.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// A port, or a range of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(RangeInclusive<u16>);

/// Matches a mark that has `value` in the bits of `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    value: u32,
    mask: u32,
}

impl Ports {
    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(&port)
    }

    /// Whether it has every port of the other.
    pub fn covers(&self, other: &Self) -> bool {
        self.0.start() <= other.0.start() && other.0.end() <= self.0.end()
    }

    /// The port, if it is a single one.
    pub fn single(&self) -> Option<u16> {
        (self.0.start() == self.0.end()).then(|| *self.0.start())
    }

    /// Parses `443` or `8000-8099`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let rule = "it must be a port of 1 to 65535, or a range such as \"8000-8099\"";
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        match (from.parse(), to.parse()) {
            (Ok(from), Ok(to)) if 0 < from && from <= to => Ok(Self(from..=to)),
            _ => Err(rule),
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.0.start(), self.0.end());
        if from == to { write!(f, "{from}") } else { write!(f, "{from}-{to}") }
    }
}

/// Parses a decimal number, or a hexadecimal one after `0x`.
fn word(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Mark {
    pub fn matches(self, mark: u32) -> bool {
        mark & self.mask == self.value
    }

    /// Whether it matches every mark that the other matches.
    pub fn covers(self, other: Self) -> bool {
        other.mask & self.mask == self.mask && self.matches(other.value)
    }

    /// The only mark that it matches; `None` if it matches several.
    pub fn single(self) -> Option<u32> {
        (self.mask == u32::MAX).then_some(self.value)
    }

    /// Parses `7`, or `0x10/0xff`: a value and its mask.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let rule = "it must be a 32-bit number, or a number and its mask, such as \"0x10/0xff\"";
        let (value, mask) = match text.split_once('/') {
            None => (word(text), Some(u32::MAX)),
            Some((value, mask)) => (word(value), word(mask)),
        };
        match (value, mask) {
            (Some(value), Some(mask)) if value & !mask != 0 => {
                Err("the value has bits outside the mask, so it matches no mark")
            }
            (Some(value), Some(mask)) => Ok(Self { value, mask }),
            _ => Err(rule),
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, mask } = self;
        if *mask == u32::MAX { write!(f, "{value}") } else { write!(f, "{value:#x}/{mask:#x}") }
    }
}

/// Parses `10.0.0.0/8`, `fd00::/8`, or a single address.
pub fn destination(text: &str) -> Result<IpNet, String> {
    let net = text
        .parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| "it must be an address or a prefix, such as \"10.0.0.0/8\"".to_owned())?;
    if net.addr() != net.network() {
        let fix = net.trunc();
        return Err(format!("the address has bits beyond its prefix\nfix: \"{fix}\""));
    }
    Ok(net)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bad_parts_are_refused() {
        for text in ["", "0", "65536", "80-70", "80-", "-80", "http", "1-2-3", " 80"] {
            assert!(Ports::parse(text).is_err(), "{text:?}");
        }
        for text in ["", "-1", "0x", "4294967296", "1/", "/1", "1/2/3", "0x10/0x0f", "x"] {
            assert!(Mark::parse(text).is_err(), "{text:?}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "example.org", "10.0.0.0/-1"] {
            assert!(destination(text).is_err(), "{text:?}");
        }
        let error = destination("10.0.0.5/8").expect_err("bits beyond the prefix");
        assert!(error.contains("fix: \"10.0.0.0/8\""), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(from in 1u16.., more in 0u16..100, value: u32, mask: u32) {
            let ports = Ports(from..=from.saturating_add(more));
            prop_assert_eq!(Ports::parse(&ports.to_string()), Ok(ports));
            let mark = Mark { value: value & mask, mask };
            prop_assert_eq!(Mark::parse(&mark.to_string()), Ok(mark));
        }

        #[test]
        fn a_mark_that_covers_another_matches_all_that_it_matches(
            masks in any::<(u32, u32)>(), values in any::<(u32, u32)>(), mark: u32,
        ) {
            let (few, more) = (masks.0 & masks.1, masks.1);
            let wide = Mark { value: values.0 & few, mask: few };
            let narrow = Mark { value: values.1 & more, mask: more };
            let subject = narrow.value | mark & !more;
            prop_assert!(narrow.matches(subject));
            prop_assert_eq!(wide.covers(narrow), wide.matches(subject));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = (Ports::parse(&text), Mark::parse(&text), destination(&text));
        }
    }
}
