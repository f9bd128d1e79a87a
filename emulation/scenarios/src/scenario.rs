//! A scenario: links, and flows over them.

use crate::error::Error;
use crate::flow::{self, BACK, FlowSpec, ROUTE};
use remuda_link::{Direction, Link, LinkSpec, Nanos, Packet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::iter::repeat_n;

/// A scenario: links, and flows over them, for any engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// The name in results; in a file it may be left out and is then the file's stem.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub duration_s: f64,
    /// The seed of every random draw.
    pub seed: u64,
    /// Simulator only: the one-way delay between the agent and the datapath.
    pub control_delay_ms: f64,
    /// The interval of the time series of flows and links; 0 keeps no time series.
    pub sample_ms: f64,
    /// Links by name. Results number them from 0, in the order of their names.
    pub links: BTreeMap<String, LinkSpec>,
    /// Flows, or groups of equal flows.
    pub flows: Vec<FlowSpec>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: String::new(),
            duration_s: 30.0,
            seed: 1,
            control_delay_ms: 0.0,
            sample_ms: 100.0,
            links: BTreeMap::new(),
            flows: Vec::new(),
        }
    }
}

impl Scenario {
    pub fn duration(&self) -> Nanos {
        Nanos::from_millis_f64(self.duration_s * 1e3)
    }

    /// Every single flow: groups are split, starts staggered, arrivals drawn, names made unique.
    /// The index of a flow here is its number in results.
    pub fn flows_expanded(&self) -> Vec<FlowSpec> {
        let (_, flows): (Vec<_>, Vec<_>) = self.arrived().into_iter().unzip();
        flow::expanded(&flows)
    }

    /// For each flow of [`flows_expanded`](Self::flows_expanded), the index of its entry in
    /// [`flows`](Self::flows).
    pub fn entries_of_flows(&self) -> Vec<usize> {
        let of = |(entry, flow): (usize, FlowSpec)| repeat_n(entry, flow.count as usize);
        self.arrived().into_iter().flat_map(of).collect()
    }

    fn arrived(&self) -> Vec<(usize, FlowSpec)> {
        flow::arrived(&self.flows, (self.duration_s, self.seed))
    }

    /// The round trip that a queue's `limit_bdp` uses: over the links `down` and `up`, or over the
    /// first flow's links if these names do not exist. Transmission times are not included.
    pub fn rtt(&self) -> Nanos {
        if self.links.contains_key(ROUTE) && self.links.contains_key(BACK) {
            return self.delay_of(&[ROUTE.to_owned(), BACK.to_owned()]);
        }
        let first = self.flows.first();
        first.map_or(Nanos::ZERO, |flow| self.delay_of(&flow.route) + self.delay_of(&flow.back))
    }

    /// The round trip of a flow over idle links, without transmission times.
    pub fn rtt_of(&self, flow: &FlowSpec) -> Nanos {
        let extra = Nanos::from_millis_f64(flow.extra_delay_ms);
        self.delay_of(&flow.route) + self.delay_of(&flow.back) + extra
    }

    fn delay_of(&self, links: &[String]) -> Nanos {
        links.iter().filter_map(|name| self.links.get(name)).map(LinkSpec::delay).sum()
    }

    /// Each link with its seed. The seed mixes the scenario's seed with the link's own seed and its
    /// name. So no two links make the same draws, and a new link does not change the draws of the
    /// others.
    pub fn seeded_links(&self) -> Vec<(String, LinkSpec)> {
        let seeded = |(name, spec): (&String, &LinkSpec)| {
            let seed = mixed(mixed(self.seed ^ hash(name)).wrapping_add(spec.seed));
            (name.clone(), LinkSpec { seed, ..spec.clone() })
        };
        self.links.iter().map(seeded).collect()
    }

    /// Builds every link, in the order of names. Reads the trace files.
    pub fn build_links<P: Packet>(&self) -> Result<Vec<(String, Link<P>)>, Error> {
        let rtt = self.rtt();
        let build = |(link, spec): (String, LinkSpec)| match spec.build(rtt, Direction::Down) {
            Ok(built) => Ok((link, built)),
            Err(source) => Err(Error::Link { link, source }),
        };
        self.seeded_links().into_iter().map(build).collect()
    }
}

/// FNV-1a (Fowler, Noll and Vo), 64 bits.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The output step of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn scenario(seed: u64, names: &[&str]) -> Scenario {
        let link = |delay_ms: f64| LinkSpec { delay_ms, ..LinkSpec::default() };
        let links = (1..).zip(names).map(|(n, name)| ((*name).to_owned(), link(f64::from(n))));
        Scenario { seed, links: links.collect(), ..Scenario::default() }
    }

    fn seeds(scenario: &Scenario) -> Vec<u64> {
        scenario.seeded_links().into_iter().map(|(_, spec)| spec.seed).collect()
    }

    #[test]
    fn every_link_draws_by_itself_and_no_other_changes_that() {
        let two = seeds(&scenario(1, &["down", "up"]));
        let three = seeds(&scenario(1, &["down", "side", "up"]));
        assert_eq!([two[0], two[1]], [three[0], three[2]]);
        let mut all: BTreeSet<u64> = three.into_iter().collect();
        all.extend(seeds(&scenario(2, &["down", "up"])));
        let mut own = scenario(1, &["down"]);
        own.links.entry("down".to_owned()).or_default().seed = 7;
        all.extend(seeds(&own));
        assert_eq!(all.len(), 6, "{all:?}");
        // A change here changes every existing result: it needs a line in CHANGELOG.md.
        assert_eq!(mixed(0), 0xe220_a839_7b1d_cdaf, "splitmix64's first output of seed 0");
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c, "FNV-1a's published vector");
    }

    #[test]
    fn the_round_trip_is_of_the_default_route_or_the_first_flows() {
        assert_eq!(scenario(1, &["down", "side", "up"]).rtt(), Nanos::from_millis(4));
        let mut other = scenario(1, &["a", "b", "c"]);
        assert_eq!(other.rtt(), Nanos::ZERO);
        let route = vec!["a".to_owned(), "b".to_owned()];
        let back = vec!["c".to_owned()];
        let flow = FlowSpec { route, back, extra_delay_ms: 0.5, ..FlowSpec::default() };
        other.flows.push(flow.clone());
        assert_eq!(other.rtt(), Nanos::from_millis(6));
        assert_eq!(other.rtt_of(&flow), Nanos::from_millis_f64(6.5));
    }
}
