//! A datapath program in wire format, with a text form for people.
//!
//! Nothing is validated here, because the datapaths' own parsers are under test.
//! [`Source::message`] is the `INSTALL` message that all datapaths get.

use remuda_oracle::{CONTROL, IMPLICIT, LOCAL, PRIMITIVES, REPORT, TEMPORARY};
use std::fmt;

/// Kinds of registers on the wire.
pub mod kind {
    /// The agent can set it.
    pub const CONTROL: u8 = 0;
    pub const IMMEDIATE: u8 = 1;
    /// Flag, fall through, report, Micros, Cwnd, Rate.
    pub const IMPLICIT: u8 = 2;
    pub const LOCAL: u8 = 3;
    pub const PRIMITIVE: u8 = 4;
    /// Part of the report, and reset after it.
    pub const VOLATILE_REPORT: u8 = 5;
    pub const REPORT: u8 = 6;
    pub const TEMPORARY: u8 = 7;
    /// The agent can set it, and it is reset after a report.
    pub const VOLATILE_CONTROL: u8 = 8;
}

/// Operations on the wire.
pub mod op {
    pub const ADD: u8 = 0;
    pub const BIND: u8 = 1;
    pub const DEF: u8 = 2;
    pub const DIV: u8 = 3;
    pub const EQUIV: u8 = 4;
    pub const EWMA: u8 = 5;
    pub const GT: u8 = 6;
    /// Copies if the condition is not 0.
    pub const IF: u8 = 7;
    pub const LT: u8 = 8;
    pub const MAX: u8 = 9;
    /// The later of two numbers that wrap.
    pub const MAXWRAP: u8 = 10;
    pub const MIN: u8 = 11;
    pub const MUL: u8 = 12;
    pub const NOTIF: u8 = 13;
    pub const SUB: u8 = 14;
    pub const COUNT: usize = 15;
}

/// The operations' names in the datapath language.
pub const OP_NAMES: [&str; op::COUNT] = [
    "+", "bind", "def", "/", "==", "ewma", ">", "if", "<", "max", "maxwrap", "min", "*", "!if", "-",
];

/// The numbers of the implicit registers.
pub mod implicit {
    /// Whether the event's condition holds.
    pub const FLAG: u32 = 0;
    /// Whether the next event is evaluated.
    pub const FALLTHROUGH: u32 = 1;
    pub const REPORT: u32 = 2;
    /// Microseconds since a program last assigned it.
    pub const MICROS: u32 = 3;
    /// The window, in bytes.
    pub const CWND: u32 = 4;
    /// The rate, in bytes per second.
    pub const RATE: u32 = 5;
}

const PRIMITIVE_NAMES: [&str; PRIMITIVES] = [
    "Ack.bytes_acked",
    "Ack.bytes_misordered",
    "Ack.ecn_bytes",
    "Ack.ecn_packets",
    "Ack.lost_pkts_sample",
    "Ack.now",
    "Ack.packets_acked",
    "Ack.packets_misordered",
    "Flow.bytes_in_flight",
    "Flow.bytes_pending",
    "Flow.packets_in_flight",
    "Flow.rate_incoming",
    "Flow.rate_outgoing",
    "Flow.rtt_sample_us",
    "Flow.was_timeout",
];
const IMPLICIT_NAMES: [&str; IMPLICIT] =
    ["flag", "fallthrough", "report", "Micros", "Cwnd", "Rate"];

const INSTALL: u16 = 2;
const HEADER_BYTES: usize = 8;
const RECORD_BYTES: usize = 16;

/// Kind and number of a register, or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    pub kind: u8,
    pub index: u32,
}

pub fn operand(kind: u8, index: u32) -> Operand {
    Operand { kind, index }
}

pub fn immediate(value: u32) -> Operand {
    operand(kind::IMMEDIATE, value)
}

/// One instruction: `result := left op right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub op: u8,
    pub result: Operand,
    pub left: Operand,
    pub right: Operand,
}

/// The instructions of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First index and number of the condition's instructions.
    pub condition: (u32, u32),
    /// First index and number of the body's instructions.
    pub body: (u32, u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The agent's number of the program. libccp clears its table when it gets 1.
    pub uid: u32,
    pub spans: Vec<Span>,
    /// Initial values, then instructions.
    pub records: Vec<Record>,
}

/// The index of a register among all registers, in the order of the oracle; `None` for a constant,
/// a primitive, or a register that is not compared.
pub fn flat(register: Operand) -> Option<usize> {
    let (base, limit) = match register.kind {
        kind::REPORT | kind::VOLATILE_REPORT => (0, REPORT),
        kind::CONTROL | kind::VOLATILE_CONTROL => (REPORT, CONTROL),
        kind::IMPLICIT => (REPORT + CONTROL, IMPLICIT),
        kind::TEMPORARY => (REPORT + CONTROL + IMPLICIT, TEMPORARY),
        kind::LOCAL => (REPORT + CONTROL + IMPLICIT + TEMPORARY, LOCAL),
        _ => return None,
    };
    let index = register.index as usize;
    (index < limit).then_some(base + index)
}

/// The name of a register, by its [`flat`] index.
pub fn register_name(number: usize) -> String {
    let mut index = number;
    for (kind, count) in [
        (kind::REPORT, REPORT),
        (kind::CONTROL, CONTROL),
        (kind::IMPLICIT, IMPLICIT),
        (kind::TEMPORARY, TEMPORARY),
        (kind::LOCAL, LOCAL),
    ] {
        if index < count {
            return operand(kind, u32::try_from(index).unwrap_or(u32::MAX)).to_string();
        }
        index -= count;
    }
    format!("register {number}")
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.index as usize;
        let known = |names: &[&str]| names.get(index).map(|name| (*name).to_owned());
        let name = match self.kind {
            kind::CONTROL => format!("control{index}"),
            kind::VOLATILE_CONTROL => format!("vcontrol{index}"),
            kind::IMMEDIATE => format!("{index}"),
            kind::IMPLICIT => known(&IMPLICIT_NAMES).unwrap_or_else(|| format!("implicit{index}")),
            kind::LOCAL => format!("local{index}"),
            kind::PRIMITIVE => {
                known(&PRIMITIVE_NAMES).unwrap_or_else(|| format!("primitive{index}"))
            }
            kind::VOLATILE_REPORT => format!("vreport{index}"),
            kind::REPORT => format!("report{index}"),
            kind::TEMPORARY => format!("tmp{index}"),
            other => format!("kind{other}.{index}"),
        };
        f.write_str(&name)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { result, left, right, .. } = self;
        let name = OP_NAMES.get(usize::from(self.op)).unwrap_or(&"?");
        match self.op {
            op::DEF => write!(f, "def {left} {right}"),
            op::BIND => write!(f, "{result} := {right}"),
            _ => write!(f, "{result} := ({name} {left} {right})"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {}: {} report fields", self.uid, self.report_fields())?;
        for record in &self.records[..self.defines()] {
            writeln!(f, "    {record}")?;
        }
        for (number, span) in self.spans.iter().enumerate() {
            for (word, (start, count)) in [("when", span.condition), ("then", span.body)] {
                writeln!(f, "  {word} (event {number}, {count} from {start})")?;
                let part = self.records.iter().enumerate().skip(start as usize);
                for (at, record) in part.take(count as usize) {
                    writeln!(f, "    {at:3}  {record}")?;
                }
            }
        }
        Ok(())
    }
}

impl Source {
    /// The number of records that are initial values.
    pub fn defines(&self) -> usize {
        self.records.iter().take_while(|record| record.op == op::DEF).count()
    }

    /// The number of fields in the program's reports.
    pub fn report_fields(&self) -> usize {
        let reported =
            |record: &&Record| matches!(record.left.kind, kind::REPORT | kind::VOLATILE_REPORT);
        self.records[..self.defines()].iter().filter(reported).count()
    }

    /// The whole `INSTALL` message.
    pub fn message(&self) -> Vec<u8> {
        let mut out = header(INSTALL, 0);
        put(&mut out, &[self.uid, count(self.spans.len()), count(self.records.len())]);
        for Span { condition, body } in &self.spans {
            put(&mut out, &[condition.0, condition.1, body.0, body.1]);
        }
        for record in &self.records {
            out.push(record.op);
            for Operand { kind, index } in [record.result, record.left, record.right] {
                out.push(kind);
                put(&mut out, &[index]);
            }
        }
        close(&mut out);
        out
    }

    /// Parses portus' `INSTALL` message; `None` if it is incomplete or another message.
    pub fn read(message: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = message.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let body = HEADER_BYTES;
        let (uid, spans, records) = (word(body)?, word(body + 4)?, word(body + 8)?);
        let first = body + 12;
        let second = first + spans as usize * RECORD_BYTES;
        let span = |n: usize| {
            let at = first + n * RECORD_BYTES;
            let condition = (word(at)?, word(at + 4)?);
            Some(Span { condition, body: (word(at + 8)?, word(at + 12)?) })
        };
        let record = |n: usize| {
            let at = second + n * RECORD_BYTES;
            let side = |at: usize| Some(operand(*message.get(at)?, word(at + 1)?));
            let op = *message.get(at)?;
            Some(Record { op, result: side(at + 1)?, left: side(at + 6)?, right: side(at + 11)? })
        };
        Some(Self {
            uid,
            spans: (0..spans as usize).map(span).collect::<Option<_>>()?,
            records: (0..records as usize).map(record).collect::<Option<_>>()?,
        })
    }

    /// Compiles the text of a program with portus.
    pub fn compile(uid: u32, text: &str) -> crate::Fallible<Self> {
        let (bin, _) = portus::lang::compile(text.as_bytes(), &[])
            .map_err(|error| format!("it does not compile: {error:?}"))?;
        let mut out = header(INSTALL, 0);
        put(&mut out, &[uid, count(bin.events.len()), count(bin.instrs.len())]);
        out.extend(bin.serialize().map_err(|error| format!("{error:?}"))?);
        close(&mut out);
        Ok(Self::read(&out).ok_or("portus made an incomplete message")?)
    }
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

/// The header of a wire message; [`close`] sets the length.
pub fn header(kind: u16, sid: u32) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend([0, 0]);
    put(&mut out, &[sid]);
    out
}

pub fn put(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// Sets a message's length.
pub fn close(out: &mut [u8]) {
    let length = u16::try_from(out.len()).unwrap_or(u16::MAX);
    out[2..4].copy_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_wire::ToDatapath;

    #[test]
    fn what_portus_compiles_comes_back_and_reads_as_it_was_written() {
        let text = "(def (Report (volatile acked 0) (rtt 7)) (every_us 10))
            (when (> Micros every_us) (:= Report.acked (+ Report.acked Ack.bytes_acked)) (report))";
        let source = Source::compile(9, text).expect("it compiles");
        assert_eq!(Source::read(&source.message()).as_ref(), Some(&source));
        assert!(matches!(ToDatapath::parse(&source.message()), Ok(ToDatapath::Install(_))));
        let shown = source.to_string();
        for part in ["def report1 7", "flag := (> Micros control0)", "(+ vreport0 Ack.bytes_acked)"]
        {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn every_register_has_a_number_and_a_name() {
        let names: std::collections::BTreeSet<String> =
            (0..remuda_oracle::REGISTERS).map(register_name).collect();
        assert_eq!(names.len(), remuda_oracle::REGISTERS);
        assert_eq!(flat(operand(kind::IMPLICIT, implicit::CWND)), Some(68));
        assert_eq!(register_name(68), "Cwnd");
        assert_eq!(flat(operand(kind::LOCAL, 8)), None);
    }
}
