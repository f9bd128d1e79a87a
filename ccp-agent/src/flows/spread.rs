//! How often each flow may report, so that all together stay below `reports_per_sec_max`.
//!
//! Only busy flows count: flows that have reported in the last two seconds. If the limit has room
//! for all of them, each flow reports as often as its arm asks for. Otherwise each flow first gets
//! one report a round trip, and the flows share what remains in proportion to how many more
//! reports their arms ask for. If the limit has no room even for one report a round trip each, the
//! same factor slows all flows down.

use crate::config::Config;
use crate::flow::{Flow, ReportNeed};
use std::collections::HashMap;

/// A flow that has not reported for so long is idle, in microseconds.
const IDLE_US: u64 = 2_000_000;
/// Idle flows are taken out this often, in microseconds.
const LOOK_US: u64 = 250_000;
/// Intervals change in steps of this factor, lest every new flow changes that of every other one.
const STEP: f64 = 1.1;
/// Of the limit, so much is given out: flows that have begun to report count from their first
/// report only, and intervals end at an ACK.
const GIVEN_OUT: f64 = 0.95;

#[derive(Clone, Copy, Debug)]
struct Busy {
    need: ReportNeed,
    reported_us: u64,
}

/// The busy flows, and what they need together.
#[derive(Debug, Default)]
pub struct Spread {
    busy: HashMap<u32, Busy>,
    all: ReportNeed,
    looked_us: u64,
}

impl Spread {
    /// The least time between two reports of `flow`, which reports at `now_us`; in microseconds.
    pub fn interval_us(&mut self, flow: &Flow, config: &Config, now_us: u64) -> u32 {
        let interval_us_min = config.agent.report_interval_ms_min * 1_000;
        let need = flow.report_need(interval_us_min);
        self.note(flow.id(), need, now_us);
        let budget = config.agent.reports_per_sec_max as f64 * GIVEN_OUT;
        let interval_us = match self.share(need, budget) {
            Some(per_sec) => stepped(1e6 / per_sec, interval_us_min as f64),
            None => interval_us_min as f64,
        };
        interval_us.clamp(interval_us_min as f64, u32::MAX.into()) as u32
    }

    fn note(&mut self, id: u32, need: ReportNeed, reported_us: u64) {
        let before = self.busy.insert(id, Busy { need, reported_us });
        let before = before.map_or(ReportNeed::default(), |busy| busy.need);
        self.all.wanted += need.wanted - before.wanted;
        self.all.least += need.least - before.least;
        if reported_us.saturating_sub(self.looked_us) >= LOOK_US {
            self.looked_us = reported_us;
            self.busy.retain(|_, busy| reported_us.saturating_sub(busy.reported_us) < IDLE_US);
            // Summed up anew, so that rounding does not pile up.
            self.all = self.busy.values().fold(ReportNeed::default(), |all, busy| ReportNeed {
                wanted: all.wanted + busy.need.wanted,
                least: all.least + busy.need.least,
            });
        }
    }

    /// Reports a second for a flow of that need; `None` if there is room for what all want.
    fn share(&self, need: ReportNeed, budget: f64) -> Option<f64> {
        let all = self.all;
        if all.wanted <= budget {
            return None;
        }
        if all.least >= budget {
            return Some(need.least * budget / all.least);
        }
        let part = (budget - all.least) / (all.wanted - all.least);
        Some(need.least + (need.wanted - need.least) * part)
    }

    /// That flow has ended.
    pub fn ended(&mut self, id: u32) {
        if let Some(busy) = self.busy.remove(&id) {
            self.all.wanted -= busy.need.wanted;
            self.all.least -= busy.need.least;
        }
    }
}

/// The next step at or above `interval_us`.
fn stepped(interval_us: f64, least_us: f64) -> f64 {
    let steps = (interval_us / least_us).max(1.0).ln() / STEP.ln();
    least_us * STEP.powi(steps.ceil() as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: f64 = 20_000.0;

    /// Reports a second of all flows, of which `count` have each `need`.
    fn given(kinds: &[(u32, ReportNeed)]) -> f64 {
        let mut spread = Spread::default();
        let flows = kinds.iter().flat_map(|(count, need)| (0..*count).map(|_| *need));
        for (id, need) in (0..).zip(flows.clone()) {
            spread.note(id, need, 0);
        }
        flows
            .map(|need| match spread.share(need, MAX * GIVEN_OUT) {
                Some(per_sec) => 1e6 / stepped(1e6 / per_sec, 2_000.0),
                None => need.wanted,
            })
            .sum()
    }

    const SHORT: ReportNeed = ReportNeed { wanted: 500.0, least: 500.0 };
    const LONG: ReportNeed = ReportNeed { wanted: 40.0, least: 10.0 };

    #[test]
    fn all_together_stay_below_the_limit_and_use_most_of_it() {
        assert_eq!(given(&[(40, ReportNeed { wanted: 400.0, least: 40.0 })]), 16_000.0);
        for kinds in [&[(199, SHORT)][..], &[(100, SHORT), (900, LONG)], &[(5_000, LONG)]] {
            let sum = given(kinds);
            assert!((MAX * 0.8..=MAX).contains(&sum), "{kinds:?}: {sum}");
        }
    }

    #[test]
    fn what_is_least_comes_first() {
        let mut spread = Spread::default();
        for id in 0..1_000 {
            spread.note(id, LONG, 0);
        }
        spread.note(1_000, ReportNeed { wanted: 400.0, least: 100.0 }, 0);
        let share = spread.share(LONG, MAX * GIVEN_OUT).expect("there is too little");
        assert!((10.0..40.0).contains(&share), "{share}");
    }

    #[test]
    fn idle_flows_cost_nothing() {
        let mut spread = Spread::default();
        for id in 0..10_000 {
            spread.note(id, SHORT, 0);
        }
        spread.note(0, SHORT, IDLE_US + LOOK_US);
        assert_eq!(spread.busy.len(), 1);
        assert_eq!(spread.share(SHORT, MAX), None);
        spread.ended(0);
        assert!(spread.busy.is_empty() && spread.all.wanted.abs() < 1e-6);
    }
}
