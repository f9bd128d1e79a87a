//! The meaning of a program, in the simplest code that we could write.
//!
//! The model reads wire records and shares no code with any datapath or parser. With the result of
//! a step it returns whether libccp defines that result: at an overflow, an underflow or a division
//! by 0 libccp leaves the program for that ACK, and a weight above ten tenths has no meaning in
//! libccp.
//!
//! A change of program sets the registers that the program defines, and leaves temporary and local
//! registers as they are, as libccp and the BPF frame do.

use crate::case::{Case, Outcome, Step};
use crate::source::{Operand, Record, Source, flat, implicit, kind, op, operand};
use remuda_oracle::REGISTERS;

const NANOS_PER_MICRO: u64 = 1_000;
const EWMA_TENTHS: u64 = 10;
/// This initial value on the wire means infinity, which is [`INFINITY`].
const DEFINE_INFINITY: u32 = 0x3fff_ffff;
const INFINITY: u64 = u32::MAX as u64;
/// About 36 years. Above this, nanoseconds overflow 64 bits, while libccp's microseconds do not.
const MICROS_MAX: u64 = 1 << 50;

/// Why libccp does not define the result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// libccp leaves the program.
    Aborts,
    /// libccp continues with a number that has no meaning.
    Undefined,
}

#[derive(Clone, Debug)]
pub struct Model {
    registers: [u64; REGISTERS],
    program: usize,
    now_ns: u64,
    zero_ns: u64,
    primitives: [u64; remuda_oracle::PRIMITIVES],
    beyond: Option<(usize, Beyond)>,
    /// How often each operation was executed.
    pub executed: [u64; op::COUNT],
}

fn number(index: u32) -> usize {
    flat(operand(kind::IMPLICIT, index)).expect("it is one of the six")
}

fn initial(record: &Record) -> u64 {
    if record.right.index == DEFINE_INFINITY { INFINITY } else { record.right.index.into() }
}

/// The distance from `from` to `to` among 32-bit numbers that wrap; libccp does not count the wrap
/// itself as a step.
fn distance(from: u32, to: u32) -> u32 {
    if to > from { to - from } else { (u32::MAX - from).wrapping_add(to) }
}

fn later(a: u64, b: u64) -> u64 {
    let (a32, b32) = (a as u32, b as u32);
    match (a, b) {
        (0, _) => b,
        (_, 0) => a,
        _ if distance(b32, a32) < distance(a32, b32) => a32.into(),
        _ => b32.into(),
    }
}

impl Default for Model {
    fn default() -> Self {
        Self {
            registers: [0; REGISTERS],
            program: 0,
            now_ns: 0,
            zero_ns: 0,
            primitives: [0; remuda_oracle::PRIMITIVES],
            beyond: None,
            executed: [0; op::COUNT],
        }
    }
}

impl Model {
    /// Runs one step; also returns the first record whose result libccp does not define, if there
    /// is one.
    pub fn step(&mut self, case: &Case, step: &Step) -> (Outcome, Option<(usize, Beyond)>) {
        self.now_ns = step.now_ns;
        self.primitives = step.primitives;
        self.beyond = None;
        if let Some(program) = step.change {
            self.program = program;
            self.zero_ns = step.now_ns;
            self.define(&case.programs[program], false);
        }
        for (index, value) in &step.updates {
            if let Some(at) = flat(operand(kind::CONTROL, *index)) {
                self.registers[at] = *value;
            }
        }
        let program = &case.programs[self.program];
        for (register, value) in [
            (implicit::FLAG, 0),
            (implicit::FALLTHROUGH, 0),
            (implicit::REPORT, 0),
            (implicit::MICROS, self.now_ns.wrapping_sub(self.zero_ns) / NANOS_PER_MICRO),
            (implicit::CWND, step.cwnd_bytes),
            (implicit::RATE, step.rate),
        ] {
            self.registers[number(register)] = value;
        }
        self.events(program);
        let report = (self.implicit(implicit::REPORT) != 0)
            .then(|| self.registers[..program.report_fields()].to_vec());
        if report.is_some() {
            self.define(program, true);
        }
        (Outcome { registers: self.registers, report }, self.beyond)
    }

    /// The window and the rate in force after a step.
    pub fn in_force(&self, step: &Step) -> (u64, u64) {
        let or = |value: u64, before: u64| if value == 0 { before } else { value };
        (
            or(self.implicit(implicit::CWND), step.cwnd_bytes),
            or(self.implicit(implicit::RATE), step.rate),
        )
    }

    fn implicit(&self, index: u32) -> u64 {
        self.registers[number(index)]
    }

    fn define(&mut self, program: &Source, only_volatile: bool) {
        for record in &program.records[..program.defines()] {
            let volatile =
                matches!(record.left.kind, kind::VOLATILE_REPORT | kind::VOLATILE_CONTROL);
            if let (Some(at), true) = (flat(record.left), volatile || !only_volatile) {
                self.registers[at] = initial(record);
            }
        }
    }

    fn events(&mut self, program: &Source) {
        for span in &program.spans {
            self.block(program, span.condition);
            if self.implicit(implicit::FLAG) == 0 {
                continue;
            }
            self.block(program, span.body);
            let held = self.implicit(implicit::FLAG) != 0;
            if held && self.implicit(implicit::FALLTHROUGH) == 0 {
                break;
            }
        }
    }

    fn block(&mut self, program: &Source, (start, count): (u32, u32)) {
        for at in start as usize..(start + count) as usize {
            self.instruction(at, program.records[at]);
        }
    }

    fn read(&self, operand: Operand) -> u64 {
        match operand.kind {
            kind::IMMEDIATE => operand.index.into(),
            kind::PRIMITIVE => self.primitives[operand.index as usize],
            _ => flat(operand).map_or(0, |at| self.registers[at]),
        }
    }

    fn write(&mut self, result: Operand, value: u64) {
        if let Some(at) = flat(result) {
            self.registers[at] = value;
        }
        if result == operand(kind::IMPLICIT, implicit::MICROS) {
            self.zero_ns = self.now_ns.wrapping_sub(value.wrapping_mul(NANOS_PER_MICRO));
        }
    }

    fn beyond(&mut self, at: usize, how: Beyond) {
        self.beyond.get_or_insert((at, how));
    }

    /// `value`; if it is `None`, libccp gives up here, and the result is `limit`.
    fn or_abort(&mut self, at: usize, value: Option<u64>, limit: u64) -> u64 {
        if value.is_none() {
            self.beyond(at, Beyond::Aborts);
        }
        value.unwrap_or(limit)
    }

    fn instruction(&mut self, at: usize, Record { op, result, left, right }: Record) {
        let (a, b) = (self.read(left), self.read(right));
        if let Some(executed) = self.executed.get_mut(usize::from(op)) {
            *executed += 1;
        }
        let value = match op {
            op::ADD => self.or_abort(at, a.checked_add(b), u64::MAX),
            op::SUB => self.or_abort(at, a.checked_sub(b), 0),
            op::DIV => self.or_abort(at, a.checked_div(b), u64::MAX),
            op::MUL => self.product(at, a, b),
            op::EWMA => self.average(at, a, self.read(result), b),
            op::EQUIV => u64::from(a == b),
            op::GT => u64::from(a > b),
            op::LT => u64::from(a < b),
            op::MAX => a.max(b),
            op::MIN => a.min(b),
            op::MAXWRAP => later(a, b),
            op::IF if a == 0 => return,
            op::NOTIF if a != 0 => return,
            op::IF | op::NOTIF | op::BIND => b,
            _ => return,
        };
        if result == operand(kind::IMPLICIT, implicit::MICROS) && value > MICROS_MAX {
            self.beyond(at, Beyond::Undefined);
        }
        self.write(result, value);
    }

    /// libccp detects an overflow by a product that is less than the left factor.
    fn product(&mut self, at: usize, a: u64, b: u64) -> u64 {
        a.checked_mul(b).unwrap_or_else(|| {
            let noticed = a.wrapping_mul(b) < a;
            self.beyond(at, if noticed { Beyond::Aborts } else { Beyond::Undefined });
            u64::MAX
        })
    }

    /// The sum wraps in libccp too.
    fn average(&mut self, at: usize, weight: u64, old: u64, new: u64) -> u64 {
        if old == 0 {
            return new;
        }
        if weight > EWMA_TENTHS {
            self.beyond(at, Beyond::Undefined);
        }
        let weight = weight.min(EWMA_TENTHS);
        let sum = old.wrapping_mul(weight).wrapping_add(new.wrapping_mul(EWMA_TENTHS - weight));
        sum / EWMA_TENTHS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(now_us: u64, change: Option<usize>, acked: u64) -> Step {
        let mut primitives = [1; remuda_oracle::PRIMITIVES];
        primitives[0] = acked;
        let now_ns = now_us * NANOS_PER_MICRO;
        Step { now_ns, change, updates: Vec::new(), cwnd_bytes: 2_896, rate: 0, primitives }
    }

    fn case(text: &str) -> Case {
        let programs = vec![Source::compile(2, text).expect("it compiles")];
        Case { programs, steps: Vec::new(), for_libccp: true }
    }

    #[test]
    fn a_program_sums_reports_and_begins_again() {
        let case = case(
            "(def (Report (volatile acked 0) (all 0)))
            (when true (:= Report.acked (+ Report.acked Ack.bytes_acked))
                (:= Report.all (+ Report.all Ack.bytes_acked)) (fallthrough))
            (when (> Micros 10) (:= Micros 0) (:= Cwnd (* Cwnd 2)) (report))",
        );
        let mut model = Model::default();
        let (first, _) = model.step(&case, &step(100, Some(0), 7));
        assert_eq!((first.report, &first.registers[..2]), (None, &[7, 7][..]));
        let second = step(111, None, 5);
        let (outcome, beyond) = model.step(&case, &second);
        assert_eq!((outcome.report, beyond), (Some(vec![12, 12]), None));
        assert_eq!(outcome.registers[..2], [0, 12], "volatile begins anew");
        assert_eq!(model.in_force(&second), (5_792, 0));
        let (third, _) = model.step(&case, &step(121, None, 1));
        assert_eq!(third.report, None, "Micros counts from the report");
    }

    #[test]
    fn what_libccp_does_not_define_is_told_with_the_instruction() {
        let case = case(
            "(def (Report (x 0)))
            (when true (:= Report.x (- Ack.bytes_acked 5)))",
        );
        let mut model = Model::default();
        assert_eq!(model.step(&case, &step(1, Some(0), 6)).1, None);
        let (outcome, beyond) = model.step(&case, &step(2, None, 4));
        assert_eq!(outcome.registers[0], 0);
        let at = case.programs[0].records.iter().position(|record| record.op == op::SUB);
        assert_eq!(beyond, at.map(|at| (at, Beyond::Aborts)));
    }

    #[test]
    fn the_later_of_two_numbers_that_wrap() {
        assert_eq!(later(0, 1 << 40), 1 << 40);
        assert_eq!(later(3, 5), 5);
        assert_eq!(later(u64::from(u32::MAX), 5), 5, "5 comes after the wrap");
        assert_eq!(later(5, u64::from(u32::MAX)), 5);
    }
}
