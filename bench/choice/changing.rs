//! Oracles on paths that change: one that keeps the best arm of the whole run, and one that has the
//! best arm of each phase, for which its switches cost nothing.
//!
//! A phase lasts from one step of rate, delay or loss, or end of an outage, to the next, and at
//! least 5 s. Where the path changes all the time, phases last 10 s.

use crate::environment::{Environment, Run};
use remuda_matrix::{Course, STEP_S};
use std::ops::Range;

const PHASE_S_MIN: f64 = 5.0;
const PHASE_S: f64 = 10.0;

/// Merits over that of the best single arm, by the course of the runs.
pub struct Changing {
    pub policy: f64,
    /// The oracle that may switch.
    pub switching: f64,
}

fn phases(course: &Course, steps: usize) -> Vec<Range<usize>> {
    let end_s = course.start_s + steps as f64 * STEP_S;
    let mut bounds = vec![0];
    let moments: Vec<f64> = if course.changes.always {
        let every = (1..).map(|nth| course.start_s + f64::from(nth) * PHASE_S);
        every.take_while(|at_s| *at_s + PHASE_S <= end_s + 1e-9).collect()
    } else {
        course.changes.at_s.clone()
    };
    for at_s in moments {
        let step = ((at_s - course.start_s) / STEP_S).round().max(0.0) as usize;
        let since = step.saturating_sub(bounds[bounds.len() - 1]) as f64 * STEP_S;
        let left = steps.saturating_sub(step) as f64 * STEP_S;
        if since >= PHASE_S_MIN && left >= PHASE_S_MIN {
            bounds.push(step);
        }
    }
    bounds.push(steps);
    bounds.windows(2).map(|of| of[0]..of[1]).collect()
}

/// `None` if the path does not change, or a run has no course.
pub fn of(environment: &Environment) -> Option<Changing> {
    let own = environment.policy.course.as_ref()?;
    let arms: Vec<&Course> =
        environment.arms.iter().map(|run: &Run| run.course.as_ref()).collect::<Option<_>>()?;
    let steps = arms.iter().map(|it| it.len()).chain([own.len()]).min()?;
    if !own.changes.any() || steps == 0 {
        return None;
    }
    let best_in = |span: &Range<usize>| {
        let merit = |course: &&&Course| course.merit(span.clone());
        arms.iter().max_by(|a, b| merit(a).total_cmp(&merit(b))).copied()
    };
    let phases = phases(own, steps);
    let single = best_in(&(0..steps))?.merit(0..steps);
    let parts = phases.iter().map(|span| Some((best_in(span)?, span.clone())));
    let switching = own.merit_of(&parts.collect::<Option<Vec<_>>>()?);
    if single <= 0.0 {
        return None;
    }
    Some(Changing {
        policy: own.merit(0..steps) / single,
        switching: (switching / single).max(1.0),
    })
}
