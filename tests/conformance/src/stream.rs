//! Random flows: primitives, times, updates, changes of program.

use crate::Fallible;
use crate::case::{Case, NOW, Outcome, RTT, Step};
use crate::generate::{mend, pick, program};
use crate::model::{Beyond, Model};
use crate::source::{Source, op};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remuda_algorithms::ARMS;
use remuda_oracle::{CONTROL, PRIMITIVES};

/// The agent's number of a case's first program: libccp clears its table when it gets 1.
const FIRST_UID: u32 = 2;
const STEPS: std::ops::RangeInclusive<usize> = 100..=400;
const RTT_NONE: u64 = u32::MAX as u64;
const NANOS_PER_MICRO: u64 = 1_000;
/// Index of the primitive that is a bool in libccp.
const WAS_TIMEOUT: usize = 14;
/// Indices of the primitives that have 64 bits in libccp.
const WIDE: [usize; 3] = [11, 12, RTT];
/// Most repairs of a case. Each instruction is repaired a few times at most, so that the loop ends.
const MENDS_MAX: usize = 2_000;

/// The numbers that a case uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Every result is one that libccp defines.
    Tame,
    /// The numbers fit libccp's types; results need not.
    Rough,
    /// Any 64 bits anywhere: libccp does not run the case.
    Wild,
}

fn manner(rng: &mut impl Rng) -> Manner {
    match rng.random_range(0..100) {
        0..72 => Manner::Tame,
        72..84 => Manner::Rough,
        _ => Manner::Wild,
    }
}

fn narrow(rng: &mut impl Rng) -> u64 {
    match rng.random_range(0..10) {
        0..3 => 0,
        3..5 => rng.random_range(1..16),
        5..8 => rng.random_range(1..64) * 1_448,
        8 => u64::from(rng.random::<u32>()),
        _ => pick(rng, &[u32::MAX.into(), u64::from(u32::MAX) - 1, 1 << 31, 1]),
    }
}

fn wide(rng: &mut impl Rng) -> u64 {
    match rng.random_range(0..8) {
        0..3 => rng.random(),
        3 => u64::MAX - rng.random_range(0..3),
        4 => (1 << 32) + rng.random_range(0..3) - 1,
        5 => (1 << 63) + rng.random_range(0..3) - 1,
        _ => narrow(rng),
    }
}

fn primitives(rng: &mut impl Rng, manner: Manner, now_us: u64) -> [u64; PRIMITIVES] {
    let mut all = [0; PRIMITIVES];
    for (index, value) in all.iter_mut().enumerate() {
        *value = match manner {
            Manner::Wild => wide(rng),
            _ if WIDE.contains(&index) => {
                let bits = pick(rng, &[16, 24, 32, 40]);
                rng.random_range(0..1 << bits)
            }
            _ => narrow(rng),
        };
    }
    all[NOW] = now_us;
    if manner != Manner::Wild {
        all[WAS_TIMEOUT] = u64::from(rng.random_range(0..20) == 0);
    }
    if all[RTT] == 0 || rng.random_range(0..5) == 0 {
        all[RTT] = RTT_NONE;
    }
    all
}

/// Nanoseconds until the next ACK, in whole microseconds, which is libccp's unit.
fn pause_ns(rng: &mut impl Rng, manner: Manner) -> u64 {
    let us = match rng.random_range(0..100) {
        0..15 => 0,
        15..60 => rng.random_range(0..100),
        60..98 => rng.random_range(0..5_000),
        _ => rng.random_range(0..10_000_000),
    };
    us * NANOS_PER_MICRO + if manner == Manner::Wild { rng.random_range(0..1_000) } else { 0 }
}

fn amount(rng: &mut impl Rng, manner: Manner) -> u64 {
    if manner == Manner::Wild { wide(rng) } else { narrow(rng) }
}

fn updates(rng: &mut impl Rng, manner: Manner) -> Vec<(u32, u64)> {
    let all = u32::try_from(CONTROL).expect("some thirty registers");
    let count = rng.random_range(1..=3);
    let one = |_| {
        let registers = pick(rng, &[4, 8, all]); // mostly the registers that programs have
        (rng.random_range(0..registers), amount(rng, manner))
    };
    (0..count).map(one).collect()
}

/// A program of an arm, or a random one.
fn one_program(rng: &mut ChaCha8Rng, uid: u32, manner: Manner) -> Fallible<Source> {
    if rng.random_range(0..20) == 0 {
        return Source::compile(uid, pick(rng, ARMS).program_text);
    }
    Ok(program(rng, uid, manner == Manner::Wild))
}

/// Steps, and which of them keep the window and rate that the step before left in force.
fn steps(rng: &mut ChaCha8Rng, manner: Manner, programs: usize) -> (Vec<Step>, Vec<bool>) {
    let mut now_ns = rng.random_range(1..1 << 40) * NANOS_PER_MICRO;
    let mut made = (Vec::new(), Vec::new());
    for number in 0..rng.random_range(STEPS) {
        now_ns += pause_ns(rng, manner);
        let changes = number == 0 || (programs > 1 && rng.random_range(0..50) == 0);
        let updated = rng.random_range(0..if changes { 3 } else { 25 }) == 0;
        made.0.push(Step {
            now_ns,
            change: changes.then(|| if number == 0 { 0 } else { rng.random_range(0..programs) }),
            updates: if updated { updates(rng, manner) } else { Vec::new() },
            cwnd_bytes: amount(rng, manner),
            rate: amount(rng, manner),
            primitives: primitives(rng, manner, now_ns / NANOS_PER_MICRO),
        });
        made.1.push(rng.random_range(0..10) > 1);
    }
    made
}

/// Runs the case through the model and sets the window and the rate in force at each step. Returns
/// the first instruction whose result libccp does not define.
fn settle(case: &mut Case, carry: &[bool]) -> Option<(usize, usize)> {
    let mut model = Model::default();
    let (mut in_force, mut running, mut first) = (None, 0, None);
    // libccp has 32 bits for a window.
    let limit = if case.for_libccp { u64::from(u32::MAX) } else { u64::MAX };
    for (number, carries) in carry.iter().enumerate() {
        if let (Some((cwnd, rate)), true) = (in_force, carries) {
            case.steps[number].cwnd_bytes = limit.min(cwnd);
            case.steps[number].rate = rate;
        }
        let step = &case.steps[number];
        running = step.change.unwrap_or(running);
        let (_, beyond) = model.step(case, step);
        if let Some((record, _)) = beyond {
            first = first.or(Some((running, record)));
        }
        in_force = Some(model.in_force(step));
    }
    first
}

/// Case `number` of a seed, and the numbers that it uses.
pub fn case(seed: u64, number: u64) -> Fallible<(Case, Manner)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    let rng = &mut rng;
    let manner = manner(rng);
    let count = pick(rng, &[1u32, 1, 1, 2, 3]);
    let programs = (FIRST_UID..FIRST_UID + count)
        .map(|uid| one_program(rng, uid, manner))
        .collect::<Fallible<Vec<_>>>()?;
    let (steps, carry) = steps(rng, manner, programs.len());
    let mut case = Case { programs, steps, for_libccp: manner != Manner::Wild };
    for _ in 0..MENDS_MAX {
        let Some((program, record)) = settle(&mut case, &carry) else { break };
        if manner != Manner::Tame {
            break;
        }
        mend(rng, &mut case.programs[program].records[record]);
    }
    Ok((case, manner))
}

/// The model's results for a case: outcomes, the first step that libccp does not define, and how
/// often each operation was executed.
pub fn expected(case: &Case) -> Expected {
    let mut model = Model::default();
    let mut expected = Expected::default();
    for (number, step) in case.steps.iter().enumerate() {
        let (outcome, beyond) = model.step(case, step);
        expected.outcomes.push(outcome);
        if let Some((_, how)) = beyond {
            expected.beyond.get_or_insert((number, how));
        }
    }
    expected.executed = model.executed;
    expected
}

#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub outcomes: Vec<Outcome>,
    /// The first step that libccp does not define, and why.
    pub beyond: Option<(usize, Beyond)>,
    pub executed: [u64; op::COUNT],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_case_and_a_tame_one_stays_within_libccp() {
        let mut kinds = [0; 3];
        for number in 0..100 {
            let (made, manner) = case(7, number).expect("a case");
            assert_eq!(made, case(7, number).expect("a case").0);
            let beyond = expected(&made).beyond;
            assert!(manner != Manner::Tame || beyond.is_none(), "case {number}: {beyond:?}");
            kinds[manner as usize] += 1;
        }
        assert!(kinds.iter().all(|count| *count > 3), "{kinds:?}");
        assert_ne!(case(7, 1).expect("a case"), case(8, 1).expect("a case"));
    }
}
