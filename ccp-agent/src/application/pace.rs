//! Rate limits for applications: requests a second and simultaneous clients, for each user and for
//! all users together.

use crate::bucket::Bucket;
use std::collections::HashMap;

/// Requests a second from one user. Each request costs some 50 us of processor time.
const OF_USER_PER_SEC: u64 = 500;
/// Requests a second from all users.
const PER_SEC: u64 = 2_000;
/// Simultaneous clients of one user. A silent client keeps its place for a second.
const CLIENTS_OF_USER_MAX: usize = 8;
/// Simultaneous clients of all users.
const CLIENTS_MAX: usize = 64;
/// Users whose rate is tracked at once; a further user is refused.
const USERS_MAX: usize = 1_024;

/// One second without requests fills it.
fn bucket(per_sec: u64, now_ns: u64) -> Bucket {
    Bucket::full(per_sec as f64, per_sec as f64, now_ns)
}

#[derive(Clone, Copy, Debug)]
struct User {
    bucket: Bucket,
    clients: usize,
}

#[derive(Debug)]
pub struct Pace {
    all: Bucket,
    clients: usize,
    users: HashMap<u32, User>,
}

impl Pace {
    pub fn new(now_ns: u64) -> Self {
        Self { all: bucket(PER_SEC, now_ns), clients: 0, users: HashMap::new() }
    }

    /// Whether a client of this user may connect. If so, call [`Self::leave`] when it has gone.
    pub fn enter(&mut self, uid: u32, now_ns: u64) -> bool {
        self.all.fill(now_ns);
        if !self.users.contains_key(&uid) && self.users.len() >= USERS_MAX {
            self.users.retain(|_, user| {
                user.bucket.fill(now_ns);
                user.clients > 0 || !user.bucket.is_full()
            });
            if self.users.len() >= USERS_MAX {
                return false;
            }
        }
        let new = User { bucket: bucket(OF_USER_PER_SEC, now_ns), clients: 0 };
        let user = self.users.entry(uid).or_insert(new);
        user.bucket.fill(now_ns);
        let has_room = self.clients < CLIENTS_MAX && user.clients < CLIENTS_OF_USER_MAX;
        if !has_room || !self.all.has_one() || !user.bucket.has_one() {
            return false;
        }
        self.all.take_one();
        user.bucket.take_one();
        self.clients += 1;
        user.clients += 1;
        true
    }

    pub fn leave(&mut self, uid: u32) {
        self.clients = self.clients.saturating_sub(1);
        if let Some(user) = self.users.get_mut(&uid) {
            user.clients = user.clients.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS_PER_SEC: u64 = 1_000_000_000;

    /// The number of requests let in, out of `requests` with `step_ns` between two.
    fn served(pace: &mut Pace, uid: u32, requests: u64, from_ns: u64, step_ns: u64) -> u64 {
        let mut served = 0;
        for n in 0..requests {
            if pace.enter(uid, from_ns + n * step_ns) {
                served += 1;
                pace.leave(uid);
            }
        }
        served
    }

    #[test]
    fn a_user_has_a_second_s_worth_at_once_and_then_its_rate() {
        let mut pace = Pace::new(0);
        assert_eq!(served(&mut pace, 1, 5_000, 0, 0), OF_USER_PER_SEC);
        let in_ten_seconds = served(&mut pace, 1, 100_000, NS_PER_SEC, 100_000);
        assert!((11 * OF_USER_PER_SEC - 1..=11 * OF_USER_PER_SEC).contains(&in_ten_seconds));
        assert_eq!(served(&mut pace, 2, 10, 11 * NS_PER_SEC, 0), 10, "another has its own");
    }

    #[test]
    fn all_users_together_have_a_rate() {
        let mut pace = Pace::new(0);
        let served: u64 = (0..10).map(|uid| served(&mut pace, uid, 1_000, 0, 0)).sum();
        assert_eq!(served, PER_SEC);
    }

    #[test]
    fn clients_that_stay_keep_out_their_own_user() {
        let mut pace = Pace::new(0);
        let entered = (0..100).filter(|_| pace.enter(1, 0)).count();
        assert_eq!(entered, CLIENTS_OF_USER_MAX);
        assert!(pace.enter(2, 0));
        pace.leave(1);
        assert!(pace.enter(1, 0) && !pace.enter(1, 0));
        let all = (10..100).filter(|uid| pace.enter(*uid, 0)).count();
        assert_eq!(all, CLIENTS_MAX - CLIENTS_OF_USER_MAX - 1);
    }

    #[test]
    fn users_are_forgotten_when_they_owe_nothing() {
        let mut pace = Pace::new(0);
        for uid in 0..10_000 {
            if pace.enter(uid, u64::from(uid) * NS_PER_SEC) {
                pace.leave(uid);
            }
            assert!(pace.users.len() <= USERS_MAX);
        }
        assert!(pace.enter(5, 10_001 * NS_PER_SEC));
    }
}
