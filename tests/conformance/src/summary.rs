//! The summary of a run, as text.

use crate::source::{OP_NAMES, op};
use std::fmt;
use std::time::Duration;

/// Two engines, and the number of steps at which they were equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub names: (&'static str, &'static str),
    pub steps: u64,
}

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub seed: u64,
    pub cases: u64,
    pub programs: u64,
    pub instructions: u64,
    /// Steps of all cases.
    pub steps: u64,
    pub pairs: Vec<Pair>,
    pub reports: u64,
    /// Changes of program in mid-flow.
    pub changes: u64,
    /// Number of updates of control registers.
    pub updates: u64,
    /// Number of cases at which libccp gave up.
    pub libccp_gave_up: u64,
    /// Number of cases in which libccp continued without noticing a result that has no meaning.
    pub libccp_undefined: u64,
    /// Number of cases with numbers that do not fit libccp's types.
    pub not_for_libccp: u64,
    /// How often each operation was executed.
    pub executed: [u64; op::COUNT],
    /// Duration of the whole run.
    pub elapsed: Duration,
    /// Name, steps and time of each engine, including the time to pass it the cases.
    pub engines: Vec<(&'static str, u64, Duration)>,
}

fn per_sec(steps: u64, elapsed: Duration) -> f64 {
    steps as f64 / elapsed.as_secs_f64().max(1e-9)
}

impl Summary {
    /// Adds steps at which two engines were equal.
    pub fn compared(&mut self, names: (&'static str, &'static str), steps: u64) {
        match self.pairs.iter_mut().find(|pair| pair.names == names) {
            Some(pair) => pair.steps += steps,
            None => self.pairs.push(Pair { names, steps }),
        }
    }

    /// Number of steps at which two engines were compared.
    pub fn steps_of(&self, a: &str, b: &str) -> u64 {
        let of = |pair: &&Pair| pair.names == (a, b) || pair.names == (b, a);
        self.pairs.iter().find(|pair| of(pair)).map_or(0, |pair| pair.steps)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, cases, programs, instructions, steps, reports, .. } = self;
        writeln!(
            f,
            "seed {seed}: {cases} cases, {programs} programs of {instructions} instructions"
        )?;
        writeln!(
            f,
            "{steps} program/primitive steps, {reports} reports, {} changes of program, {} updates",
            self.changes, self.updates
        )?;
        for Pair { names: (a, b), steps } in &self.pairs {
            writeln!(f, "  {:18} {steps:>10} steps without a difference", format!("{a} = {b}"))?;
        }
        writeln!(
            f,
            "libccp gave up on {} cases (overflow, underflow, division by 0), went on without \
             noticing in {}, has no room for the numbers of {}: from there the others alone",
            self.libccp_gave_up, self.libccp_undefined, self.not_for_libccp
        )?;
        write!(f, "executed:")?;
        for (name, count) in OP_NAMES.iter().zip(self.executed).filter(|(_, count)| *count > 0) {
            write!(f, " {name} {count}")?;
        }
        let seconds = self.elapsed.as_secs_f64();
        write!(f, "\n{seconds:.1} s; steps/s: all {:.0}", per_sec(*steps, self.elapsed))?;
        for (name, steps, elapsed) in &self.engines {
            write!(f, ", {name} {:.0}", per_sec(*steps, *elapsed))?;
        }
        Ok(())
    }
}
