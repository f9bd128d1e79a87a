//! What matches a flow.

use super::cgroup::Cgroup;
use super::network::{Mark, Ports};
use super::owner::{Namespace, User};
use ipnet::IpNet;
use remuda_wire::to_agent::FlowInfo;
use std::fmt;

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
    pub uid: Option<User>,
    pub netns: Option<Namespace>,
}

impl Selector {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the flow matches. `cgroup_id` is the present id of the selector's cgroup; `None` if
    /// that does not exist.
    pub fn matches(&self, flow: &FlowInfo, cgroup_id: Option<u64>) -> bool {
        self.mismatch(flow, cgroup_id).is_none()
    }

    /// The first key that the flow does not match; `None` if it matches.
    pub fn mismatch(&self, flow: &FlowInfo, cgroup_id: Option<u64>) -> Option<&'static str> {
        let remote = flow.remote.0.to_canonical();
        let is_in_cgroup = || flow.cgroup_id != 0 && cgroup_id == Some(flow.cgroup_id);
        if self.local_port.as_ref().is_some_and(|ports| !ports.contains(flow.local.1)) {
            Some("local_port")
        } else if self.cgroup.is_some() && !is_in_cgroup() {
            Some("cgroup")
        } else if self.mark.is_some_and(|mark| !mark.matches(flow.mark)) {
            Some("mark")
        } else if self.destination.is_some_and(|net| !net.contains(&remote)) {
            Some("destination")
        } else if self.uid.is_some_and(|user| user.0 != flow.origin.uid) {
            Some("uid")
        } else if self.netns.is_some_and(|netns| netns.0 != flow.origin.netns) {
            Some("netns")
        } else {
            None
        }
    }

    /// Whether it matches every flow that the other matches, as far as the two say: a cgroup's id
    /// and its directory may be the same cgroup.
    pub fn covers(&self, other: &Self) -> bool {
        fn holds<T>(mine: Option<&T>, theirs: Option<&T>, covers: impl Fn(&T, &T) -> bool) -> bool {
            mine.is_none_or(|mine| theirs.is_some_and(|theirs| covers(mine, theirs)))
        }
        holds(self.local_port.as_ref(), other.local_port.as_ref(), Ports::covers)
            && holds(self.cgroup.as_ref(), other.cgroup.as_ref(), Cgroup::eq)
            && holds(self.mark.as_ref(), other.mark.as_ref(), |a, b| a.covers(*b))
            && holds(self.destination.as_ref(), other.destination.as_ref(), |a, b| a.contains(b))
            && holds(self.uid.as_ref(), other.uid.as_ref(), User::eq)
            && holds(self.netns.as_ref(), other.netns.as_ref(), Namespace::eq)
    }

    /// Checks that the cgroup, if it names one, exists.
    pub fn check(&self) -> Result<(), String> {
        let Some(cgroup) = &self.cgroup else { return Ok(()) };
        cgroup.check().map_err(|why| format!("cgroup = \"{cgroup}\": {why}"))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.local_port.as_ref().map(|it| format!("local port {it}")),
            self.cgroup.as_ref().map(|it| format!("cgroup {it}")),
            self.mark.map(|it| format!("mark {it}")),
            self.destination.map(|it| format!("destination {it}")),
            self.uid.map(|it| format!("uid {it}")),
            self.netns.map(|it| format!("netns {it}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Parts;
    use super::super::network::destination;
    use super::*;
    use proptest::prelude::*;
    use remuda_wire::to_agent::Origin;

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
            ..Selector::default()
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
    fn users_and_namespaces_are_those_of_the_socket() {
        let origin = Origin { uid: 7, netns: 4_097, is_of_host: true };
        let subject = FlowInfo { origin, ..flow(1, 0, "::1") };
        let of = |uid: Option<u32>, netns: Option<u64>| Selector {
            uid: uid.map(User),
            netns: netns.map(Namespace),
            ..Selector::default()
        };
        assert!(of(Some(7), Some(4_097)).matches(&subject, None));
        assert_eq!(of(Some(0), None).mismatch(&subject, None), Some("uid"));
        assert_eq!(of(Some(7), Some(0)).mismatch(&subject, None), Some("netns"));
    }

    #[test]
    fn a_selector_covers_what_it_matches_in_any_case() {
        let of = |keys: &[(&str, &str)]| {
            let get = |key: &str| {
                keys.iter().find(|(it, _)| *it == key).map(|(_, value)| (*value).to_owned())
            };
            let parts = Parts {
                local_port: get("local_port"),
                cgroup: get("cgroup"),
                mark: get("mark"),
                destination: get("destination"),
                uid: get("uid"),
                netns: get("netns"),
            };
            parts.parse().expect("it parses")
        };
        for (wide, narrow, want) in [
            (&[("local_port", "80-90")][..], &[("local_port", "85")][..], true),
            (&[("local_port", "80-90")], &[("local_port", "85-91")], false),
            (&[("local_port", "80")], &[("mark", "1")], false),
            (&[("destination", "10.0.0.0/8")], &[("destination", "10.1.0.0/16")], true),
            (&[("destination", "10.0.0.0/8")], &[("destination", "11.0.0.1")], false),
            (&[("destination", "0.0.0.0/0")], &[("destination", "::1")], false),
            (&[("mark", "0x1/0x1")], &[("mark", "3"), ("uid", "7")], true),
            (&[("mark", "3")], &[("mark", "0x1/0x1")], false),
            (&[("cgroup", "5")], &[("cgroup", "5"), ("netns", "own")], true),
            (&[("cgroup", "5")], &[("cgroup", "6")], false),
            (&[("uid", "7")], &[("uid", "7")], true),
        ] {
            let (wide, narrow) = (of(wide), of(narrow));
            assert_eq!(wide.covers(&narrow), want, "{wide} covers {narrow}");
        }
    }

    proptest! {
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
    }
}
