//! How much payload arrived, and how soon flows used a link that became faster.
//!
//! - **goodput**: payload of the tested flows that arrived, each byte once, over the time from the
//!   start of the first flow to the end of the last one (RFC 7928, section 2.5).
//! - **utilisation**: payload of all flows that cross the bottleneck, plus their headers, over the
//!   IP bytes that the link could have carried in the whole run
//!   ([`Capacity`](remuda_link::Capacity)), as in Pantheon. At most 1, except for a policer's
//!   burst.
//! - **retransmitted**: share of the segments sent by the tested flows that were sent again.
//! - **dropped**: share of the packets arriving at the bottleneck that it dropped; Pantheon's loss.
//! - **response**: after a step up of the link's rate, the time until the first half second in
//!   which 90 % of the new rate arrives. The value is the median over steps; a step that never
//!   reaches 90 % counts with its full length. It is measured only on a link of constant rate whose
//!   steps last half a second or more, with one flow. (ccBench's responsiveness; over a shorter
//!   window the arrival of data behind a filled hole would look like a rate.)

use super::fairness::Arrived;
use super::quantile::median;
use super::run::Run;
use remuda_link::{LinkSpec, Nanos};
use remuda_scenarios::outcome::FlowSample;
use remuda_scenarios::{FlowSpec, HEADER_BYTES};

/// Part of the new rate that counts as reached.
const REACHED: f64 = 0.9;
const WINDOW_S: f64 = 0.5;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throughput {
    pub goodput_mbit_per_sec: f64,
    /// Mean capacity of the bottleneck; `None` if nothing limits it.
    pub capacity_mbit_per_sec: Option<f64>,
    pub utilisation: Option<f64>,
    /// Random loss of the path: the long-run mean, or the value at the start if it changes.
    pub path_loss_percent: f64,
    pub retransmitted_percent: f64,
    pub dropped_percent: f64,
    /// From a step up until 90 % of the new rate arrives.
    pub response_s: Option<f64>,
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

impl Throughput {
    pub(crate) fn of(run: &Run<'_>) -> Self {
        let lives: Vec<_> = run.tested.iter().map(|flow| run.life_s(*flow)).collect();
        let start_s = lives.iter().map(|life| life.0).fold(f64::INFINITY, f64::min);
        let end_s = lives.iter().map(|life| life.1).fold(0.0, f64::max);
        let bytes: u64 = run.outcomes(&run.tested).map(|flow| flow.delivered_bytes).sum();
        let span_s = end_s - start_s;
        let goodput = if span_s > 0.0 { bytes as f64 * 8.0 / 1e6 / span_s } else { 0.0 };
        let duration_s = run.scenario.duration_s;
        let capacity = run.capacity.bytes(Nanos::ZERO, run.scenario.duration());
        let pairs = run.flows.iter().zip(&run.outcome.flows);
        let crosses = |spec: &FlowSpec| spec.route.contains(&run.bottleneck.name);
        let pairs = pairs.filter(|(spec, _)| crosses(spec));
        let carried: f64 = pairs
            .map(|(spec, flow)| {
                let mss = f64::from(spec.mss_bytes);
                flow.delivered_bytes as f64 * (mss + f64::from(HEADER_BYTES)) / mss
            })
            .sum();
        let sent = run.outcomes(&run.tested).map(|flow| flow.sent_pkts).sum();
        let again = run.outcomes(&run.tested).map(|flow| flow.retransmitted_pkts).sum();
        let link = run.bottleneck;
        Self {
            goodput_mbit_per_sec: goodput,
            capacity_mbit_per_sec: capacity.map(|bytes| bytes * 8.0 / 1e6 / duration_s),
            utilisation: capacity.filter(|it| *it > 0.0).map(|bytes| carried / bytes),
            path_loss_percent: run.bottleneck_spec.mean_loss_percent(),
            retransmitted_percent: percent(again, sent),
            dropped_percent: percent(link.dropped_pkts, link.packets_in),
            response_s: response_s(run),
        }
    }
}

/// A span of time in which the link is faster than before.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StepUp {
    at_s: f64,
    rate_mbit_per_sec: f64,
    until_s: f64,
}

/// The steps up that last long enough to measure the response.
fn steps_up(spec: &LinkSpec, duration_s: f64) -> Vec<StepUp> {
    let Some(first) = spec.rate_mbit_per_sec else { return Vec::new() };
    let period_s = spec.rate_steps_period_s.unwrap_or(f64::INFINITY);
    if spec.rate_steps.is_empty() || period_s < WINDOW_S {
        return Vec::new();
    }
    let mut changes = vec![(0.0, first)];
    for period in 0.. {
        let base_s = if period == 0 { 0.0 } else { f64::from(period) * period_s };
        if base_s >= duration_s {
            break;
        }
        changes.push((base_s, first));
        let steps = spec.rate_steps.iter();
        changes.extend(steps.map(|step| (base_s + step.at_s, step.rate_mbit_per_sec)));
    }
    changes.push((duration_s, 0.0));
    let ups = changes.windows(3).map(|of| {
        let [(_, before), (at_s, rate_mbit_per_sec), (until_s, _)] = of else { unreachable!() };
        let until_s = until_s.min(duration_s);
        let up = StepUp { at_s: *at_s, rate_mbit_per_sec: *rate_mbit_per_sec, until_s };
        (rate_mbit_per_sec > before && until_s - at_s >= WINDOW_S).then_some(up)
    });
    ups.flatten().collect()
}

fn response_s(run: &Run<'_>) -> Option<f64> {
    let [flow] = run.tested[..] else { return None };
    if !run.neighbours.is_empty() || run.outcome.flow_samples.is_empty() {
        return None;
    }
    let of_flow = |sample: &&FlowSample| sample.flow as usize == flow;
    let samples = run.outcome.flow_samples.iter().filter(of_flow);
    let looks: Vec<(f64, u64)> = samples.map(|it| (it.t_s, it.delivered_bytes)).collect();
    let payload = f64::from(run.flows[flow].mss_bytes);
    let share = REACHED * payload / (payload + f64::from(HEADER_BYTES));
    let waits = steps_up(&run.bottleneck_spec, run.scenario.duration_s).into_iter().map(|step| {
        let want = share * step.rate_mbit_per_sec * 1e6 / 8.0 * WINDOW_S;
        let inside =
            |(t_s, _): &&(f64, u64)| *t_s >= step.at_s && *t_s + WINDOW_S <= step.until_s + 1e-9;
        let reached = looks
            .iter()
            .filter(inside)
            .find(|(t_s, bytes)| (Arrived::until(&looks, t_s + WINDOW_S) - bytes) as f64 >= want);
        reached.map_or(step.until_s, |(t_s, _)| *t_s) - step.at_s
    });
    median(&waits.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ups(text: &str, duration_s: f64) -> Vec<(f64, f64, f64)> {
        let spec: LinkSpec = toml::from_str(text).unwrap();
        let all = steps_up(&spec, duration_s);
        all.iter().map(|it| (it.at_s, it.rate_mbit_per_sec, it.until_s)).collect()
    }

    #[test]
    fn a_step_up_lasts_until_the_next_change() {
        let one = "rate_mbit_per_sec = 12\nrate_steps = [{ at_s = 10, rate_mbit_per_sec = 24 }]\n";
        assert_eq!(ups(one, 30.0), [(10.0, 24.0, 30.0)]);
        assert_eq!(ups(one, 10.0), []);
        let again = one.to_owned() + "rate_steps_period_s = 20\n";
        assert_eq!(ups(&again, 45.0), [(10.0, 24.0, 20.0), (30.0, 24.0, 40.0)]);
        let down = one.replace("24", "6") + "rate_steps_period_s = 20\n";
        assert_eq!(ups(&down, 45.0), [(20.0, 12.0, 30.0), (40.0, 12.0, 45.0)]);
    }

    #[test]
    fn a_phase_too_short_for_an_answer_is_none() {
        let short = "rate_mbit_per_sec = 10\nrate_steps_period_s = 0.2\n\
                     rate_steps = [{ at_s = 0.1, rate_mbit_per_sec = 100 }]\n";
        assert_eq!(ups(short, 60.0), []);
    }
}
