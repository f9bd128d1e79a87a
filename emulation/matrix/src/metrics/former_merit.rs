//! The merit of commit b1bd1fe, which every ranking shows beside the one of today.
//!
//! - Beside neighbours: **friendliness** (`sharing.rs`). A driver that starves its neighbours has
//!   the whole link, and would win by any figure of its own.
//! - If every tested flow is a transfer of a fixed size: the share that completed over the 95th
//!   percentile of the **slowdown** (`completion.rs`).
//! - Otherwise: **score**, goodput squared over mean one-way delay, as in ccBench's first league.

pub(crate) fn former_merit(
    score: f64,
    friendliness: Option<f64>,
    completed_percent: Option<f64>,
    slowdown_p95: Option<f64>,
) -> f64 {
    if let Some(friendliness) = friendliness {
        return friendliness;
    }
    let Some(completed_percent) = completed_percent else { return score };
    slowdown_p95.filter(|it| *it > 0.0).map_or(0.0, |it| completed_percent / 100.0 / it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_depends_on_what_is_there() {
        assert_eq!(former_merit(7.0, None, None, None), 7.0);
        assert_eq!(former_merit(7.0, Some(0.25), None, None), 0.25);
        assert_eq!(former_merit(7.0, None, Some(50.0), Some(2.0)), 0.25);
        assert_eq!(former_merit(7.0, None, Some(0.0), None), 0.0);
    }
}
