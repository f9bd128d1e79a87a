//! Random programs that every datapath accepts.
//!
//! Half of the statements have the form that portus' compiler makes of a nested expression:
//! temporaries one after the other, then the assignment. The other half are single instructions
//! with any operation on any registers, which portus would never write and every parser accepts.

use crate::source::{Operand, Record, Source, Span, immediate, implicit, kind, op, operand};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use remuda_oracle::{CONTROL, LOCAL, PRIMITIVES, REPORT, TEMPORARY};

/// An event has at most about a hundred instructions; 255 is the datapaths' limit.
const RECORDS_BEFORE_EVENT: usize = 140;
const EVENTS_MAX: u32 = 6;
const STATEMENTS_MAX: u32 = 5;
const DEPTH: u32 = 3;
const BLOCK_MAX: usize = 12;
const TENTHS: u32 = 10;
/// Factors of this size can be multiplied a few times without an overflow.
const SMALL: u32 = 65_535;

/// Operations of an expression; one that is listed more often is drawn more often.
const BINARY: [u8; 14] = [
    op::ADD,
    op::ADD,
    op::SUB,
    op::SUB,
    op::MUL,
    op::MUL,
    op::DIV,
    op::DIV,
    op::MAX,
    op::MIN,
    op::MAXWRAP,
    op::EQUIV,
    op::GT,
    op::LT,
];
/// Operations of a single instruction.
const ANY: [u8; 14] = [
    op::ADD,
    op::BIND,
    op::DIV,
    op::EQUIV,
    op::EWMA,
    op::GT,
    op::IF,
    op::LT,
    op::MAX,
    op::MAXWRAP,
    op::MIN,
    op::MUL,
    op::NOTIF,
    op::SUB,
];

struct Author<'a> {
    rng: &'a mut ChaCha8Rng,
    report: Vec<Operand>,
    control: Vec<Operand>,
    records: Vec<Record>,
    temporaries: u32,
}

/// One of several values, at random.
pub fn pick<T: Copy>(rng: &mut impl Rng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}

fn percent(rng: &mut impl Rng, chance: u32) -> bool {
    rng.random_range(0..100) < chance
}

/// A constant of the wire's 32 bits: often small, sometimes one with a meaning.
fn constant(rng: &mut impl Rng) -> u32 {
    match rng.random_range(0..10) {
        0 | 1 => 0,
        2 | 3 => rng.random_range(1..=10),
        4 | 5 => rng.random_range(1..1_000),
        6 | 7 => rng.random_range(1..SMALL),
        8 => rng.random_range(0..1 << 31),
        _ => pick(rng, &[0x3fff_ffff, 0x4000_0000, u32::MAX, u32::MAX - 1, 1 << 31]),
    }
}

fn declare(rng: &mut ChaCha8Rng, kinds: (u8, u8), few: u32, limit: usize) -> Vec<Operand> {
    let limit = u32::try_from(limit).expect("some thirty registers");
    let count = if percent(rng, 8) { limit } else { rng.random_range(0..=few) };
    let kind = |rng: &mut ChaCha8Rng| if percent(rng, 50) { kinds.0 } else { kinds.1 };
    (0..count).map(|index| operand(kind(rng), index)).collect()
}

/// A random program with number `uid`. If `twice`, it may give a register two initial values;
/// libccp applies these in an order of its own.
pub fn program(rng: &mut ChaCha8Rng, uid: u32, twice: bool) -> Source {
    let mut report = declare(rng, (kind::REPORT, kind::VOLATILE_REPORT), 5, REPORT);
    if report.is_empty() {
        report.push(operand(kind::VOLATILE_REPORT, 0));
    }
    let control = declare(rng, (kind::CONTROL, kind::VOLATILE_CONTROL), 6, CONTROL);
    let mut author = Author { rng, report, control, records: Vec::new(), temporaries: 0 };
    author.defines(twice);
    let mut spans = Vec::new();
    for _ in 0..author.rng.random_range(1..=EVENTS_MAX) {
        if author.records.len() > RECORDS_BEFORE_EVENT {
            break;
        }
        let span = author.event(spans.last().copied());
        spans.push(span);
        if percent(author.rng, 5) {
            author.any_instruction(); // that no event has
        }
    }
    Source { uid, spans, records: author.records }
}

impl Author<'_> {
    fn push(&mut self, op: u8, result: Operand, left: Operand, right: Operand) {
        self.records.push(Record { op, result, left, right });
    }

    /// Writes initial values, in any order: the fields of a report are counted, not numbered.
    fn defines(&mut self, twice: bool) {
        let mut all: Vec<Operand> = self.report.iter().chain(&self.control).copied().collect();
        if twice && self.report.len() < REPORT && percent(self.rng, 20) {
            let mut again = pick(self.rng, &all);
            again.kind = match again.kind {
                kind::REPORT => kind::VOLATILE_REPORT,
                kind::VOLATILE_REPORT => kind::REPORT,
                other => other,
            };
            all.push(again);
        }
        while !all.is_empty() {
            let at = self.rng.random_range(0..all.len());
            let register = all.swap_remove(at);
            let value = constant(self.rng);
            self.push(op::DEF, register, register, immediate(value));
        }
    }

    /// Writes an event. Mostly it has instructions of its own; sometimes those of another event, or
    /// a part of several events.
    fn event(&mut self, last: Option<Span>) -> Span {
        let condition = match last {
            Some(last) if percent(self.rng, 4) => last.condition,
            Some(_) if percent(self.rng, 4) => self.any_block(),
            _ => self.block(Self::condition),
        };
        let body = match last {
            Some(last) if percent(self.rng, 4) => last.body,
            Some(_) if percent(self.rng, 4) => self.any_block(),
            _ => self.block(Self::body),
        };
        Span { condition, body }
    }

    fn any_block(&mut self) -> (u32, u32) {
        let at = |records: usize| u32::try_from(records).expect("less than 255 records");
        let head = self.records.iter().take_while(|record| record.op == op::DEF).count();
        let start = self.rng.random_range(head..=self.records.len());
        let count = self.rng.random_range(0..=(self.records.len() - start).min(BLOCK_MAX));
        (at(start), at(count))
    }

    fn block(&mut self, write: impl Fn(&mut Self)) -> (u32, u32) {
        let start = self.records.len();
        write(self);
        let at = |records: usize| u32::try_from(records).expect("less than 255 records");
        (at(start), at(self.records.len() - start))
    }

    fn condition(&mut self) {
        let flag = operand(kind::IMPLICIT, implicit::FLAG);
        match self.rng.random_range(0..10) {
            0 => {} // the flag stays as the last event left it
            1 | 2 => self.push(op::BIND, flag, flag, immediate(1)),
            _ => {
                self.temporaries = 0;
                let left = self.expression(DEPTH - 1);
                let right = self.leaf();
                let op = pick(self.rng, &[op::GT, op::LT, op::EQUIV, op::BIND, op::MAX]);
                self.push(op, flag, left, right);
            }
        }
    }

    fn body(&mut self) {
        for _ in 0..self.rng.random_range(0..=STATEMENTS_MAX) {
            self.statement();
        }
        for (register, value, chance) in
            [(implicit::MICROS, 0, 25), (implicit::FALLTHROUGH, 1, 60), (implicit::REPORT, 1, 25)]
        {
            if percent(self.rng, chance) {
                let register = operand(kind::IMPLICIT, register);
                self.push(op::BIND, register, register, immediate(value));
            }
        }
    }

    fn statement(&mut self) {
        self.temporaries = 0;
        match self.rng.random_range(0..20) {
            0..=8 => {
                let value = self.expression(DEPTH);
                let target = self.target();
                self.push(op::BIND, target, target, value);
            }
            9 | 10 => {
                let condition = self.expression(DEPTH - 1);
                let (target, value) = (self.target(), self.leaf());
                let op = pick(self.rng, &[op::IF, op::NOTIF]);
                self.push(op, target, condition, value);
            }
            11 => {
                let (target, value) = (self.target(), self.leaf());
                let weight = immediate(self.rng.random_range(0..=TENTHS));
                self.push(op::EWMA, target, weight, value);
            }
            12 => {
                let value = if percent(self.rng, 70) { immediate(0) } else { self.leaf() };
                let micros = operand(kind::IMPLICIT, implicit::MICROS);
                self.push(op::BIND, micros, micros, value);
            }
            _ => self.any_instruction(),
        }
    }

    fn any_instruction(&mut self) {
        let op = pick(self.rng, &ANY);
        let (target, mut left, mut right) = (self.target(), self.leaf(), self.leaf());
        // Our parsers refuse a division by a constant 0, because it can only be a mistake.
        if op == op::DIV && right == immediate(0) {
            right = immediate(1);
        }
        if op == op::EWMA && left.kind == kind::IMMEDIATE {
            left.index %= TENTHS + 1;
        }
        self.push(op, target, left, right);
    }

    /// Writes a random expression; returns the operand that has its value.
    fn expression(&mut self, depth: u32) -> Operand {
        if depth == 0 || percent(self.rng, 25) {
            return self.leaf();
        }
        let left = self.expression(depth - 1);
        let right = self.expression(depth - 1);
        if self.temporaries as usize >= TEMPORARY {
            return left;
        }
        let result = operand(kind::TEMPORARY, self.temporaries);
        self.temporaries += 1;
        let op = pick(self.rng, &BINARY);
        self.binary(op, result, left, right);
        result
    }

    /// Writes an operation. Most operations that can make libccp give up get an operand with which
    /// it continues.
    fn binary(&mut self, op: u8, result: Operand, left: Operand, right: Operand) {
        let careful = percent(self.rng, 70);
        match op {
            op::SUB if careful => {
                self.push(op::MAX, result, left, right);
                self.push(op, result, result, right);
            }
            op::DIV if careful || right == immediate(0) => {
                self.push(op::MAX, result, right, immediate(1));
                self.push(op, result, left, result);
            }
            op::MUL if careful => {
                self.push(op::MIN, result, left, immediate(SMALL));
                self.push(op, result, result, right);
            }
            _ => self.push(op, result, left, right),
        }
    }

    fn leaf(&mut self) -> Operand {
        let below = |rng: &mut ChaCha8Rng, count: usize| {
            rng.random_range(0..u32::try_from(count).expect("a few registers"))
        };
        match self.rng.random_range(0..100) {
            0..28 => operand(kind::PRIMITIVE, below(self.rng, PRIMITIVES)),
            28..46 => immediate(constant(self.rng)),
            46..66 => pick(self.rng, &self.report),
            66..80 if !self.control.is_empty() => pick(self.rng, &self.control),
            66..87 => operand(kind::LOCAL, below(self.rng, LOCAL)),
            87..93 => operand(kind::TEMPORARY, below(self.rng, TEMPORARY)),
            93..98 => operand(
                kind::IMPLICIT,
                pick(self.rng, &[implicit::CWND, implicit::RATE, implicit::MICROS]),
            ),
            _ => operand(kind::IMPLICIT, self.rng.random_range(0..=implicit::REPORT)),
        }
    }

    fn target(&mut self) -> Operand {
        let below = |rng: &mut ChaCha8Rng, count: usize| {
            rng.random_range(0..u32::try_from(count).expect("a few registers"))
        };
        match self.rng.random_range(0..100) {
            0..40 => pick(self.rng, &self.report),
            40..58 if !self.control.is_empty() => pick(self.rng, &self.control),
            40..70 => operand(kind::LOCAL, below(self.rng, LOCAL)),
            70..84 => operand(kind::TEMPORARY, below(self.rng, TEMPORARY)),
            84..95 => operand(kind::IMPLICIT, pick(self.rng, &[implicit::CWND, implicit::RATE])),
            _ => operand(kind::IMPLICIT, self.rng.random_range(0..=implicit::REPORT)),
        }
    }
}

/// Changes an instruction whose result libccp does not define into one whose result it does.
pub fn mend(rng: &mut impl Rng, record: &mut Record) {
    if record.result == operand(kind::IMPLICIT, implicit::MICROS) {
        record.right = immediate(0);
        return;
    }
    match record.op {
        op::ADD => record.op = pick(rng, &[op::MAX, op::MIN, op::MAXWRAP]),
        op::SUB => record.op = pick(rng, &[op::MIN, op::GT, op::LT, op::EQUIV]),
        op::MUL => record.op = pick(rng, &[op::MIN, op::MAX, op::BIND]),
        op::DIV => record.right = immediate(rng.random_range(1..SMALL)),
        _ => record.left = immediate(rng.random_range(0..=TENTHS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use remuda_wire::ToDatapath;

    #[test]
    fn every_program_passes_our_parser_and_together_they_use_every_operation() {
        let mut used = [0; op::COUNT];
        for seed in 0..2_000 {
            let twice = seed % 2 == 0;
            let source = program(&mut ChaCha8Rng::seed_from_u64(seed), 2, twice);
            let parsed = ToDatapath::parse(&source.message());
            assert!(matches!(parsed, Ok(ToDatapath::Install(_))), "{seed}: {parsed:?}\n{source}");
            assert!(source.records.len() <= 255, "{seed}");
            for record in &source.records {
                used[usize::from(record.op)] += 1;
            }
        }
        assert!(used.iter().all(|count| *count > 500), "{used:?}");
    }
}
