//! What suited a destination before: the arm for a flow that has shown nothing yet.
//!
//! Zhou et al., Antelope (ICNP 2021), section IV-A, algorithm 2: for each address and its prefix
//! the arms picked there are counted; at each new pick older ones lose weight, and the heaviest is
//! what the next flow begins with.
//!
//! What the paper leaves open (reference, section 6): a pick counts by the reward it brought; the
//! older lose a tenth; an address that is not known is answered by its prefix, /24 or /56; what has
//! not been seen for an hour is forgotten; the least recently used make room beyond a bound.
//!
//! Time is given, in seconds of the wall clock, as what is kept on disk outlives the process. An
//! entry of a later time than now, after the clock was set back, counts as new.

use core::net::IpAddr;
use lru::LruCache;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;

/// Algorithm 2's alpha.
const KEEP: f64 = 0.9;
/// A reward is about 1 at best, but the path may have become faster since.
const REWARD_MAX: f64 = 10.0;
/// The file's form.
const VERSION: u32 = 1;
/// The longest prefix that stands for more than a host.
const PREFIX_BITS_V4: u32 = 24;
const PREFIX_BITS_V6: u32 = 56;

/// Bounds of a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// After so many seconds without a flow a destination is forgotten.
    pub ttl_s: u64,
    /// The most addresses, and the most prefixes, remembered.
    pub entries_max: usize,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { ttl_s: 3_600, entries_max: 16_384 }
    }
}

/// A destination: an address, or the network it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
struct Network {
    address: IpAddr,
    bits: u8,
}

fn masked(address: IpAddr, v4: u32, v6: u32) -> Network {
    match address.to_canonical() {
        IpAddr::V4(it) => {
            let mask = u32::MAX.checked_shl(32 - v4).unwrap_or(0);
            Network { address: IpAddr::V4((it.to_bits() & mask).into()), bits: v4 as u8 }
        }
        IpAddr::V6(it) => {
            let mask = u128::MAX.checked_shl(128 - v6).unwrap_or(0);
            Network { address: IpAddr::V6((it.to_bits() & mask).into()), bits: v6 as u8 }
        }
    }
}

/// The address, then its network.
fn networks(address: IpAddr) -> [Network; 2] {
    [masked(address, 32, 128), masked(address, PREFIX_BITS_V4, PREFIX_BITS_V6)]
}

/// What is known of a destination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    seen_unix_s: u64,
    /// Arms and their weights.
    weights: Vec<(String, f64)>,
}

impl Entry {
    fn note(&mut self, arm: &str, reward: f64, now_unix_s: u64) {
        self.seen_unix_s = now_unix_s;
        self.weights.iter_mut().for_each(|(_, weight)| *weight *= KEEP);
        match self.weights.iter_mut().find(|(name, _)| name == arm) {
            Some((_, weight)) => *weight += reward,
            None => self.weights.push((arm.to_owned(), reward)),
        }
    }

    /// The heaviest arm; of two alike, the one that was first.
    fn best(&self) -> Option<(&'static str, f64)> {
        let known = self.weights.iter().filter_map(|(name, weight)| {
            let arm = remuda_algorithms::arm(name)?;
            Some((arm.name, *weight))
        });
        known.fold(None, |best, it| match best {
            Some((_, weight)) if weight >= it.1 => best,
            _ => Some(it),
        })
    }
}

/// What a memory says of a destination.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// The arm that did best there.
    pub arm: &'static str,
    /// Its weight.
    pub weight: f64,
    /// Of the address itself, or of its network.
    pub of: String,
}

/// Destinations and the arms that suited them.
#[derive(Clone, Debug)]
pub struct Memory {
    ttl_s: u64,
    entries: LruCache<Network, Entry>,
}

/// Why a kept memory cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not JSON, or not of the form.
    #[error("it is not what a memory writes: {0}")]
    Form(#[from] serde_json::Error),
    /// JSON of that form, which breaks a rule.
    #[error("{what}: {rule}")]
    Rule {
        /// Which part.
        what: String,
        /// What it must be.
        rule: &'static str,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    /// The least recently used first.
    destinations: Vec<(Network, Entry)>,
}

impl Memory {
    /// One that knows nothing.
    pub fn new(config: &MemoryConfig) -> Self {
        let most = config.entries_max.saturating_mul(2);
        let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Self { ttl_s: config.ttl_s, entries: LruCache::new(most) }
    }

    /// Takes note of an arm picked for a flow to that address, and of the reward it brought.
    pub fn note(&mut self, address: IpAddr, arm: &str, reward: f64, now_unix_s: u64) {
        let reward = if reward.is_finite() { reward.clamp(0.0, REWARD_MAX) } else { return };
        for network in networks(address) {
            let entry = self.entries.get_or_insert_mut(network, Entry::default);
            if is_over(entry.seen_unix_s, now_unix_s, self.ttl_s) {
                *entry = Entry::default();
            }
            entry.note(arm, reward, now_unix_s);
        }
    }

    /// What suited that address, or else its network.
    pub fn recall(&mut self, address: IpAddr, now_unix_s: u64) -> Option<Remembered> {
        networks(address).into_iter().find_map(|network| {
            let entry = self.entries.get(&network)?;
            if is_over(entry.seen_unix_s, now_unix_s, self.ttl_s) {
                self.entries.pop(&network);
                return None;
            }
            let (arm, weight) = entry.best()?;
            let of = format!("{}/{}", network.address, network.bits);
            Some(Remembered { arm, weight, of })
        })
    }

    /// How many addresses and networks it knows.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// As a file keeps it.
    pub fn to_json(&self) -> String {
        let all = self.entries.iter().rev().map(|(network, entry)| (*network, entry.clone()));
        let file = File { version: VERSION, destinations: all.collect() };
        serde_json::to_string(&file).expect("it is plain data")
    }

    /// Takes in what [`Memory::to_json`] wrote; whole, or not at all.
    pub fn parse(text: &str, config: &MemoryConfig) -> Result<Self, Error> {
        let file: File = serde_json::from_str(text)?;
        let refuse = |what: String, rule| Err(Error::Rule { what, rule });
        if file.version != VERSION {
            return refuse(format!("version = {}", file.version), "it must be 1");
        }
        let mut memory = Self::new(config);
        for (network, entry) in file.destinations {
            let bits = u32::from(network.bits);
            let of = || format!("{}/{bits}", network.address);
            if !networks(network.address).contains(&network) {
                return refuse(of(), "it must be an address, or a network of 24 or 56 bits");
            }
            if entry.weights.iter().any(|(_, weight)| !(0.0..=1e6).contains(weight)) {
                return refuse(of(), "weights must be 0 to 1000000");
            }
            memory.entries.put(network, entry);
        }
        Ok(memory)
    }
}

fn is_over(seen_unix_s: u64, now_unix_s: u64, ttl_s: u64) -> bool {
    now_unix_s.saturating_sub(seen_unix_s) > ttl_s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn memory() -> Memory {
        Memory::new(&MemoryConfig::default())
    }

    fn arm(memory: &mut Memory, address: &str, now_unix_s: u64) -> Option<&'static str> {
        memory.recall(at(address), now_unix_s).map(|it| it.arm)
    }

    #[test]
    fn the_heaviest_arm_is_recalled_and_older_picks_lose_weight() {
        let mut memory = memory();
        let here = at("192.0.2.7");
        for _ in 0..3 {
            memory.note(here, "bbr", 1.0, 100);
        }
        assert_eq!(arm(&mut memory, "192.0.2.7", 100), Some("bbr"));
        // 1 + .9 + .81 = 2.71 for bbr; three of cubic leave it 1.98.
        for (round, want) in [(1, "bbr"), (2, "bbr"), (3, "cubic")] {
            memory.note(here, "cubic", 1.0, 100);
            assert_eq!(arm(&mut memory, "192.0.2.7", 100), Some(want), "{round}");
        }
    }

    #[test]
    fn a_pick_counts_by_its_reward() {
        let mut memory = memory();
        memory.note(at("192.0.2.7"), "bbr", 0.2, 100);
        memory.note(at("192.0.2.7"), "cubic", 0.9, 100);
        memory.note(at("192.0.2.7"), "bbr", 0.2, 100);
        memory.note(at("192.0.2.7"), "vegas", f64::NAN, 100);
        assert_eq!(arm(&mut memory, "192.0.2.7", 100), Some("cubic"));
    }

    #[test]
    fn an_unknown_address_is_answered_by_its_network() {
        let mut memory = memory();
        memory.note(at("192.0.2.7"), "bbr", 1.0, 100);
        memory.note(at("2001:db8:1:ff00::1"), "copa", 1.0, 100);
        let rows = [
            ("192.0.2.200", Some("bbr"), "192.0.2.0/24"),
            ("::ffff:192.0.2.7", Some("bbr"), "192.0.2.7/32"),
            ("192.0.3.7", None, ""),
            ("2001:db8:1:ffff::9", Some("copa"), "2001:db8:1:ff00::/56"),
            ("2001:db8:1:fe00::1", None, ""),
        ];
        for (address, want, of) in rows {
            let got = memory.recall(at(address), 100);
            assert_eq!(got.as_ref().map(|it| it.arm), want, "{address}");
            assert_eq!(got.map(|it| it.of).unwrap_or_default(), of);
        }
    }

    #[test]
    fn what_is_old_is_forgotten_and_a_clock_set_back_forgets_nothing() {
        let mut memory = memory();
        memory.note(at("192.0.2.7"), "bbr", 1.0, 10_000);
        assert_eq!(arm(&mut memory, "192.0.2.7", 13_600), Some("bbr"));
        assert_eq!(arm(&mut memory, "192.0.2.7", 5), Some("bbr"));
        assert_eq!(arm(&mut memory, "192.0.2.7", 13_601), None);
        assert_eq!(arm(&mut memory, "192.0.2.200", 13_601), None);
        assert!(memory.is_empty());
    }

    #[test]
    fn the_least_recently_used_makes_room() {
        let config = MemoryConfig { entries_max: 2, ..MemoryConfig::default() };
        let mut memory = Memory::new(&config);
        for third in 0..10u8 {
            memory.note(at(&format!("198.51.{third}.1")), "bbr", 1.0, 100);
        }
        assert_eq!(memory.len(), 4);
        assert_eq!(arm(&mut memory, "198.51.9.1", 100), Some("bbr"));
        assert_eq!(arm(&mut memory, "198.51.0.1", 100), None);
    }

    #[test]
    fn it_survives_a_file_and_refuses_what_is_none() {
        let mut memory = memory();
        memory.note(at("192.0.2.7"), "bbr", 0.7, 100);
        memory.note(at("2001:db8::1"), "copa", 0.1 + 0.2, 101);
        let config = MemoryConfig::default();
        let text = memory.to_json();
        let mut again = Memory::parse(&text, &config).unwrap();
        assert_eq!(again.to_json(), text);
        assert_eq!(arm(&mut again, "2001:db8::2", 102), Some("copa"));
        let broken = [
            (text[..text.len() / 2].to_owned(), "EOF"),
            (text.replace("\"version\":1", "\"version\":9"), "it must be 1"),
            (text.replace("\"bits\":24", "\"bits\":23"), "24 or 56 bits"),
            (text.replace("0.7", "-0.7"), "0 to 1000000"),
        ];
        for (text, want) in broken {
            let error = Memory::parse(&text, &config).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
