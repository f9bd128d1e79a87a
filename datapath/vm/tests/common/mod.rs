//! What the tests share: messages built by hand, and an interpreter to compare with.

#![allow(dead_code, reason = "each test uses a part")]
#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

use remuda_wire::program::{CWND, MICROS, RATE};
use remuda_wire::to_datapath::Update;
use remuda_wire::{Instruction, Kind, Op, Program as Wire, Register, ToDatapath};

/// A register of a message: kind and index, or a constant.
pub type Operand = (u8, u32);

pub const FLAG: Operand = (2, 0);
pub const FALLTHROUGH: Operand = (2, 1);
pub const WANTS_REPORT: Operand = (2, 2);

pub fn constant(value: u32) -> Operand {
    (1, value)
}

/// Codes of operations on the wire.
pub mod code {
    pub const ADD: u8 = 0;
    pub const BIND: u8 = 1;
    pub const DEF: u8 = 2;
    pub const DIV: u8 = 3;
    pub const EQUIV: u8 = 4;
    pub const EWMA: u8 = 5;
    pub const GT: u8 = 6;
    pub const IF: u8 = 7;
    pub const LT: u8 = 8;
    pub const MAX: u8 = 9;
    pub const MAX_WRAP: u8 = 10;
    pub const MIN: u8 = 11;
    pub const MUL: u8 = 12;
    pub const NOT_IF: u8 = 13;
    pub const SUB: u8 = 14;
}

/// Code, result, left, right.
pub type Record = (u8, Operand, Operand, Operand);

pub fn define(register: Operand, value: u32) -> Record {
    (code::DEF, (2, 0), register, constant(value))
}

pub fn bind(result: Operand, from: Operand) -> Record {
    (code::BIND, result, result, from)
}

pub fn message(kind: Kind, sid: u32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend((kind as u16).to_le_bytes());
    out.extend(u16::try_from(8 + body.len()).unwrap().to_le_bytes());
    out.extend(sid.to_le_bytes());
    out.extend(body);
    out
}

/// Makes the header say what the length is.
pub fn fix_length(message: &mut [u8]) {
    if let (Some(field), Ok(length)) = (message.len().checked_sub(4), u16::try_from(message.len()))
    {
        let _ = field;
        message[2..4].copy_from_slice(&length.to_le_bytes());
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Events are (start, count) of the condition and of the body, counted over all records.
pub fn install(uid: u32, events: &[[u32; 4]], records: &[Record]) -> Vec<u8> {
    let counts = [events.len(), records.len()].map(|count| u32::try_from(count).unwrap());
    let mut body = words(&[uid, counts[0], counts[1]]);
    for event in events {
        body.extend(words(event));
    }
    for (code, result, left, right) in records {
        body.push(*code);
        for (kind, index) in [result, left, right] {
            body.push(*kind);
            body.extend(index.to_le_bytes());
        }
    }
    message(Kind::Install, 0, &body)
}

/// The program one event long: its condition is true, and its body all of `records` that follow
/// the definitions.
pub fn always(uid: u32, records: &[Record]) -> Vec<u8> {
    let defines = records.iter().take_while(|record| record.0 == code::DEF).count() as u32;
    let mut all = records.to_vec();
    all.push(bind(FLAG, constant(1)));
    let body = records.len() as u32 - defines;
    install(uid, &[[records.len() as u32, 1, defines, body]], &all)
}

/// What portus makes of a text.
pub fn compile(uid: u32, text: &str) -> Vec<u8> {
    let (bin, _) = portus::lang::compile(text.as_bytes(), &[]).unwrap();
    let counts = [bin.events.len(), bin.instrs.len()].map(|count| u32::try_from(count).unwrap());
    let mut body = words(&[uid, counts[0], counts[1]]);
    body.extend(bin.serialize().unwrap());
    message(Kind::Install, 0, &body)
}

fn put_updates(body: &mut Vec<u8>, updates: &[(Operand, u64)]) {
    body.extend(u32::try_from(updates.len()).unwrap().to_le_bytes());
    for ((kind, index), value) in updates {
        body.push(*kind);
        body.extend(index.to_le_bytes());
        body.extend(value.to_le_bytes());
    }
}

pub fn update_fields(sid: u32, updates: &[(Operand, u64)]) -> Vec<u8> {
    let mut body = Vec::new();
    put_updates(&mut body, updates);
    message(Kind::UpdateFields, sid, &body)
}

pub fn change_prog(sid: u32, uid: u32, updates: &[(Operand, u64)]) -> Vec<u8> {
    let mut body = uid.to_le_bytes().to_vec();
    put_updates(&mut body, updates);
    message(Kind::ChangeProg, sid, &body)
}

/// Messages that break libccp, each with what it does there.
pub fn attacks(sid: u32) -> Vec<(&'static str, Vec<u8>)> {
    let report = (5, 0);
    let two_binds = [bind(FLAG, constant(1)), bind(WANTS_REPORT, constant(1))];
    let defined = |count: usize| [vec![define(report, 0); count], two_binds.to_vec()].concat();
    let many = |count: usize| vec![bind(FLAG, constant(1)); count];
    let mut cut = update_fields(sid, &[((0, 1), 1)]);
    cut.truncate(20);
    fix_length(&mut cut);
    let mut counted = update_fields(sid, &[((0, 1), 1)]);
    counted[8..12].copy_from_slice(&100u32.to_le_bytes());
    let mut negative = update_fields(sid, &[]);
    negative[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut huge = install(1, &[], &[]);
    huge[12..20].fill(0xff);
    let mut longer = update_fields(sid, &[((0, 1), 1)]);
    longer[2] = 200;
    let wrapped: Record = bind(report, (6, 90_000));
    let mut far = define(report, 0);
    far.2.1 = 110;
    vec![
        ("control register 600 is written", update_fields(sid, &[((0, 600), 0xdead)])),
        ("register 100000 is written", change_prog(sid, 1, &[((0, 100_000), 1)])),
        ("Micros is updated", update_fields(sid, &[((2, 3), 1)])),
        ("480 instructions", install(1, &[], &many(480))),
        ("256 definitions", install(1, &[], &vec![define(report, 0); 256])),
        ("256 instructions", install(1, &[[0, 256, 0, 256]], &many(256))),
        ("200 report fields", install(1, &[[200, 1, 201, 1]], &defined(200))),
        ("33 report fields", install(1, &[[33, 1, 34, 1]], &defined(33))),
        ("report register 110", install(1, &[], &[far])),
        (
            "register 90000 is read",
            install(1, &[[1, 1, 2, 1]], &[define(report, 0), two_binds[0], wrapped]),
        ),
        ("an event beyond the end", install(1, &[[0, 1, 250, 10]], &many(1))),
        ("an event that wraps", install(1, &[[u32::MAX, 2, 0, 1]], &many(1))),
        ("counts without a body", huge),
        ("updates without a body", cut),
        ("a count beyond the message", counted),
        ("a negative count", negative),
        ("a length beyond the datagram", longer),
        ("three bytes", vec![1, 2, 3]),
        ("nothing", Vec::new()),
    ]
}

/// A program read by the reference parser; `None` if that refuses it.
pub fn wire_program(message: &[u8]) -> Option<Wire> {
    match ToDatapath::parse(message) {
        Ok(ToDatapath::Install(program)) => Some(program),
        _ => None,
    }
}

/// What the machine is compared with: instruction by instruction as `datapath/bpf/src/compile.rs`
/// has them, over the program as the reference parser reads it.
#[derive(Default)]
pub struct Reference {
    report: [u64; 32],
    control: [u64; 32],
    implicit: [u64; 6],
    temporary: [u64; 8],
    local: [u64; 8],
    primitive: [u64; 15],
    time_zero_ns: u64,
}

impl Reference {
    pub fn get(&self, register: Register) -> u64 {
        match register {
            Register::Immediate(value) => value,
            Register::Implicit(n) => self.implicit[n as usize],
            Register::Temporary(n) => self.temporary[n as usize],
            Register::Local(n) => self.local[n as usize],
            Register::Primitive(n) => self.primitive[n as usize],
            Register::Report(n) => self.report[n as usize],
            Register::Control(n) => self.control[n as usize],
        }
    }

    pub fn set(&mut self, register: Register, value: u64) {
        match register {
            Register::Implicit(n) => self.implicit[n as usize] = value,
            Register::Temporary(n) => self.temporary[n as usize] = value,
            Register::Local(n) => self.local[n as usize] = value,
            Register::Report(n) => self.report[n as usize] = value,
            Register::Control(n) => self.control[n as usize] = value,
            Register::Immediate(_) | Register::Primitive(_) => unreachable!("no results"),
        }
    }

    pub fn change(&mut self, program: &Wire, updates: &[Update], now_ns: u64) {
        self.time_zero_ns = now_ns;
        for define in &program.defines {
            self.set(define.register, define.value);
        }
        for update in updates.iter().filter(|u| matches!(u.register, Register::Control(_))) {
            self.set(update.register, update.value);
        }
    }

    /// Returns the report, if there is one.
    pub fn run(
        &mut self,
        program: &Wire,
        primitives: [u64; 15],
        in_force: (u64, u64),
        now_ns: u64,
    ) -> Option<Vec<u64>> {
        self.primitive = primitives;
        let micros = now_ns.wrapping_sub(self.time_zero_ns) / 1_000;
        self.implicit = [0, 0, 0, micros, in_force.0, in_force.1];
        for event in &program.events {
            event.condition.iter().for_each(|i| self.step(i, now_ns));
            if self.implicit[0] == 0 {
                continue;
            }
            event.body.iter().for_each(|i| self.step(i, now_ns));
            if self.implicit[0] != 0 && self.implicit[1] == 0 {
                break;
            }
        }
        if self.implicit[2] == 0 {
            return None;
        }
        let report = self.report[..program.report_fields()].to_vec();
        for define in program.defines.iter().filter(|define| define.volatile) {
            self.set(define.register, define.value);
        }
        (!report.is_empty()).then_some(report)
    }

    fn step(&mut self, instruction: &Instruction, now_ns: u64) {
        let Instruction { op, result, left, right } = *instruction;
        let (a, b) = (self.get(left), self.get(right));
        let value = match op {
            Op::Bind => b,
            Op::If if a == 0 => return,
            Op::NotIf if a != 0 => return,
            Op::If | Op::NotIf => b,
            Op::Ewma => ewma(a, self.get(result), b),
            Op::Add => a.saturating_add(b),
            Op::Sub => a.saturating_sub(b),
            Op::Mul => a.saturating_mul(b),
            Op::Div => a.checked_div(b).unwrap_or(u64::MAX),
            Op::Equiv => u64::from(a == b),
            Op::Gt => u64::from(a > b),
            Op::Lt => u64::from(a < b),
            Op::Max => a.max(b),
            Op::Min => a.min(b),
            Op::MaxWrap => max_wrap(a, b),
        };
        self.set(result, value);
        if result == Register::Implicit(MICROS) {
            self.time_zero_ns = now_ns.wrapping_sub(value.wrapping_mul(1_000));
        }
    }
}

fn ewma(weight: u64, old: u64, new: u64) -> u64 {
    let weight = weight.min(10);
    if old == 0 {
        return new;
    }
    old.wrapping_mul(weight).wrapping_add(new.wrapping_mul(10 - weight)) / 10
}

fn max_wrap(a: u64, b: u64) -> u64 {
    let distance = |from: u32, to: u32| {
        if to > from { to - from } else { (u32::MAX - from).wrapping_add(to) }
    };
    let (low_a, low_b) = (a as u32, b as u32);
    match (a, b) {
        (0, _) => b,
        (_, 0) => a,
        _ if distance(low_b, low_a) < distance(low_a, low_b) => low_a.into(),
        _ => low_b.into(),
    }
}

/// Every register that a program can have.
pub fn all_registers() -> impl Iterator<Item = Register> {
    (0..32)
        .flat_map(|n| [Register::Report(n), Register::Control(n)])
        .chain((0..8).flat_map(|n| [Register::Temporary(n), Register::Local(n)]))
        .chain((0..6).map(Register::Implicit))
        .chain((0..15).map(Register::Primitive))
}

/// `Cwnd` and `Rate`, as an update names them.
pub const UPDATE_CWND: Operand = (2, CWND);
pub const UPDATE_RATE: Operand = (2, RATE);
