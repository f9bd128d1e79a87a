//! One flow's registers, and a run of its program at one ACK.

use crate::ffi;
use crate::program::Program;
use remuda_wire::Register;
use remuda_wire::to_datapath::Update;

/// What `rtt_sample_us` is at an ACK without an RTT sample.
pub const RTT_NONE: u64 = u32::MAX as u64;

/// What a datapath measures at an ACK, in libccp's order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Primitives {
    /// Bytes newly acknowledged in order.
    pub bytes_acked: u64,
    /// Bytes newly acknowledged out of order.
    pub bytes_misordered: u64,
    /// Bytes that carried a congestion mark.
    pub ecn_bytes: u64,
    /// Segments that carried a congestion mark.
    pub ecn_packets: u64,
    /// Segments newly marked lost.
    pub lost_pkts_sample: u64,
    /// The datapath's clock, in microseconds.
    pub now_us: u64,
    /// Segments newly acknowledged in order.
    pub packets_acked: u64,
    /// Segments newly acknowledged out of order.
    pub packets_misordered: u64,
    /// Bytes in flight after this ACK.
    pub bytes_in_flight: u64,
    /// Bytes written and not yet acknowledged.
    pub bytes_pending: u64,
    /// Segments in flight after this ACK.
    pub packets_in_flight: u64,
    /// Rate at which the path delivers, in bytes per second.
    pub rate_incoming: u64,
    /// Rate at which the sender sends, in bytes per second.
    pub rate_outgoing: u64,
    /// Round trip of this ACK, in microseconds; [`RTT_NONE`] if it has none.
    pub rtt_sample_us: u64,
    /// 1 at the first ACK after a timeout, else 0.
    pub was_timeout: u64,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// There is a report: [`Machine::report`].
    pub reported: bool,
    /// The window the program wants, in bytes, if not 0 and not the one in force. Not clamped.
    pub cwnd_bytes: Option<u64>,
    /// The rate the program wants, in bytes per second; as the window.
    pub rate: Option<u64>,
}

/// One flow's registers. Runs nothing until it has a program, and allocates nothing after.
#[derive(Clone, Debug)]
pub struct Machine {
    raw: ffi::Machine,
    program: Option<Program>,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// All registers 0, and no program.
    pub fn new() -> Self {
        let raw = ffi::Machine { r: [0; ffi::REGISTERS], time_zero_ns: 0, spent: 0 };
        Self { raw, program: None }
    }

    /// The flow runs `program` from now on: its registers get their initial values, Micros starts
    /// again, then control registers get what `updates` say. Registers without an initial value
    /// keep what they have. Updates of Cwnd and Rate are the caller's business.
    pub fn change(&mut self, program: &Program, updates: &[Update], now_ns: u64) {
        if let Some(last) = &self.program {
            // SAFETY: a decoded program, and registers that are ours to write.
            unsafe { ffi::remuda_settle(last.raw(), &raw mut self.raw) };
        }
        // SAFETY: as above.
        unsafe { ffi::remuda_define(program.raw(), &raw mut self.raw, now_ns) };
        self.program = Some(program.clone());
        for Update { register, value } in updates {
            if let Register::Control(index) = *register {
                self.set_control(index, *value);
            }
        }
    }

    /// Sets a control register. Nothing happens if there is none of that index.
    pub fn set_control(&mut self, index: u32, value: u64) {
        let control = &mut self.raw.r[ffi::CONTROL..ffi::IMPLICIT];
        if let Some(register) = control.get_mut(index as usize) {
            *register = value;
        }
    }

    /// One ACK. `cwnd_bytes` and `rate` (bytes per second, 0: none was set) are what is in force,
    /// and what the program reads.
    pub fn run(&mut self, p: &Primitives, cwnd_bytes: u64, rate: u64, now_ns: u64) -> Ran {
        let Some(program) = &self.program else {
            return Ran::default();
        };
        // SAFETY: a decoded program, registers that are ours to write, primitives to read.
        let ran = unsafe {
            ffi::remuda_run(program.raw(), &raw mut self.raw, p, cwnd_bytes, rate, now_ns)
        };
        let wanted = |bit: u32, register: usize| (ran & bit != 0).then(|| self.raw.r[register]);
        Ran {
            reported: ran & ffi::RAN_REPORT != 0,
            cwnd_bytes: wanted(ffi::RAN_CWND, ffi::CWND),
            rate: wanted(ffi::RAN_RATE, ffi::RATE),
        }
    }

    /// Fields of the report of the run that just said `reported`. The next run, and a change of
    /// program, set volatile registers again.
    pub fn report(&self) -> &[u64] {
        let fields = self.program.as_ref().map_or(0, Program::report_fields);
        &self.raw.r[ffi::REPORT..ffi::REPORT + fields]
    }

    /// The agent's number of the program it runs.
    pub fn program_uid(&self) -> Option<u32> {
        self.program.as_ref().map(Program::uid)
    }

    /// What a register holds between runs: volatile ones of a report that was made are set again.
    /// For tests; it copies all registers.
    pub fn register(&self, register: Register) -> u64 {
        let mut settled = self.raw.clone();
        if let Some(program) = &self.program {
            // SAFETY: a decoded program, and a copy of the registers.
            unsafe { ffi::remuda_settle(program.raw(), &raw mut settled) };
        }
        let (from, index) = match register {
            Register::Immediate(value) => return value,
            Register::Implicit(index) => (ffi::IMPLICIT, index),
            Register::Temporary(index) => (ffi::TEMPORARY, index),
            Register::Local(index) => (ffi::LOCAL, index),
            Register::Primitive(index) => (ffi::PRIMITIVE, index),
            Register::Report(index) => (ffi::REPORT, index),
            Register::Control(index) => (ffi::CONTROL, index),
        };
        settled.r[from + index as usize]
    }
}
