//! The arm of an author: it repeats the latest decision of the author's process.

use super::line::{Line, Own};
use super::{AuthorArm, Program};
use remuda_algorithms::units::{Bytes, Time};
use remuda_algorithms::{
    Arm, ArmInfo, Decision, Measurement, PathState, ProgramId, Registers, window,
};
use std::sync::Arc;
use std::time::Duration;

/// What the agent needs of an arm whose code runs in another process or thread, and so may be late
/// or fail.
pub trait Author: Arm {
    /// Whether the program reports none of the shared signals. Then [`Arm::own_fields`] are all its
    /// fields, and [`Self::take_fields`] passes them to the arm.
    fn is_foreign(&self) -> bool {
        false
    }

    /// Whether the program sets the window or the rate itself. For such a program the agent sends
    /// only new decisions, because sending the last decision again would undo what the program did.
    fn steers_itself(&self) -> bool {
        false
    }

    /// Takes all fields of a report of a foreign program, before the call with its measurement.
    fn take_fields(&mut self, _fields: &[u64]) {}

    /// A decision that arrived after the call that asked for it; `None` if there is no new one.
    fn late(&mut self) -> Option<Decision> {
        None
    }

    /// Why the arm cannot go on; the agent then replaces it. `None` while it works.
    fn failure(&mut self) -> Option<String> {
        None
    }
}

/// A program that reports more often than this within [`BURST_SPAN`] fails. At 10 Gbit/s, a program
/// that reports at every twentieth segment reports less often.
const BURST_REPORTS_MAX: u32 = 5_000;
const BURST_SPAN: Duration = Duration::from_millis(100);

/// One flow of an author's arm.
#[derive(Debug)]
pub struct Authored {
    line: Arc<Line>,
    arm: Arc<AuthorArm>,
    /// The author's number of the flow; 0 before the flow has one.
    flow: u32,
    mss: Bytes,
    program: usize,
    registers: Registers,
    decision: Decision,
    handed: Option<super::Handed>,
    fields: Vec<u64>,
    /// Start of the present burst span, and the number of reports in it.
    burst: (Time, u32),
}

impl Authored {
    pub fn new(line: Arc<Line>, arm: Arc<AuthorArm>) -> Self {
        let path = window::no_path();
        Self {
            line,
            arm,
            flow: 0,
            mss: path.mss,
            program: 0,
            registers: Registers::NONE,
            decision: Decision { cwnd: path.cwnd, rate: None },
            handed: None,
            fields: Vec::new(),
            burst: (Time::ZERO, 0),
        }
    }

    /// Counts a report. An author's program may report at every ACK, which costs time in the agent,
    /// not in the author's process.
    fn count(&mut self, now: Time) {
        if now - self.burst.0 >= BURST_SPAN {
            self.burst = (now, 0);
        }
        self.burst.1 += 1;
        if self.burst.1 > BURST_REPORTS_MAX {
            let span_ms = BURST_SPAN.as_millis();
            let why = format!(
                "its program reports too often: more than {BURST_REPORTS_MAX} times in {span_ms} ms"
            );
            self.line.fail(self.flow, why);
        }
    }

    fn running(&self) -> &Program {
        &self.arm.programs[self.program]
    }

    /// Takes the author's newest answer. Returns false if the author has not answered.
    fn learn(&mut self) -> bool {
        let Some(answer) = self.line.answer(self.flow) else { return false };
        self.program = answer.program.min(self.arm.programs.len() - 1);
        self.decision = answer.decision;
        self.handed = Some(answer.handed);
        self.registers.clear();
        for (name, value) in self.arm.programs[self.program].registers.iter().zip(&answer.registers)
        {
            if let Some(value) = *value {
                self.registers.push(name, value);
            }
        }
        true
    }
}

impl Arm for Authored {
    fn info(&self) -> &'static ArmInfo {
        self.arm.info
    }

    fn program(&self) -> ProgramId {
        self.running().id
    }

    fn own_fields(&self) -> &[&'static str] {
        &self.running().own
    }

    fn registers(&self, registers: &mut Registers) {
        registers.clone_from(&self.registers);
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        if self.flow != 0 {
            self.line.close(self.flow);
        }
        self.flow = self.line.number();
        self.mss = path.mss;
        self.program = 0;
        self.registers = Registers::NONE;
        self.handed = None;
        self.burst = (now, 0);
        self.decision = Decision { cwnd: path.cwnd, rate: path.rate };
        self.line.resume(self.flow, self.arm.index, path, now);
        self.learn();
        self.decision
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.count(now);
        let running = self.running();
        let own: &[u64] = if running.is_foreign { &self.fields } else { &m.own };
        let fields = &own[..own.len().min(running.own.len())];
        let own = Own { program: self.program, fields, folds: &running.folds };
        self.line.measure(self.flow, m, own, now);
        self.learn();
        self.decision
    }

    fn hand_off(&self, path: &mut PathState) {
        let Some(handed) = self.handed else { return };
        // The window that an author hands off never exceeds the window in force: the next arm
        // starts from the smaller one.
        path.cwnd = handed.cwnd.min(path.cwnd).max(path.cwnd_floor());
        path.ssthresh = handed.ssthresh.or(path.ssthresh);
        path.rate = handed.rate;
    }
}

impl Author for Authored {
    fn is_foreign(&self) -> bool {
        self.running().is_foreign
    }

    fn steers_itself(&self) -> bool {
        self.running().steers_itself
    }

    fn take_fields(&mut self, fields: &[u64]) {
        self.fields.clear();
        self.fields.extend(fields);
    }

    fn late(&mut self) -> Option<Decision> {
        self.learn().then_some(self.decision)
    }

    fn failure(&mut self) -> Option<String> {
        self.line.failure(self.flow)
    }
}

impl Drop for Authored {
    fn drop(&mut self) {
        if self.flow != 0 {
            self.line.close(self.flow);
        }
    }
}
