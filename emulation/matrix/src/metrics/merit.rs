//! The merit of a run: `remuda_algorithms::merit` of its figures.
//!
//! - Alone, **goodput** is over the bottleneck's capacity; where nothing limits the link, over
//!   10 Gbit/s. Beside neighbours without a fixed size, goodput is over an equal share
//!   (`sharing.rs`).
//! - **delay** is the mean one-way delay over the propagation delay. Where the propagation delay is
//!   0, delay does not count.
//! - **loss** is the share of segments that were sent again.
//! - **harm** is always known: 0 without neighbours, and otherwise as `neighbours.rs` defines it.
//! - If every tested flow is a transfer of a fixed size, completion and slowdown count
//!   (`completion.rs`).

use super::completion::Completion;
use super::delay::Delay;
use super::neighbours;
use super::run::Run;
use super::sharing::Sharing;
use super::throughput::Throughput;
use remuda_algorithms::merit::{Observed, Transfers, merit};
use remuda_scenarios::HEADER_BYTES;

/// The capacity that a link without a limit counts as.
const UNLIMITED_MBIT_PER_SEC: f64 = 10_000.0;

pub(super) fn of(
    run: &Run<'_>,
    throughput: &Throughput,
    delay: &Delay,
    sharing: &Sharing,
    completion: &Completion,
) -> f64 {
    let first = run.tested.first().map(|flow| &run.flows[*flow]);
    let mss = first.map_or(1.0, |flow| f64::from(flow.mss_bytes));
    let capacity = throughput.capacity_mbit_per_sec.filter(|it| *it > 0.0);
    let payload =
        capacity.map_or(UNLIMITED_MBIT_PER_SEC, |it| it * mss / (mss + f64::from(HEADER_BYTES)));
    let of_capacity = throughput.goodput_mbit_per_sec / payload;
    let ratio = delay.one_way_mean_ms / delay.propagation_ms;
    let transfers = completion.completed_percent.map(|percent| Transfers {
        completed: percent / 100.0,
        slowdown_p95: completion.slowdown.map(|[_, p95, _]| p95),
    });
    let observed = Observed {
        goodput: Some(sharing.of_equal_share.unwrap_or(of_capacity)),
        delay: (delay.propagation_ms > 0.0).then_some(ratio),
        loss: Some(throughput.retransmitted_percent / 100.0),
        harm: Some(neighbours::harm(run)),
        transfers,
    };
    let wants = first.map(|flow| flow.wants.preference()).unwrap_or_default();
    merit(&observed, wants).value
}
