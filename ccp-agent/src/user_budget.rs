//! What one user may use up in a time: a token bucket for each user.

use crate::bucket::Bucket;
use std::collections::HashMap;

/// Users that have a bucket of their own at a time; further ones share one.
const USERS_MAX: usize = 1_024;
/// Stands for the users that share one bucket. The kernel gives no user this uid.
const OTHER_USERS: u32 = u32::MAX;

/// A budget for each user except root, who has none.
#[derive(Debug)]
pub struct UserBudget {
    per_sec: f64,
    most: f64,
    users: HashMap<u32, Bucket>,
}

impl UserBudget {
    /// So many a second in the long run, and `most` at once.
    pub fn new(per_sec: f64, most: f64) -> Self {
        Self { per_sec, most, users: HashMap::new() }
    }

    /// Takes one from the user's budget. Returns false if nothing is left. The time is of a clock
    /// that does not step.
    pub fn take(&mut self, uid: u32, now_us: u64) -> bool {
        if uid == 0 {
            return true;
        }
        let now_ns = now_us.saturating_mul(1_000);
        let mut uid = uid;
        if !self.users.contains_key(&uid) && self.users.len() >= USERS_MAX {
            self.users.retain(|_, bucket| {
                bucket.fill(now_ns);
                !bucket.is_full()
            });
            if self.users.len() >= USERS_MAX {
                uid = OTHER_USERS;
            }
        }
        let new = Bucket::full(self.per_sec, self.most, now_ns);
        let bucket = self.users.entry(uid).or_insert(new);
        bucket.fill(now_ns);
        let has_one = bucket.has_one();
        if has_one {
            bucket.take_one();
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(budget: &mut UserBudget, uid: u32, now_us: u64) -> usize {
        (0..100).filter(|_| budget.take(uid, now_us)).count()
    }

    #[test]
    fn each_user_has_a_budget_and_root_has_no_end() {
        let mut budget = UserBudget::new(2.0, 10.0);
        assert_eq!(taken(&mut budget, 7, 0), 10);
        assert_eq!(taken(&mut budget, 8, 0), 10, "another user");
        assert_eq!(taken(&mut budget, 0, 0), 100);
        assert_eq!(taken(&mut budget, 7, 2_000_000), 4);
        assert_eq!(taken(&mut budget, 7, 1_000_000_000), 10, "no more than at once");
    }

    #[test]
    fn many_users_take_a_bounded_memory_and_share_what_is_left() {
        let mut budget = UserBudget::new(0.001, 10.0);
        let all: usize = (1..=3_000).filter(|uid| budget.take(*uid, 0)).count();
        assert_eq!(all, USERS_MAX + 10);
        assert!(budget.users.len() <= USERS_MAX + 1);
        assert!(budget.take(5_000, 100_000_000_000), "those that rest make room");
    }
}
