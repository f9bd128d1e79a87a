//! The registers of one flow, and a run of its program at one ACK.

use crate::ffi;
use crate::program::Program;
use remuda_wire::Register;
use remuda_wire::to_datapath::Update;

/// The value of `rtt_sample_us` at an ACK without an RTT sample.
pub const RTT_NONE: u64 = u32::MAX as u64;

/// The measurements of a datapath at an ACK, in libccp's order.
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
    /// Round-trip time of this ACK, in microseconds; [`RTT_NONE`] if there is no sample.
    pub rtt_sample_us: u64,
    /// 1 at the first ACK after a timeout, else 0.
    pub was_timeout: u64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// The program has made a report: [`Machine::report`].
    pub reported: bool,
    /// The window that the program asks for, in bytes; `None` if it is 0 or the one in force. Not
    /// clamped.
    pub cwnd_bytes: Option<u64>,
    /// The rate that the program asks for, in bytes per second; `None` as for the window.
    pub rate: Option<u64>,
}

/// The registers of one flow. Without a program nothing runs; running allocates nothing.
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
    pub fn new() -> Self {
        let raw = ffi::Machine { r: [0; ffi::REGISTERS], time_zero_ns: 0, spent: 0 };
        Self { raw, program: None }
    }

    /// Changes the flow's program. Its registers get their initial values, Micros starts at 0, and
    /// then control registers get the values in `updates`. Registers without an initial value keep
    /// their values. The caller handles updates of Cwnd and Rate.
    pub fn change(&mut self, program: &Program, updates: &[Update], now_ns: u64) {
        if let Some(last) = &self.program {
            // SAFETY: the program was decoded, and the registers are ours to write.
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

    /// Sets a control register; does nothing if there is no register with this index.
    pub fn set_control(&mut self, index: u32, value: u64) {
        let control = &mut self.raw.r[ffi::CONTROL..ffi::IMPLICIT];
        if let Some(register) = control.get_mut(index as usize) {
            *register = value;
        }
    }

    /// Runs the program at one ACK. `cwnd_bytes` and `rate` (bytes per second, 0 if none was set)
    /// are the values in force, which the program can read.
    pub fn run(&mut self, p: &Primitives, cwnd_bytes: u64, rate: u64, now_ns: u64) -> Ran {
        let Some(program) = &self.program else {
            return Ran::default();
        };
        // SAFETY: the program was decoded, the registers are ours to write, C only reads the
        // primitives.
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

    /// The fields of the report, after a run that returned `reported`. The next run, or a change of
    /// program, resets volatile registers.
    pub fn report(&self) -> &[u64] {
        let fields = self.program.as_ref().map_or(0, Program::report_fields);
        &self.raw.r[ffi::REPORT..ffi::REPORT + fields]
    }

    /// The agent's number of the present program; `None` without one.
    pub fn program_uid(&self) -> Option<u32> {
        self.program.as_ref().map(Program::uid)
    }

    /// The value of a register between runs: volatile registers of a finished report are reset
    /// first. For tests; this copies all registers.
    pub fn register(&self, register: Register) -> u64 {
        let mut settled = self.raw.clone();
        if let Some(program) = &self.program {
            // SAFETY: the program was decoded, and the registers are a copy.
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
