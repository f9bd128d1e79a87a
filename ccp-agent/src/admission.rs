//! Who may have flows in the BPF datapath, how many, and what is said of those that are refused.
//!
//! The kernel side decides ([`remuda_bpf::Admission`]). The agent reads its counters and says in
//! `remuda flows`, in the event log and in its own log who was refused and why.

use crate::datapath::Refusals;
use crate::events::{Event, Recorder};
use crate::users;
use remuda_bpf::{Admission, Reason, Refused};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How often the event log says who was refused, in microseconds.
const REPORT_INTERVAL_US: u64 = 10_000_000;
/// How often the event log says that the table of flows is full, in microseconds.
const FULL_INTERVAL_US: u64 = 60_000_000;
/// The most events about refused sockets at a time. The next time has the others.
const EVENTS_MAX: usize = 32;

/// Who may have flows in the BPF datapath, and how many. Root always may, and has no quota.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionConfig {
    /// Users whose sockets may run the name, by name or uid. With `groups` empty too, every user.
    pub users: Vec<String>,
    /// Groups whose members' sockets may run the name, by name or gid. Members are looked up when
    /// the agent starts.
    pub groups: Vec<String>,
    /// A user has at most this share of the slots that others leave, in percent. With 50, the first
    /// user gets half of all slots, and the second half of the rest. 100 means no quota.
    pub user_percent: u32,
    /// A cgroup of the second level (a service, a user's slice or a container) has at most this
    /// share, in percent; root's sockets in it are not counted.
    pub cgroup_percent: u32,
    /// Users that have no quota, by name or uid.
    pub unlimited_users: Vec<String>,
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        let Admission { user_percent, cgroup_percent, .. } = Admission::default();
        Self {
            users: Vec::new(),
            groups: Vec::new(),
            user_percent,
            cgroup_percent,
            unlimited_users: Vec::new(),
        }
    }
}

impl AdmissionConfig {
    /// Checks each value, and looks the users and groups up.
    pub fn resolve(&self) -> Result<Admission, String> {
        for (key, percent) in [
            ("admission.user_percent", self.user_percent),
            ("admission.cgroup_percent", self.cgroup_percent),
        ] {
            if !(1..=100).contains(&percent) {
                return Err(format!("{key} = {percent}: it must lie in 1..=100"));
            }
        }
        let mut users = users::uids_of("admission.users", &self.users)?;
        users.extend(users::members_of("admission.groups", &self.groups)?);
        let is_restricted = !(self.users.is_empty() && self.groups.is_empty());
        Ok(Admission {
            users: is_restricted.then_some(users),
            unlimited: users::uids_of("admission.unlimited_users", &self.unlimited_users)?,
            user_percent: self.user_percent,
            cgroup_percent: self.cgroup_percent,
        })
    }
}

/// Why a socket was refused, and what lets the next one in.
fn text(reason: Reason) -> &'static str {
    match reason {
        Reason::NotAllowed => "the user is not in admission.users or admission.groups",
        Reason::UserQuota => "the user has its share of the slots (admission.user_percent)",
        Reason::CgroupQuota => "the cgroup has its share of the slots (admission.cgroup_percent)",
        Reason::TableFull => "every slot has a flow (agent.flows_max)",
    }
}

/// Refused sockets, as `remuda flows` shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRow {
    pub uid: u32,
    /// The inode number of the cgroup's directory.
    pub cgroup_id: u64,
    pub reason: String,
    /// How many since the agent started.
    pub sockets: u64,
}

/// The sockets that were refused, and how many of them the log has named.
#[derive(Debug, Default)]
pub struct RefusedSockets {
    now: Refusals,
    said: BTreeMap<(u32, Reason), u64>,
    said_us: Option<u64>,
    full_said: u64,
    full_said_us: Option<u64>,
}

fn is_due(last_us: Option<u64>, interval_us: u64, now_us: u64) -> bool {
    last_us.is_none_or(|last_us| now_us.saturating_sub(last_us) >= interval_us)
}

impl RefusedSockets {
    /// Takes the datapath's present counts in.
    pub fn update(&mut self, now: Refusals) {
        self.now = now;
    }

    pub fn total(&self) -> u64 {
        self.now.sockets
    }

    /// Those with most sockets first.
    pub fn rows(&self) -> Vec<RefusedRow> {
        let row = |it: &Refused| RefusedRow {
            uid: it.uid,
            cgroup_id: it.cgroup_id,
            reason: text(it.reason).to_owned(),
            sockets: it.sockets,
        };
        let mut rows: Vec<RefusedRow> = self.now.refused.iter().map(row).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.sockets), row.uid));
        rows
    }

    /// Says what is new, not too often.
    pub fn report(&mut self, now_us: u64, recorder: &mut dyn Recorder) {
        self.report_full(now_us, recorder);
        if !is_due(self.said_us, REPORT_INTERVAL_US, now_us) {
            return;
        }
        let mut sums: BTreeMap<(u32, Reason), u64> = BTreeMap::new();
        for it in &self.now.refused {
            *sums.entry((it.uid, it.reason)).or_default() += it.sockets;
        }
        // The kernel's map may have dropped an entry, and then its sum has become smaller.
        let said = &self.said;
        let new = sums.iter().filter(|(of, sum)| said.get(of).is_none_or(|it| it < *sum));
        let new: Vec<_> = new.map(|(of, sum)| (*of, *sum)).take(EVENTS_MAX).collect();
        if new.is_empty() {
            return;
        }
        self.said_us = Some(now_us);
        self.said.retain(|of, _| sums.contains_key(of));
        for ((uid, reason), sum) in new {
            let before = self.said.insert((uid, reason), sum).unwrap_or(0);
            let (sockets, reason) = (sum - before, text(reason).to_owned());
            recorder.record(None, &Event::SocketsRefused { uid, reason, sockets });
        }
    }

    fn report_full(&mut self, now_us: u64, recorder: &mut dyn Recorder) {
        let Refusals { table_full, flows_max, .. } = self.now;
        let sockets = table_full - self.full_said.min(table_full);
        if sockets == 0 || !is_due(self.full_said_us, FULL_INTERVAL_US, now_us) {
            return;
        }
        (self.full_said, self.full_said_us) = (table_full, Some(now_us));
        recorder.record(None, &Event::TableFull { flows_max, sockets });
        tracing::warn!(
            sockets,
            "the table of {flows_max} flows is full; further sockets run the kernel's own \
             algorithm\nfix: raise agent.flows_max"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Vec<Event>);

    impl Recorder for Heard {
        fn record(&mut self, _flow: Option<u32>, event: &Event) {
            self.0.push(event.clone());
        }
    }

    fn refused(uid: u32, cgroup_id: u64, sockets: u64) -> Refused {
        Refused { uid, cgroup_id, reason: Reason::UserQuota, sockets }
    }

    fn said(events: &[Event]) -> Vec<(u32, u64)> {
        let of = |event: &Event| match event {
            Event::SocketsRefused { uid, sockets, .. } => Some((*uid, *sockets)),
            _ => None,
        };
        events.iter().filter_map(of).collect()
    }

    #[test]
    fn who_was_refused_is_said_once_an_interval() {
        let (mut sockets, mut heard) = (RefusedSockets::default(), Heard::default());
        let mut hear = |refused: Vec<Refused>, now_us| {
            sockets.update(Refusals { refused, ..Refusals::default() });
            sockets.report(now_us, &mut heard);
            said(&std::mem::take(&mut heard.0))
        };
        assert_eq!(hear(vec![refused(7, 1, 2), refused(7, 2, 3)], 0), [(7, 5)]);
        let more = || vec![refused(7, 1, 900), refused(7, 2, 3), refused(8, 1, 1)];
        assert_eq!(hear(more(), 9_000_000), []);
        assert_eq!(hear(more(), 10_000_000), [(7, 898), (8, 1)]);
        assert_eq!(hear(more(), 30_000_000), []);
        assert_eq!(hear(vec![refused(7, 2, 3)], 40_000_000), [], "an entry was dropped");
        let many: Vec<Refused> = (1..=100).map(|uid| refused(uid, 1, 9_999)).collect();
        assert_eq!(hear(many.clone(), 50_000_000).len(), EVENTS_MAX);
        assert_eq!(hear(many, 60_000_000).len(), EVENTS_MAX, "and those that are left");
    }

    #[test]
    fn a_full_table_is_said_once_a_minute() {
        let (mut sockets, mut heard) = (RefusedSockets::default(), Heard::default());
        for (table_full, now_us) in [(0, 0), (1, 1), (500, 59_000_000), (501, 60_000_001)] {
            sockets.update(Refusals { table_full, flows_max: 9, ..Refusals::default() });
            sockets.report(now_us, &mut heard);
        }
        let full = |sockets| Event::TableFull { flows_max: 9, sockets };
        assert_eq!(heard.0, [full(1), full(500)]);
    }

    #[test]
    fn what_names_nobody_or_no_share_is_refused_by_key() {
        let with = |change: fn(&mut AdmissionConfig)| {
            let mut config = AdmissionConfig::default();
            change(&mut config);
            config.resolve()
        };
        assert_eq!(with(|_| {}), Ok(Admission::default()));
        let users = with(|config| config.users = vec!["65534".to_owned()]).expect("a uid");
        assert_eq!(users.users, Some([65_534].into()));
        for (refused, part) in [
            (with(|config| config.user_percent = 0), "admission.user_percent = 0: it must lie in"),
            (with(|config| config.cgroup_percent = 101), "admission.cgroup_percent = 101"),
            (with(|config| config.users = vec!["no one".to_owned()]), "admission.users: this host"),
            (with(|config| config.groups = vec!["none".to_owned()]), "admission.groups: this"),
        ] {
            let error = refused.expect_err("it is refused");
            assert!(error.contains(part), "{error}");
        }
    }
}
