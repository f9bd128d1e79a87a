//! The agent's side of the control slots: a sequence lock per flow (bpf/layout.h).
//!
//! If the flow has not yet taken the previous words, a write merges the new words with them, so a
//! window and a rate from two messages both arrive. Exactly one thread writes.

use crate::Error;
use crate::kernel::Mapped;
use crate::layout::{self, FlowInfo, NAME_BYTES, SLOT_BITS, Slot};
use crate::natives::NativeState;
use remuda_wire::Register;
use remuda_wire::program::{CWND, RATE};
use remuda_wire::to_datapath::Update;
use std::ptr::{read_volatile, write_volatile};
use std::sync::atomic::{Ordering, fence};

/// What a flow is to run from now on.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// A program, by its index in the jump table. Register values in the same message are for this
    /// program.
    Program(u32),
    /// One of the kernel's own algorithms, and the slow-start threshold in segments that the flow
    /// starts it with (0: as it is). If the kernel refuses the algorithm, the flow runs the program
    /// that was written last.
    Native([u8; NAME_BYTES], u32),
}

/// Every slot, and the description of the flow in it.
#[derive(Debug)]
pub struct Slots {
    slots: Mapped<Slot>,
    infos: Mapped<FlowInfo>,
}

/// Slot and generation of a sid. The slot of a sid that a message names may lie beyond the table.
pub fn split(sid: u32) -> (usize, u32) {
    (sid as usize & ((1 << SLOT_BITS) - 1), sid >> SLOT_BITS)
}

fn join(index: usize, generation: u32) -> u32 {
    generation << SLOT_BITS | index as u32
}

impl Slots {
    pub fn new(slots: Mapped<Slot>, infos: Mapped<FlowInfo>) -> Self {
        Self { slots, infos }
    }

    /// The flow that has a slot now: its sid and its description.
    pub fn occupant(&self, index: usize) -> Option<(u32, FlowInfo)> {
        let at = self.infos.get(index)?;
        // SAFETY: in bounds. The kernel side may write meanwhile. It writes the generation last
        // when a flow starts and first when the flow ends, with full barriers, so a copy between
        // two equal generations is of that flow.
        let (before, info, after) = unsafe {
            let before = read_volatile(&raw const (*at).generation);
            fence(Ordering::Acquire);
            let info = read_volatile(at);
            fence(Ordering::Acquire);
            (before, info, read_volatile(&raw const (*at).generation))
        };
        let live = before != 0 && before == after;
        live.then_some((join(index, before), info))
    }

    /// The sid of the flow that has a slot now; 0 if the slot is free.
    pub fn occupant_sid(&self, index: usize) -> u32 {
        let Some(at) = self.infos.get(index) else { return 0 };
        // SAFETY: in bounds; one aligned word, which the kernel side writes.
        match unsafe { read_volatile(&raw const (*at).generation) } {
            0 => 0,
            generation => join(index, generation),
        }
    }

    /// The description of a flow, if it is live.
    pub fn info(&self, sid: u32) -> Option<FlowInfo> {
        let (index, _) = split(sid);
        self.occupant(index).filter(|(live, _)| *live == sid).map(|(_, info)| info)
    }

    /// When the flow last took words from its slot, in nanoseconds of CLOCK_MONOTONIC; 0 if never.
    pub fn applied_ns(&self, sid: u32) -> u64 {
        let (index, _) = split(sid);
        let Some(at) = self.slots.get(index) else { return 0 };
        // SAFETY: in bounds; one aligned word, which the kernel side writes.
        unsafe { read_volatile(&raw const (*at).applied_ns) }
    }

    /// Whether the flow runs one of the kernel's own algorithms, and whether it should.
    pub fn native_state(&self, sid: u32) -> NativeState {
        let (index, _) = split(sid);
        let Some(at) = self.slots.get(index) else { return NativeState::default() };
        // SAFETY: in bounds; aligned words. The kernel side writes `in_native`, and `flags` only
        // when a flow starts.
        let (in_native, flags) = unsafe {
            (read_volatile(&raw const (*at).in_native), read_volatile(&raw const (*at).flags))
        };
        NativeState { is_native: in_native != 0, wants_native: flags & layout::SLOT_NATIVE != 0 }
    }

    /// Writes new values for a flow, and the program or algorithm to run if that changes.
    pub fn write(&self, sid: u32, run: Option<Run>, updates: &[Update]) -> Result<(), Error> {
        let (index, generation) = split(sid);
        if self.info(sid).is_none() {
            return Err(Error::NoFlow(sid));
        }
        let at = self.slots.get(index).ok_or(Error::NoFlow(sid))?;
        // SAFETY: in bounds; this thread is the only writer of these words. seq is odd while they
        // change: the fences, which are barriers of the machine too, keep the words between the two
        // writes of seq. The kernel side has a barrier after each of its two reads of seq.
        unsafe {
            let seq = read_volatile(&raw const (*at).seq);
            let applied = read_volatile(&raw const (*at).applied_seq) == seq;
            let mut words = read_volatile(at);
            if applied || words.for_generation != generation {
                words.flags = 0;
                words.control_mask = 0;
            }
            words.for_generation = generation;
            merge(&mut words, run, updates);
            write_volatile(&raw mut (*at).seq, seq | 1);
            fence(Ordering::SeqCst);
            write_volatile(&raw mut (*at).for_generation, words.for_generation);
            write_volatile(&raw mut (*at).flags, words.flags);
            write_volatile(&raw mut (*at).program, words.program);
            write_volatile(&raw mut (*at).program_seq, words.program_seq);
            write_volatile(&raw mut (*at).control_mask, words.control_mask);
            write_volatile(&raw mut (*at).cwnd_bytes, words.cwnd_bytes);
            write_volatile(&raw mut (*at).rate_bytes_per_sec, words.rate_bytes_per_sec);
            write_volatile(&raw mut (*at).control, words.control);
            write_volatile(&raw mut (*at).native, words.native);
            write_volatile(&raw mut (*at).native_ssthresh_pkts, words.native_ssthresh_pkts);
            fence(Ordering::SeqCst);
            write_volatile(&raw mut (*at).seq, (seq | 1).wrapping_add(1));
        }
        Ok(())
    }
}

fn merge(words: &mut Slot, run: Option<Run>, updates: &[Update]) {
    match run {
        Some(Run::Program(program)) => {
            words.flags = words.flags & !layout::SLOT_NATIVE | layout::SLOT_PROGRAM;
            words.program = program;
            words.program_seq = words.program_seq.wrapping_add(1);
            words.control_mask = 0; // those registers were the old program's
        }
        Some(Run::Native(name, ssthresh_pkts)) => {
            words.flags |= layout::SLOT_NATIVE;
            words.native = name;
            words.native_ssthresh_pkts = ssthresh_pkts;
            words.program_seq = words.program_seq.wrapping_add(1);
        }
        None => {}
    }
    for Update { register, value } in updates {
        match *register {
            Register::Implicit(CWND) => {
                words.flags |= layout::SLOT_CWND;
                words.cwnd_bytes = *value;
            }
            Register::Implicit(RATE) => {
                words.flags |= layout::SLOT_RATE;
                words.rate_bytes_per_sec = *value;
            }
            Register::Control(n) => {
                words.flags |= layout::SLOT_CONTROL;
                words.control_mask |= 1 << n;
                words.control[n as usize] = *value;
            }
            _ => unreachable!("the parser lets only control registers, Cwnd and Rate be set"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::FLOWS_MAX;

    #[test]
    fn a_sid_is_split_into_the_slot_and_the_generation_it_was_made_of() {
        let generation_max = u32::MAX >> SLOT_BITS;
        for index in [0, 1, 8_191, 8_192, 20_000, FLOWS_MAX as usize - 1, (1 << SLOT_BITS) - 1] {
            for generation in [1, 2, generation_max] {
                assert_eq!(split(join(index, generation)), (index, generation));
            }
        }
        assert_eq!(join(5, 3), 3 << 17 | 5);
        assert_eq!(split(u32::MAX), ((1 << 17) - 1, (1 << 15) - 1));
    }
}
