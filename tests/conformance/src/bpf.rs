//! Runs programs that the BPF compiler has made, in the kernel, on given numbers.
//!
//! The compiled code is that of the live datapath: [`compile::body`] and [`compile::defines`]. The
//! frame around it is our own, in place of the live one (bpf/program.h), which reads a socket: it
//! takes the primitives from a map, writes every register to another map, and goes to the next
//! step. `BPF_PROG_TEST_RUN` repeats the frame for many steps in one call.

use crate::Fallible;
use crate::case::{Case, Outcome};
use crate::engines::Engine;
use crate::source::Source;
use libbpf_rs::libbpf_sys as sys;
use remuda_bpf::compile;
use remuda_bpf::insn::{self as i, Assembler, Insn, Jump};
use remuda_bpf::layout::{Flow, Registers};
use remuda_oracle::{CONTROL, IMPLICIT, LOCAL, PRIMITIVES, REGISTERS, REPORT, TEMPORARY};
use remuda_wire::{Program, ToDatapath};
use std::ffi::CStr;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Most steps of a case.
const STEPS_MAX: usize = 1_024;
const WORD: usize = 8;

/// Layout of a step, in words: time, change, window, rate, primitives; then, for each control
/// register, whether it is set, and its value.
const STEP_NOW: usize = 0;
const STEP_CHANGE: usize = 1;
const STEP_CWND: usize = 2;
const STEP_RATE: usize = 3;
const STEP_PRIMITIVES: usize = 4;
const STEP_CONTROL: usize = STEP_PRIMITIVES + PRIMITIVES;
const STEP_WORDS: usize = STEP_CONTROL + 2 * CONTROL;
/// Layout of a step's result: whether it sent a report, the report, and all registers.
const OUT_REPORT: usize = 1;
const OUT_REGISTERS: usize = OUT_REPORT + REPORT;
const OUT_WORDS: usize = OUT_REGISTERS + REGISTERS;
/// The flow, followed by the number of the next step.
const FLOW_WORDS: usize = size_of::<Flow>() / WORD + 1;
const FLOW_NEXT: usize = FLOW_WORDS - 1;

const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
/// Registers that the program's code preserves: the flow, the step, the step's result, the step's
/// number.
const FLOW: u8 = 6;
const STEP: u8 = 7;
const OUT: u8 = 8;
const NUMBER: u8 = 9;

const LOAD_IMM64: u8 = 0x18;
const PSEUDO_MAP_VALUE: u8 = 2;
const EXIT: u8 = 0x95;
const NANOS_PER_MICRO: i32 = 1_000;
/// The kernel needs a packet to run such a program on; our program does not read it.
const PACKET_BYTES: usize = 64;
const LOG_BYTES: usize = 1 << 20;
const LOG_SHOWN: usize = 2_000;

/// A BPF map of one entry, mapped into this process.
struct Shared {
    fd: OwnedFd,
    base: NonNull<u64>,
    words: usize,
}

impl Shared {
    fn new(name: &CStr, words: usize) -> Fallible<Self> {
        let options = sys::bpf_map_create_opts {
            sz: size_of::<sys::bpf_map_create_opts>() as u64,
            map_flags: sys::BPF_F_MMAPABLE,
            ..Default::default()
        };
        let bytes = words * WORD;
        // SAFETY: valid pointers for the call; the descriptor it returns is ours alone.
        let fd = unsafe {
            let kind = sys::BPF_MAP_TYPE_ARRAY;
            sys::bpf_map_create(kind, name.as_ptr(), 4, bytes as u32, 1, &options)
        };
        if fd < 0 {
            return Err(format!("a BPF map: {}", io::Error::from_raw_os_error(-fd)).into());
        }
        // SAFETY: as above.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let base = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        match NonNull::new(base.cast::<u64>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { fd, base, words }),
            _ => Err(format!("mapping a BPF map: {}", io::Error::last_os_error()).into()),
        }
    }

    /// The map's words. The kernel writes them only inside [`Bpf::test_run`], which borrows all
    /// maps.
    fn words(&mut self) -> &mut [u64] {
        // SAFETY: `self.words` words are mapped as long as `self` lives, and nothing else accesses
        // them now.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.words) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped, once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * WORD) };
    }
}

/// Compiles programs to BPF and runs them in the kernel.
pub struct Bpf {
    flow: Shared,
    steps: Shared,
    out: Shared,
}

fn offset(words: usize) -> i16 {
    i16::try_from(words * WORD).expect("a step is smaller than a page")
}

fn register(base: usize, index: usize) -> i16 {
    let bytes = offset_of!(Flow, registers) + base + index * WORD;
    i16::try_from(bytes).expect("a flow is smaller than a page")
}

fn field(bytes: usize) -> i16 {
    i16::try_from(bytes).expect("a flow is smaller than a page")
}

/// The offset in the flow of each register of an [`Outcome`].
fn places() -> Vec<i16> {
    [
        (offset_of!(Registers, report), REPORT),
        (offset_of!(Registers, control), CONTROL),
        (offset_of!(Registers, implicit), IMPLICIT),
        (offset_of!(Registers, temporary), TEMPORARY),
        (offset_of!(Registers, local), LOCAL),
    ]
    .into_iter()
    .flat_map(|(base, count)| (0..count).map(move |index| register(base, index)))
    .collect()
}

fn implicit(index: u32) -> i16 {
    register(offset_of!(Registers, implicit), index as usize)
}

/// Emits `to = the address of the map's value`.
fn map_value(asm: &mut Assembler, to: u8, map: &Shared) {
    let mut insn = Insn { code: LOAD_IMM64, imm: map.fd.as_raw_fd(), ..Insn::default() };
    insn.set_dst_reg(to);
    insn.set_src_reg(PSEUDO_MAP_VALUE);
    asm.push(insn);
    asm.push(Insn::default());
}

/// Emits `to = the address of entry NUMBER of the map's array`.
fn entry(asm: &mut Assembler, to: u8, map: &Shared, words: usize) {
    map_value(asm, to, map);
    asm.push(i::mov(R0, NUMBER));
    asm.push(i::mul_imm(R0, i32::from(offset(words))));
    asm.push(i::add(to, R0));
}

fn copy(asm: &mut Assembler, (from, at): (u8, i16), (to, there): (u8, i16)) {
    asm.push(i::load(R0, from, at));
    asm.push(i::store(to, there, R0));
}

/// Compiled code expects the flow in r1.
fn splice(asm: &mut Assembler, code: Vec<Insn>) {
    asm.push(i::mov(R1, FLOW));
    code.into_iter().for_each(|insn| asm.push(insn));
}

impl Bpf {
    /// Creates the maps; needs root.
    pub fn new() -> Fallible<Self> {
        libbpf_rs::set_print(None);
        Ok(Self {
            flow: Shared::new(c"conf_flow", FLOW_WORDS)?,
            steps: Shared::new(c"conf_steps", STEPS_MAX * STEP_WORDS)?,
            out: Shared::new(c"conf_out", STEPS_MAX * OUT_WORDS)?,
        })
    }

    /// The code of one step of a flow that runs `program`.
    fn frame(&self, program: &Program) -> Vec<Insn> {
        let mut asm = Assembler::default();
        let done = asm.label();
        map_value(&mut asm, FLOW, &self.flow);
        asm.push(i::load(NUMBER, FLOW, offset(FLOW_NEXT)));
        let steps = i32::try_from(STEPS_MAX).expect("a thousand");
        asm.jump_if(Jump::GreaterOrEqual, NUMBER, steps, done);
        entry(&mut asm, STEP, &self.steps, STEP_WORDS);
        entry(&mut asm, OUT, &self.out, OUT_WORDS);
        asm.push(i::sub_imm(NUMBER, -1));
        asm.push(i::store(FLOW, offset(FLOW_NEXT), NUMBER));
        self.before(&mut asm, program);
        splice(&mut asm, compile::body(program));
        self.after(&mut asm, program);
        asm.bind(done);
        asm.push(i::mov_imm(R0, 0));
        asm.push(Insn { code: EXIT, ..Insn::default() });
        asm.finish()
    }

    /// What run_program() of the live frame does before the clauses.
    fn before(&self, asm: &mut Assembler, program: &Program) {
        let now = field(offset_of!(Flow, tcp.now_ns));
        let zero = field(offset_of!(Flow, time_zero_ns));
        copy(asm, (STEP, offset(STEP_NOW)), (FLOW, now));
        let same = asm.label();
        asm.push(i::load(R2, STEP, offset(STEP_CHANGE)));
        asm.jump_if(Jump::Equal, R2, 0, same);
        copy(asm, (STEP, offset(STEP_NOW)), (FLOW, zero));
        splice(asm, compile::defines(program, false));
        asm.bind(same);
        for index in 0..CONTROL {
            let skip = asm.label();
            asm.push(i::load(R2, STEP, offset(STEP_CONTROL + 2 * index)));
            asm.jump_if(Jump::Equal, R2, 0, skip);
            let place = register(offset_of!(Registers, control), index);
            copy(asm, (STEP, offset(STEP_CONTROL + 2 * index + 1)), (FLOW, place));
            asm.bind(skip);
        }
        for index in 0..PRIMITIVES {
            let place = register(offset_of!(Registers, primitive), index);
            copy(asm, (STEP, offset(STEP_PRIMITIVES + index)), (FLOW, place));
        }
        asm.push(i::mov_imm(R0, 0));
        for index in 0..3 {
            asm.push(i::store(FLOW, implicit(index), R0));
        }
        asm.push(i::load(R2, FLOW, now));
        asm.push(i::load(R3, FLOW, zero));
        asm.push(i::sub(R2, R3));
        asm.push(i::div_imm(R2, NANOS_PER_MICRO));
        asm.push(i::store(FLOW, implicit(remuda_wire::program::MICROS), R2));
        copy(asm, (STEP, offset(STEP_CWND)), (FLOW, implicit(remuda_wire::program::CWND)));
        copy(asm, (STEP, offset(STEP_RATE)), (FLOW, implicit(remuda_wire::program::RATE)));
    }

    /// What run_program() does after the clauses; then stores the result.
    fn after(&self, asm: &mut Assembler, program: &Program) {
        const REPORTS: u32 = 2;
        copy(asm, (FLOW, implicit(REPORTS)), (OUT, 0));
        for index in 0..program.report_fields() {
            let place = register(offset_of!(Registers, report), index);
            copy(asm, (FLOW, place), (OUT, offset(OUT_REPORT + index)));
        }
        let silent = asm.label();
        asm.push(i::load(R2, FLOW, implicit(REPORTS)));
        asm.jump_if(Jump::Equal, R2, 0, silent);
        splice(asm, compile::defines(program, true));
        asm.bind(silent);
        for (index, place) in places().into_iter().enumerate() {
            copy(asm, (FLOW, place), (OUT, offset(OUT_REGISTERS + index)));
        }
    }

    fn load(&self, source: &Source) -> Fallible<(OwnedFd, usize)> {
        let program = match ToDatapath::parse(&source.message()) {
            Ok(ToDatapath::Install(program)) => program,
            other => return Err(format!("remuda-wire refuses a program: {other:?}").into()),
        };
        Ok((load(&self.frame(&program))?, program.report_fields()))
    }

    fn put(&mut self, case: &Case) {
        let words = self.steps.words();
        for (step, words) in case.steps.iter().zip(words.chunks_exact_mut(STEP_WORDS)) {
            words.fill(0);
            words[STEP_NOW] = step.now_ns;
            words[STEP_CHANGE] = u64::from(step.change.is_some());
            words[STEP_CWND] = step.cwnd_bytes;
            words[STEP_RATE] = step.rate;
            words[STEP_PRIMITIVES..STEP_CONTROL].copy_from_slice(&step.primitives);
            for (index, value) in &step.updates {
                let at = STEP_CONTROL + 2 * *index as usize;
                words[at..at + 2].copy_from_slice(&[1, *value]);
            }
        }
        self.flow.words().fill(0);
    }

    /// Runs `program` for `steps` steps, from the flow's current state.
    fn test_run(&mut self, program: &OwnedFd, steps: usize) -> Fallible<()> {
        let packet = [0u8; PACKET_BYTES];
        let mut options = sys::bpf_test_run_opts {
            sz: size_of::<sys::bpf_test_run_opts>() as u64,
            data_in: packet.as_ptr().cast(),
            data_size_in: PACKET_BYTES as u32,
            repeat: i32::try_from(steps)?,
            ..Default::default()
        };
        let before = self.flow.words()[FLOW_NEXT];
        // SAFETY: valid pointers for the call; the program writes to our maps alone, none of whose
        // words are borrowed now.
        let error = unsafe { sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
        if error != 0 {
            let why = io::Error::from_raw_os_error(-error);
            return Err(format!("BPF_PROG_TEST_RUN: {why}").into());
        }
        let ran = self.flow.words()[FLOW_NEXT] - before;
        if ran != steps as u64 {
            return Err(format!("the kernel ran {ran} of {steps} steps").into());
        }
        Ok(())
    }
}

/// Loads a program as a traffic classifier: the kernel can run this type on a given packet many
/// times.
fn load(insns: &[Insn]) -> Fallible<OwnedFd> {
    let mut log = vec![0u8; LOG_BYTES];
    for verbose in [false, true] {
        let mut options = sys::bpf_prog_load_opts {
            sz: size_of::<sys::bpf_prog_load_opts>() as u64,
            ..Default::default()
        };
        if verbose {
            options.log_buf = log.as_mut_ptr().cast();
            options.log_size = LOG_BYTES as u32;
            options.log_level = 1;
        }
        // SAFETY: all pointers outlive the call; the descriptor returned is ours alone.
        let fd = unsafe {
            sys::bpf_prog_load(
                sys::BPF_PROG_TYPE_SCHED_CLS,
                c"conformance".as_ptr(),
                c"GPL".as_ptr(),
                insns.as_ptr(),
                insns.len() as u64,
                &mut options,
            )
        };
        if fd >= 0 {
            // SAFETY: as above.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
    let tail = String::from_utf8_lossy(&log[end.saturating_sub(LOG_SHOWN)..end]).into_owned();
    Err(format!("the verifier refuses a program of {} instructions:\n{tail}", insns.len()).into())
}

impl Engine for Bpf {
    fn name(&self) -> &'static str {
        "bpf"
    }

    fn run(&mut self, case: &Case) -> Fallible<Vec<Outcome>> {
        if case.steps.len() > STEPS_MAX {
            return Err(format!("{} steps; at most {STEPS_MAX}", case.steps.len()).into());
        }
        let mut loaded: Vec<Option<(OwnedFd, usize)>> =
            case.programs.iter().map(|_| None).collect();
        for number in case.steps.iter().filter_map(|step| step.change) {
            if loaded[number].is_none() {
                loaded[number] = Some(self.load(&case.programs[number])?);
            }
        }
        self.put(case);
        let mut outcomes = Vec::with_capacity(case.steps.len());
        let (mut from, mut running) = (0, 0);
        while from < case.steps.len() {
            running = case.steps[from].change.unwrap_or(running);
            let rest = &case.steps[from + 1..];
            let steps = 1 + rest.iter().take_while(|step| step.change.is_none()).count();
            let (program, fields) =
                loaded[running].as_ref().ok_or("a case begins with a program")?;
            self.test_run(program, steps)?;
            let out = &self.out.words()[from * OUT_WORDS..(from + steps) * OUT_WORDS];
            outcomes.extend(out.chunks_exact(OUT_WORDS).map(|words| Outcome {
                registers: words[OUT_REGISTERS..].try_into().expect("all registers"),
                report: (words[0] != 0).then(|| words[OUT_REPORT..OUT_REPORT + fields].to_vec()),
            }));
            from += steps;
        }
        Ok(outcomes)
    }
}
