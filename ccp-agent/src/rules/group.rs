//! Which flows of a rule get its driver, and which are its control group.

use super::rule::Share;
use remuda_wire::to_agent::FlowInfo;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The part of a rule's flows that a flow belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// It gets the rule's driver.
    Rule,
    /// It is driven as without the rule, so that the two can be compared.
    Control,
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): each bit of the input changes
/// half of the output's bits.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn words(address: IpAddr) -> [u64; 2] {
    let bits = match address.to_canonical() {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    };
    [(bits >> 64) as u64, bits as u64]
}

/// A number for a flow's addresses, ports and network namespace. It is the same in every agent, so
/// a flow keeps its group when an agent restarts or is upgraded.
fn hash(flow: &FlowInfo) -> u64 {
    let ports = u64::from(flow.local.1) << 16 | u64::from(flow.remote.1);
    let [a, b] = words(flow.local.0);
    let [c, d] = words(flow.remote.0);
    [a, b, c, d, ports, flow.origin.netns].into_iter().fold(0x9e37_79b9_7f4a_7c15, |hash, word| {
        mixed(hash.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ word)
    })
}

/// A number for a rule, so that the groups of two rules are drawn apart: FNV-1a of its text.
pub fn salt(rule: &str) -> u64 {
    rule.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Group {
    /// The group of a flow of a rule with this share and salt.
    pub fn of(flow: &FlowInfo, share: Share, salt: u64) -> Self {
        // 53 bits: as many as a double holds.
        let unit = (mixed(hash(flow) ^ salt) >> 11) as f64 / (1_u64 << 53) as f64;
        if unit < share.get() { Self::Rule } else { Self::Control }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16, remote: &str) -> FlowInfo {
        FlowInfo::between(([10, 0, 0, 1].into(), 443), (remote.parse().expect("an address"), port))
    }

    #[test]
    fn groups_have_their_shares() {
        for share in [0.0, 0.01, 0.5, 0.99, 1.0] {
            let of = Share::new(share).expect("a share");
            let ports = 1_024..65_535_u16;
            let flows = ports.len() as f64;
            let ruled =
                ports.filter(|port| Group::of(&flow(*port, "192.0.2.7"), of, 7) == Group::Rule);
            let got = ruled.count() as f64 / flows;
            let spread = 4.0 * (share * (1.0 - share) / flows).sqrt();
            assert!((got - share).abs() <= spread, "{got} of {share}");
        }
    }

    #[test]
    fn a_flow_keeps_its_group_in_every_version() {
        let half = Share::new(0.5).expect("a share");
        let groups: String = (1..33)
            .map(|port| match Group::of(&flow(port, "2001:db8::1"), half, salt("a rule")) {
                Group::Rule => 'r',
                Group::Control => '.',
            })
            .collect();
        assert_eq!(groups, "rr.r.rrr..rr..rr..r..r....rrrr..");
        let mapped = flow(9, "::ffff:192.0.2.7");
        assert_eq!(hash(&mapped), hash(&flow(9, "192.0.2.7")));
    }
}
