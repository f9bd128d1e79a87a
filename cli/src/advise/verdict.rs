//! The answer for one destination.

use super::control::Controlled;
use remuda_twin::{Destination, Estimate, Unfit, interval_percent};
use serde::Serialize;

/// Fewer flows that show the path are too few to simulate it.
pub const FLOWS_MIN: usize = 10;
/// An interval that has 0 in it and is wider decides nothing, in points of percent.
const WIDTH_MAX: f64 = 40.0;
/// Simulated flows run one after another. More flows than these beside a flow, as a mean over its
/// life, would change what it measures.
const COMPANIONS_MAX: f64 = 0.5;
/// No simulated path resembles the true one if the best one is farther from it.
const MISFIT_MAX: f64 = 3.0;

/// What a gain is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The control group of a rule.
    ControlGroup,
    /// Simulated paths that resemble the destination's.
    Simulated,
}

/// What another arm would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The arm's goodput over the present one's, as a change in percent, with a probability of
    /// 95 %.
    Gain { arm: String, least_percent: f64, most_percent: f64, evidence: Evidence },
    CannotSay {
        why: String,
        /// How many flows are missing, if flows are what is missing.
        flows_missing: Option<usize>,
    },
}

fn cannot_say(why: impl Into<String>) -> Verdict {
    Verdict::CannotSay { why: why.into(), flows_missing: None }
}

/// Why so many of the flows do not show the path.
fn unfit(of: &Destination) -> Option<String> {
    let (why, count) = of.unfit()?;
    let all = of.flows.len();
    let share = format!("{count} of {all} flows");
    (2 * count > all).then(|| match why {
        Unfit::HeldByEnds => format!("{share} were held back by an application or a buffer"),
        Unfit::Short => format!("{share} were too short to show the path"),
        Unfit::Switched => format!("{share} changed their arm"),
        Unfit::NotMeasured => format!("{share} ended under an earlier version of the agent"),
    })
}

/// The verdict before anything is simulated; `None` if the flows are enough to simulate the path.
pub fn early(of: &Destination, arm: &str) -> Option<Verdict> {
    let fit = of.fit(arm).len();
    let companions = of.companions(arm);
    if fit >= FLOWS_MIN && companions > COMPANIONS_MAX {
        return Some(cannot_say(format!(
            "{companions:.1} other flows ran beside each; a control group could say"
        )));
    }
    let missing = FLOWS_MIN.checked_sub(fit).filter(|missing| *missing > 0)?;
    Some(match unfit(of).filter(|_| of.flows.len() >= FLOWS_MIN) {
        Some(why) => Verdict::CannotSay { why, flows_missing: None },
        None => Verdict::CannotSay { why: String::new(), flows_missing: Some(missing) },
    })
}

/// The verdict that a rule's control group gives.
pub fn of_control(of: &Controlled) -> Option<Verdict> {
    let [least, most] = [of.ln_gain.least, of.ln_gain.most].map(|ln| ln.exp_m1() * 100.0);
    let is_decided = least > 0.0 || most < 0.0 || most - least <= WIDTH_MAX;
    let (arm, evidence) = (of.used.clone(), Evidence::ControlGroup);
    is_decided.then_some(Verdict::Gain { arm, least_percent: least, most_percent: most, evidence })
}

/// The verdict of simulated paths: of the arm whose gain is the largest.
pub fn of_estimates(estimates: &[Estimate]) -> Verdict {
    let best = estimates.iter().max_by(|a, b| a.ln_gain.total_cmp(&b.ln_gain));
    let Some(best) = best else { return cannot_say("no simulation of the path came to an end") };
    if best.misfit > MISFIT_MAX {
        return cannot_say("no simulated path resembles this one");
    }
    let (least, most) = interval_percent(best);
    if least <= 0.0 && most >= 0.0 && most - least > WIDTH_MAX {
        return cannot_say(format!(
            "{} could do anything from {} to {} %",
            best.arm,
            points(least),
            points(most)
        ));
    }
    let (arm, evidence) = (best.arm.clone(), Evidence::Simulated);
    Verdict::Gain { arm, least_percent: least, most_percent: most, evidence }
}

/// A change in percent with its sign.
pub fn points(percent: f64) -> String {
    format!("{percent:+.0}")
}
