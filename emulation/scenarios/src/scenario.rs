//! What is to happen: links, and flows over them.

use crate::error::Error;
use crate::flow::{self, BACK, FlowSpec, ROUTE};
use remuda_link::{Direction, Link, LinkSpec, Nanos, Packet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::iter::repeat_n;

/// What is to happen, whatever runs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// What results call it; empty in a file: the file's stem.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How long it lasts.
    pub duration_s: f64,
    /// Decides every random draw.
    pub seed: u64,
    /// Simulator only: how far the agent is from the datapath, each way.
    pub control_delay_ms: f64,
    /// How often flows and links are looked at for the time series; 0 keeps none.
    pub sample_ms: f64,
    /// Links by name. Results number them from 0, in the order of their names.
    pub links: BTreeMap<String, LinkSpec>,
    /// Flows, or groups of flows alike.
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

    /// Each flow by itself: groups are counted out, starts staggered, arrivals drawn, names made
    /// unique. A flow's number in results is its place here.
    pub fn flows_expanded(&self) -> Vec<FlowSpec> {
        let (_, flows): (Vec<_>, Vec<_>) = self.arrived().into_iter().unzip();
        flow::expanded(&flows)
    }

    /// Of which of [`flows`](Self::flows) each of [`flows_expanded`](Self::flows_expanded) is.
    pub fn entries_of_flows(&self) -> Vec<usize> {
        let of = |(entry, flow): (usize, FlowSpec)| repeat_n(entry, flow.count as usize);
        self.arrived().into_iter().flat_map(of).collect()
    }

    fn arrived(&self) -> Vec<(usize, FlowSpec)> {
        flow::arrived(&self.flows, (self.duration_s, self.seed))
    }

    /// The round trip that a queue's `limit_bdp` is of: over the links `down` and `up`, or over the
    /// first flow's if there are none of these names; without the time to send a packet.
    pub fn rtt(&self) -> Nanos {
        if self.links.contains_key(ROUTE) && self.links.contains_key(BACK) {
            return self.delay_of(&[ROUTE.to_owned(), BACK.to_owned()]);
        }
        let first = self.flows.first();
        first.map_or(Nanos::ZERO, |flow| self.delay_of(&flow.route) + self.delay_of(&flow.back))
    }

    /// The round trip of one flow over idle links, without the time to send a packet.
    pub fn rtt_of(&self, flow: &FlowSpec) -> Nanos {
        let extra = Nanos::from_millis_f64(flow.extra_delay_ms);
        self.delay_of(&flow.route) + self.delay_of(&flow.back) + extra
    }

    fn delay_of(&self, links: &[String]) -> Nanos {
        links.iter().filter_map(|name| self.links.get(name)).map(LinkSpec::delay).sum()
    }

    /// Each link with the seed it draws from: the scenario's, mixed with its own and its name, so
    /// that no two links draw alike and a further link changes no other's draws.
    pub fn seeded_links(&self) -> Vec<(String, LinkSpec)> {
        let seeded = |(name, spec): (&String, &LinkSpec)| {
            let seed = mixed(mixed(self.seed ^ hash(name)).wrapping_add(spec.seed));
            (name.clone(), LinkSpec { seed, ..spec.clone() })
        };
        self.links.iter().map(seeded).collect()
    }

    /// Makes every link, by name and in the order of names. Reads the traces.
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
        // A change here changes every result there is: it needs a line in CHANGELOG.md.
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
