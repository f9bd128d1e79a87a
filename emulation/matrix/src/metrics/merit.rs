//! Merit: the figure by which drivers are compared in an environment.
//!
//! - Beside neighbours: **friendliness** (`sharing.rs`). A driver that starves its neighbours has
//!   the whole link, and would win by any figure of its own.
//! - If every tested flow is a transfer of a fixed size: the share that completed over the 95th
//!   percentile of the **slowdown** (`completion.rs`).
//! - Otherwise: **score**, goodput squared over mean one-way delay, as in ccBench's first league.

use super::{Completion, Sharing};

pub(crate) fn merit(score: f64, sharing: &Sharing, completion: &Completion) -> f64 {
    if let Some(friendliness) = sharing.friendliness {
        return friendliness;
    }
    let Some(completed_percent) = completion.completed_percent else { return score };
    let slowdown_p95 = completion.slowdown.map(|[_, p95, _]| p95);
    slowdown_p95.filter(|it| *it > 0.0).map_or(0.0, |it| completed_percent / 100.0 / it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_depends_on_what_is_there() {
        let (alone, none) = (Sharing::default(), Completion::default());
        assert_eq!(merit(7.0, &alone, &none), 7.0);
        let beside = Sharing { friendliness: Some(0.25), ..Sharing::default() };
        assert_eq!(merit(7.0, &beside, &none), 0.25);
        let transfers = Completion {
            completed_percent: Some(50.0),
            slowdown: Some([1.0, 2.0, 9.0]),
            ..Completion::default()
        };
        assert_eq!(merit(7.0, &alone, &transfers), 0.25);
        let stuck = Completion { slowdown: None, completed_percent: Some(0.0), ..transfers };
        assert_eq!(merit(7.0, &alone, &stuck), 0.0);
    }
}
