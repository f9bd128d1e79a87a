//! Network features of addresses, and the tree of groups that follows from them.
//!
//! With a table of prefixes: subnet, then its ISP in a region, then the region, then all (the
//! paper's table II and figure 4). A subnet is one prefix, or all prefixes of one subnet name. An
//! address that the table lacks, and every address if there is no table, has prefixes alone: /24,
//! /16, /8, all of IPv4; /56, /48, /32, all of IPv6.

use crate::antelope::memory::Network;
use core::net::IpAddr;
use std::collections::HashMap;
use std::fmt::Write as _;

/// The longest name of a subnet, an ISP or a region, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// The prefixes between a leaf and all, the longest first.
const BITS_V4: [u8; 3] = [24, 16, 8];
const BITS_V6: [u8; 3] = [56, 48, 32];

/// One row of a table of prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it stands, for errors: a line, or a record of a database.
    pub at: u64,
    pub prefix: Network,
    pub isp: String,
    pub region: String,
    /// Prefixes of one name, ISP and region are one subnet. Without a name, a prefix is a subnet
    /// of its own.
    pub subnet: Option<String>,
}

/// A table of prefixes that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {at}: {rule}")]
pub struct GeographyError {
    pub at: u64,
    pub rule: String,
}

/// A node of the tree of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A subnet of the table, by its place there.
    Subnet(u32),
    /// An ISP in a region.
    Isp(u32),
    Region(u32),
    Network(Network),
    All,
}

#[derive(Debug)]
struct Subnet {
    name: String,
    isp: u32,
    prefixes: Vec<Network>,
}

#[derive(Debug)]
struct Isp {
    name: String,
    region: u32,
}

/// The addresses of one prefix, as addresses of IPv6.
#[derive(Debug)]
struct Range {
    first: u128,
    last: u128,
    subnet: u32,
    at: u64,
    prefix: Network,
}

/// A table of prefixes that do not overlap. The default has none.
#[derive(Debug, Default)]
pub struct Geography {
    /// In ascending order of their first addresses.
    ranges: Vec<Range>,
    subnets: Vec<Subnet>,
    isps: Vec<Isp>,
    regions: Vec<String>,
}

/// The number of a name; a new name gets the next one.
fn number<K: std::hash::Hash + Eq>(known: &mut HashMap<K, u32>, key: K) -> (u32, bool) {
    let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
    let number = *known.entry(key).or_insert(next);
    (number, number == next)
}

fn check_name(at: u64, what: &str, name: &str) -> Result<(), GeographyError> {
    let is_plain = |c: char| !c.is_control() && c != '/';
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain) {
        return Ok(());
    }
    let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
    let form = "a name has 1 to 64 bytes, no control character and no slash";
    Err(GeographyError { at, rule: format!("{what} {shown:?}: {form}") })
}

impl Geography {
    /// Takes a table whole, or refuses its first row that breaks a rule.
    pub fn new(places: impl IntoIterator<Item = Place>) -> Result<Self, GeographyError> {
        let mut it = Self::default();
        let (mut regions, mut isps, mut subnets) = (HashMap::new(), HashMap::new(), HashMap::new());
        for place in places {
            let Place { at, prefix, isp, region, subnet } = place;
            check_name(at, "region", &region)?;
            check_name(at, "ISP", &isp)?;
            subnet.as_deref().map_or(Ok(()), |name| check_name(at, "subnet", name))?;
            let (region_no, is_new) = number(&mut regions, region.clone());
            if is_new {
                it.regions.push(region);
            }
            let (isp_no, is_new) = number(&mut isps, (region_no, isp.clone()));
            if is_new {
                it.isps.push(Isp { name: isp, region: region_no });
            }
            let name = subnet.unwrap_or_else(|| prefix.to_string().replace('/', "_"));
            let (subnet_no, is_new) = number(&mut subnets, (isp_no, name.clone()));
            if is_new {
                it.subnets.push(Subnet { name, isp: isp_no, prefixes: Vec::new() });
            }
            it.subnets[subnet_no as usize].prefixes.push(prefix);
            let (first, last) = prefix.range();
            it.ranges.push(Range { first, last, subnet: subnet_no, at, prefix });
        }
        it.ranges.sort_by_key(|range| (range.first, range.at));
        it.check_overlaps()?;
        Ok(it)
    }

    fn check_overlaps(&self) -> Result<(), GeographyError> {
        for pair in self.ranges.windows(2) {
            let (early, late) =
                if pair[0].at <= pair[1].at { (&pair[0], &pair[1]) } else { (&pair[1], &pair[0]) };
            if pair[1].first <= pair[0].last {
                let rule =
                    format!("{} overlaps {} of line {}", late.prefix, early.prefix, early.at);
                return Err(GeographyError { at: late.at, rule });
            }
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many prefixes it has.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The finest group of an address.
    pub fn leaf(&self, address: IpAddr) -> Node {
        let (first, _) = Network::host(address).range();
        let after = self.ranges.partition_point(|range| range.first <= first);
        match after.checked_sub(1).map(|at| &self.ranges[at]) {
            Some(range) if first <= range.last => Node::Subnet(range.subnet),
            _ => {
                let bits = if address.to_canonical().is_ipv4() { BITS_V4 } else { BITS_V6 };
                Node::Network(Network::within(address, bits[0]))
            }
        }
    }

    /// The next coarser group; `None` of all.
    pub fn parent(&self, node: Node) -> Option<Node> {
        match node {
            Node::All => None,
            Node::Region(_) => Some(Node::All),
            Node::Isp(at) => Some(Node::Region(self.isps[at as usize].region)),
            Node::Subnet(at) => Some(Node::Isp(self.subnets[at as usize].isp)),
            Node::Network(network) => {
                let bits = if network.address().is_ipv4() { BITS_V4 } else { BITS_V6 };
                let shorter = bits.into_iter().find(|bits| *bits < network.bits());
                let around = |bits| Node::Network(Network::within(network.address(), bits));
                Some(shorter.map_or(Node::All, around))
            }
        }
    }

    /// The prefixes of a subnet or network. An ISP, a region and all have none of their own.
    pub fn prefixes(&self, node: Node) -> Vec<Network> {
        match node {
            Node::Subnet(at) => self.subnets[at as usize].prefixes.clone(),
            Node::Network(network) => vec![network],
            Node::Isp(_) | Node::Region(_) | Node::All => Vec::new(),
        }
    }

    /// Every subnet of the table.
    pub fn subnets(&self) -> impl Iterator<Item = Node> {
        (0..self.subnets.len()).map(|at| Node::Subnet(at as u32))
    }

    /// Every node of the table that can be the root of a group, and all.
    pub fn nodes(&self) -> impl Iterator<Item = Node> {
        let isps = (0..self.isps.len()).map(|at| Node::Isp(at as u32));
        let regions = (0..self.regions.len()).map(|at| Node::Region(at as u32));
        self.subnets().chain(isps).chain(regions).chain([Node::All])
    }

    /// The name of a node: region, ISP and subnet, or a prefix, or `all`.
    pub fn name(&self, node: Node) -> String {
        match node {
            Node::All => "all".to_owned(),
            Node::Network(network) => network.to_string(),
            Node::Region(at) => self.regions[at as usize].clone(),
            Node::Isp(at) => {
                let isp = &self.isps[at as usize];
                format!("{}/{}", self.regions[isp.region as usize], isp.name)
            }
            Node::Subnet(at) => {
                let subnet = &self.subnets[at as usize];
                let mut name = self.name(Node::Isp(subnet.isp));
                let _ = write!(name, "/{}", subnet.name);
                name
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(at: u64, prefix: &str, isp: &str, subnet: Option<&str>) -> Place {
        let prefix = prefix.parse().expect("a prefix");
        let (isp, region) = (isp.to_owned(), "Beijing".to_owned());
        Place { at, prefix, isp, region, subnet: subnet.map(str::to_owned) }
    }

    #[test]
    fn an_address_has_its_subnet_isp_and_region_or_prefixes_alone() {
        let table = Geography::new([
            place(1, "192.0.2.0/25", "CMNET", None),
            place(2, "198.51.100.0/24", "CMNET", Some("S1")),
            place(3, "203.0.113.0/24", "CMNET", Some("S1")),
            place(4, "2001:db8::/32", "UNICOM", None),
        ]);
        let table = table.expect("no two overlap");
        let path = |address: &str| {
            let leaf = table.leaf(address.parse().expect("an address"));
            let path = std::iter::successors(Some(leaf), |node| table.parent(*node));
            path.map(|node| table.name(node)).collect::<Vec<_>>()
        };
        let of = ["Beijing/CMNET/S1", "Beijing/CMNET", "Beijing", "all"];
        for address in ["198.51.100.7", "203.0.113.7"] {
            assert_eq!(path(address), of);
        }
        assert_eq!(path("::ffff:192.0.2.7")[0], "Beijing/CMNET/192.0.2.0_25");
        assert_eq!(path("192.0.2.200"), ["192.0.2.0/24", "192.0.0.0/16", "192.0.0.0/8", "all"]);
        assert_eq!(path("2001:db8:1::1")[1], "Beijing/UNICOM");
        let unknown = path("2001:db9:1:2::1");
        assert_eq!(unknown, ["2001:db9:1::/56", "2001:db9:1::/48", "2001:db9::/32", "all"]);
    }

    #[test]
    fn overlaps_and_bad_names_are_refused_with_line_and_rule() {
        let refused = |places: Vec<Place>| Geography::new(places).expect_err("a rule").to_string();
        let (wide, narrow) =
            (place(3, "10.0.0.0/8", "A", None), place(7, "10.1.0.0/16", "B", None));
        let want = "line 7: 10.1.0.0/16 overlaps 10.0.0.0/8 of line 3";
        assert_eq!(refused(vec![wide.clone(), narrow.clone()]), want);
        assert_eq!(refused(vec![narrow, wide.clone()]), want);
        let twice = refused(vec![wide.clone(), Place { at: 4, ..wide.clone() }]);
        assert_eq!(twice, "line 4: 10.0.0.0/8 overlaps 10.0.0.0/8 of line 3");
        for name in ["", "a/b", "a\nb", &"x".repeat(65), &"é".repeat(200)] {
            let error = refused(vec![Place { isp: name.to_owned(), ..wide.clone() }]);
            assert!(error.contains("line 3: ISP") && error.contains("1 to 64 bytes"), "{error}");
        }
    }
}
