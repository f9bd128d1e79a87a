//! The agent's end of the control slots: a sequence lock per flow (bpf/layout.h).
//!
//! Words written while the flow has not yet taken the last ones are added to them, so a window and
//! a rate of two messages both arrive. Exactly one thread writes.

use crate::Error;
use crate::kernel::Mapped;
use crate::layout::{self, FlowInfo, NAME_BYTES, SLOT_BITS, SLOTS, Slot};
use crate::natives::Standing;
use remuda_wire::Register;
use remuda_wire::program::{CWND, RATE};
use remuda_wire::to_datapath::Update;
use std::ptr::{read_volatile, write_volatile};
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// What a flow is to run from now on.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// A program, by its index in the jump table. Registers written with it are its.
    Program(u32),
    /// An algorithm of the kernel's own, with this slow-start threshold in segments (0 leaves it).
    /// A program written just before is what runs if the kernel refuses.
    Native([u8; NAME_BYTES], u32),
}

/// The slots and infos of every flow.
#[derive(Debug)]
pub struct Slots {
    slots: Mapped<Slot>,
    infos: Mapped<FlowInfo>,
}

fn split(sid: u32) -> (usize, u32) {
    (sid as usize & (SLOTS - 1), sid >> SLOT_BITS)
}

impl Slots {
    /// Over the two maps.
    pub fn new(slots: Mapped<Slot>, infos: Mapped<FlowInfo>) -> Self {
        Self { slots, infos }
    }

    /// Who lives in a slot now: its sid and what is known of it.
    pub fn occupant(&self, index: usize) -> Option<(u32, FlowInfo)> {
        let at = self.infos.entry(index);
        // SAFETY: in bounds; the kernel may write meanwhile, so the copy counts only if the
        // generation, written last by the kernel side, is the same before and after.
        let (before, info, after) = unsafe {
            let before = read_volatile(&raw const (*at).generation);
            fence(Ordering::Acquire);
            let info = read_volatile(at);
            fence(Ordering::Acquire);
            (before, info, read_volatile(&raw const (*at).generation))
        };
        let live = before != 0 && before == after;
        live.then_some((before << SLOT_BITS | index as u32, info))
    }

    /// What is known of a flow, if it lives.
    pub fn info(&self, sid: u32) -> Option<FlowInfo> {
        let (index, _) = split(sid);
        self.occupant(index).filter(|(live, _)| *live == sid).map(|(_, info)| info)
    }

    pub fn live(&self) -> impl Iterator<Item = (u32, FlowInfo)> {
        (0..SLOTS).filter_map(|index| self.occupant(index))
    }

    /// When the flow last took words from its slot, by the kernel's monotonic clock.
    pub fn applied_ns(&self, sid: u32) -> u64 {
        let (index, _) = split(sid);
        // SAFETY: in bounds; one aligned word, which the kernel side writes.
        unsafe { read_volatile(&raw const (*self.slots.entry(index)).applied_ns) }
    }

    /// Whether the flow runs an algorithm of the kernel's own, and whether it was last told to.
    pub fn standing(&self, sid: u32) -> Standing {
        let (index, _) = split(sid);
        let at = self.slots.entry(index);
        // SAFETY: in bounds; aligned words. The kernel side writes the one, and the other at the
        // flow's start.
        let (in_native, flags) = unsafe {
            (read_volatile(&raw const (*at).in_native), read_volatile(&raw const (*at).flags))
        };
        Standing { is_native: in_native != 0, wants_native: flags & layout::SLOT_NATIVE != 0 }
    }

    /// The flow has ended without the kernel side's knowing: says whether its slot was still its
    /// own, and is free from now on.
    pub fn vacate(&self, sid: u32) -> bool {
        let (index, generation) = split(sid);
        // SAFETY: in bounds; an aligned word that the kernel side, too, gives up only by comparing
        // it first.
        let word = unsafe { AtomicU32::from_ptr(&raw mut (*self.infos.entry(index)).generation) };
        word.compare_exchange(generation, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Writes new values for a flow, and what it is to run if that changes.
    pub fn write(&self, sid: u32, run: Option<Run>, updates: &[Update]) -> Result<(), Error> {
        let (index, generation) = split(sid);
        if self.info(sid).is_none() {
            return Err(Error::NoFlow(sid));
        }
        let at = self.slots.entry(index);
        // SAFETY: in bounds; this thread is the only writer of these words. The kernel side reads
        // them between two looks at seq, which is odd meanwhile.
        unsafe {
            let seq = read_volatile(&raw const (*at).seq);
            let taken = read_volatile(&raw const (*at).applied_seq) == seq;
            let mut words = read_volatile(at);
            if taken || words.for_generation != generation {
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
            words.control_mask = 0; // those were the old program's
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
