//! How long transfers of a fixed size take.
//!
//! - **completion time**: from the start of a tested transfer until its last byte is acknowledged,
//!   in three classes of size: below 100 kB, to 1 MB, above. Transfers that did not end have no
//!   completion time; **completed** counts those that did.
//! - **slowdown**: completion time over the time that an idle path takes: one round trip and the
//!   transmission of all bytes at the bottleneck's mean capacity. (The simulator has no handshake.)

use super::quantile::quantile;
use super::run::Run;
use remuda_link::Nanos;
use remuda_scenarios::{FlowSpec, HEADER_BYTES};

/// Upper limits of the small and the medium class.
const SMALL_BYTES: u64 = 100_000;
const MEDIUM_BYTES: u64 = 1_000_000;

/// The three quantiles are 50, 95 and 99 %.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Completion {
    /// Share of the tested transfers that ended.
    pub completed_percent: Option<f64>,
    /// Completion times of the small, the medium and the large transfers.
    pub fct_ms: [Option<[f64; 3]>; 3],
    /// Slowdown of the transfers of all sizes.
    pub slowdown: Option<[f64; 3]>,
}

/// The time that a transfer takes on an idle path.
pub(super) fn idle_s(run: &Run<'_>, spec: &FlowSpec, bytes: f64) -> f64 {
    let capacity = run.capacity.bytes(Nanos::ZERO, run.scenario.duration());
    let bytes_per_sec = capacity.map(|bytes| bytes / run.scenario.duration_s);
    let mss = f64::from(spec.mss_bytes);
    let wire = bytes * (mss + f64::from(HEADER_BYTES)) / mss;
    let sending_s = bytes_per_sec.map_or(0.0, |rate| wire / rate);
    run.scenario.rtt_of(spec).0 as f64 / 1e9 + sending_s
}

fn quantiles(values: &[f64]) -> Option<[f64; 3]> {
    let of = |share| quantile(values, share);
    Some([of(0.5)?, of(0.95)?, of(0.99)?])
}

impl Completion {
    pub(crate) fn of(run: &Run<'_>) -> Self {
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        let mut slowdowns = Vec::new();
        let (mut all, mut ended) = (0u64, 0u64);
        for flow in &run.tested {
            let spec = &run.flows[*flow];
            let (Some(bytes), Some(outcome)) = (spec.bytes, run.outcome.flows.get(*flow)) else {
                continue;
            };
            all += 1;
            let Some(end_s) = outcome.end_s else { continue };
            ended += 1;
            let took_ms = (end_s - spec.start_s) * 1e3;
            let class = usize::from(bytes >= SMALL_BYTES) + usize::from(bytes > MEDIUM_BYTES);
            times[class].push(took_ms);
            let idle_ms = idle_s(run, spec, bytes as f64) * 1e3;
            if idle_ms > 0.0 {
                slowdowns.push(took_ms / idle_ms);
            }
        }
        Self {
            completed_percent: (all > 0).then(|| ended as f64 * 100.0 / all as f64),
            fct_ms: times.map(|them| quantiles(&them)),
            slowdown: quantiles(&slowdowns),
        }
    }
}
