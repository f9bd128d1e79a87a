//! Random programs on random primitives: every register, every report, as the semantics of
//! `datapath/bpf/src/compile.rs` have them.

mod common;

use common::{
    Operand, Record, Reference, all_registers, code, constant, define, install, wire_program,
};
use proptest::prelude::*;
use remuda_vm::{Machine, Primitives, Program};
use remuda_wire::Register;
use remuda_wire::to_datapath::Update;

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..12,
        any::<u64>(),
        any::<u32>().prop_map(u64::from),
        Just(u64::from(u32::MAX)),
        Just(u64::MAX),
        (0u32..64).prop_map(|bit| 1 << bit),
    ]
}

fn word() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..12, any::<u32>(), Just(0x3fff_ffff), Just(u32::MAX)]
}

/// Few registers, so that instructions meet each other's.
fn result() -> impl Strategy<Value = Operand> {
    prop_oneof![
        4 => (0u32..6).prop_map(|n| (2, n)),
        2 => (0u32..3).prop_map(|n| (3, n)),
        3 => (0u32..3).prop_map(|n| (5, n)),
        1 => (0u32..32).prop_map(|n| (6, n)),
        4 => (0u32..3).prop_map(|n| (7, n)),
        2 => (0u32..3).prop_map(|n| (0, n)),
        1 => (0u32..32).prop_map(|n| (8, n)),
    ]
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        3 => result(),
        2 => (0u32..15).prop_map(|n| (4, n)),
        2 => word().prop_map(constant),
        1 => (0u32..8).prop_map(|n| (7, n)),
    ]
}

/// An instruction, and whether the next one assigns its result, as portus' compiler does.
fn instruction() -> impl Strategy<Value = (Record, Option<Operand>)> {
    let op = (0u8..14).prop_map(|n| if n == code::DEF { code::SUB } else { n });
    (op, result(), operand(), operand(), prop::option::of(result()))
        .prop_map(|(op, result, left, right, copy)| ((op, result, left, right), copy))
}

/// Makes a legal instruction of it.
fn legal(mut record: Record) -> Record {
    let (op, result, left, right) = &mut record;
    if *result == (2, 3) {
        *op = code::BIND;
    }
    if *op == code::DIV && *right == constant(0) {
        *right = constant(3);
    }
    if *op == code::EWMA && left.0 == 1 {
        left.1 %= 11;
    }
    record
}

fn program() -> impl Strategy<Value = Vec<u8>> {
    let defines = prop::collection::vec(
        (prop_oneof![Just(0u8), Just(5), Just(6), Just(8)], 0u32..4, word()),
        0..12,
    );
    let spans = prop::collection::vec((any::<u16>(), 0u16..12, any::<u16>(), 0u16..12), 1..8);
    (defines, prop::collection::vec(instruction(), 1..80), spans, any::<bool>()).prop_map(
        |(defines, instructions, spans, apart)| {
            let mut records = vec![define((5, 0), 1)];
            records.extend(defines.into_iter().map(|(kind, n, value)| define((kind, n), value)));
            let first = records.len() as u32;
            for (record, copy) in instructions {
                records.push(legal(record));
                if let Some(to) = copy {
                    records.push(legal((code::BIND, to, to, record.1)));
                }
            }
            let last = records.len() as u32;
            let mut next = first;
            let mut span = |start: u16, count: u16| {
                // One after the other, as compilers do, or anywhere, overlapping as they may.
                let start = if apart { next } else { first + u32::from(start) % (last - first) };
                let count = u32::from(count).min(last - start);
                next = start + count;
                [start, count]
            };
            let events: Vec<[u32; 4]> = spans
                .into_iter()
                .map(|(a, b, c, d)| {
                    let ([a, b], [c, d]) = (span(a, b), span(c, d));
                    [a, b, c, d]
                })
                .collect();
            install(9, &events, &records)
        },
    )
}

#[derive(Clone, Debug)]
struct Step {
    primitives: [u64; 15],
    in_force: (u64, u64),
    passed_ns: u64,
    control: Option<(u32, u64)>,
}

fn step() -> impl Strategy<Value = Step> {
    let passed = prop_oneof![0u64..3_000_000, any::<u64>()];
    let control = prop::option::weighted(0.2, (0u32..4, value()));
    (prop::array::uniform15(value()), (value(), value()), passed, control).prop_map(
        |(primitives, in_force, passed_ns, control)| Step {
            primitives,
            in_force,
            passed_ns,
            control,
        },
    )
}

fn primitives(p: [u64; 15]) -> Primitives {
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

fn same_registers(machine: &Machine, reference: &Reference) -> Result<(), TestCaseError> {
    for register in all_registers() {
        let (got, want) = (machine.register(register), reference.get(register));
        prop_assert_eq!(got, want, "{:?}", register);
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_machine_does_what_the_reference_does(
        messages in prop::collection::vec(program(), 1..3),
        steps in prop::collection::vec(step(), 1..12),
    ) {
        let programs: Vec<_> = messages
            .iter()
            .map(|m| (Program::from_install(m).unwrap(), wire_program(m).unwrap()))
            .collect();
        let (mut machine, mut reference) = (Machine::new(), Reference::default());
        let mut now_ns = 1_000_000u64;
        let mut wire = &programs[0].1;
        for (at, step) in steps.iter().enumerate() {
            if at % 6 == 0 {
                let (program, other) = &programs[at / 6 % programs.len()];
                wire = other;
                let value = step.primitives[0];
                let updates = [Update { register: Register::Control(1), value }];
                machine.change(program, &updates, now_ns);
                reference.change(wire, &updates, now_ns);
                same_registers(&machine, &reference)?;
            }
            if let Some((index, value)) = step.control {
                machine.set_control(index, value);
                reference.set(Register::Control(index), value);
            }
            now_ns = now_ns.wrapping_add(step.passed_ns);
            let p = primitives(step.primitives);
            let (cwnd, rate) = step.in_force;
            let ran = machine.run(&p, cwnd, rate, now_ns);
            let report = reference.run(wire, step.primitives, step.in_force, now_ns);
            prop_assert_eq!(ran.reported.then(|| machine.report().to_vec()), report);
            let wants = |register: u32, in_force: u64| {
                let value = reference.get(Register::Implicit(register));
                (value != 0 && value != in_force).then_some(value)
            };
            prop_assert_eq!(ran.cwnd_bytes, wants(4, cwnd));
            prop_assert_eq!(ran.rate, wants(5, rate));
            same_registers(&machine, &reference)?;
        }
    }
}
