//! CCP programs become straight-line BPF.
//!
//! r1 holds the flow; r0 and r2 to r5 are scratch. There are no calls and no loops, so the
//! verifier's work is linear in the program, and a program cannot run for ever.
//!
//! Semantics are those of libccp's machine.c, with one difference. Where libccp skips the rest of
//! the program for that ACK, this arithmetic saturates: a sum or product beyond 2^64-1 is 2^64-1, a
//! difference below 0 is 0, a quotient by 0 is 2^64-1.

use crate::insn::{self as i, Assembler, Insn, Jump, Label};
use crate::layout::{Flow, Registers};
use remuda_wire::program::{Event, MICROS};
use remuda_wire::{Instruction, Op, Program, Register};
use std::mem::offset_of;

const FLOW: u8 = 1;
const LEFT: u8 = 2;
const RIGHT: u8 = 3;
const RESULT: u8 = 4;
const SCRATCH: u8 = 5;
const EWMA_DENOMINATOR: i32 = 10;
const NANOS_PER_MICRO: i32 = 1_000;
const FLAG: u32 = 0;
const FALLTHROUGH: u32 = 1;

fn offset(base: usize, index: u32) -> i16 {
    let bytes = offset_of!(Flow, registers) + base + 8 * index as usize;
    i16::try_from(bytes).expect("a flow is smaller than a page")
}

/// The offset of a register in `Flow`, in bytes. `None` for a constant.
fn place(register: Register) -> Option<i16> {
    Some(match register {
        Register::Immediate(_) => return None,
        Register::Implicit(n) => offset(offset_of!(Registers, implicit), n),
        Register::Temporary(n) => offset(offset_of!(Registers, temporary), n),
        Register::Local(n) => offset(offset_of!(Registers, local), n),
        Register::Primitive(n) => offset(offset_of!(Registers, primitive), n),
        Register::Report(n) => offset(offset_of!(Registers, report), n),
        Register::Control(n) => offset(offset_of!(Registers, control), n),
    })
}

fn field(bytes: usize) -> i16 {
    i16::try_from(bytes).expect("a flow is smaller than a page")
}

/// The code of a program's clauses.
pub fn body(program: &Program) -> Vec<Insn> {
    let mut asm = Assembler::default();
    let done = asm.label();
    for event in &program.events {
        emit_event(&mut asm, event, done);
    }
    asm.bind(done);
    // The template's code follows. The label `done` needs an instruction to point to.
    asm.push(i::mov_imm(0, 0));
    asm.finish()
}

/// The code that sets every register to its initial value, or only the volatile registers, which
/// are set again after each report.
pub fn defines(program: &Program, only_volatile: bool) -> Vec<Insn> {
    let mut asm = Assembler::default();
    for define in program.defines.iter().filter(|d| d.volatile || !only_volatile) {
        load(&mut asm, RESULT, Register::Immediate(define.value));
        store(&mut asm, define.register, RESULT);
    }
    asm.push(i::mov_imm(0, 0));
    asm.finish()
}

fn load(asm: &mut Assembler, to: u8, register: Register) {
    match (register, place(register)) {
        (_, Some(offset)) => asm.push(i::load(to, FLOW, offset)),
        (Register::Immediate(value), None) => asm.load_const(to, value),
        (_, None) => unreachable!("only constants have no place"),
    }
}

fn store(asm: &mut Assembler, register: Register, from: u8) {
    let offset = place(register).expect("the parser lets no constant be a result");
    asm.push(i::store(FLOW, offset, from));
}

fn emit_event(asm: &mut Assembler, event: &Event, done: Label) {
    let next = asm.label();
    for instruction in &event.condition {
        emit(asm, instruction);
    }
    load(asm, LEFT, Register::Implicit(FLAG));
    asm.jump_if(Jump::Equal, LEFT, 0, next);
    for instruction in &event.body {
        emit(asm, instruction);
    }
    // As in libccp: the body may have cleared the flag, so it is tested again. Fall-through is
    // never cleared once a clause has set it.
    load(asm, LEFT, Register::Implicit(FLAG));
    asm.jump_if(Jump::Equal, LEFT, 0, next);
    load(asm, LEFT, Register::Implicit(FALLTHROUGH));
    asm.jump_if(Jump::Equal, LEFT, 0, done);
    asm.bind(next);
}

fn emit(asm: &mut Assembler, instruction: &Instruction) {
    let Instruction { op, result, left, right } = *instruction;
    match op {
        Op::Bind => {
            load(asm, RESULT, right);
            store(asm, result, RESULT);
            if result == Register::Implicit(MICROS) {
                restart_micros(asm);
            }
        }
        Op::If | Op::NotIf => {
            let skip = asm.label();
            load(asm, LEFT, left);
            load(asm, RESULT, right);
            let jump = if op == Op::If { Jump::Equal } else { Jump::NotEqual };
            asm.jump_if(jump, LEFT, 0, skip);
            store(asm, result, RESULT);
            asm.bind(skip);
        }
        Op::Ewma => {
            load(asm, LEFT, left);
            load(asm, RESULT, right);
            load(asm, RIGHT, result);
            ewma(asm);
            store(asm, result, RESULT);
        }
        _ => {
            load(asm, LEFT, left);
            load(asm, RIGHT, right);
            arithmetic(asm, op);
            store(asm, result, RESULT);
        }
    }
}

/// After `Micros := value`, `Micros` counts from `now - value`.
fn restart_micros(asm: &mut Assembler) {
    asm.push(i::mul_imm(RESULT, NANOS_PER_MICRO));
    asm.push(i::load(LEFT, FLOW, field(offset_of!(Flow, tcp.now_ns))));
    asm.push(i::sub(LEFT, RESULT));
    asm.push(i::store(FLOW, field(offset_of!(Flow, time_zero_ns)), LEFT));
}

/// RESULT := LEFT op RIGHT.
fn arithmetic(asm: &mut Assembler, op: Op) {
    let done = asm.label();
    match op {
        Op::Add => {
            asm.push(i::mov(RESULT, LEFT));
            asm.push(i::add(RESULT, RIGHT));
            asm.jump_if_reg(Jump::GreaterOrEqual, RESULT, LEFT, done);
            asm.push(i::mov_imm(RESULT, -1));
        }
        Op::Sub => {
            asm.push(i::mov_imm(RESULT, 0));
            asm.jump_if_reg(Jump::LessOrEqual, LEFT, RIGHT, done);
            asm.push(i::mov(RESULT, LEFT));
            asm.push(i::sub(RESULT, RIGHT));
        }
        Op::Mul => multiply(asm, done),
        Op::Div => {
            asm.push(i::mov_imm(RESULT, -1));
            asm.jump_if(Jump::Equal, RIGHT, 0, done);
            asm.push(i::mov(RESULT, LEFT));
            asm.push(i::div(RESULT, RIGHT));
        }
        Op::Equiv | Op::Gt | Op::Lt => {
            let jump = match op {
                Op::Equiv => Jump::Equal,
                Op::Gt => Jump::Greater,
                _ => Jump::Less,
            };
            asm.push(i::mov_imm(RESULT, 1));
            asm.jump_if_reg(jump, LEFT, RIGHT, done);
            asm.push(i::mov_imm(RESULT, 0));
        }
        Op::Max | Op::Min => {
            let jump = if op == Op::Max { Jump::Greater } else { Jump::Less };
            asm.push(i::mov(RESULT, LEFT));
            asm.jump_if_reg(jump, LEFT, RIGHT, done);
            asm.push(i::mov(RESULT, RIGHT));
        }
        Op::MaxWrap => max_wrap(asm, done),
        Op::Bind | Op::If | Op::NotIf | Op::Ewma => unreachable!("emit() has its own code"),
    }
    asm.bind(done);
}

/// The product of two 32-bit numbers cannot overflow. The product of larger numbers is checked by a
/// division.
fn multiply(asm: &mut Assembler, done: Label) {
    asm.push(i::mov(SCRATCH, LEFT));
    asm.push(i::or(SCRATCH, RIGHT));
    asm.push(i::shift_right_imm(SCRATCH, 32));
    asm.push(i::mov(RESULT, LEFT));
    asm.push(i::mul(RESULT, RIGHT));
    asm.jump_if(Jump::Equal, SCRATCH, 0, done);
    asm.jump_if(Jump::Equal, RIGHT, 0, done);
    asm.push(i::mov(SCRATCH, RESULT));
    asm.push(i::div(SCRATCH, RIGHT));
    asm.jump_if_reg(Jump::Equal, SCRATCH, LEFT, done);
    asm.push(i::mov_imm(RESULT, -1));
}

/// RESULT holds the new value, RIGHT the old one, LEFT the old one's weight in tenths.
fn ewma(asm: &mut Assembler) {
    let first = asm.label();
    asm.jump_if(Jump::Equal, RIGHT, 0, first);
    let weighed = asm.label();
    asm.jump_if(Jump::LessOrEqual, LEFT, EWMA_DENOMINATOR, weighed);
    asm.push(i::mov_imm(LEFT, EWMA_DENOMINATOR));
    asm.bind(weighed);
    asm.push(i::mul(RIGHT, LEFT));
    asm.push(i::mov_imm(SCRATCH, EWMA_DENOMINATOR));
    asm.push(i::sub(SCRATCH, LEFT));
    asm.push(i::mul(RESULT, SCRATCH));
    asm.push(i::add(RESULT, RIGHT));
    asm.push(i::div_imm(RESULT, EWMA_DENOMINATOR));
    asm.bind(first);
}

/// libccp's `mymax64_wrap`: the later of two 32-bit numbers, where 0 is "none yet".
fn max_wrap(asm: &mut Assembler, done: Label) {
    asm.push(i::mov(RESULT, RIGHT));
    asm.jump_if(Jump::Equal, LEFT, 0, done);
    asm.push(i::mov(RESULT, LEFT));
    asm.jump_if(Jump::Equal, RIGHT, 0, done);
    wrapped_distance(asm, SCRATCH, LEFT, RIGHT);
    wrapped_distance(asm, 0, RIGHT, LEFT);
    asm.push(i::mov32(RESULT, LEFT));
    asm.jump_if_reg(Jump::Less, 0, SCRATCH, done);
    asm.push(i::mov32(RESULT, RIGHT));
}

/// libccp's `dif32`: from `from` to `to`, one less when it wraps.
fn wrapped_distance(asm: &mut Assembler, out: u8, from: u8, to: u8) {
    let no_wrap = asm.label();
    asm.push(i::mov32(out, to));
    asm.push(i::sub32(out, from));
    asm.jump32_if_reg(Jump::Greater, to, from, no_wrap);
    asm.push(i::sub_imm(out, 1));
    asm.bind(no_wrap);
    asm.push(i::mov32(out, out));
}
