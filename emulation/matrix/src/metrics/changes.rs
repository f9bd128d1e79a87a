//! When the path of a run changes by itself.

use remuda_scenarios::LinkSpec;
use serde::{Deserialize, Serialize};

/// When the links of a path change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Moments of steps of rate, delay or loss, and both ends of outages, in seconds, ascending.
    pub at_s: Vec<f64>,
    /// The rate or the delay follows a trace or a generator, and changes all the time.
    pub always: bool,
}

impl Changes {
    pub(super) fn of<'a>(links: impl Iterator<Item = &'a LinkSpec>, duration_s: f64) -> Self {
        let mut changes = Self::default();
        for link in links {
            changes.always |=
                link.trace.is_some() || link.generator.is_some() || link.delay_trace.is_some();
            let rates = link.rate_steps.iter().map(|step| step.at_s).collect();
            let delays = link.delay_steps.iter().map(|step| step.at_s).collect();
            let losses = link.loss_steps.iter().map(|step| step.at_s).collect();
            let outages = link.outages.iter().flat_map(|out| [out.at_s, out.at_s + out.duration_s]);
            changes.add(rates, link.rate_steps_period_s, duration_s);
            changes.add(delays, link.delay_steps_period_s, duration_s);
            changes.add(losses, link.loss_steps_period_s, duration_s);
            changes.add(outages.collect(), link.outages_period_s, duration_s);
        }
        changes.at_s.sort_by(f64::total_cmp);
        changes
    }

    /// Adds the moments `at_s`. With a period, the moments repeat in each period, and the end of a
    /// period counts as a moment, because the first value returns there.
    fn add(&mut self, at_s: Vec<f64>, period_s: Option<f64>, duration_s: f64) {
        if at_s.is_empty() {
            return;
        }
        let period_s = period_s.filter(|it| *it > 0.0).unwrap_or(duration_s);
        let starts = (0..).map(|nth| f64::from(nth) * period_s).take_while(|it| *it < duration_s);
        let all = starts
            .flat_map(|start| std::iter::once(start).chain(at_s.iter().map(move |at| start + at)));
        self.at_s.extend(all.filter(|at| *at > 0.0 && *at < duration_s));
    }

    /// Whether the path changes at all.
    pub fn any(&self) -> bool {
        self.always || !self.at_s.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Changes {
        let link: LinkSpec = toml::from_str(text).expect("a link");
        Changes::of([&link].into_iter(), 30.0)
    }

    #[test]
    fn steps_repeat_by_their_period_and_outages_have_two_ends() {
        assert!(!of("rate_mbit_per_sec = 10\n").any());
        let steps = "rate_mbit_per_sec = 10\nrate_steps = [{ at_s = 10, rate_mbit_per_sec = 5 }]\n";
        assert_eq!(of(steps).at_s, [10.0]);
        let again = format!("{steps}rate_steps_period_s = 12\n");
        assert_eq!(of(&again).at_s, [10.0, 12.0, 22.0, 24.0]);
        let outage = "rate_mbit_per_sec = 10\noutages = [{ at_s = 29, duration_s = 2 }]\n";
        assert_eq!(of(outage).at_s, [29.0], "the end is after the run");
    }
}
