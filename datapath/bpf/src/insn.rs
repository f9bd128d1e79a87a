//! BPF instructions by name, and an assembler with labels.
//!
//! Encodings are those of include/uapi/linux/bpf.h and Documentation/bpf/standardization.

use libbpf_rs::libbpf_sys::bpf_insn;

pub type Insn = bpf_insn;

/// Class, source and operation of the instructions used here.
mod code {
    pub const LD_IMM64: u8 = 0x18;
    pub const LDX_DW: u8 = 0x79;
    pub const STX_DW: u8 = 0x7b;
    pub const ALU64_K: u8 = 0x07;
    pub const ALU64_X: u8 = 0x0f;
    pub const ALU32_X: u8 = 0x0c;
    pub const JMP_K: u8 = 0x05;
    pub const JMP_X: u8 = 0x0d;
    pub const JMP32_X: u8 = 0x0e;
    pub const ADD: u8 = 0x00;
    pub const SUB: u8 = 0x10;
    pub const MUL: u8 = 0x20;
    pub const DIV: u8 = 0x30;
    pub const OR: u8 = 0x40;
    pub const RSH: u8 = 0x70;
    pub const MOV: u8 = 0xb0;
    pub const CLASS_MASK: u8 = 0x07;
    pub const CLASS_JMP: u8 = 0x05;
    pub const CLASS_JMP32: u8 = 0x06;
    pub const OP_MASK: u8 = 0xf0;
    pub const CALL: u8 = 0x80;
    pub const EXIT: u8 = 0x90;
}

/// Conditions of a jump; all comparisons are unsigned.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Jump {
    Equal = 0x10,
    Greater = 0x20,
    GreaterOrEqual = 0x30,
    NotEqual = 0x50,
    Less = 0xa0,
    LessOrEqual = 0xb0,
}

fn raw(code: u8, dst: u8, src: u8, imm: i32) -> Insn {
    let mut insn = Insn { code, imm, ..Insn::default() };
    insn.set_dst_reg(dst);
    insn.set_src_reg(src);
    insn
}

fn memory(code: u8, dst: u8, src: u8, off: i16) -> Insn {
    let mut insn = raw(code, dst, src, 0);
    insn.off = off;
    insn
}

/// `to = *(u64 *)(base + offset)`
pub fn load(to: u8, base: u8, offset: i16) -> Insn {
    memory(code::LDX_DW, to, base, offset)
}

/// `*(u64 *)(base + offset) = from`
pub fn store(base: u8, offset: i16, from: u8) -> Insn {
    memory(code::STX_DW, base, from, offset)
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $class:ident | $op:ident by $operand:ident;)*) => {
        $(operations!(@ $(#[$doc])* $name, code::$class | code::$op, $operand);)*
    };
    (@ $(#[$doc:meta])* $name:ident, $code:expr, register) => {
        $(#[$doc])*
        pub fn $name(dst: u8, src: u8) -> Insn {
            raw($code, dst, src, 0)
        }
    };
    (@ $(#[$doc:meta])* $name:ident, $code:expr, constant) => {
        $(#[$doc])*
        pub fn $name(dst: u8, imm: i32) -> Insn {
            raw($code, dst, 0, imm)
        }
    };
}

operations! {
    /// `dst = src`
    mov = ALU64_X | MOV by register;
    /// `dst = imm`, sign-extended
    mov_imm = ALU64_K | MOV by constant;
    /// `dst = (u32)src`
    mov32 = ALU32_X | MOV by register;
    /// `dst += src`
    add = ALU64_X | ADD by register;
    /// `dst -= src`
    sub = ALU64_X | SUB by register;
    /// `dst -= imm`
    sub_imm = ALU64_K | SUB by constant;
    /// `dst = (u32)dst - (u32)src`
    sub32 = ALU32_X | SUB by register;
    /// `dst *= src`
    mul = ALU64_X | MUL by register;
    /// `dst *= imm`
    mul_imm = ALU64_K | MUL by constant;
    /// `dst /= src`
    div = ALU64_X | DIV by register;
    /// `dst /= imm`
    div_imm = ALU64_K | DIV by constant;
    /// `dst |= src`
    or = ALU64_X | OR by register;
    /// `dst >>= imm`
    shift_right_imm = ALU64_K | RSH by constant;
}

/// Whether `insn` is the first half of `dst = imm ll` with `low` as its low 32 bits.
pub fn is_load_const(insn: &Insn, low: u32) -> bool {
    insn.code == code::LD_IMM64 && insn.src_reg() == 0 && insn.imm == low as i32
}

/// Whether the `off` of `insn` is a distance to another instruction.
pub fn is_jump(insn: &Insn) -> bool {
    let (class, op) = (insn.code & code::CLASS_MASK, insn.code & code::OP_MASK);
    (class == code::CLASS_JMP || class == code::CLASS_JMP32) && op != code::CALL && op != code::EXIT
}

/// Whether `insn` calls another function of the same program.
pub fn is_local_call(insn: &Insn) -> bool {
    const PSEUDO_CALL: u8 = 1;
    insn.code == code::CLASS_JMP | code::CALL && insn.src_reg() == PSEUDO_CALL
}

/// A target of jumps.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

/// Collects instructions and resolves their jumps.
#[derive(Debug, Default)]
pub struct Assembler {
    insns: Vec<Insn>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub fn push(&mut self, insn: Insn) {
        self.insns.push(insn);
    }

    /// `to = value`
    pub fn load_const(&mut self, to: u8, value: u64) {
        if let Ok(small) = i32::try_from(value) {
            self.push(mov_imm(to, small));
            return;
        }
        self.push(raw(code::LD_IMM64, to, 0, value as u32 as i32));
        self.push(raw(0, 0, 0, (value >> 32) as u32 as i32));
    }

    /// Makes a label. [`Self::bind`] gives it its place.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label before the next instruction.
    pub fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.insns.len());
    }

    fn jump(&mut self, insn: Insn, to: Label) {
        self.jumps.push((self.insns.len(), to));
        self.push(insn);
    }

    /// Jumps if `register jump constant`.
    pub fn jump_if(&mut self, jump: Jump, register: u8, constant: i32, to: Label) {
        self.jump(raw(code::JMP_K | jump as u8, register, 0, constant), to);
    }

    /// Jumps if `left jump right`.
    pub fn jump_if_reg(&mut self, jump: Jump, left: u8, right: u8, to: Label) {
        self.jump(raw(code::JMP_X | jump as u8, left, right, 0), to);
    }

    /// Jumps if `(u32)left jump (u32)right`.
    pub fn jump32_if_reg(&mut self, jump: Jump, left: u8, right: u8, to: Label) {
        self.jump(raw(code::JMP32_X | jump as u8, left, right, 0), to);
    }

    /// Resolves every jump and returns the instructions.
    pub fn finish(mut self) -> Vec<Insn> {
        for (at, label) in self.jumps {
            let to = self.labels[label.0].expect("every label that is jumped to is bound");
            let distance = to as isize - at as isize - 1;
            self.insns[at].off =
                i16::try_from(distance).expect("255 CCP instructions are less than 2^15 of BPF");
        }
        self.insns
    }
}
