//! What the flows of each arm have done.

use crate::flow::ArmTotals;
use std::collections::HashMap;

/// The totals of all arms since the engine started.
#[derive(Clone, Debug, Default)]
pub struct Totals(HashMap<&'static str, ArmTotals>);

impl Totals {
    /// Each arm that has had a flow, with its totals.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &ArmTotals)> {
        self.0.iter().map(|(arm, totals)| (*arm, totals))
    }

    /// Adds what one report says.
    pub fn add(&mut self, arm: &'static str, report: &ArmTotals) {
        self.0.entry(arm).or_default().add(report);
    }
}
