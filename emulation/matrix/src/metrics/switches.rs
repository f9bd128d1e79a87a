//! What changes of arm cost: the segments that a tested flow sent again within 2 s after a change,
//! summed over all changes (as `docs/switching.md` counts them); empty without a change.

use super::run::Run;

const AFTER_S: f64 = 2.0;

pub(super) fn of(run: &Run<'_>) -> (u64, Option<f64>) {
    let (mut changes, mut cost) = (0, 0);
    for flow in run.outcomes(&run.tested) {
        let samples = run.outcome.flow_samples.iter().filter(|sample| sample.flow == flow.flow);
        let looks: Vec<(f64, u64)> =
            samples.map(|sample| (sample.t_s, sample.retransmitted_pkts)).collect();
        let until = |at_s: f64| {
            let after = looks.partition_point(|(t_s, _)| *t_s <= at_s);
            after.checked_sub(1).map_or(0, |last| looks[last].1)
        };
        for change in &flow.switches {
            changes += 1;
            cost += until(change.t_s + AFTER_S) - until(change.t_s);
        }
    }
    (changes, (changes > 0).then_some(cost as f64))
}
