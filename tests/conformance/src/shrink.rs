//! Reduces a failing case as long as it still fails: fewer steps, events, instructions.

use crate::case::Case;
use crate::source::{Record, Source, Span, immediate, kind};
use remuda_wire::ToDatapath;

/// Most tries for a case: each try runs every engine.
const TRIES_MAX: usize = 3_000;

struct Shrink<'a> {
    best: Case,
    tries: usize,
    fails: &'a mut dyn FnMut(&Case) -> bool,
}

/// The smallest case found for which `fails` still holds.
pub fn shrink(case: &Case, fails: &mut dyn FnMut(&Case) -> bool) -> Case {
    let mut search = Shrink { best: case.clone(), tries: 0, fails };
    loop {
        let before = search.best.clone();
        search.fewer_steps();
        search.smaller_programs();
        search.simpler_steps();
        if search.best == before || search.tries >= TRIES_MAX {
            return search.best;
        }
    }
}

fn is_valid(source: &Source) -> bool {
    matches!(ToDatapath::parse(&source.message()), Ok(ToDatapath::Install(_)))
}

/// The case without a range of steps; the next step changes to the program that would run by then.
fn without_steps(case: &Case, from: usize, to: usize) -> Option<Case> {
    let mut less = case.clone();
    let running = case.steps[..to].iter().rev().find_map(|step| step.change);
    let dropped_change = case.steps[from..to].iter().any(|step| step.change.is_some());
    less.steps.drain(from..to);
    if let (Some(next), true) = (less.steps.get_mut(from), dropped_change) {
        next.change = next.change.or(running);
    }
    (!less.steps.is_empty()).then_some(less)
}

fn without_record(source: &Source, at: usize) -> Source {
    let mut less = source.clone();
    less.records.remove(at);
    let at = u32::try_from(at).unwrap_or(u32::MAX);
    let moved = |(start, count): (u32, u32)| match start {
        _ if at < start => (start - 1, count),
        _ if at < start + count => (start, count - 1),
        _ => (start, count),
    };
    for span in &mut less.spans {
        *span = Span { condition: moved(span.condition), body: moved(span.body) };
    }
    less
}

/// The same instruction with constants as operands.
fn simpler(record: Record) -> Vec<Record> {
    let mut all = Vec::new();
    for value in [0, 1] {
        for (left, right) in [(true, false), (false, true)] {
            let mut next = record;
            if left && next.left.kind != kind::IMMEDIATE {
                next.left = immediate(value);
            }
            if right && next.right.kind != kind::IMMEDIATE {
                next.right = immediate(value);
            }
            if next != record {
                all.push(next);
            }
        }
    }
    all
}

impl Shrink<'_> {
    fn keep(&mut self, less: Case) -> bool {
        if self.tries >= TRIES_MAX || !less.programs.iter().all(is_valid) {
            return false;
        }
        self.tries += 1;
        let fails = (self.fails)(&less);
        if fails {
            self.best = less;
        }
        fails
    }

    /// Drops halves, quarters and so on, from the end to the beginning.
    fn fewer_steps(&mut self) {
        let mut size = self.best.steps.len() / 2;
        while size > 0 {
            let mut to = self.best.steps.len();
            while to >= size && to > 0 {
                if let Some(less) = without_steps(&self.best, to - size, to) {
                    self.keep(less);
                }
                to = (to - size).min(self.best.steps.len());
            }
            size /= 2;
        }
    }

    fn smaller_programs(&mut self) {
        for number in 0..self.best.programs.len() {
            let mut event = self.best.programs[number].spans.len();
            while event > 0 {
                event -= 1;
                let mut less = self.best.clone();
                less.programs[number].spans.remove(event);
                self.keep(less);
            }
            let mut at = self.best.programs[number].records.len();
            while at > 0 {
                at -= 1;
                let mut less = self.best.clone();
                less.programs[number] = without_record(&less.programs[number], at);
                if self.keep(less) {
                    continue;
                }
                for record in simpler(self.best.programs[number].records[at]) {
                    let mut less = self.best.clone();
                    less.programs[number].records[at] = record;
                    if self.keep(less) {
                        break;
                    }
                }
            }
        }
    }

    fn simpler_steps(&mut self) {
        for number in 0..self.best.steps.len() {
            let mut less = self.best.clone();
            less.steps[number].updates.clear();
            self.keep(less);
            for at in 0..self.best.steps[number].primitives.len() {
                if self.best.steps[number].primitives[at] > 1 && at != crate::case::NOW {
                    let mut less = self.best.clone();
                    less.steps[number].primitives[at] = 1;
                    self.keep(less);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::op;
    use crate::stream;

    #[test]
    fn what_is_wrong_is_found_in_a_handful_of_instructions() {
        let has = |case: &Case| {
            let runs = |n: &usize| case.steps.iter().any(|step| step.change == Some(*n));
            (0..case.programs.len()).filter(runs).any(|n| {
                let program = &case.programs[n];
                let spans = program.spans.iter().flat_map(|span| [span.condition, span.body]);
                spans
                    .flat_map(|(start, count)| start as usize..(start + count) as usize)
                    .any(|at| program.records[at].op == op::MAXWRAP)
            })
        };
        let number = (0..50).find(|n| has(&stream::case(3, *n).expect("a case").0));
        let (case, _) = stream::case(3, number.expect("some program has one")).expect("a case");
        let small = shrink(&case, &mut |less| has(less));
        assert!(has(&small));
        let (_, instructions) = small.size();
        assert!(instructions <= 3, "{}", small.show(0));
        assert_eq!(small.steps.len(), 1);
    }

    #[test]
    fn dropping_the_first_steps_keeps_a_program_running() {
        let (case, _) = stream::case(3, 1).expect("a case");
        let less = without_steps(&case, 0, 5).expect("some are left");
        assert!(less.steps[0].change.is_some());
        assert_eq!(less.steps.len(), case.steps.len() - 5);
    }
}
