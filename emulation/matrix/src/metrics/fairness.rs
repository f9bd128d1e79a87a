//! How evenly the tested flows share.
//!
//! - **Jain's index** of n shares x: (Σx)² / (n Σx²), 1 if the shares are equal, 1/n if one flow
//!   has everything (Jain, Chiu and Hawe, 1984). `jain` is over the goodputs of the flows' lives.
//!   `jain_100ms` and `jain_1s` are over the bytes that arrived in spans of that length: the median
//!   of the spans in which the same flows, at least two, were active from begin to end. They are
//!   empty where samples are further apart than the span.
//! - **convergence**: from the last arrival of a flow until every flow's goodput over a second
//!   stays within 10 % of an equal share for 5 s; empty if that never happens.
//! - **RTT fairness**: for two flows of different round trips, the goodput of the flow with the
//!   longer one over that of the other, while both are active (RFC 7928, section 6.3).

use super::quantile::median;
use super::run::Run;
use remuda_scenarios::outcome::FlowSample;

/// A flow this near to an equal share counts as having its share.
const SHARE_WITHIN: f64 = 0.1;
const HELD_S: f64 = 5.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fairness {
    /// Median of the spans of 100 ms.
    pub jain_100ms: Option<f64>,
    pub jain_1s: Option<f64>,
    pub jain: Option<f64>,
    /// From the last arrival until every flow has its share.
    pub convergence_s: Option<f64>,
    /// Goodput of the flow with the longer round trip over that of the other.
    pub rtt_fairness: Option<f64>,
}

impl Fairness {
    pub(crate) fn of(run: &Run<'_>) -> Self {
        if run.tested.len() < 2 {
            return Self::default();
        }
        let goodputs = run.outcomes(&run.tested).map(|flow| flow.goodput_mbit_per_sec);
        let goodputs: Vec<f64> = goodputs.collect();
        let arrived = Arrived::of(run, &run.tested);
        let look_s = run.scenario.sample_ms / 1e3;
        let over = |span_s| if look_s <= span_s { arrived.jain_over(span_s) } else { None };
        Self {
            jain_100ms: over(0.1),
            jain_1s: over(1.0),
            jain: jain(&goodputs),
            convergence_s: arrived.convergence_s(),
            rtt_fairness: rtt_fairness(run, &arrived),
        }
    }
}

/// `None` if nothing arrived.
pub(crate) fn jain(shares: &[f64]) -> Option<f64> {
    let (sum, squares): (f64, f64) =
        (shares.iter().sum(), shares.iter().map(|share| share * share).sum());
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The arrivals of one flow.
struct OfFlow {
    life_s: (f64, f64),
    /// Time of a sample, and the bytes that arrived until then.
    looks: Vec<(f64, u64)>,
}

/// The arrivals of some flows, at every sample.
pub(crate) struct Arrived {
    flows: Vec<OfFlow>,
}

impl Arrived {
    pub(crate) fn of(run: &Run<'_>, flows: &[usize]) -> Self {
        let mut by_flow = vec![Vec::new(); run.flows.len()];
        for FlowSample { t_s, flow, delivered_bytes, .. } in &run.outcome.flow_samples {
            if let Some(list) = by_flow.get_mut(*flow as usize) {
                list.push((*t_s, *delivered_bytes));
            }
        }
        let of = |flow: &usize| {
            let looks = std::mem::take(&mut by_flow[*flow]);
            OfFlow { life_s: run.life_s(*flow), looks }
        };
        Self { flows: flows.iter().map(of).collect() }
    }

    /// Bytes of a flow that arrived until `at_s`, taken at the last sample before it.
    pub(crate) fn until(list: &[(f64, u64)], at_s: f64) -> u64 {
        let after = list.partition_point(|(t_s, _)| *t_s <= at_s + 1e-9);
        after.checked_sub(1).map_or(0, |last| list[last].1)
    }

    /// Bytes that arrived in a span, for each flow that is active in all of it; `None` for others.
    pub(crate) fn between(&self, from_s: f64, to_s: f64) -> Vec<Option<f64>> {
        let of = |flow: &OfFlow| {
            let (start_s, end_s) = flow.life_s;
            let there = start_s <= from_s + 1e-9 && end_s >= to_s - 1e-9 && !flow.looks.is_empty();
            let bytes = Self::until(&flow.looks, to_s) - Self::until(&flow.looks, from_s);
            there.then_some(bytes as f64)
        };
        self.flows.iter().map(of).collect()
    }

    fn span_s(&self) -> (f64, f64) {
        let starts = self.flows.iter().map(|flow| flow.life_s.0);
        let ends = self.flows.iter().map(|flow| flow.life_s.1);
        (starts.fold(f64::INFINITY, f64::min), ends.fold(0.0, f64::max))
    }

    fn jain_over(&self, span_s: f64) -> Option<f64> {
        let (start_s, end_s) = self.span_s();
        let count = ((end_s - start_s) / span_s) as usize;
        let spans = (0..count).map(|n| start_s + n as f64 * span_s);
        let shares = spans.map(|from_s| {
            self.between(from_s, from_s + span_s).into_iter().flatten().collect::<Vec<f64>>()
        });
        let indexes: Vec<f64> =
            shares.filter(|them| them.len() > 1).filter_map(|them| jain(&them)).collect();
        median(&indexes)
    }

    fn convergence_s(&self) -> Option<f64> {
        let last_s = self.flows.iter().map(|flow| flow.life_s.0).fold(0.0, f64::max);
        let end_s = self.flows.iter().map(|flow| flow.life_s.1).fold(f64::INFINITY, f64::min);
        let is_even = |from_s: f64| {
            let shares: Vec<f64> =
                self.between(from_s, from_s + 1.0).into_iter().flatten().collect();
            let fair = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
            let near = |share: &f64| (share - fair).abs() <= SHARE_WITHIN * fair;
            !shares.is_empty() && fair > 0.0 && shares.iter().all(near)
        };
        let step_s = 0.1;
        let mut even_since: Option<f64> = None;
        let mut from_s = last_s;
        while from_s + 1.0 <= end_s + 1e-9 {
            even_since = is_even(from_s).then(|| even_since.unwrap_or(from_s));
            if even_since.is_some_and(|since| from_s + 1.0 - since >= HELD_S) {
                return even_since.map(|since| since - last_s);
            }
            from_s += step_s;
        }
        None
    }
}

fn rtt_fairness(run: &Run<'_>, arrived: &Arrived) -> Option<f64> {
    let [first, second] = run.tested[..] else { return None };
    let rtts = [first, second].map(|flow| run.scenario.rtt_of(&run.flows[flow]));
    if rtts[0] == rtts[1] {
        return None;
    }
    let lives = [first, second].map(|flow| run.life_s(flow));
    let (from_s, to_s) = (lives[0].0.max(lives[1].0), lives[0].1.min(lives[1].1));
    let bytes = arrived.between(from_s, to_s);
    let (Some(a), Some(b)) = (bytes[0], bytes[1]) else { return None };
    let (long, short) = if rtts[0] > rtts[1] { (a, b) } else { (b, a) };
    (short > 0.0).then(|| long / short)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows of constant rates, each from its start to 60 s, with ten samples a second.
    fn steady(flows: &[(f64, f64)]) -> Arrived {
        let of = |(start_s, bytes_per_sec): &(f64, f64)| {
            let looks = (0..=600).map(|n| f64::from(n) / 10.0).filter(|t_s| t_s >= start_s);
            let looks = looks.map(|t_s| (t_s, ((t_s - start_s) * bytes_per_sec) as u64)).collect();
            OfFlow { life_s: (*start_s, 60.0), looks }
        };
        Arrived { flows: flows.iter().map(of).collect() }
    }

    #[test]
    fn jain_counts_only_spans_in_which_all_are_there() {
        let even = steady(&[(0.0, 1e6), (20.0, 1e6)]);
        assert!(even.jain_over(1.0).unwrap() > 0.999_99);
        let uneven = steady(&[(0.0, 3e6), (20.0, 1e6)]);
        assert!((uneven.jain_over(1.0).unwrap() - 0.8).abs() < 1e-6);
        assert!((uneven.jain_over(0.1).unwrap() - 0.8).abs() < 1e-4);
        assert_eq!(steady(&[(0.0, 1e6)]).jain_over(1.0), None);
    }

    #[test]
    fn convergence_is_from_the_last_arrival_until_the_share_is_held() {
        assert_eq!(steady(&[(0.0, 1e6), (20.0, 1.05e6)]).convergence_s(), Some(0.0));
        assert_eq!(steady(&[(0.0, 1e6), (20.0, 1.3e6)]).convergence_s(), None);
        let mut late = steady(&[(0.0, 1e6), (20.0, 0.2e6)]);
        for (t_s, bytes) in &mut late.flows[1].looks {
            if *t_s > 30.0 {
                *bytes = 2_000_000 + ((*t_s - 30.0) * 1e6) as u64;
            }
        }
        let took_s = late.convergence_s().unwrap();
        assert!((9.8..10.2).contains(&took_s), "{took_s}");
    }
}
