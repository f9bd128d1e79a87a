//! A budget for each user in the event log. Any user can start and end flows as fast as the kernel
//! lets it, and must not push the events of others out of the log. What is beyond a user's budget
//! is counted, and one event says how many of which kind were left out.

use crate::clock;
use crate::events::{Event, Recorder};
use crate::user_budget::UserBudget;
use remuda_algorithms::Sample;
use std::collections::{BTreeMap, HashMap};

/// How often the log says what was left out, in microseconds.
const REPORT_INTERVAL_US: u64 = 10_000_000;
/// Users whose events are counted apart; those of further ones are counted together.
const USERS_MAX: usize = 32;
/// Stands for users that are counted together. The kernel gives no user this uid.
const OTHER_USERS: u32 = u32::MAX;

/// Records events in `log`, within the budget of the user whose flow each is about. Events of the
/// agent itself and of root's flows are always recorded.
pub struct BudgetedLog<R> {
    log: R,
    budget: UserBudget,
    /// The users of the flows, except root.
    users: HashMap<u32, u32>,
    left_out: BTreeMap<u32, BTreeMap<String, u64>>,
    reported_us: u64,
    now_us: fn() -> u64,
}

/// The name of an event in the log.
fn name_of(event: &Event) -> String {
    let value = serde_json::to_value(event).unwrap_or_default();
    value["event"].as_str().unwrap_or_default().to_owned()
}

impl<R: Recorder> BudgetedLog<R> {
    /// Each user may record `per_sec` events a second in the long run, and `most` at once.
    pub fn new(log: R, per_sec: u32, most: u32) -> Self {
        Self {
            log,
            budget: UserBudget::new(per_sec.into(), most.into()),
            users: HashMap::new(),
            left_out: BTreeMap::new(),
            reported_us: 0,
            now_us: clock::monotonic_us,
        }
    }

    fn leave_out(&mut self, uid: u32, event: &Event) {
        let is_counted = self.left_out.contains_key(&uid) || self.left_out.len() < USERS_MAX;
        let uid = if is_counted { uid } else { OTHER_USERS };
        *self.left_out.entry(uid).or_default().entry(name_of(event)).or_default() += 1;
    }

    fn report_left_out(&mut self) {
        for (uid, events) in std::mem::take(&mut self.left_out) {
            let uid = (uid != OTHER_USERS).then_some(uid);
            self.log.record(None, &Event::EventsLeftOut { uid, events });
        }
    }
}

impl<R: Recorder> Recorder for BudgetedLog<R> {
    fn record(&mut self, flow: Option<u32>, event: &Event) {
        match flow.and_then(|flow| self.users.get(&flow).copied()) {
            Some(uid) if !self.budget.take(uid, (self.now_us)()) => self.leave_out(uid, event),
            _ => self.log.record(flow, event),
        }
    }

    fn sample(&mut self, flow: u32, sample: Sample) {
        self.log.sample(flow, sample);
    }

    fn begin(&mut self, flow: u32, uid: u32) {
        if uid != 0 {
            self.users.insert(flow, uid);
        }
    }

    fn end(&mut self, flow: u32) {
        self.users.remove(&flow);
    }

    fn keep_house(&mut self) {
        let now_us = (self.now_us)();
        if now_us.saturating_sub(self.reported_us) >= REPORT_INTERVAL_US {
            self.reported_us = now_us;
            self.report_left_out();
        }
        self.log.keep_house();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[derive(Default)]
    struct Lines(Vec<(Option<u32>, Event)>);

    impl Recorder for Lines {
        fn record(&mut self, flow: Option<u32>, event: &Event) {
            self.0.push((flow, event.clone()));
        }
    }

    thread_local! {
        static NOW_US: Cell<u64> = const { Cell::new(0) };
    }

    fn log() -> BudgetedLog<Lines> {
        NOW_US.set(20_000_000);
        let now_us = || NOW_US.get();
        BudgetedLog { now_us, ..BudgetedLog::new(Lines::default(), 1, 10) }
    }

    fn fell_back() -> Event {
        Event::FellBack { cwnd_bytes: 1, at_monotonic_us: 2 }
    }

    #[test]
    fn a_users_flood_leaves_room_for_others_and_is_counted() {
        let mut log = log();
        log.begin(1, 1_000);
        log.begin(2, 1_001);
        log.begin(3, 0);
        for _ in 0..50 {
            log.record(Some(1), &fell_back());
            log.record(Some(1), &Event::Adopted { flows: 1 });
        }
        for _ in 0..5 {
            log.record(Some(2), &fell_back());
        }
        for _ in 0..50 {
            log.record(Some(3), &fell_back());
            log.record(None, &Event::Adopted { flows: 1 });
        }
        let of =
            |log: &BudgetedLog<Lines>, flow| log.log.0.iter().filter(|(of, _)| *of == flow).count();
        assert_eq!((of(&log, Some(1)), of(&log, Some(2))), (10, 5));
        assert_eq!((of(&log, Some(3)), of(&log, None)), (50, 50));
        log.keep_house();
        let events = BTreeMap::from([("adopted".to_owned(), 45), ("fell_back".to_owned(), 45)]);
        let want = Event::EventsLeftOut { uid: Some(1_000), events };
        assert_eq!(log.log.0.last(), Some(&(None, want)));
        let lines = log.log.0.len();
        NOW_US.set(25_000_000);
        log.record(Some(1), &fell_back());
        log.keep_house();
        assert_eq!(log.log.0.len(), lines + 1, "the budget is back, and nothing was left out");
    }

    #[test]
    fn many_users_make_a_bounded_number_of_lines() {
        let mut log = log();
        for uid in 1..=1_000 {
            log.begin(uid, uid);
            for _ in 0..20 {
                log.record(Some(uid), &fell_back());
            }
            log.end(uid);
        }
        let before = log.log.0.len();
        log.keep_house();
        let reports = &log.log.0[before..];
        assert_eq!(reports.len(), USERS_MAX + 1);
        let counts = reports.iter().map(|(_, event)| match event {
            Event::EventsLeftOut { events, .. } => events.values().sum::<u64>(),
            other => panic!("{other:?}"),
        });
        assert_eq!(counts.sum::<u64>(), 1_000 * 10);
        assert!(log.users.is_empty());
    }
}
