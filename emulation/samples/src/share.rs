//! What the flows of a run got of their bottleneck in a span, which a live sender cannot see.
//!
//! As the matrix defines it (`emulation/matrix/src/metrics`): an equal share is what the link could
//! have carried, over the flows that are active in the whole span and have no fixed size. Differs
//! from the matrix: transfers of a fixed size take no share and cannot be harmed, as a span of half
//! a second says nothing of their completion; neighbours count by their mean.

use remuda_scenarios::outcome::Outcome;
use remuda_scenarios::{Capacity, Direction, Driver, FlowSpec, HEADER_BYTES, Nanos, Scenario};

/// The link that data crosses in every drawn environment.
const BOTTLENECK: &str = "down";

/// What was shared in a span: payload in Mbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shared {
    /// An equal share of what the link could have carried.
    pub equal_mbit_per_sec: f64,
    /// Mean goodput of the flows under test.
    pub tested_mbit_per_sec: f64,
    /// Mean goodput of the neighbours; `None` if there were none.
    pub neighbour_mbit_per_sec: Option<f64>,
}

/// A flow without a fixed size.
struct Endless {
    is_tested: bool,
    from_s: f64,
    until_s: f64,
    /// Times of samples, and the payload that had arrived, in bytes.
    arrived: Vec<(f64, f64)>,
}

impl Endless {
    fn is_active(&self, from_s: f64, until_s: f64) -> bool {
        self.from_s <= from_s + 1e-9 && self.until_s >= until_s - 1e-9
    }

    /// Payload that had arrived at that time, linear between two samples.
    fn until(&self, at_s: f64) -> f64 {
        let after = self.arrived.partition_point(|(t_s, _)| *t_s <= at_s);
        let before = after.checked_sub(1).map_or((self.from_s, 0.0), |last| self.arrived[last]);
        let Some(&next) = self.arrived.get(after) else { return before.1 };
        let part = (at_s - before.0) / (next.0 - before.0).max(1e-9);
        before.1 + (next.1 - before.1) * part.clamp(0.0, 1.0)
    }
}

/// The capacity and the flows of one run.
pub(crate) struct Bottleneck {
    capacity: Capacity,
    flows: Vec<Endless>,
    payload: f64,
}

impl Bottleneck {
    /// Of a run with samples. The flows under test have the driver `tested`.
    pub fn of(scenario: &Scenario, outcome: &Outcome, tested: &str) -> Result<Self, String> {
        let links = scenario.seeded_links();
        let link = links.into_iter().find(|(name, _)| name == BOTTLENECK);
        let (_, spec) = link.ok_or("it has no link of that name")?;
        let capacity = spec.capacity(Direction::Down).map_err(|error| error.to_string())?;
        let all: Vec<FlowSpec> = scenario.flows_expanded();
        let mss = f64::from(all.last().map_or(1, |flow| flow.mss_bytes));
        let endless = |(at, flow): (usize, &FlowSpec)| Endless {
            is_tested: flow.driver == Driver::Named(tested.to_owned()),
            from_s: flow.start_s,
            until_s: flow.stop_s.unwrap_or(scenario.duration_s).min(scenario.duration_s),
            arrived: outcome
                .flow_samples
                .iter()
                .filter(|sample| sample.flow as usize == at)
                .map(|sample| (sample.t_s, sample.delivered_bytes as f64))
                .collect(),
        };
        let flows = all.iter().enumerate().filter(|(_, flow)| flow.bytes.is_none());
        let flows = flows.map(endless).collect();
        Ok(Self { capacity, flows, payload: mss / (mss + f64::from(HEADER_BYTES)) })
    }

    /// What the flows had from one time to another, in seconds of the run.
    pub fn shared(&self, from_s: f64, until_s: f64) -> Shared {
        let [from, to] = [from_s, until_s].map(|at_s| Nanos::from_millis_f64(at_s * 1e3));
        let mbit_per_sec = |bytes: f64| bytes * 8.0 / 1e6 / (until_s - from_s).max(1e-9);
        let carried = self.capacity.bytes(from, to).unwrap_or(0.0) * self.payload;
        let active = || self.flows.iter().filter(|flow| flow.is_active(from_s, until_s));
        let mean = |tested: bool| {
            let them = active().filter(|flow| flow.is_tested == tested);
            let got = |flow: &Endless| flow.until(until_s) - flow.until(from_s);
            let (sum, count) = them.fold((0.0, 0), |(sum, n), flow| (sum + got(flow), n + 1));
            (count > 0).then(|| mbit_per_sec(sum / f64::from(count)))
        };
        Shared {
            equal_mbit_per_sec: mbit_per_sec(carried / active().count().max(1) as f64),
            tested_mbit_per_sec: mean(true).unwrap_or(0.0),
            neighbour_mbit_per_sec: mean(false),
        }
    }
}
