//! Runs cases through all engines, until the wanted number of steps agrees or a step differs.

use crate::bpf::Bpf;
use crate::case::{Case, Outcome, differing};
use crate::engines::{Engine, Libccp, Vm};
use crate::model::Beyond;
use crate::shrink::shrink;
use crate::stream::{self, Expected};
use crate::summary::Summary;
use crate::{Fallible, skip};
use ccp_agent::clock;
use std::process::Command;
use std::time::Duration;

const MODEL: &str = "model";
const LIBCCP: &str = "libccp";

#[derive(Clone, Debug)]
pub struct Options {
    pub steps: u64,
    /// The seed of all cases.
    pub seed: u64,
    pub only: Option<u64>,
}

/// One engine, and the time that it has used.
struct Timed {
    engine: Box<dyn Engine>,
    steps: u64,
    elapsed: Duration,
}

pub struct Bench {
    engines: Vec<Timed>,
}

/// The outcomes of one engine, or its error.
struct Ran {
    name: &'static str,
    outcomes: Vec<Outcome>,
}

/// Where two engines differ.
#[derive(Clone, Debug)]
struct Difference {
    names: (&'static str, &'static str),
    step: usize,
    what: String,
}

impl Timed {
    fn run(&mut self, case: &Case) -> Fallible<Ran> {
        let begun_ns = clock::monotonic_ns();
        let outcomes = self.engine.run(case)?;
        self.elapsed += Duration::from_nanos(clock::monotonic_ns() - begun_ns);
        self.steps += case.steps.len() as u64;
        Ok(Ran { name: self.engine.name(), outcomes })
    }
}

impl Bench {
    /// libccp behind `oracle`, the VM, and the BPF compiler if the user is root.
    pub fn new(oracle: Command) -> Fallible<Self> {
        let mut engines: Vec<Box<dyn Engine>> =
            vec![Box::new(Libccp::start(oracle)?), Box::new(Vm)];
        if !skip() {
            engines.push(Box::new(Bpf::new()?));
        }
        Ok(Self::of(engines))
    }

    pub fn of(engines: Vec<Box<dyn Engine>>) -> Self {
        let timed = |engine| Timed { engine, steps: 0, elapsed: Duration::ZERO };
        Self { engines: engines.into_iter().map(timed).collect() }
    }

    /// Runs a case through the engines that can take it.
    fn run(&mut self, case: &Case) -> Fallible<Vec<Ran>> {
        let for_it = |timed: &&mut Timed| case.for_libccp || timed.engine.name() != LIBCCP;
        self.engines.iter_mut().filter(for_it).map(|timed| timed.run(case)).collect()
    }

    /// The first difference between two engines, or between an engine and the model.
    fn differ(&mut self, case: &Case, expected: &Expected) -> Fallible<Option<Difference>> {
        let ran = self.run(case)?;
        for one in &ran {
            let limit = limit(one, expected);
            let against = (MODEL, &expected.outcomes[..]);
            if let Some(difference) = part((one.name, &one.outcomes[..]), against, limit) {
                return Ok(Some(difference));
            }
            if one.outcomes.len() < limit || gave_up_otherwise(one, case, expected) {
                let step = one.outcomes.len();
                let what = format!("  {} gives up here, the model does not, or later\n", one.name);
                return Ok(Some(Difference { names: (one.name, MODEL), step, what }));
            }
        }
        Ok(None)
    }

    /// Runs one case and counts it; a difference becomes an error with all details.
    fn check(&mut self, case: &Case, of: (u64, u64), summary: &mut Summary) -> Fallible<()> {
        let expected = stream::expected(case);
        let (seed, number) = of;
        let again = format!("again: remuda-conformance --seed {seed} --case {number}");
        let found = self.differ(case, &expected).map_err(|error| format!("{error}\n{again}"))?;
        if let Some(difference) = found {
            return Err(self.explain(case, &difference, &again).into());
        }
        count(case, &expected, summary);
        let names: Vec<&'static str> =
            self.engines.iter().map(|timed| timed.engine.name()).collect();
        let used: Vec<&'static str> =
            names.into_iter().filter(|name| case.for_libccp || *name != LIBCCP).collect();
        let steps = |name: &str| match expected.beyond {
            Some((step, _)) if name == LIBCCP => step,
            _ => case.steps.len(),
        };
        // Each engine was equal to the model at all its steps, so the engines were equal to each
        // other.
        for (at, a) in used.iter().enumerate() {
            for b in &used[at + 1..] {
                summary.compared((*a, *b), steps(a).min(steps(b)) as u64);
            }
        }
        Ok(())
    }

    fn explain(&mut self, case: &Case, found: &Difference, again: &str) -> String {
        let names = found.names;
        let mut fails = |less: &Case| {
            let expected = stream::expected(less);
            let less = self.differ(less, &expected);
            matches!(less, Ok(Some(difference)) if difference.names == names)
        };
        let small = shrink(case, &mut fails);
        let expected = stream::expected(&small);
        let last = match self.differ(&small, &expected) {
            Ok(Some(difference)) => difference,
            _ => found.clone(),
        };
        format!(
            "{} and {} part at step {}; as small as it gets:\n{}step {}:\n{}at first at step \
             {}:\n{}{again}",
            names.0,
            names.1,
            found.step,
            small.show(last.step),
            last.step,
            last.what,
            found.step,
            found.what
        )
    }

    /// Runs cases according to the options.
    pub fn go(&mut self, options: &Options) -> Fallible<Summary> {
        let begun_ns = clock::monotonic_ns();
        let mut summary = Summary { seed: options.seed, ..Summary::default() };
        let mut number = options.only.unwrap_or(0);
        while summary.steps < options.steps {
            let (case, _) = stream::case(options.seed, number)?;
            self.check(&case, (options.seed, number), &mut summary)?;
            if options.only.is_some() {
                break;
            }
            number += 1;
        }
        let spent = |timed: &Timed| (timed.engine.name(), timed.steps, timed.elapsed);
        summary.engines = self.engines.iter().map(spent).collect();
        summary.elapsed = Duration::from_nanos(clock::monotonic_ns() - begun_ns);
        Ok(summary)
    }
}

/// The number of an engine's steps that must equal the model's.
fn limit(ran: &Ran, expected: &Expected) -> usize {
    match expected.beyond {
        Some((step, _)) if ran.name == LIBCCP => step,
        _ => expected.outcomes.len(),
    }
}

/// Whether libccp gave up at another step than the model says.
fn gave_up_otherwise(ran: &Ran, case: &Case, expected: &Expected) -> bool {
    let gave_up = ran.outcomes.len() < case.steps.len();
    match expected.beyond {
        Some((step, Beyond::Aborts)) => ran.name == LIBCCP && ran.outcomes.len() != step,
        // After an undefined number, anything may follow.
        Some((_, Beyond::Undefined)) => ran.name != LIBCCP && gave_up,
        None => gave_up,
    }
}

fn part(
    (name, left): (&'static str, &[Outcome]),
    (other, right): (&'static str, &[Outcome]),
    limit: usize,
) -> Option<Difference> {
    let both = left.iter().zip(right).take(limit);
    let (step, (a, b)) = both.enumerate().find(|(_, (a, b))| a != b)?;
    Some(Difference { names: (name, other), step, what: differing((name, a), (other, b)) })
}

fn count(case: &Case, expected: &Expected, summary: &mut Summary) {
    let (programs, instructions) = case.size();
    summary.cases += 1;
    summary.programs += programs as u64;
    summary.instructions += instructions as u64;
    summary.steps += case.steps.len() as u64;
    let reports = expected.outcomes.iter().filter(|outcome| outcome.report.is_some());
    summary.reports += reports.count() as u64;
    let changes = case.steps[1..].iter().filter(|step| step.change.is_some());
    summary.changes += changes.count() as u64;
    summary.updates += case.steps.iter().map(|step| step.updates.len() as u64).sum::<u64>();
    match expected.beyond {
        _ if !case.for_libccp => summary.not_for_libccp += 1,
        Some((_, Beyond::Aborts)) => summary.libccp_gave_up += 1,
        Some((_, Beyond::Undefined)) => summary.libccp_undefined += 1,
        None => {}
    }
    for (all, here) in summary.executed.iter_mut().zip(expected.executed) {
        *all += here;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::op;

    /// The model with a bug: `maxwrap` gives the larger of two numbers instead of the later.
    struct Broken;

    impl Engine for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn run(&mut self, case: &Case) -> Fallible<Vec<Outcome>> {
            let mut wrong = case.clone();
            let records = wrong.programs.iter_mut().flat_map(|program| &mut program.records);
            records.filter(|record| record.op == op::MAXWRAP).for_each(|r| r.op = op::MAX);
            Ok(stream::expected(&wrong).outcomes)
        }
    }

    #[test]
    fn an_engine_that_is_wrong_is_found_and_shown_in_a_few_instructions() {
        let mut bench = Bench::of(vec![Box::new(Broken), Box::new(Vm)]);
        let options = Options { steps: 50_000, seed: 1, only: None };
        let found = bench.go(&options).expect_err("it is found").to_string();
        for part in ["broken and model part at step", "maxwrap", "--seed 1 --case"] {
            assert!(found.contains(part), "{part} in {found}");
        }
        let shown = found.split("at first at step").next().expect("the small case comes first");
        assert!(shown.lines().count() < 25, "{found}");
        println!("{found}");
    }

    #[test]
    fn the_model_and_the_vm_agree() {
        let options = Options { steps: 10_000, seed: 9, only: None };
        let summary = Bench::of(vec![Box::new(Vm)]).go(&options).expect("they do");
        assert!(summary.steps >= 10_000 && summary.pairs.is_empty());
    }
}
