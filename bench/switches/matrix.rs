//! Every ordered pair of arms, and whether a switch keeps to its bounds.

use crate::stats::Spread;
use crate::switches::live::{self, Means};
use crate::switches::{Error, Path, Seen, Steady, steady, switch};
use ccp_agent::guard::HandOff;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bound for segments sent again in the two seconds after the switch: this many, or
const RETRANSMITTED_MAX: f64 = 40.0;
/// this many times what the target sends again by itself.
const RETRANSMITTED_RATIO: f64 = 1.5;
/// Bound for goodput after the switch, as a share of that in the second before.
const GOODPUT_MIN: f64 = 0.95;
/// Bound for round trips, over the larger of those before the switch and the target's own.
const RTT_RATIO: f64 = 1.1;

/// When the switch is made, in seconds, by default.
pub const MOMENTS_S: [f64; 3] = [12.0, 13.7, 15.9];

/// Every arm that needs nothing else: `fixed` holds its window, and `remy` needs a table.
pub fn arms() -> Vec<&'static str> {
    let names = remuda_algorithms::ARMS.iter().map(|arm| arm.name);
    names.filter(|name| !["fixed", "remy"].contains(name)).collect()
}

/// One cell of the matrix.
#[derive(Clone, Debug)]
pub struct Cell {
    pub from: &'static str,
    pub to: &'static str,
    /// Size of the bottleneck's buffer.
    pub buffer_bdp: f64,
    /// Segments sent again, over the moments tried, and their bound.
    pub retransmitted_pkts: (Spread, f64),
    /// Goodput after the switch over goodput before.
    pub goodput_ratio: Spread,
    /// Round trips after the switch, over the larger of those before and the target's own.
    pub rtt_ratio: Spread,
}

impl Cell {
    fn of(pair: (&'static str, &'static str, f64), seen: &[Seen], own: Steady) -> Self {
        let (from, to, buffer_bdp) = pair;
        let bound = RETRANSMITTED_MAX.max(RETRANSMITTED_RATIO * own.retransmitted_pkts);
        let rtt_ratio =
            |seen: &Seen| seen.rtt_p95_after_ms / seen.rtt_p95_before_ms.max(own.rtt_p95_ms);
        Self {
            from,
            to,
            buffer_bdp,
            retransmitted_pkts: (Spread::of(seen.iter().map(|s| s.retransmitted_pkts)), bound),
            goodput_ratio: Spread::of(seen.iter().map(|s| s.goodput_after / s.goodput_before)),
            rtt_ratio: Spread::of(seen.iter().map(rtt_ratio)),
        }
    }

    /// The bounds that the median over moments misses.
    pub fn missed(&self) -> Vec<&'static str> {
        let (resent, bound) = self.retransmitted_pkts;
        let bounds = [
            ("retransmissions", resent.median <= bound),
            ("goodput", self.goodput_ratio.median >= GOODPUT_MIN),
            ("round trips", self.rtt_ratio.median <= RTT_RATIO),
        ];
        bounds.into_iter().filter(|(_, met)| !met).map(|(name, _)| name).collect()
    }
}

/// The settings of a matrix.
#[derive(Clone, Debug)]
pub struct Plan {
    pub arms: Vec<&'static str>,
    pub buffers_bdp: Vec<f64>,
    /// When the switch is made, in seconds.
    pub moments_s: Vec<f64>,
    pub jobs: usize,
    pub seed: u64,
}

/// Runs `work` on all tasks, several at a time; returns the results in the order of the tasks.
fn all<T: Sync, R: Send>(
    tasks: &[T],
    jobs: usize,
    work: impl Fn(&T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some((index, task)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    tasks.get(index).map(|task| (index, task))
                } {
                    let result = work(task);
                    done.lock().expect("no worker panics").insert(index, result);
                }
            });
        }
    });
    done.into_inner().expect("no worker panics").into_values().collect()
}

/// The arms without a switch, by name and buffer.
fn steadies(
    plan: &Plan,
    steady: impl Fn(&Path<'_>) -> Result<Steady, Error> + Sync,
) -> Result<Vec<(&'static str, f64, Steady)>, Error> {
    let mut tasks = Vec::new();
    for arm in &plan.arms {
        tasks.extend(plan.buffers_bdp.iter().map(|buffer| (*arm, *buffer)));
    }
    all(&tasks, plan.jobs, |(arm, buffer_bdp)| {
        let path = Path { arm, buffer_bdp: *buffer_bdp, seed: plan.seed };
        Ok((*arm, *buffer_bdp, steady(&path)?))
    })
}

/// Measures every ordered pair of different arms on this kernel's TCP. `told` is called after each
/// pair.
pub fn live_cells(
    plan: &Plan,
    remuda: &std::path::Path,
    means: Means,
    told: impl Fn(&Cell) + Sync,
) -> Result<Vec<Cell>, Error> {
    let steady = |path: &Path<'_>| live::steady(remuda, path, means);
    let switch = |path: &Path<'_>, to: &str, at_s| live::switch(remuda, path, to, at_s, means);
    cells_by(plan, (steady, switch), told)
}

/// Simulates every ordered pair of different arms.
pub fn cells(plan: &Plan, hand_off: HandOff) -> Result<Vec<Cell>, Error> {
    let switch = |path: &Path<'_>, to: &str, at_s| switch(path, to, at_s, hand_off);
    cells_by(plan, (steady, switch), |_| {})
}

fn cells_by(
    plan: &Plan,
    (steady, switch): (
        impl Fn(&Path<'_>) -> Result<Steady, Error> + Sync,
        impl Fn(&Path<'_>, &str, f64) -> Result<Seen, Error> + Sync,
    ),
    told: impl Fn(&Cell) + Sync,
) -> Result<Vec<Cell>, Error> {
    let own = steadies(plan, steady)?;
    let mut tasks = Vec::new();
    for from in &plan.arms {
        for to in plan.arms.iter().filter(|to| *to != from) {
            tasks.extend(plan.buffers_bdp.iter().map(|buffer| (*from, *to, *buffer)));
        }
    }
    all(&tasks, plan.jobs, |&(from, to, buffer_bdp)| {
        let path = Path { arm: from, buffer_bdp, seed: plan.seed };
        let seen: Result<Vec<Seen>, Error> =
            plan.moments_s.iter().map(|at_s| switch(&path, to, *at_s)).collect();
        let of = own.iter().find(|(arm, buffer, _)| *arm == to && *buffer == buffer_bdp);
        let (.., target) = of.expect("every arm was measured by itself");
        let cell = Cell::of((from, to, buffer_bdp), &seen?, *target);
        told(&cell);
        Ok(cell)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(retransmitted_pkts: f64, goodput_after: f64, rtt_p95_after_ms: f64) -> Cell {
        let seen = Seen {
            retransmitted_pkts,
            goodput_before: 20.0,
            goodput_after,
            rtt_p95_before_ms: 50.0,
            rtt_p95_after_ms,
        };
        let own = Steady { retransmitted_pkts: 60.0, rtt_p95_ms: 80.0 };
        Cell::of(("reno", "bbr", 1.0), &[seen], own)
    }

    #[test]
    fn the_bounds_are_those_of_the_target_where_it_is_worse() {
        assert!(cell(90.0, 19.0, 88.0).missed().is_empty());
        assert_eq!(cell(91.0, 19.0, 88.0).missed(), ["retransmissions"]);
        assert_eq!(cell(0.0, 18.9, 88.0).missed(), ["goodput"]);
        assert_eq!(cell(0.0, 19.0, 88.1).missed(), ["round trips"]);
    }
}
