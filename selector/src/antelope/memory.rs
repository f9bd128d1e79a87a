//! What is remembered of destinations: the arm for a flow that has shown nothing yet.
//!
//! Zhou et al., Antelope (ICNP 2021), section IV-A, algorithm 2: for each address and its prefix
//! the arms picked there are counted; at each new pick older ones lose weight, and the heaviest is
//! what the next flow begins with.
//!
//! What the paper leaves open (reference, section 6): a pick counts by the reward it brought; the
//! older lose a tenth; an address that is not known is answered by its prefix, /24 or /56; what has
//! not been seen for an hour is forgotten; the least recently used make room beyond a bound.
//!
//! Antelope lacks two things that are kept here: initial windows of prefixes, and what flows had at
//! a destination, by which new ones jump (resume.rs). The window of a destination is, in this
//! order: an operator's of the longest prefix; the learned one of the longest prefix
//! ([`crate::tcp_rl`]); `initial_cwnd_pkts` of the configuration if the destination is remembered.
//! A flow that began with another window than ten segments does not jump.
//!
//! Time is given, in seconds of a clock that does not step: a wall clock matters only to what is
//! kept on disk (file.rs).

mod file;
mod network;
mod resume;
mod route;
mod teachers;

pub use file::{DESTINATION_BYTES_MAX, Error};
pub use network::{Network, NetworkError, is_destination};
pub use resume::{Carried, Jumper, LOST_MAX};
pub use route::{HOST_NETNS, Remote, Route};
pub use teachers::{LeftOut, LeftOutRow, OTHER_USERS, WhyNot};

use crate::ConfigError;
use crate::prefix_map::PrefixMap;
use crate::tcp_rl::table::Table;
use core::net::IpAddr;
use file::NAME_BYTES_MAX;
use lru::LruCache;
use remuda_algorithms::units::Bytes;
use resume::Resume;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::sync::Arc;
use teachers::Teachers;

const KEEP: f64 = 0.9;
/// A reward is about 1 at best, but the path may have become faster since.
const REWARD_MAX: f64 = 10.0;
/// The most arms that a destination is remembered with; the lightest makes room.
const ARMS_MAX: usize = 12;
/// The largest initial window, in segments.
const CWND_PKTS_MAX: u32 = 1_000;
/// The most prefixes that operators give a window.
pub const WINDOWS_MAX: usize = 1_024;

/// What is remembered of destinations, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Whether destinations are remembered.
    pub enabled: bool,
    /// After so many seconds without a flow a destination is forgotten.
    pub ttl_s: u64,
    /// The most addresses, and the most networks, remembered.
    pub entries_max: usize,
    /// The most addresses and networks together that the flows of one user may add. Root may add
    /// any number.
    pub user_entries_max: usize,
    /// How often in a minute the flows of one user may teach what suits a destination; root's are
    /// not counted.
    pub user_notes_per_min_max: u32,
    /// Initial window of flows to a remembered destination that has none of its own, in segments;
    /// 0 leaves what it would be.
    pub initial_cwnd_pkts: u32,
    /// The largest window that a flow jumps to by what flows had there, in segments; 0: none does.
    pub resumed_cwnd_pkts_max: u32,
    /// What has changed is on disk after so many seconds.
    pub save_interval_s: u64,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            ttl_s: 3_600,
            entries_max: 16_384,
            user_entries_max: 8_192,
            user_notes_per_min_max: 600,
            initial_cwnd_pkts: 0,
            resumed_cwnd_pkts_max: CWND_PKTS_MAX,
            save_interval_s: 30,
        }
    }
}

impl MemoryConfig {
    /// Checks every value. To be called once, after parsing.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let cwnd_rule = "it must lie in 1..=1000, or be 0";
        let entries_max = u64::try_from(self.entries_max).unwrap_or(u64::MAX);
        for (key, value, least, most, rule) in [
            ("memory.ttl_s", self.ttl_s, 1, 31_536_000, "it must lie in 1..=31536000 (a year)"),
            ("memory.entries_max", entries_max, 1, 32_768, "it must lie in 1..=32768"),
            (
                "memory.user_entries_max",
                u64::try_from(self.user_entries_max).unwrap_or(u64::MAX),
                2,
                65_536,
                "it must lie in 2..=65536",
            ),
            (
                "memory.user_notes_per_min_max",
                self.user_notes_per_min_max.into(),
                1,
                1_000_000,
                "it must lie in 1..=1000000",
            ),
            (
                "memory.initial_cwnd_pkts",
                self.initial_cwnd_pkts.into(),
                0,
                CWND_PKTS_MAX.into(),
                cwnd_rule,
            ),
            (
                "memory.resumed_cwnd_pkts_max",
                self.resumed_cwnd_pkts_max.into(),
                0,
                CWND_PKTS_MAX.into(),
                cwnd_rule,
            ),
            ("memory.save_interval_s", self.save_interval_s, 1, 3_600, "it must lie in 1..=3600"),
        ] {
            crate::check((least..=most).contains(&value), key, value, rule)?;
        }
        Ok(())
    }
}

/// What is known of a destination.
#[derive(Clone, Debug, Default, PartialEq)]
struct Entry {
    /// When it is forgotten.
    until_s: u64,
    /// The user whose flow added it.
    uid: u32,
    resume: Resume,
    /// Arms and their weights. Shared with the copies of a memory, as these are made while flows
    /// wait.
    weights: Arc<Vec<(String, f64)>>,
}

impl Entry {
    fn note(&mut self, arm: &str, reward: f64) {
        let weights = Arc::make_mut(&mut self.weights);
        weights.iter_mut().for_each(|(_, weight)| *weight *= KEEP);
        if let Some((_, weight)) = weights.iter_mut().find(|(name, _)| name == arm) {
            *weight += reward;
            return;
        }
        if weights.len() >= ARMS_MAX {
            let lightest = weights.iter().enumerate().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
            if let Some((lightest, _)) = lightest {
                weights.remove(lightest);
            }
        }
        weights.push((arm.to_owned(), reward));
    }

    /// The heaviest arm; of two alike, the one that was first.
    fn best(&self) -> Option<(&'static str, f64)> {
        let heavier = |best: Option<(&'static str, f64)>, it: &(String, f64)| match best {
            Some((_, weight)) if weight >= it.1 => best,
            _ => remuda_algorithms::arm(&it.0).map(|arm| (arm.name, it.1)).or(best),
        };
        self.weights.iter().fold(None, heavier)
    }
}

/// The arm that is remembered of a destination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remembered {
    pub arm: &'static str,
    pub weight: f64,
    /// What it is known of: the address itself, or its network.
    pub of: Network,
}

/// How a flow to a destination begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RememberedStart {
    /// With that arm, if one is known.
    pub arm: Option<&'static str>,
    /// With that window, in segments; 0 leaves what it would be.
    pub initial_cwnd_pkts: u32,
}

/// A destination, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The address or network.
    pub to: Network,
    /// The cookie of the network namespace whose flows found it out; 0 is the agent's own.
    #[serde(default)]
    pub netns: u64,
    /// The user whose flow added it.
    #[serde(default)]
    pub uid: u32,
    /// Arms and their weights, the heaviest first.
    pub arms: Vec<(String, f64)>,
    /// Its own initial window, in segments; 0: none.
    pub initial_cwnd_pkts: u32,
    /// The window that a flow jumps to by what flows had there, in bytes; 0: none is known.
    pub resumed_bytes: u64,
    /// For how long there was nothing new of it, in seconds.
    pub idle_s: u64,
}

/// An initial window that nothing is given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is no window.
    #[error("an initial window of {0} segments: it must lie in 1..=1000, or be 0 for none")]
    Cwnd(u32),
    #[error(
        "{WINDOWS_MAX} prefixes have a window: no more can have one\nfix: remove one with PREFIX=0"
    )]
    TooMany,
    /// Nothing is remembered of it.
    #[error("{0} is no destination: it names this host, a neighbour, nobody or many")]
    NoDestination(Network),
    /// Nothing is remembered at all.
    #[error("memory.enabled = false\nfix: enable it, and start the agent again")]
    Off,
}

/// Destinations and what is remembered of each.
#[derive(Clone, Debug)]
pub struct Memory {
    enabled: bool,
    ttl_s: u64,
    initial_cwnd_pkts: u32,
    resumed_cwnd_pkts_max: u32,
    entries: LruCache<Route, Entry>,
    /// The initial windows that operators have set, in segments. They hold in the agent's own
    /// namespace and in those that follow it, and do not expire.
    windows: PrefixMap<u32>,
    learned: Arc<Table>,
    teachers: Teachers,
    /// The boot of the host in which the cookies of namespaces hold; empty: none is known.
    boot: Arc<str>,
    revision: u64,
}

impl Memory {
    /// One that knows nothing; if the configuration says so, for ever.
    pub fn new(config: &MemoryConfig) -> Self {
        let most = config.entries_max.saturating_mul(2);
        let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Self {
            enabled: config.enabled,
            ttl_s: config.ttl_s,
            initial_cwnd_pkts: config.initial_cwnd_pkts,
            resumed_cwnd_pkts_max: config.resumed_cwnd_pkts_max,
            entries: LruCache::new(most),
            windows: PrefixMap::default(),
            learned: Arc::default(),
            teachers: Teachers::new(config.user_entries_max, config.user_notes_per_min_max),
            boot: Arc::default(),
            revision: 0,
        }
    }

    /// Takes note of an arm picked for a flow to that address, and of the reward it brought. Says
    /// whether it did: not of an arm that nobody else has, not of what [`is_destination`] refuses,
    /// and not more than the flow's user may teach.
    pub fn note(&mut self, to: impl Into<Remote>, arm: &str, reward: f64, now_s: u64) -> bool {
        let to = to.into();
        let known = remuda_algorithms::arm(arm).is_some() && arm.len() <= NAME_BYTES_MAX;
        if !(self.enabled && known && reward.is_finite() && is_destination(to.address)) {
            return false;
        }
        let new = to.routes().iter().filter(|route| !self.entries.contains(*route)).count();
        if !self.teachers.may_note(to.uid, new, now_s) {
            return false;
        }
        for route in to.routes() {
            self.entry(route, to.uid, now_s).note(arm, reward.clamp(0.0, REWARD_MAX));
        }
        true
    }

    /// Counts what a flow of that user would have taught, if its namespace were trusted.
    pub fn leave_out_untrusted(&mut self, uid: u32) {
        if self.enabled {
            self.teachers.left_out.count(uid, WhyNot::Untrusted);
        }
    }

    /// What was not learned since the agent started.
    pub fn left_out(&self) -> &LeftOut {
        &self.teachers.left_out
    }

    /// Takes note of what a flow to that address had of its path. Not of a destination that no arm
    /// is known of: its flows heed nothing that is remembered.
    pub fn note_carried(&mut self, to: impl Into<Remote>, carried: Carried, now_s: u64) {
        let until_s = now_s.saturating_add(self.ttl_s);
        for route in to.into().routes() {
            if let Some(entry) = self.entries.peek_mut(&route) {
                self.revision += 1;
                entry.resume.note(carried, until_s, now_s);
            }
        }
    }

    /// The window that a flow to that address jumps to, if it does: what has come of it is to be
    /// said by [`Self::landed`]. A flow jumps by what flows of its own namespace had.
    pub fn jump(&mut self, to: impl Into<Remote>, jumper: &Jumper, now_s: u64) -> Option<Bytes> {
        let [route, around] = to.into().routes();
        let is_known = |entry: &&Entry| entry.resume.bdp_bytes > 0.0;
        let known = self.known_of(route, now_s).find(is_known)?.resume.clone();
        // Jumps at the same time are counted by network, as its flows share the path.
        let around = &mut self.entries.peek_mut(&around)?.resume;
        let unvalidated = std::mem::take(&mut around.unvalidated);
        let mut resume = Resume { unvalidated, ..known };
        let window = resume.jump(jumper, self.resumed_cwnd_pkts_max, now_s);
        around.unvalidated = resume.unvalidated;
        window
    }

    /// What share was lost of the window that a flow to that address jumped to; `None` if it has
    /// ended, or had too little to send, before that was known.
    pub fn landed(&mut self, to: impl Into<Remote>, flow: u32, lost: Option<f64>) {
        for route in to.into().routes() {
            if let Some(entry) = self.entries.peek_mut(&route) {
                self.revision += 1;
                entry.resume.landed(flow, lost);
            }
        }
    }

    /// The entry of a destination. A destination without an entry gets one, which counts as an
    /// entry of the user `uid`.
    fn entry(&mut self, route: Route, uid: u32, now_s: u64) -> &mut Entry {
        self.revision += 1;
        let until_s = now_s.saturating_add(self.ttl_s);
        if self.entries.peek(&route).is_none_or(|entry| entry.until_s < now_s) {
            self.put(route, Entry { uid, ..Entry::default() }, now_s);
        }
        let entry = self.entries.get_or_insert_mut(route, Entry::default);
        entry.until_s = until_s;
        entry
    }

    /// Adds an entry. It replaces the one of that route, or the least recently used one beyond the
    /// bound.
    fn put(&mut self, route: Route, entry: Entry, now_s: u64) {
        self.teachers.added(entry.uid, now_s);
        if let Some((_, before)) = self.entries.push(route, entry) {
            self.teachers.removed(before.uid);
        }
    }

    /// What is remembered of that address, or else of its network; `None` if nothing is.
    pub fn remembered(&mut self, to: impl Into<Remote>, now_s: u64) -> Option<Remembered> {
        to.into().lookups().find_map(|route| {
            let entry = self.entries.get(&route)?;
            let (arm, weight) = entry.best().filter(|_| entry.until_s >= now_s)?;
            Some(Remembered { arm, weight, of: route.network })
        })
    }

    /// How a flow of the agent's own namespace to that address begins.
    pub fn start(&self, address: IpAddr, now_s: u64) -> RememberedStart {
        let network = Network::host(address);
        self.start_of(Route { netns: HOST_NETNS, network }, now_s)
    }

    /// What an address does not have of its own, its network has.
    fn start_of(&self, route: Route, now_s: u64) -> RememberedStart {
        let known = || self.known_of(route, now_s);
        let arm = known().find_map(|entry| Some(entry.best()?.0));
        let is_host = route.netns == HOST_NETNS;
        let operators = self.windows.longest(route.network).filter(|_| is_host);
        let learned = self.learned.0.longest(route.network).filter(|_| is_host);
        let pkts = operators.map(|(_, pkts)| *pkts);
        let pkts = pkts.or(learned.map(|(_, entry)| entry.cwnd_pkts));
        let all = || known().next().map(|_| self.initial_cwnd_pkts);
        RememberedStart { arm, initial_cwnd_pkts: pkts.or_else(all).unwrap_or(0) }
    }

    /// That of a destination and that of the network that it lies in, as far as they are
    /// remembered.
    fn known_of(&self, route: Route, now_s: u64) -> impl Iterator<Item = &Entry> {
        let live =
            move |of: Route| self.entries.peek(&of).filter(|entry: &&Entry| entry.until_s >= now_s);
        let network = Network::around(route.network.address());
        let around = Route { network, ..route };
        let holds = network.contains(&route.network) && around != route;
        [live(route), holds.then(|| live(around)).flatten()].into_iter().flatten()
    }

    /// How flows to each destination and prefix begin that is known at `now_s`. The longest prefix
    /// that an address has here is what holds for it.
    pub fn starts(&self, now_s: u64) -> impl Iterator<Item = (Route, RememberedStart)> {
        let is_live = move |entry: &Entry| entry.until_s >= now_s;
        let live = self.entries.iter().filter(move |(_, entry)| is_live(entry));
        let routes = live.map(|(route, _)| *route);
        let windows = self.windows.iter().map(|(network, _)| network);
        let learned = self.learned.0.iter().map(|(network, _)| network);
        let unknown = move |route: &Route| !self.entries.peek(route).is_some_and(is_live);
        let prefixes = windows.chain(learned).map(|network| Route { netns: HOST_NETNS, network });
        let routes = routes.chain(prefixes.filter(unknown));
        routes.map(move |route| (route, self.start_of(route, now_s)))
    }

    /// The initial window that flows there are given, in segments; 0 if none.
    pub fn initial_cwnd_pkts(&self, of: Remote, now_s: u64) -> u32 {
        let netns = if of.follows_host { HOST_NETNS } else { of.netns };
        let route = Route { netns, network: Network::host(of.address) };
        self.start_of(route, now_s).initial_cwnd_pkts
    }

    /// Puts a table of learned windows in force, in place of the one before.
    pub fn set_learned(&mut self, learned: Arc<Table>) {
        if self.learned != learned {
            self.revision += 1;
            self.learned = learned;
        }
    }

    /// The host has that boot id. In another boot, the cookies of namespaces mean other ones, so
    /// what is remembered of them is forgotten.
    pub fn begin_boot(&mut self, boot: &str) {
        if *self.boot != *boot {
            self.drop_if(|route, _| route.netns != HOST_NETNS);
            self.boot = boot.into();
        }
    }

    /// Gives the flows to a prefix an initial window, in segments; 0 removes it. It holds in the
    /// agent's own namespace, and in those that follow it.
    pub fn set_initial_cwnd(
        &mut self,
        network: Network,
        initial_cwnd_pkts: u32,
    ) -> Result<(), Refusal> {
        if !self.enabled {
            return Err(Refusal::Off);
        }
        if initial_cwnd_pkts > CWND_PKTS_MAX {
            return Err(Refusal::Cwnd(initial_cwnd_pkts));
        }
        if !network.has_destinations() {
            return Err(Refusal::NoDestination(network));
        }
        self.revision += 1;
        if initial_cwnd_pkts == 0 {
            self.windows.remove(&network);
            return Ok(());
        }
        if self.windows.len() >= WINDOWS_MAX && self.windows.get(&network).is_none() {
            return Err(Refusal::TooMany);
        }
        self.windows.insert(network, initial_cwnd_pkts);
        Ok(())
    }

    /// Forgets all that is in that network, in every namespace. Returns how many entries that were.
    pub fn forget(&mut self, of: &Network) -> usize {
        let windows = self.forget_windows(|network| of.contains(network));
        self.drop_if(|route, _| of.contains(&route.network)) + windows
    }

    /// Removes the windows that operators have set for such prefixes. Returns how many of these
    /// prefixes have no entry beside.
    fn forget_windows(&mut self, is_due: impl Fn(&Network) -> bool) -> usize {
        let alone = self.windows_alone().filter(|network| is_due(network)).count();
        let before = self.windows.len();
        self.windows.retain(|network| !is_due(network));
        self.revision += (before - self.windows.len()) as u64;
        alone
    }

    /// The prefixes with an operator's window and without an entry.
    fn windows_alone(&self) -> impl Iterator<Item = Network> {
        let has_entry = |network: &Network| {
            self.entries.contains(&Route { netns: HOST_NETNS, network: *network })
        };
        self.windows.iter().map(|(network, _)| network).filter(move |network| !has_entry(network))
    }

    /// Forgets everything. Returns how many addresses and networks that were.
    pub fn forget_all(&mut self) -> usize {
        let windows = self.forget_windows(|_| true);
        self.drop_if(|_, _| true) + windows
    }

    /// Forgets what is too old. It would not be recalled, but has its place until then.
    pub fn prune(&mut self, now_s: u64) {
        self.drop_if(|_, entry| entry.until_s < now_s);
    }

    fn drop_if(&mut self, is_due: impl Fn(&Route, &Entry) -> bool) -> usize {
        let due = self.entries.iter().filter(|(route, entry)| is_due(route, entry));
        let due: Vec<Route> = due.map(|(route, _)| *route).collect();
        for route in &due {
            if let Some(entry) = self.entries.pop(route) {
                self.teachers.removed(entry.uid);
            }
        }
        self.revision += due.len() as u64;
        due.len()
    }

    /// An operator's window of this very prefix, in segments; 0: none.
    fn own_window(&self, route: &Route) -> u32 {
        let own = self.windows.get(&route.network).filter(|_| route.netns == HOST_NETNS);
        own.copied().unwrap_or(0)
    }

    /// What is remembered at `now_s`, the most recently used first, and then the prefixes that have
    /// a window alone.
    pub fn rows(&self, now_s: u64) -> Vec<Row> {
        let live = self.entries.iter().filter(|(_, entry)| entry.until_s >= now_s);
        let row = |(route, entry): (&Route, &Entry)| {
            let mut arms = entry.weights.to_vec();
            arms.sort_by(|a, b| b.1.total_cmp(&a.1));
            Row {
                to: route.network,
                netns: route.netns,
                uid: entry.uid,
                arms,
                initial_cwnd_pkts: self.own_window(route),
                resumed_bytes: entry.resume.reach(now_s).0,
                idle_s: self.idle_s(entry, now_s),
            }
        };
        let alone = |to: Network| Row {
            to,
            netns: HOST_NETNS,
            uid: 0,
            arms: Vec::new(),
            initial_cwnd_pkts: self.windows.get(&to).copied().unwrap_or(0),
            resumed_bytes: 0,
            idle_s: 0,
        };
        live.map(row).chain(self.windows_alone().map(alone)).collect()
    }

    fn idle_s(&self, entry: &Entry, now_s: u64) -> u64 {
        self.ttl_s.saturating_sub(entry.until_s.saturating_sub(now_s))
    }

    /// It is another one after each change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many addresses and networks it knows.
    pub fn len(&self) -> usize {
        self.entries.len() + self.windows_alone().count()
    }

    /// Whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.windows.is_empty()
    }
}

#[cfg(test)]
mod tests;
