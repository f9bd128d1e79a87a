//! Records the decisions about a flow's arm with their reasons, and the samples of its policy.

use ccp_agent::events::{Event, Recorder};
use remuda_algorithms::Sample;
use remuda_scenarios::outcome::{Became, DECISIONS_MAX, Decided, Switch};
use std::collections::BTreeMap;

/// The most stages kept of a flow, beside the last one.
const STAGES_MAX: usize = 2_000;

/// A stage that the flow's arm entered: [`Event::Stage`] with its moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Staged {
    pub t_s: f64,
    pub stage: &'static str,
    pub why: String,
    pub features: BTreeMap<&'static str, String>,
}

/// The decisions of one flow.
#[derive(Debug, Default)]
pub struct Decisions {
    /// The current simulated time, in nanoseconds.
    pub now_ns: u64,
    pub switches: Vec<Switch>,
    /// The first [`DECISIONS_MAX`] decisions.
    pub kept: Vec<Decided>,
    pub left_out: u64,
    pub samples: Vec<Sample>,
    /// The first [`STAGES_MAX`] stages of its arms, and the last one.
    pub stages: Vec<Staged>,
    /// [`Event::Closed`], once the flow has ended.
    pub closed: Option<Event>,
    arm: String,
    /// The guard has announced a roll-back, so the next switch is that roll-back.
    is_rolling_back: bool,
}

fn named(features: &BTreeMap<&'static str, String>) -> BTreeMap<String, String> {
    features.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

impl Decisions {
    fn t_s(&self) -> f64 {
        self.now_ns as f64 / 1e9
    }

    fn keep(&mut self, decided: impl FnOnce(f64) -> Decided) {
        if self.kept.len() < DECISIONS_MAX {
            self.kept.push(decided(self.t_s()));
        } else {
            self.left_out += 1;
        }
    }
}

impl Recorder for Decisions {
    fn record(&mut self, _flow: Option<u32>, event: &Event) {
        match event {
            Event::Created { arm, .. } => self.arm.clone_from(arm),
            Event::Closed { .. } => self.closed = Some(event.clone()),
            Event::RolledBack { .. } => self.is_rolling_back = true,
            Event::Switched { from, to, why, features } => {
                let (t_s, from, why) = (self.t_s(), from.clone(), why.clone());
                self.arm.clone_from(to);
                let is_roll_back = std::mem::take(&mut self.is_rolling_back);
                let became = if is_roll_back { Became::RolledBack } else { Became::Switched };
                self.keep(|t_s| Decided {
                    t_s,
                    became,
                    arm: from.clone(),
                    to: to.clone(),
                    why: why.clone(),
                    features: named(features),
                });
                self.switches.push(Switch { t_s, from, to: to.clone(), why });
            }
            Event::Stays { arm, why, features } => self.keep(|t_s| Decided {
                t_s,
                became: Became::Stayed,
                arm: arm.clone(),
                to: arm.clone(),
                why: why.clone(),
                features: named(features),
            }),
            Event::Stage { stage, why, features, .. } => {
                self.stages.truncate(STAGES_MAX);
                let (t_s, why, features) = (self.t_s(), why.clone(), features.clone());
                self.stages.push(Staged { t_s, stage, why, features });
            }
            Event::Vetoed { to, reason } => {
                let arm = self.arm.clone();
                self.keep(|t_s| Decided {
                    t_s,
                    became: Became::Vetoed,
                    arm,
                    to: to.clone(),
                    why: reason.clone(),
                    features: BTreeMap::new(),
                });
            }
            _ => {}
        }
    }

    fn sample(&mut self, _flow: u32, sample: Sample) {
        self.samples.push(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        text.to_owned()
    }

    fn switched(from: &str, to: &str) -> Event {
        let features = BTreeMap::from([("bbr", text("0.5"))]);
        Event::Switched { from: text(from), to: text(to), why: text("why"), features }
    }

    #[test]
    fn each_decision_is_kept_with_what_became_of_it() {
        let mut of = Decisions::default();
        let features = BTreeMap::from([("class", text("wifi"))]);
        let events = [
            Event::Stays { arm: text("cubic"), why: text("it is good"), features },
            switched("cubic", "bbr"),
            Event::RolledBack { from: text("bbr"), to: text("cubic"), why: text("power fell") },
            switched("bbr", "cubic"),
            Event::Vetoed { to: text("bbr"), reason: text("it was undone") },
            Event::Adopted { flows: 1 },
        ];
        for event in &events {
            of.now_ns += 1_000_000_000;
            of.record(Some(1), event);
        }
        let kept: Vec<_> = of
            .kept
            .iter()
            .map(|it| (it.t_s, it.became.name(), it.arm.as_str(), it.to.as_str()))
            .collect();
        let want = [
            (1.0, "stayed", "cubic", "cubic"),
            (2.0, "switched", "cubic", "bbr"),
            (4.0, "rolled_back", "bbr", "cubic"),
            (5.0, "vetoed", "cubic", "bbr"),
        ];
        assert_eq!(kept, want);
        assert_eq!(of.kept[0].features["class"], "wifi");
        assert_eq!(of.kept[1].features["bbr"], "0.5");
        assert_eq!(of.kept[3].why, "it was undone");
        assert_eq!(of.switches.len(), 2, "a roll-back changes the arm too");
    }

    #[test]
    fn beyond_the_bound_they_are_counted() {
        let mut of = Decisions::default();
        let veto = Event::Vetoed { to: text("bbr"), reason: text("no") };
        (0..DECISIONS_MAX + 7).for_each(|_| of.record(Some(1), &veto));
        assert_eq!((of.kept.len(), of.left_out), (DECISIONS_MAX, 7));
    }
}
