//! A datapath program in an `INSTALL` message: events, instructions and registers.
//!
//! The encoding is libccp's (serialize.h, machine.h). An event is a pair of condition and body. The
//! first event whose condition holds runs its body. If the body sets the fall-through register, the
//! following events are checked too.

use crate::{Error, Reader};

/// libccp's `MAX_EXPRESSIONS` and `MAX_INSTRUCTIONS` minus one: with 256, its 8-bit counters would
/// never end.
pub const EVENTS_MAX: usize = 255;
/// See [`EVENTS_MAX`].
pub const INSTRUCTIONS_MAX: usize = 255;
/// Registers of each kind in a Remuda datapath.
pub const REPORT_REGISTERS: u32 = 32;
/// See [`REPORT_REGISTERS`].
pub const CONTROL_REGISTERS: u32 = 32;
/// libccp's `MAX_TMP_REG`. portus' compiler may use 16; libccp drops those beyond its eight.
pub const TEMPORARY_REGISTERS: u32 = 8;
/// libccp's `MAX_LOCAL_REG`.
pub const LOCAL_REGISTERS: u32 = 8;
pub const PRIMITIVES: u32 = 15;
/// The implicit registers: event flag, fall-through, report, Micros, Cwnd, Rate.
pub const IMPLICIT_REGISTERS: u32 = 6;
/// An initial value that means infinity on the wire (libccp machine.c).
const DEFINE_INFINITY: u32 = 0x3fff_ffff;
/// The value that libccp stores for infinity. It also means that there is no RTT sample.
const INFINITY: u64 = u32::MAX as u64;
const RECORD_BYTES: usize = 16;

/// The implicit register that holds the time in microseconds. A program sets it to 0 to restart
/// time.
pub const MICROS: u32 = 3;
/// The implicit register that holds the window, in bytes.
pub const CWND: u32 = 4;
/// The implicit register that holds the rate, in bytes per second.
pub const RATE: u32 = 5;

/// Operations, numbered as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Add,
    /// Copies the right operand.
    Bind,
    /// The quotient; dividing by zero gives the largest value.
    Div,
    /// 1 if both operands are equal, else 0.
    Equiv,
    /// Exponentially weighted average; the left operand is the weight of the old value in tenths.
    Ewma,
    /// 1 if left > right, else 0.
    Gt,
    /// Copies the right operand if the left is not 0.
    If,
    /// 1 if left < right, else 0.
    Lt,
    Max,
    /// The later of two 32-bit numbers that wrap.
    MaxWrap,
    Min,
    Mul,
    /// Copies the right operand if the left is 0.
    NotIf,
    /// The difference; 0 if it would be negative.
    Sub,
}

const OP_DEFINE: u8 = 2;

/// A register or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    Immediate(u64),
    /// Event flag, fall-through, report, Micros, Cwnd or Rate.
    Implicit(u32),
    /// Scratch space within one run.
    Temporary(u32),
    /// Keeps its value between runs; not reported.
    Local(u32),
    /// A value measured by the datapath.
    Primitive(u32),
    Report(u32),
    /// The agent can set this register.
    Control(u32),
}

/// One operation: `result := left op right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub op: Op,
    pub result: Register,
    pub left: Register,
    pub right: Register,
}

/// The initial value of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Define {
    pub register: Register,
    /// Set to this value again after each report.
    pub volatile: bool,
    pub value: u64,
}

/// A condition and the instructions to run if it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Sets the event flag.
    pub condition: Vec<Instruction>,
    /// Runs if the event flag is not 0.
    pub body: Vec<Instruction>,
}

/// A program that has passed every check of the parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The agent's number of the program.
    pub uid: u32,
    pub defines: Vec<Define>,
    pub events: Vec<Event>,
}

fn op(code: u8, uid: u32) -> Result<Op, Error> {
    Ok(match code {
        0 => Op::Add,
        1 => Op::Bind,
        3 => Op::Div,
        4 => Op::Equiv,
        5 => Op::Ewma,
        6 => Op::Gt,
        7 => Op::If,
        8 => Op::Lt,
        9 => Op::Max,
        10 => Op::MaxWrap,
        11 => Op::Min,
        12 => Op::Mul,
        13 => Op::NotIf,
        14 => Op::Sub,
        _ => return Err(Error::Program { uid, rule: format!("no operation has code {code}") }),
    })
}

/// Reads a register of a message. The bool says whether its kind is volatile.
pub(crate) fn register(kind: u8, index: u32) -> Result<(Register, bool), Error> {
    let (register, limit, volatile) = match kind {
        0 => (Register::Control(index), CONTROL_REGISTERS, false),
        1 => return Ok((Register::Immediate(index.into()), false)),
        2 => (Register::Implicit(index), IMPLICIT_REGISTERS, false),
        3 => (Register::Local(index), LOCAL_REGISTERS, false),
        4 => (Register::Primitive(index), PRIMITIVES, false),
        5 => (Register::Report(index), REPORT_REGISTERS, true),
        6 => (Register::Report(index), REPORT_REGISTERS, false),
        7 => (Register::Temporary(index), TEMPORARY_REGISTERS, false),
        8 => (Register::Control(index), CONTROL_REGISTERS, true),
        _ => return Err(Error::Register { kind, index, rule: "there is no such kind" }),
    };
    if index >= limit {
        return Err(Error::Register { kind, index, rule: "the index is out of range" });
    }
    Ok((register, volatile))
}

/// Kind and index on the wire of a register that an agent may set.
///
/// # Panics
/// For any register other than a control register, Cwnd and Rate.
pub(crate) fn place(register: Register) -> (u8, u32) {
    match register {
        Register::Control(index) => (0, index),
        Register::Implicit(index @ (CWND | RATE)) => (2, index),
        other => panic!("{other:?} cannot be set"),
    }
}

struct Record {
    code: u8,
    operands: [(u8, u32); 3],
}

impl Record {
    fn read(r: &mut Reader<'_>) -> Result<Self, Error> {
        let code = r.u8()?;
        let operands = [(r.u8()?, r.u32()?), (r.u8()?, r.u32()?), (r.u8()?, r.u32()?)];
        Ok(Self { code, operands })
    }

    fn define(&self, uid: u32) -> Result<Define, Error> {
        let [_, (kind, index), (value_kind, value)] = self.operands;
        let (target, volatile) = register(kind, index)?;
        if !matches!(target, Register::Report(_) | Register::Control(_)) {
            let rule = "only report and control registers have initial values";
            return Err(Error::Register { kind, index, rule });
        }
        if value_kind != 1 {
            let rule = "an initial value is a constant".to_owned();
            return Err(Error::Program { uid, rule });
        }
        let value = if value == DEFINE_INFINITY { INFINITY } else { value.into() };
        Ok(Define { register: target, volatile, value })
    }

    fn instruction(&self, uid: u32) -> Result<Instruction, Error> {
        let op = op(self.code, uid)?;
        let [(kind, index), left, right] = self.operands;
        let (result, _) = register(kind, index)?;
        if matches!(result, Register::Immediate(_) | Register::Primitive(_)) {
            let rule = "a result goes to a register that can be written";
            return Err(Error::Register { kind, index, rule });
        }
        if result == Register::Implicit(MICROS) && op != Op::Bind {
            return Err(Error::Program { uid, rule: "Micros can only be assigned".to_owned() });
        }
        let (left, right) = (register(left.0, left.1)?.0, register(right.0, right.1)?.0);
        if op == Op::Div && right == Register::Immediate(0) {
            return Err(Error::Program { uid, rule: "it divides by the constant 0".to_owned() });
        }
        if op == Op::Ewma && matches!(left, Register::Immediate(weight) if weight > 10) {
            return Err(Error::Program { uid, rule: "an ewma weighs in tenths".to_owned() });
        }
        Ok(Instruction { op, result, left, right })
    }
}

impl Program {
    /// Parses the body of an `INSTALL`.
    pub(crate) fn parse(r: &mut Reader<'_>, bytes: usize) -> Result<Self, Error> {
        let uid = r.u32()?;
        let counts =
            [("events", r.u32()?, EVENTS_MAX), ("instructions", r.u32()?, INSTRUCTIONS_MAX)];
        for (what, count, limit) in counts {
            if usize::try_from(count).unwrap_or(usize::MAX) > limit {
                return Err(Error::Count { what, count: count.into(), bytes });
            }
        }
        let [events, instructions] = counts.map(|(_, count, _)| count as usize);
        if (events + instructions) * RECORD_BYTES != r.left.len() {
            let count = (events + instructions) as u64;
            return Err(Error::Count { what: "events and instructions", count, bytes });
        }
        let spans = (0..events)
            .map(|_| Ok([r.u32()?, r.u32()?, r.u32()?, r.u32()?]))
            .collect::<Result<Vec<_>, Error>>()?;
        let records =
            (0..instructions).map(|_| Record::read(r)).collect::<Result<Vec<_>, Error>>()?;
        Self::assemble(uid, &spans, &records)
    }

    fn assemble(uid: u32, spans: &[[u32; 4]], records: &[Record]) -> Result<Self, Error> {
        let head = records.iter().take_while(|record| record.code == OP_DEFINE).count();
        let defines =
            records[..head].iter().map(|d| d.define(uid)).collect::<Result<Vec<_>, Error>>()?;
        let slice = |start: u32, count: u32| {
            let (start, count) = (start as usize, count as usize);
            let Some(part) = start.checked_add(count).and_then(|end| records.get(start..end))
            else {
                let rule = "an event names instructions that are not there".to_owned();
                return Err(Error::Program { uid, rule });
            };
            part.iter().map(|record| record.instruction(uid)).collect::<Result<Vec<_>, Error>>()
        };
        let events = spans
            .iter()
            .map(|s| Ok(Event { condition: slice(s[0], s[1])?, body: slice(s[2], s[3])? }))
            .collect::<Result<Vec<_>, Error>>()?;
        let program = Self { uid, defines, events };
        if program.report_fields() > REPORT_REGISTERS as usize {
            let rule = "it defines more report fields than there are registers".to_owned();
            return Err(Error::Program { uid, rule });
        }
        if program.report_fields() == 0 && program.reports() {
            let rule = "it reports without fields, which would end the flow".to_owned();
            return Err(Error::Program { uid, rule });
        }
        Ok(program)
    }

    /// The number of fields in a report of this program.
    pub fn report_fields(&self) -> usize {
        self.defines.iter().filter(|d| matches!(d.register, Register::Report(_))).count()
    }

    /// How many instructions run at an ACK if every condition holds.
    pub fn instructions(&self) -> usize {
        self.events.iter().map(|e| e.condition.len() + e.body.len()).sum()
    }

    fn reports(&self) -> bool {
        let report = Register::Implicit(2);
        let all = self.events.iter().flat_map(|e| e.condition.iter().chain(&e.body));
        all.into_iter().any(|i| i.result == report)
    }
}
