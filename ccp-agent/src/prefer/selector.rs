//! Selects flows by port, cgroup, mark and destination.

use super::cgroup::Cgroup;
use ipnet::IpNet;
use remuda_wire::to_agent::FlowInfo;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Matches a flow if every given part matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    pub local_port: Option<Ports>,
    /// The cgroup (v2) in which the socket was created.
    pub cgroup: Option<Cgroup>,
    /// The socket's `SO_MARK`.
    pub mark: Option<Mark>,
    /// Matches the remote address.
    pub destination: Option<IpNet>,
}

/// A port, or a range of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(RangeInclusive<u16>);

/// Matches a mark that has `value` in the bits of `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    value: u32,
    mask: u32,
}

impl Selector {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the flow matches. `cgroup_id` is the present id of the rule's cgroup; `None` if that
    /// does not exist.
    pub fn matches(&self, flow: &FlowInfo, cgroup_id: Option<u64>) -> bool {
        let (remote, _) = flow.remote;
        self.local_port.as_ref().is_none_or(|ports| ports.0.contains(&flow.local.1))
            && self.cgroup.is_none()
                | (flow.cgroup_id != 0 && cgroup_id.is_some_and(|id| id == flow.cgroup_id))
            && self.mark.is_none_or(|mark| flow.mark & mark.mask == mark.value)
            && self.destination.is_none_or(|net| net.contains(&remote.to_canonical()))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.local_port.as_ref().map(|it| format!("local port {it}")),
            self.cgroup.as_ref().map(|it| format!("cgroup {it}")),
            self.mark.map(|it| format!("mark {it}")),
            self.destination.map(|it| format!("destination {it}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

impl Ports {
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
pub(super) fn destination(text: &str) -> Result<IpNet, String> {
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

    fn flow(port: u16, mark: u32, remote: &str) -> FlowInfo {
        FlowInfo {
            mark,
            cgroup_id: 5,
            ..FlowInfo::between(
                ([127, 0, 0, 1].into(), port),
                (remote.parse().expect("an address"), 9),
            )
        }
    }

    #[test]
    fn ports_marks_and_prefixes_mean_what_they_say() {
        let of = |port: &str, mark: &str, net: &str| Selector {
            local_port: (!port.is_empty()).then(|| Ports::parse(port).expect(port)),
            mark: (!mark.is_empty()).then(|| Mark::parse(mark).expect(mark)),
            destination: (!net.is_empty()).then(|| destination(net).expect(net)),
            cgroup: None,
        };
        let subject = flow(443, 0x1a, "10.1.2.3");
        for (port, mark, net, want) in [
            ("443", "", "", true),
            ("444", "", "", false),
            ("400-443", "", "", true),
            ("444-500", "", "", false),
            ("", "26", "", true),
            ("", "0x1a", "", true),
            ("", "0x10/0xf0", "", true),
            ("", "0x20/0xf0", "", false),
            ("", "0/0", "", true),
            ("", "", "10.0.0.0/8", true),
            ("", "", "10.1.2.3", true),
            ("", "", "10.1.2.4", false),
            ("", "", "0.0.0.0/0", true),
            ("", "", "::/0", false),
            ("443", "26", "10.0.0.0/8", true),
            ("443", "27", "10.0.0.0/8", false),
        ] {
            let selector = of(port, mark, net);
            assert_eq!(selector.matches(&subject, None), want, "{selector}");
        }
        assert!(of("", "", "fd00::/8").matches(&flow(1, 0, "fd12::1"), None));
        assert!(of("", "", "10.0.0.0/8").matches(&flow(1, 0, "::ffff:10.0.0.1"), None), "mapped");
    }

    #[test]
    fn a_cgroup_that_is_unknown_is_nobodys() {
        let selector = Selector { cgroup: Some(Cgroup::Id(5)), ..Selector::default() };
        let subject = flow(1, 0, "::1");
        assert!(selector.matches(&subject, Some(5)));
        assert!(!selector.matches(&subject, Some(6)) && !selector.matches(&subject, None));
        assert!(!selector.matches(&FlowInfo { cgroup_id: 0, ..subject }, Some(0)));
    }

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
        fn a_prefix_means_what_its_bits_say(net: u32, bits in 0u8..=32, address: u32) {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            let net = net & mask;
            let text = format!("{}/{bits}", std::net::Ipv4Addr::from(net));
            let destination = Some(destination(&text).expect("it parses"));
            let selector = Selector { destination, ..Selector::default() };
            let remote = std::net::Ipv4Addr::from(address).to_string();
            prop_assert_eq!(selector.matches(&flow(1, 0, &remote), None), address & mask == net);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = (Ports::parse(&text), Mark::parse(&text), destination(&text));
        }
    }
}
