//! An author's arm: what its process last decided.

use super::line::{Line, Own};
use super::{AuthorArm, Program};
use remuda_algorithms::units::{Bytes, Time};
use remuda_algorithms::{
    Arm, ArmInfo, Decision, Measurement, PathState, ProgramId, Registers, window,
};
use std::sync::Arc;
use std::time::Duration;

/// What only an arm needs that somebody else's code runs: it may be late, and it may fail.
pub trait Author: Arm {
    /// Whether the program has none of the shared signals: [`Arm::own_fields`] are all its fields,
    /// and they reach the arm by [`Self::take_fields`].
    fn is_foreign(&self) -> bool {
        false
    }

    /// Whether its program sets the window or the rate itself. For such a program the agent sends
    /// only what is newly decided: the last decision, sent again, would undo what the program did.
    fn steers_itself(&self) -> bool {
        false
    }

    /// All fields of the report whose measurement comes next, of a foreign program.
    fn take_fields(&mut self, _fields: &[u64]) {}

    /// A decision that was not ready when it was asked for, if there is one now.
    fn late(&mut self) -> Option<Decision> {
        None
    }

    /// Why it cannot go on, if so: the agent then replaces it.
    fn failure(&mut self) -> Option<String> {
        None
    }
}

/// More reports than this within [`BURST_SPAN`] are no signal any more: at 10 Gbit/s a program that
/// reports at every twentieth segment has fewer.
const BURST_REPORTS_MAX: u32 = 5_000;
const BURST_SPAN: Duration = Duration::from_millis(100);

/// One flow of an author's arm.
#[derive(Debug)]
pub struct Authored {
    line: Arc<Line>,
    arm: Arc<AuthorArm>,
    /// The author's number of the flow; 0 before it has one.
    flow: u32,
    mss: Bytes,
    program: usize,
    registers: Registers,
    decision: Decision,
    handed: Option<super::Handed>,
    fields: Vec<u64>,
    /// Since when reports are counted, and how many came.
    burst: (Time, u32),
}

impl Authored {
    /// One that has no flow yet.
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

    /// The author's own program may report at every ACK, which costs the agent, not the author.
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

    /// Takes the newest answer, if there is one.
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
        // What an author says of itself raises no window: a successor starts from the one in force.
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
