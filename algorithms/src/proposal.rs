//! What a policy decides, and why.

use std::time::Duration;

/// After the guard has undone a policy's switch to an arm, the guard refuses that arm for so long.
pub const REFUSED_FOR: Duration = Duration::from_secs(60);

/// One reason of a decision, as a name and a value: a feature, a score, a rule.
pub type Reason = (&'static str, String);

/// Why a policy picked an arm. It goes to the event log and to `remuda flows`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Why {
    /// One line for a person.
    pub text: String,
    /// What it was derived from. One with the name of an arm is what that arm is expected to earn,
    /// or to cost, as the policy says: a number, or `0.5 +- 0.1` where the policy knows how sure.
    pub features: Vec<Reason>,
}

impl Why {
    /// A reason without features.
    pub fn because(text: impl Into<String>) -> Self {
        Self { text: text.into(), features: Vec::new() }
    }
}

/// What a policy has decided: a wish to hand the flow to another arm, which the guard may veto. If
/// `to` is the arm in charge there is nothing to carry out, and `why` says why the policy stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The arm's name. That of the arm in charge: to stay.
    pub to: &'static str,
    pub why: Why,
    /// It is to learn something, not because the arm is thought to be better.
    pub explores: bool,
    /// The policy goes on to compare this arm with the others, so the guard undoes the switch only
    /// if next to no power is left: what has fallen may have fallen for all arms.
    pub is_watched: bool,
}

impl Proposal {
    /// Another arm that is thought to be better, or the one in charge.
    pub const fn new(to: &'static str, why: Why) -> Self {
        Self { to, why, explores: false, is_watched: false }
    }
}
