//! The datapaths under test, behind one interface.

use crate::Fallible;
use crate::case::{Case, Outcome};
use remuda_oracle::{Oracle, is_abort};
use remuda_vm::{Machine, Primitives, Program};
use remuda_wire::Register;
use std::process::Command;

/// A datapath that can run a case.
pub trait Engine {
    /// The name in messages.
    fn name(&self) -> &'static str;
    /// The result of each step. The list is shorter than the case if the engine gives up; see
    /// [`Libccp`].
    fn run(&mut self, case: &Case) -> Fallible<Vec<Outcome>>;
}

/// libccp's own C code, in another process.
#[derive(Debug)]
pub struct Libccp {
    oracle: Oracle,
}

impl Libccp {
    /// Starts libccp with a command that must serve as the oracle.
    pub fn start(command: Command) -> Fallible<Self> {
        let oracle = Oracle::start(command).map_err(|error| format!("the oracle: {error}"))?;
        Ok(Self { oracle })
    }
}

impl Engine for Libccp {
    fn name(&self) -> &'static str {
        "libccp"
    }

    /// Runs the case up to the first step at which libccp leaves the program.
    fn run(&mut self, case: &Case) -> Fallible<Vec<Outcome>> {
        let mut steps: Vec<remuda_oracle::Step> = Vec::with_capacity(case.steps.len());
        for step in &case.steps {
            steps.push(remuda_oracle::Step {
                messages: step.messages(&case.programs),
                now_us: step.now_us(),
                cwnd_bytes: step.cwnd_bytes,
                rate: step.rate,
                primitives: step.primitives,
            });
        }
        if let Some(first) = steps.first_mut() {
            let installs = case.programs.iter().map(crate::source::Source::message);
            first.messages.splice(0..0, installs);
        }
        let answers = self.oracle.run(&steps).map_err(|error| format!("libccp died: {error}"))?;
        let mut outcomes = Vec::with_capacity(answers.len());
        for (number, answer) in answers.into_iter().enumerate() {
            if is_abort(answer.result) {
                break;
            }
            if answer.result != 0 {
                return Err(format!("libccp refused step {number}: {}", answer.result).into());
            }
            outcomes.push(Outcome { registers: answer.registers, report: answer.report });
        }
        Ok(outcomes)
    }
}

#[derive(Debug, Default)]
pub struct Vm;

/// All registers, in the order of the oracle.
fn registers() -> impl Iterator<Item = Register> {
    use remuda_oracle::{CONTROL, IMPLICIT, LOCAL, REPORT, TEMPORARY};
    let each = |count: usize| 0..u32::try_from(count).expect("some thirty registers");
    each(REPORT)
        .map(Register::Report)
        .chain(each(CONTROL).map(Register::Control))
        .chain(each(IMPLICIT).map(Register::Implicit))
        .chain(each(TEMPORARY).map(Register::Temporary))
        .chain(each(LOCAL).map(Register::Local))
}

fn primitives(p: &[u64; remuda_oracle::PRIMITIVES]) -> Primitives {
    Primitives {
        bytes_acked: p[0],
        bytes_misordered: p[1],
        ecn_bytes: p[2],
        ecn_packets: p[3],
        lost_pkts_sample: p[4],
        now_us: p[5],
        packets_acked: p[6],
        packets_misordered: p[7],
        bytes_in_flight: p[8],
        bytes_pending: p[9],
        packets_in_flight: p[10],
        rate_incoming: p[11],
        rate_outgoing: p[12],
        rtt_sample_us: p[13],
        was_timeout: p[14],
    }
}

impl Engine for Vm {
    fn name(&self) -> &'static str {
        "vm"
    }

    fn run(&mut self, case: &Case) -> Fallible<Vec<Outcome>> {
        let programs = case
            .programs
            .iter()
            .map(|source| Program::from_install(&source.message()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|refusal| format!("the VM refuses a program: {refusal}"))?;
        let mut machine = Machine::new();
        let mut outcomes = Vec::with_capacity(case.steps.len());
        for (number, step) in case.steps.iter().enumerate() {
            match step.change {
                Some(program) => {
                    machine.change(&programs[program], &step.wire_updates(), step.now_ns);
                }
                None => step.updates.iter().for_each(|(n, value)| machine.set_control(*n, *value)),
            }
            let ran =
                machine.run(&primitives(&step.primitives), step.cwnd_bytes, step.rate, step.now_ns);
            let mut outcome = Outcome {
                registers: [0; remuda_oracle::REGISTERS],
                report: ran.reported.then(|| machine.report().to_vec()),
            };
            for (value, register) in outcome.registers.iter_mut().zip(registers()) {
                *value = machine.register(register);
            }
            for (register, before, said) in [
                (remuda_wire::program::CWND, step.cwnd_bytes, ran.cwnd_bytes),
                (remuda_wire::program::RATE, step.rate, ran.rate),
            ] {
                let value = machine.register(Register::Implicit(register));
                let changed = (value != 0 && value != before).then_some(value);
                if changed != said {
                    let what = format!("step {number}: register {register} is {value}");
                    return Err(format!("{what}, was {before}, and the VM says {said:?}").into());
                }
            }
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }
}
