//! Where a policy has less than half of the best arm's merit for long.
//!
//! "Long" is 10 s, or 50 round trips of the empty path if these take longer. Spans of this length
//! begin every half second. In each span the policy's merit is compared with the merit of the arm
//! that is best over the whole run.

use crate::environment::Environment;
use remuda_matrix::{Course, STEP_S};
use remuda_scenarios::outcome::Became;
use std::collections::BTreeMap;

const SHARE: f64 = 0.5;
const SPAN_S: f64 = 10.0;
const SPAN_RTTS: f64 = 50.0;

/// The spans of one run in which the policy has less than [`SHARE`] of the best arm's merit.
pub struct Behind<'a> {
    pub environment: &'a Environment,
    /// The arm that is best over the whole run.
    pub best: &'a str,
    /// Seconds of the run that lie in such a span.
    pub seconds: f64,
    /// The worst span: when it begins and ends, and what the policy has there of the arm's merit.
    pub worst: (f64, f64, f64),
    /// The policy's arm for most of the worst span.
    pub arm: String,
    /// The last decision of the policy before the middle of the worst span, in the policy's words.
    pub why: String,
}

fn steps_of(course: &Course) -> usize {
    let span_s = SPAN_S.max(SPAN_RTTS * course.path_rtt_ms / 1e3);
    (span_s / STEP_S).ceil() as usize
}

/// The arm that has the flow in each step, by the decisions that changed it.
fn arms_of(course: &Course) -> Vec<String> {
    let changes = course
        .decisions
        .iter()
        .filter(|it| matches!(it.became, Became::Switched | Became::RolledBack));
    let changes: Vec<_> = changes.collect();
    let first = changes.first().map_or(&course.last_arm, |it| &it.arm);
    let at = |step: usize| {
        let until_s = course.start_s + (step + 1) as f64 * STEP_S;
        let last = changes.iter().rev().find(|it| it.t_s < until_s);
        last.map_or(first, |it| &it.to).clone()
    };
    (0..course.len()).map(at).collect()
}

fn most_of(arms: &[String]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    arms.iter().for_each(|arm| *counts.entry(arm).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map_or("", |(arm, _)| arm).to_owned()
}

/// `None` if the policy is nowhere so far behind for so long, or the run has no course.
pub fn of(environment: &Environment) -> Option<Behind<'_>> {
    let best = environment.best_arm()?;
    let (own, other) = (environment.policy.course.as_ref()?, best.course.as_ref()?);
    let length = steps_of(own);
    let steps = own.len().min(other.len());
    let starts = (0..=steps.checked_sub(length)?).map(|start| {
        let span = start..start + length;
        let of_best = other.merit(span.clone());
        (start, if of_best > 0.0 { own.merit(span) / of_best } else { 1.0 })
    });
    let below: Vec<(usize, f64)> = starts.filter(|(_, share)| *share < SHARE).collect();
    let worst = below.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let is_in =
        |step: usize| below.iter().any(|(start, _)| (*start..start + length).contains(&step));
    let count = (0..steps).filter(|step| is_in(*step)).count();
    let [from_s, to_s] = [worst.0, worst.0 + length].map(|step| own.start_s + step as f64 * STEP_S);
    let arms = arms_of(own);
    let why = own.decisions.iter().rev().find(|it| it.t_s <= (from_s + to_s) / 2.0);
    Some(Behind {
        environment,
        best: &best.row.driver,
        seconds: count as f64 * STEP_S,
        worst: (from_s, to_s, worst.1),
        arm: most_of(&arms[worst.0..worst.0 + length]),
        why: why.map_or("it has not decided yet", |it| &it.why).to_owned(),
    })
}
