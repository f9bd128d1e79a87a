//! What the control groups of rules show of each destination.

use crate::compare::outcome::{Flow, MEASURES};
use ccp_agent::confidence::Comparison;
use ccp_agent::interval::Interval;
use ccp_agent::rules::Group;
use remuda_selector::antelope::memory::Network;
use remuda_twin::network;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The probability that the interval of a rule misses its gain, at any look, is at most this.
const ALPHA: f64 = 0.05;

/// The gain of a rule at one destination.
#[derive(Clone, Debug, PartialEq)]
pub struct Controlled {
    /// What the rule uses: an arm or a policy.
    pub used: String,
    /// The mean logarithm of goodput of the rule's flows less that of its control group.
    pub ln_gain: Interval,
}

#[derive(Deserialize)]
struct Of {
    #[serde(default)]
    remote: String,
    #[serde(default)]
    rule_use: String,
}

/// The comparisons of all rules, by destination.
#[derive(Debug, Default)]
pub struct Controls(BTreeMap<(Network, String), (String, Comparison)>);

impl Controls {
    /// Takes in a line of the event log.
    ///
    /// # Errors
    ///
    /// The line is not an event.
    pub fn take(&mut self, line: &str) -> Result<(), serde_json::Error> {
        let Some(flow) = Flow::parse(line)? else { return Ok(()) };
        let of: Of = serde_json::from_str(line)?;
        let goodput = &MEASURES[0];
        let (Some(network), Some(ln_goodput)) = (network(&of.remote), (goodput.of)(&flow)) else {
            return Ok(());
        };
        let new = || (of.rule_use, Comparison::new(goodput.least, goodput.most, ALPHA));
        let (_, comparison) = self.0.entry((network, flow.rule)).or_insert_with(new);
        comparison.add(flow.group == Group::Control, ln_goodput);
        Ok(())
    }

    /// The rule with the narrowest interval at that destination.
    pub fn at(&self, network: Network) -> Option<Controlled> {
        let of = self.0.iter().filter(|((at, _), _)| *at == network);
        let is_known = |comparison: &Comparison| {
            comparison.counts().iter().all(|count| *count > 0) && !comparison.drifts()
        };
        let known = of.filter(|(_, (_, comparison))| is_known(comparison));
        let all = known.map(|(_, (used, comparison))| Controlled {
            used: used.clone(),
            ln_gain: comparison.difference(),
        });
        let width = |of: &Controlled| of.ln_gain.most - of.ln_gain.least;
        all.min_by(|a, b| width(a).total_cmp(&width(b)))
    }
}
