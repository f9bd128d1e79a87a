//! A memory as a file keeps it: JSON, without trust when it is read.
//!
//! It holds for how long each destination has been idle, and when it was saved by the wall clock.
//! So a wall clock that steps while the agent runs changes nothing, and one that was set back in
//! between makes nothing older.

use super::resume::Resume;
use super::{
    ARMS_MAX, CWND_PKTS_MAX, Entry, HOST_NETNS, Memory, MemoryConfig, Network, Route, WINDOWS_MAX,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

const VERSION: u32 = 1;
/// Rewards are added up with a factor below 1 for what was there: they come to 100 at most.
const WEIGHT_MAX: f64 = 1e6;
/// The longest name of an arm, in bytes, that a destination is remembered with.
pub(super) const NAME_BYTES_MAX: usize = 32;
/// No destination needs more in the file: what holds for one.
pub const DESTINATION_BYTES_MAX: usize = 1_024;

/// Why a saved memory is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not JSON, or not of the form.
    #[error("it is not what a memory writes: {0}")]
    Form(#[from] serde_json::Error),
    /// JSON of that form, which breaks a rule.
    #[error("{what}: {rule}")]
    Rule {
        what: String,
        /// What it must be.
        rule: &'static str,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    saved_unix_s: u64,
    /// The boot of the host in which the cookies of namespaces hold.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    boot: String,
    /// The initial windows that operators have set, in segments, by prefix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    initial_cwnds_pkts: BTreeMap<Network, u32>,
    /// The least recently used first.
    destinations: Vec<Destination>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Destination {
    to: Network,
    /// As [`super::Route::netns`].
    #[serde(default, skip_serializing_if = "is_host")]
    netns: u64,
    /// The user whose flow added it.
    #[serde(default, skip_serializing_if = "is_zero")]
    uid: u32,
    idle_s: u64,
    /// Where an operator's window was before it had a place of its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    initial_cwnd_pkts: u32,
    /// Absent in what was written before there was such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resume: Option<Kept>,
    weights: Vec<(String, f64)>,
}

/// What flows had there, found to be so for the last time that long ago.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    bdp_bytes: f64,
    rtt_us: u64,
    share: f64,
    age_s: u64,
}

impl Kept {
    fn of(resume: &Resume, ttl_s: u64, now_s: u64) -> Option<Self> {
        let Resume { bdp_bytes, rtt_us, share, until_s, .. } = *resume;
        let age_s = ttl_s.checked_sub(until_s.checked_sub(now_s)?)?;
        (bdp_bytes > 0.0).then_some(Self { bdp_bytes, rtt_us, share, age_s })
    }

    fn resume(self, until_s: u64) -> Resume {
        let Self { bdp_bytes, rtt_us, share, .. } = self;
        Resume { bdp_bytes, rtt_us, share, until_s, ..Resume::default() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_host(netns: &u64) -> bool {
    *netns == HOST_NETNS
}

fn rule_broken_by(it: &Destination) -> Option<&'static str> {
    let weight_fits = |weight: &f64| (0.0..=WEIGHT_MAX).contains(weight);
    let mut names: Vec<&str> = it.weights.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if !it.to.is_remembered() {
        Some("it must be an address, or a network of 24 or 56 bits")
    } else if it.initial_cwnd_pkts > CWND_PKTS_MAX {
        Some("initial_cwnd_pkts must be 1 to 1000, or 0")
    } else if it.resume.is_some_and(|kept| !kept.resume(0).is_valid()) {
        Some("resume must have bdp_bytes to 1.25e9, rtt_us to 6e7, and share of 1/64 to 1/2")
    } else if it.weights.len() > ARMS_MAX {
        Some("it must have 12 arms at most")
    } else if names.iter().any(|name| name.is_empty() || name.len() > NAME_BYTES_MAX) {
        Some("names of arms must have 1 to 32 bytes")
    } else if names.windows(2).any(|pair| pair[0] == pair[1]) {
        Some("an arm must be there once")
    } else if !it.weights.iter().all(|(_, weight)| weight_fits(weight)) {
        Some("weights must be 0 to 1000000")
    } else {
        None
    }
}

impl Memory {
    /// As a file keeps it, at `now_s` of the memory's clock and `now_unix_s` of the wall clock.
    pub fn to_json(&self, now_s: u64, now_unix_s: u64) -> String {
        let destination = |(route, entry): (&Route, &Entry)| Destination {
            to: route.network,
            netns: route.netns,
            uid: entry.uid,
            idle_s: self.idle_s(entry, now_s),
            initial_cwnd_pkts: 0,
            resume: Kept::of(&entry.resume, self.ttl_s, now_s),
            weights: entry.weights.to_vec(),
        };
        let boot = self.boot.to_string();
        let destinations = self.entries.iter().rev().map(destination).collect();
        let initial_cwnds_pkts = self.windows.iter().map(|(to, pkts)| (to, *pkts)).collect();
        let (version, saved_unix_s) = (VERSION, now_unix_s);
        let file = File { version, saved_unix_s, boot, initial_cwnds_pkts, destinations };
        serde_json::to_string(&file).expect("it is plain data")
    }

    /// Takes in what [`Memory::to_json`] wrote, whole or not at all; but for what has become too
    /// old meanwhile, and the least recently used beyond the bound.
    pub fn parse(
        text: &str,
        config: &MemoryConfig,
        now_s: u64,
        now_unix_s: u64,
    ) -> Result<Self, Error> {
        let file: File = serde_json::from_str(text)?;
        let refuse = |what: String, rule| Err(Error::Rule { what, rule });
        if file.version != VERSION {
            return refuse(format!("version = {}", file.version), "it must be 1");
        }
        let mut memory = Self::new(config);
        memory.boot = file.boot.into();
        memory.take_in_windows(file.initial_cwnds_pkts)?;
        let since_s = now_unix_s.saturating_sub(file.saved_unix_s);
        let mut seen = std::collections::HashSet::new();
        for it in file.destinations {
            if let Some(rule) = rule_broken_by(&it) {
                return refuse(it.to.to_string(), rule);
            }
            if !seen.insert((it.netns, it.to)) {
                return refuse(it.to.to_string(), "a destination must be there once");
            }
            if it.initial_cwnd_pkts > 0 && it.netns == HOST_NETNS {
                memory.windows.insert(it.to, it.initial_cwnd_pkts);
            }
            let Some(left_s) = config.ttl_s.checked_sub(it.idle_s.saturating_add(since_s)) else {
                continue;
            };
            let known_s = |kept: Kept| config.ttl_s.checked_sub(kept.age_s.saturating_add(since_s));
            let resume = |kept: Kept| Some(kept.resume(now_s.saturating_add(known_s(kept)?)));
            let entry = Entry {
                until_s: now_s.saturating_add(left_s),
                uid: it.uid,
                resume: it.resume.and_then(resume).unwrap_or_default(),
                weights: Arc::new(it.weights),
            };
            memory.put(Route { netns: it.netns, network: it.to }, entry, now_s);
        }
        Ok(memory)
    }

    fn take_in_windows(&mut self, windows: BTreeMap<Network, u32>) -> Result<(), Error> {
        let refuse = |what: String, rule| Err(Error::Rule { what, rule });
        if windows.len() > WINDOWS_MAX {
            let what = format!("{} initial windows", windows.len());
            return refuse(what, "there must be 1024 at most");
        }
        for (to, pkts) in windows {
            if !(1..=CWND_PKTS_MAX).contains(&pkts) {
                return refuse(to.to_string(), "an initial window must be 1 to 1000");
            }
            self.windows.insert(to, pkts);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Carried;
    use super::*;
    use core::net::IpAddr;
    use proptest::prelude::*;
    use remuda_algorithms::units::Bytes;
    use std::time::Duration;

    fn config() -> MemoryConfig {
        MemoryConfig::default()
    }

    fn parse(text: &str) -> Result<Memory, Error> {
        Memory::parse(text, &config(), 7, 1_000)
    }

    fn known() -> Memory {
        let mut memory = Memory::new(&config());
        memory.note("192.0.2.7".parse::<IpAddr>().unwrap(), "bbr", 0.7, 100);
        memory.note("2001:db8::1".parse::<IpAddr>().unwrap(), "copa", 0.1 + 0.2, 101);
        memory.set_initial_cwnd("192.0.2.0/24".parse().unwrap(), 40).unwrap();
        let (bdp, rtt) = (Bytes(200_500), Duration::from_millis(40));
        let carried = Carried { bdp, rtt, is_least: false };
        memory.note_carried("2001:db8::1".parse::<IpAddr>().unwrap(), carried, 105);
        memory
    }

    #[test]
    fn it_survives_a_file_and_an_agent_of_another_age() {
        let text = known().to_json(111, 1_000);
        let mut again = parse(&text).unwrap();
        assert_eq!(again.to_json(7, 1_000), text);
        let of = |memory: &mut Memory, address: &str, now_s| {
            memory.remembered(address.parse::<IpAddr>().unwrap(), now_s).map(|it| it.arm)
        };
        assert_eq!(of(&mut again, "2001:db8::2", 7), Some("copa"));
        // It had been idle for 11 s when it was saved, and has 3600 s.
        assert_eq!(of(&mut again, "192.0.2.7", 7 + 3_589), Some("bbr"));
        assert_eq!(of(&mut again, "192.0.2.7", 7 + 3_590), None);
        let resumed = again.rows(17).iter().map(|row| row.resumed_bytes).max();
        assert_eq!(resumed, Some(100_250));
    }

    #[test]
    fn between_two_agents_the_wall_clock_counts_unless_it_was_set_back() {
        let text = known().to_json(101, 50_000);
        for (now_unix_s, want) in [(50_000, 4), (53_599, 4), (53_600, 3), (53_601, 1), (3, 4)] {
            let memory = Memory::parse(&text, &config(), 0, now_unix_s).unwrap();
            assert_eq!(memory.len(), want, "{now_unix_s}");
        }
    }

    #[test]
    fn an_operators_window_stays_and_an_older_file_has_it_at_its_destination() {
        let old = r#"{"version":1,"saved_unix_s":1000,"destinations":[
            {"to":"192.0.2.0/24","idle_s":9,"initial_cwnd_pkts":40,"weights":[["bbr",1.0]]}]}"#;
        let memory = Memory::parse(old, &config(), 7, 900_000).unwrap();
        let text = memory.to_json(7, 900_000);
        assert!(text.contains(r#""initial_cwnds_pkts":{"192.0.2.0/24":40}"#), "{text}");
        let address = "192.0.2.9".parse().unwrap();
        assert_eq!(parse(&text).unwrap().start(address, 7).initial_cwnd_pkts, 40);
    }

    #[test]
    fn what_is_none_is_refused_by_name() {
        let text = known().to_json(111, 1_000);
        let broken = [
            (text[..text.len() / 2].to_owned(), "EOF"),
            (String::new(), "EOF"),
            ("[".repeat(100_000), "invalid type"),
            (text.replace("\"version\":1", "\"version\":9"), "version = 9: it must be 1"),
            (text.replace("192.0.2.0/24", "192.0.2.0/23"), "192.0.2.0/23: it must be an address"),
            (text.replace("192.0.2.0/24", "192.0.2.1/24"), "write 192.0.2.0/24"),
            (text.replace("192.0.2.0/24", "192.0.2.7/32"), "192.0.2.7/32: a destination must be"),
            (text.replace("0.7", "-0.7"), "0 to 1000000"),
            (text.replace("0.7", "1e999"), "number out of range"),
            (text.replace("\"bbr\"", &format!("\"{}\"", "b".repeat(33))), "1 to 32 bytes"),
            (text.replace("[\"bbr\",0.7]", "[\"bbr\",0.7],[\"bbr\",1.0]"), "there once"),
            (text.replace(":40", ":1001"), "1 to 1000"),
            (text.replace("200500.0", "-1.0"), "bdp_bytes to 1.25e9"),
            (text.replace("\"share\":0.5", "\"share\":0.6"), "share of 1/64 to 1/2"),
            (text.replace("idle_s", "idle"), "unknown field"),
            (text.replace("\"idle_s\":10", "\"idle_s\":-1"), "invalid value"),
        ];
        for (text, want) in broken {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn a_destination_with_all_it_may_have_fits_its_bytes() {
        let it = Destination {
            to: Network::host("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0".parse().unwrap()),
            netns: u64::MAX,
            uid: u32::MAX,
            idle_s: u64::MAX,
            initial_cwnd_pkts: CWND_PKTS_MAX,
            resume: Some(Kept {
                bdp_bytes: 123_456.789_012_345_67,
                rtt_us: u64::MAX,
                share: 0.123_456_789_012_345_67,
                age_s: u64::MAX,
            }),
            weights: vec![("b".repeat(NAME_BYTES_MAX), 0.123_456_789_012_345_67e-5); ARMS_MAX],
        };
        let bytes = serde_json::to_string(&it).unwrap().len();
        assert!(bytes < DESTINATION_BYTES_MAX, "{bytes}");
    }

    proptest! {
        /// No bytes make it panic, and what it takes it writes alike.
        #[test]
        fn any_text_is_taken_or_refused(cut in 0usize..400, byte: u8, at in 0usize..400) {
            let mut bytes = known().to_json(111, 1_000).into_bytes();
            let at = at.min(bytes.len() - 1);
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut.min(bytes.len()) / 50 * 50);
            let Ok(text) = String::from_utf8(bytes) else { return Ok(()) };
            if let Ok(memory) = parse(&text) {
                let again = parse(&memory.to_json(7, 1_000)).unwrap();
                prop_assert_eq!(again.to_json(7, 1_000), memory.to_json(7, 1_000));
            }
        }
    }
}
