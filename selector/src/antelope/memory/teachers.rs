//! How much each user teaches: a bound on the entries that its flows add and on their rate, and the
//! count of what was left out.
//!
//! Any user of a host can make flows to many destinations, so one user alone must not fill the
//! memory, nor decide by many short flows what the next user's flows begin with. Root has no bound.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The most users without entries whose notes are counted at a time.
const USERS_MAX: usize = 4_096;
/// Users and reasons that are counted apart.
const ROWS_MAX: usize = 256;
/// Stands for every user beyond [`ROWS_MAX`]. The kernel gives no user this uid.
pub const OTHER_USERS: u32 = u32::MAX;
/// Seconds in a minute.
const MINUTE_S: f64 = 60.0;

/// Why something was not learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyNot {
    /// A user other than root has made the flow's network namespace, and the configuration does not
    /// trust that user.
    Untrusted,
    /// The user's flows have added as many destinations as one user may.
    TooMany,
    /// The user's flows teach faster than one user may.
    TooFast,
}

/// What was not learned of one user's flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutRow {
    /// [`OTHER_USERS`] stands for users that are not counted apart.
    pub uid: u32,
    pub why: WhyNot,
    pub count: u64,
}

/// Counts what was not learned, by user and reason.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    counts: BTreeMap<(u32, WhyNot), u64>,
}

impl LeftOut {
    pub fn count(&mut self, uid: u32, why: WhyNot) {
        let is_counted = self.counts.contains_key(&(uid, why)) || self.counts.len() < ROWS_MAX;
        let uid = if is_counted { uid } else { OTHER_USERS };
        *self.counts.entry((uid, why)).or_default() += 1;
    }

    pub fn rows(&self) -> Vec<LeftOutRow> {
        let row = |(&(uid, why), &count): (&(u32, WhyNot), &u64)| LeftOutRow { uid, why, count };
        self.counts.iter().map(row).collect()
    }
}

#[derive(Clone, Debug)]
struct Teacher {
    entries: usize,
    /// Notes that the user may still make, at `at_s`.
    notes: f64,
    at_s: u64,
}

/// The users whose flows teach.
#[derive(Clone, Debug)]
pub(super) struct Teachers {
    entries_max: usize,
    notes_per_min_max: f64,
    of: HashMap<u32, Teacher>,
    pub left_out: LeftOut,
}

impl Teachers {
    pub fn new(entries_max: usize, notes_per_min_max: u32) -> Self {
        let notes_per_min_max = notes_per_min_max.into();
        Self { entries_max, notes_per_min_max, of: HashMap::new(), left_out: LeftOut::default() }
    }

    fn teacher(&mut self, uid: u32, now_s: u64) -> &mut Teacher {
        let most = self.notes_per_min_max;
        if self.of.len() >= USERS_MAX && !self.of.contains_key(&uid) {
            self.of.retain(|_, it| it.entries > 0 || now_s.saturating_sub(it.at_s) < 60);
        }
        let teacher =
            self.of.entry(uid).or_insert(Teacher { entries: 0, notes: most, at_s: now_s });
        let passed_s = now_s.saturating_sub(teacher.at_s) as f64;
        teacher.notes = (teacher.notes + passed_s * most / MINUTE_S).min(most);
        teacher.at_s = now_s;
        teacher
    }

    /// Whether a flow of that user may add `new` entries by one note, and counts it if not.
    pub fn may_note(&mut self, uid: u32, new: usize, now_s: u64) -> bool {
        if uid == 0 {
            return true;
        }
        let entries_max = self.entries_max;
        let teacher = self.teacher(uid, now_s);
        let why = if new > 0 && teacher.entries + new > entries_max {
            WhyNot::TooMany
        } else if teacher.notes < 1.0 {
            WhyNot::TooFast
        } else {
            teacher.notes -= 1.0;
            return true;
        };
        self.left_out.count(uid, why);
        false
    }

    /// An entry of that user is added.
    pub fn added(&mut self, uid: u32, now_s: u64) {
        if uid != 0 {
            self.teacher(uid, now_s).entries += 1;
        }
    }

    /// An entry of that user is no longer there.
    pub fn removed(&mut self, uid: u32) {
        if let Some(teacher) = self.of.get_mut(&uid) {
            teacher.entries = teacher.entries.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_notes_so_many_a_minute_and_root_any_number() {
        let mut teachers = Teachers::new(100, 60);
        assert!((0..1_000).all(|_| teachers.may_note(0, 1, 5)));
        let taken = |teachers: &mut Teachers, now_s| {
            (0..100).filter(|_| teachers.may_note(7, 0, now_s)).count()
        };
        assert_eq!(taken(&mut teachers, 5), 60);
        assert_eq!(taken(&mut teachers, 15), 10);
        assert_eq!(taken(&mut teachers, 1_000), 60, "no more than a minute's");
        let row = LeftOutRow { uid: 7, why: WhyNot::TooFast, count: 40 + 90 + 40 };
        assert_eq!(teachers.left_out.rows(), [row]);
    }

    #[test]
    fn a_user_has_so_many_entries() {
        let mut teachers = Teachers::new(3, 60);
        for _ in 0..2 {
            assert!(teachers.may_note(7, 1, 0));
            teachers.added(7, 0);
        }
        assert!(!teachers.may_note(7, 2, 0) && teachers.may_note(7, 0, 0));
        teachers.removed(7);
        assert!(teachers.may_note(7, 2, 0));
    }

    #[test]
    fn users_beyond_the_bound_are_counted_together() {
        let mut left_out = LeftOut::default();
        for uid in 1..=10_000 {
            left_out.count(uid, WhyNot::Untrusted);
        }
        let rows = left_out.rows();
        assert_eq!(rows.len(), ROWS_MAX + 1);
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 10_000);
        assert_eq!(rows.last().map(|row| row.uid), Some(OTHER_USERS));
        let mut teachers = Teachers::new(3, 60);
        (1..=10_000).for_each(|uid| assert!(teachers.may_note(uid, 1, u64::from(uid))));
        assert!(teachers.of.len() <= USERS_MAX + 1);
    }
}
