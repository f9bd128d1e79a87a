//! One case: programs, and a flow that runs them.

use crate::source::{Source, close, header, kind, put, register_name};
use remuda_oracle::{PRIMITIVES, REGISTERS};
use remuda_wire::Register;
use remuda_wire::to_datapath::Update;
use std::fmt;

const UPDATE_FIELDS: u16 = 3;
const CHANGE_PROG: u16 = 4;
/// libccp numbers its flows from 1.
const SID: u32 = 1;
const NANOS_PER_MICRO: u64 = 1_000;
/// Index of `Ack.now` among the primitives.
pub const NOW: usize = 5;
/// Index of the RTT sample among the primitives; never 0, which libccp reads as "none".
pub const RTT: usize = 13;

/// One ACK, and the agent's messages before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub now_ns: u64,
    /// The program that the flow runs from now on, as an index; `None`: no change.
    pub change: Option<usize>,
    /// New values of control registers, by index.
    pub updates: Vec<(u32, u64)>,
    /// The window in force.
    pub cwnd_bytes: u64,
    /// The rate in force, in bytes per second.
    pub rate: u64,
    /// The primitives that the datapath has measured.
    pub primitives: [u64; PRIMITIVES],
}

/// A flow's life. Its first step must name a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The programs; their `uid`s count from 2.
    pub programs: Vec<Source>,
    pub steps: Vec<Step>,
    /// Whether all numbers fit libccp's types.
    pub for_libccp: bool,
}

/// The visible result of a step in a datapath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Every register; see [`crate::source::flat`].
    pub registers: [u64; REGISTERS],
    /// The report that the step sent, if it sent one.
    pub report: Option<Vec<u64>>,
}

impl Step {
    /// The clock in microseconds.
    pub fn now_us(&self) -> u64 {
        self.now_ns / NANOS_PER_MICRO
    }

    /// The new values in the form of the wire crate.
    pub fn wire_updates(&self) -> Vec<Update> {
        let update = |(index, value): &(u32, u64)| Update {
            register: Register::Control(*index),
            value: *value,
        };
        self.updates.iter().map(update).collect()
    }

    /// The agent's messages before the ACK, in wire format.
    pub fn messages(&self, programs: &[Source]) -> Vec<Vec<u8>> {
        let mut message = match self.change {
            None if self.updates.is_empty() => return Vec::new(),
            None => header(UPDATE_FIELDS, SID),
            Some(program) => {
                let mut message = header(CHANGE_PROG, SID);
                put(&mut message, &[programs[program].uid]);
                message
            }
        };
        put(&mut message, &[u32::try_from(self.updates.len()).unwrap_or(u32::MAX)]);
        for (index, value) in &self.updates {
            message.push(kind::CONTROL);
            put(&mut message, &[*index]);
            message.extend(value.to_le_bytes());
        }
        close(&mut message);
        vec![message]
    }
}

impl Case {
    /// The number of programs that the steps use, and the number of their instructions.
    pub fn size(&self) -> (usize, usize) {
        let used = |n: &usize| self.steps.iter().any(|step| step.change == Some(*n));
        let programs: Vec<usize> = (0..self.programs.len()).filter(used).collect();
        (programs.len(), programs.iter().map(|n| self.programs[*n].records.len()).sum())
    }

    /// The programs, and the steps up to `until`, as text.
    pub fn show(&self, until: usize) -> String {
        let mut text = String::new();
        for (number, program) in self.programs.iter().enumerate() {
            if self.steps.iter().any(|step| step.change == Some(number)) {
                text += &program.to_string();
            }
        }
        for (number, step) in self.steps.iter().enumerate().take(until + 1) {
            text += &format!("step {number}: {step}\n");
        }
        text
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "now {} ns, cwnd {}, rate {}", self.now_ns, self.cwnd_bytes, self.rate)?;
        if let Some(program) = self.change {
            write!(f, ", runs program {program} (from 0)")?;
        }
        for (index, value) in &self.updates {
            write!(f, ", control{index} = {value}")?;
        }
        write!(f, "\n    primitives {:?}", self.primitives)
    }
}

/// The differences between two outcomes, one a line; empty if there are none.
pub fn differing((left, a): (&str, &Outcome), (right, b): (&str, &Outcome)) -> String {
    let mut text = String::new();
    for (number, (x, y)) in a.registers.iter().zip(&b.registers).enumerate() {
        if x != y {
            text += &format!("  {:12} {left} {x}, {right} {y}\n", register_name(number));
        }
    }
    if a.report != b.report {
        text += &format!("  report       {left} {:?}, {right} {:?}\n", a.report, b.report);
    }
    text
}
