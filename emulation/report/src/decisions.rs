//! The decisions about a flow's arm, as the page shows them.

use ccp_agent::catalogue::{self, Kind};
use remuda_scenarios::outcome::{Became, Decided};
use serde::Serialize;

/// The most decisions of one flow on the page. More would make the page slow to open.
const DECISIONS_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    pub t_s: f64,
    pub became: Became,
    pub arm: String,
    /// The arm that the policy chose.
    pub to: String,
    pub why: String,
    /// The expected score of each arm, by name.
    pub scores: Vec<(String, String)>,
    /// The other features of the decision, by name.
    pub features: Vec<(String, String)>,
}

impl Decision {
    fn of(it: &Decided) -> Self {
        let all = it.features.iter().map(|(name, value)| (name.clone(), value.clone()));
        let is_arm = |(name, _): &(String, String)| matches!(catalogue::kind(name), Ok(Kind::Arm));
        let (scores, features) = all.partition(is_arm);
        let (arm, to, why) = (it.arm.clone(), it.to.clone(), it.why.clone());
        Self {
            t_s: (it.t_s * 1e3).round() / 1e3,
            became: it.became,
            arm,
            to,
            why,
            scores,
            features,
        }
    }

    /// The decision in one line, without scores and features.
    pub fn told(&self) -> String {
        let Self { t_s, arm, to, why, .. } = self;
        match self.became {
            Became::Switched => format!("{t_s:.1} s: {arm} to {to}: {why}"),
            Became::RolledBack => format!("{t_s:.1} s: {arm} back to {to}: {why}"),
            Became::Vetoed => format!("{t_s:.1} s: {arm} stays, no {to}: {why}"),
            Became::Stayed => format!("{t_s:.1} s: {arm} stays: {why}"),
        }
    }

    /// Scores, then features, in one line.
    pub fn derived(&self) -> String {
        let all = self.scores.iter().chain(&self.features);
        all.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
    }
}

/// The decisions that the page shows, in order of time, and the number of decisions left out.
/// Switches, roll-backs and vetoes are shown before decisions to stay: of these, only every n-th is
/// shown if all do not fit.
pub fn shown(all: &[Decided]) -> (Vec<Decision>, usize) {
    let stays = |it: &Decided| it.became == Became::Stayed;
    let others = all.iter().filter(|it| !stays(it)).count();
    let room = DECISIONS_MAX.saturating_sub(others);
    let every = (all.len() - others).div_ceil(room.max(1)).max(1);
    let mut stayed = 0;
    let is_shown = |it: &&Decided| {
        stayed += usize::from(stays(it));
        !stays(it) || (room > 0 && stayed % every == 0)
    };
    let kept = all.iter().filter(is_shown).take(DECISIONS_MAX);
    let shown: Vec<Decision> = kept.map(Decision::of).collect();
    let left_out = all.len() - shown.len();
    (shown, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(became: Became) -> Decided {
        let (arm, to, why) = ("cubic".to_owned(), "bbr".to_owned(), "it is deep".to_owned());
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let features = [of("rtt_min_ms", "40"), of("bbr", "0.5 +- 0.1")].into();
        Decided { t_s: 1.234_56, became, arm, to, why, features }
    }

    #[test]
    fn what_is_expected_of_arms_is_told_apart() {
        let it = Decision::of(&decided(Became::Switched));
        assert_eq!(it.scores, [("bbr".to_owned(), "0.5 +- 0.1".to_owned())]);
        assert_eq!(it.told(), "1.2 s: cubic to bbr: it is deep");
        assert_eq!(it.derived(), "bbr=0.5 +- 0.1, rtt_min_ms=40");
        let veto = Decision::of(&decided(Became::Vetoed));
        assert_eq!(veto.told(), "1.2 s: cubic stays, no bbr: it is deep");
    }

    #[test]
    fn of_many_the_changes_are_shown_and_what_is_not_is_counted() {
        let mut all = vec![decided(Became::Stayed); 1_000];
        all.insert(900, decided(Became::Switched));
        let (shown, left_out) = shown(&all);
        assert!(shown.len() <= DECISIONS_MAX && shown.len() > 100, "{}", shown.len());
        assert_eq!(shown.len() + left_out, 1_001);
        assert_eq!(shown.iter().filter(|it| it.became == Became::Switched).count(), 1);
        let few = [decided(Became::Stayed), decided(Became::Vetoed)];
        let (shown, left_out) = super::shown(&few);
        assert_eq!((shown.len(), left_out), (2, 0));
    }
}
