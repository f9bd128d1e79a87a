//! The host's end of the queue of records: whose records are taken, and how many.

use crate::clock;
use crate::user_budget::UserBudget;
use remuda_selector::antelope::memory::{LeftOut, Network, WhyNot, is_destination};
use remuda_selector::tcp_rl::config::IwConfig;
use remuda_selector::tcp_rl::record::Record;
use std::collections::HashMap;
use std::sync::mpsc::{SyncSender, TrySendError};

/// Networks of peers that are counted apart in a minute; further ones are not recorded.
const PEERS_MAX: usize = 65_536;
const MINUTE_US: u64 = 60_000_000;

/// Counts the records of each peer in a minute. A peer is a /24 of IPv4 or a /56 of IPv6, because
/// one peer can have all addresses of it.
#[derive(Debug, Default)]
struct PeerBudget {
    per_min_max: u32,
    minute: u64,
    taken: HashMap<Network, u32>,
}

impl PeerBudget {
    fn take(&mut self, of: Network, now_us: u64) -> bool {
        let minute = now_us / MINUTE_US;
        if std::mem::replace(&mut self.minute, minute) != minute {
            self.taken.clear();
        }
        if self.taken.len() >= PEERS_MAX && !self.taken.contains_key(&of) {
            return false;
        }
        let taken = self.taken.entry(of).or_default();
        *taken += 1;
        *taken <= self.per_min_max
    }
}

/// The host's end of the queue to the thread that learns.
#[derive(Debug)]
pub struct Collector {
    pub(super) to: Option<SyncSender<Record>>,
    response_bytes_max: u64,
    users: UserBudget,
    peers: PeerBudget,
    /// Records that found the queue full.
    dropped: u64,
    /// Records that cannot be true.
    impossible: u64,
    not_learned: LeftOut,
}

impl Collector {
    pub fn new(config: &IwConfig) -> Self {
        let per_min = f64::from(config.user_records_per_min_max);
        let per_min_max = config.peer_records_per_min_max;
        Self {
            to: None,
            response_bytes_max: config.response_bytes_max,
            users: UserBudget::new(per_min / 60.0, per_min),
            peers: PeerBudget { per_min_max, ..PeerBudget::default() },
            dropped: 0,
            impossible: 0,
            not_learned: LeftOut::default(),
        }
    }

    /// Records that were not taken because the learner fell behind, and because they cannot be
    /// true.
    pub fn dropped(&self) -> (u64, u64) {
        (self.dropped, self.impossible)
    }

    /// Records that were not taken because of the user or the peer whose they were.
    pub fn not_learned(&self) -> &LeftOut {
        &self.not_learned
    }

    /// Queues a record of a short response, unless the user or the peer has given enough of them.
    pub fn put(&mut self, record: Record, is_believed: bool) {
        let Some(to) = &self.to else { return };
        let is_short = (1..=self.response_bytes_max).contains(&record.size_bytes);
        if !is_short || !is_destination(record.peer) {
            return;
        }
        if record.check(clock::wall().as_secs()).is_err() {
            self.impossible += 1;
            return;
        }
        let now_us = clock::monotonic_us();
        let why = if !is_believed {
            WhyNot::Untrusted
        } else if !self.users.take(record.uid, now_us)
            || !self.peers.take(Network::around(record.peer), now_us)
        {
            WhyNot::TooFast
        } else {
            match to.try_send(record) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => self.dropped += 1,
                Err(TrySendError::Disconnected(_)) => self.to = None,
            }
            return;
        };
        self.not_learned.count(record.uid, why);
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::tests::record;
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn peers_and_users_give_so_many_records_and_strangers_none() {
        let config = IwConfig {
            peer_records_per_min_max: 5,
            user_records_per_min_max: 20,
            ..IwConfig::default()
        };
        let mut collector = Collector::new(&config);
        let (to, from) = mpsc::sync_channel(1_000);
        collector.to = Some(to);
        for host in 0..100 {
            // One network, then a network each.
            collector.put(record(&format!("192.0.2.{host}"), 10), true);
            collector.put(record(&format!("198.51.{host}.1"), 10), true);
            let of_user = Record { uid: 7, ..record(&format!("203.0.{host}.1"), 10) };
            collector.put(of_user.clone(), true);
            collector.put(Record { uid: 8, ..of_user }, false);
        }
        collector.put(Record { response_us: 0, ..record("192.0.2.1", 10) }, true);
        collector.put(record("127.0.0.1", 10), true);
        collector.put(Record { size_bytes: 2_000_000, ..record("192.0.3.1", 10) }, true);
        assert_eq!(collector.dropped(), (0, 1));
        collector.to = None;
        let taken: Vec<Record> = from.iter().collect();
        let of =
            |start: &str| taken.iter().filter(|it| it.peer.to_string().starts_with(start)).count();
        assert_eq!((of("192.0.2."), of("198.51."), of("203.0.")), (5, 100, 20));
        assert_eq!(taken.len(), 125);
        let rows = collector.not_learned().rows();
        assert!(
            rows.iter().any(|row| (row.uid, row.why, row.count) == (8, WhyNot::Untrusted, 100))
        );
    }
}
