//! How a program runs: events, initial values, time, reports, window and rate.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

mod common;

use common::{
    FALLTHROUGH, FLAG, Operand, UPDATE_CWND, WANTS_REPORT, always, bind, code, compile, constant,
    define, install,
};
use remuda_algorithms::{ARMS, signals};
use remuda_vm::{Machine, Primitives, Program, RTT_NONE, Ran, Reason};
use remuda_wire::Register;
use remuda_wire::to_datapath::Update;

const MICROS: Operand = (2, 3);
const CWND: Operand = (2, 4);
const RATE: Operand = (2, 5);
const REPORT: Operand = (6, 0);
const LOCAL: Operand = (3, 0);
const TEMPORARY: Operand = (7, 0);
const SECOND_NS: u64 = 1_000_000_000;

fn running(message: &[u8]) -> Machine {
    let mut machine = Machine::new();
    machine.change(&Program::from_install(message).unwrap(), &[], 0);
    machine
}

fn run(machine: &mut Machine, now_ns: u64) -> Ran {
    machine.run(&Primitives::default(), 10_000, 0, now_ns)
}

fn local(machine: &Machine) -> u64 {
    machine.register(Register::Local(0))
}

#[test]
fn without_a_program_nothing_runs() {
    let mut machine = Machine::new();
    assert_eq!(run(&mut machine, 5), Ran::default());
    assert_eq!((machine.program_uid(), machine.report()), (None, &[][..]));
}

#[test]
fn the_first_event_that_holds_ends_the_run() {
    let records = [bind(FLAG, constant(1)), bind(LOCAL, constant(1)), bind(LOCAL, constant(2))];
    let mut machine = running(&install(1, &[[0, 1, 1, 1], [0, 1, 2, 1]], &records));
    run(&mut machine, 0);
    assert_eq!(local(&machine), 1);
}

#[test]
fn fall_through_stays_set_once_it_is() {
    let records = [
        bind(FLAG, constant(1)),
        bind(FALLTHROUGH, constant(1)),
        (code::ADD, LOCAL, LOCAL, constant(1)),
    ];
    // the first says fall through; the second and the third need not
    let events = [[0, 1, 1, 1], [0, 1, 2, 1], [0, 1, 2, 1]];
    let mut machine = running(&install(1, &events, &records));
    run(&mut machine, 0);
    assert_eq!(local(&machine), 2);
}

#[test]
fn the_flag_is_looked_at_again_after_the_body() {
    let records = [bind(FLAG, constant(1)), bind(FLAG, constant(0)), bind(LOCAL, constant(7))];
    let mut machine = running(&install(1, &[[0, 1, 1, 1], [0, 1, 2, 1]], &records));
    run(&mut machine, 0);
    assert_eq!(local(&machine), 7, "a body that clears the flag does not end the run");
}

#[test]
fn the_flag_of_one_condition_is_there_for_the_next() {
    let records =
        [bind(FLAG, constant(1)), bind(FALLTHROUGH, constant(1)), bind(LOCAL, constant(7))];
    // the second event has no condition of its own
    let mut machine = running(&install(1, &[[0, 1, 1, 1], [0, 0, 2, 1]], &records));
    run(&mut machine, 0);
    assert_eq!(local(&machine), 7);
}

#[test]
fn an_event_may_have_no_instructions_at_all() {
    let mut machine = running(&install(1, &[[0, 0, 0, 0]; 255], &[]));
    assert_eq!(run(&mut machine, 0), Ran::default());
}

#[test]
fn micros_counts_from_the_change_of_program() {
    let mut machine = Machine::new();
    let program = Program::from_install(&always(1, &[bind(LOCAL, MICROS)])).unwrap();
    machine.change(&program, &[], SECOND_NS);
    run(&mut machine, SECOND_NS + 5_999);
    assert_eq!(local(&machine), 5);
    machine.change(&program, &[], 2 * SECOND_NS);
    run(&mut machine, 2 * SECOND_NS + 1_000);
    assert_eq!(local(&machine), 1);
}

#[test]
fn micros_counts_from_what_it_is_assigned() {
    let records = [
        bind(FLAG, constant(1)),
        bind(LOCAL, MICROS),
        bind(MICROS, constant(40)),
        bind(TEMPORARY, MICROS),
    ];
    let mut machine = running(&install(1, &[[0, 1, 1, 3]], &records));
    run(&mut machine, SECOND_NS);
    assert_eq!(local(&machine), 1_000_000);
    assert_eq!(machine.register(Register::Temporary(0)), 40, "at once");
    run(&mut machine, SECOND_NS + 2_000);
    assert_eq!(local(&machine), 42, "and from then on");
}

#[test]
fn initial_values_are_of_the_change_and_volatile_ones_of_each_report() {
    let (volatile, kept, control, volatile_control) = ((5, 0), (6, 1), (0, 0), (8, 1));
    let add = |register| (code::ADD, register, register, constant(1));
    let mut records = vec![
        define(volatile, 10),
        define(kept, 20),
        define(control, 30),
        define(volatile_control, 40),
    ];
    records.extend([add(volatile), add(kept), add(control), add(volatile_control)]);
    records.push((code::GT, WANTS_REPORT, volatile, constant(11)));
    let mut machine = running(&always(1, &records));
    let held = |machine: &Machine| {
        [Register::Report(0), Register::Report(1), Register::Control(0), Register::Control(1)]
            .map(|register| machine.register(register))
    };
    assert_eq!(held(&machine), [10, 20, 30, 40]);
    assert!(!run(&mut machine, 0).reported);
    assert_eq!(held(&machine), [11, 21, 31, 41]);
    assert!(run(&mut machine, 0).reported);
    assert_eq!(machine.report(), [12, 22]);
    assert_eq!(held(&machine), [10, 22, 32, 40]);
    assert!(!run(&mut machine, 0).reported);
    assert_eq!(held(&machine), [11, 23, 33, 41]);
}

#[test]
fn a_control_set_after_a_report_stands() {
    let control = (8, 1);
    let records = [
        define((5, 0), 0),
        define(control, 40),
        bind((5, 0), control),
        bind(WANTS_REPORT, constant(1)),
    ];
    let mut machine = running(&always(1, &records));
    assert!(run(&mut machine, 0).reported);
    machine.set_control(1, 99);
    machine.set_control(32, 5);
    machine.set_control(u32::MAX, 5);
    run(&mut machine, 0);
    assert_eq!(machine.report(), [99]);
}

#[test]
fn an_initial_value_of_infinity_is_all_of_32_bits() {
    let infinity = define(REPORT, 0x3fff_ffff);
    let machine = running(&always(1, &[infinity, bind(LOCAL, constant(0x3fff_ffff))]));
    assert_eq!(machine.register(Register::Report(0)), u64::from(u32::MAX));
    let mut machine = machine;
    run(&mut machine, 0);
    assert_eq!(local(&machine), 0x3fff_ffff, "a constant in an instruction is what it is");
}

#[test]
fn the_last_of_several_definitions_stands() {
    let records = [
        define((5, 0), 1),
        define((5, 0), 2),
        define((6, 0), 3),
        bind((6, 0), constant(9)),
        bind(WANTS_REPORT, constant(1)),
    ];
    let mut machine = running(&always(1, &records));
    assert_eq!(machine.register(Register::Report(0)), 3);
    assert!(run(&mut machine, 0).reported);
    assert_eq!(machine.report().len(), 3, "each definition is a field, as in libccp");
    assert_eq!(machine.report()[0], 9);
    assert_eq!(machine.register(Register::Report(0)), 2, "the last volatile one");
}

#[test]
fn a_change_of_program_keeps_what_it_does_not_define() {
    let mut machine = running(&always(
        1,
        &[
            define((5, 0), 1),
            bind((5, 0), constant(5)),
            bind(LOCAL, constant(6)),
            bind(WANTS_REPORT, constant(1)),
        ],
    ));
    assert!(run(&mut machine, 0).reported);
    let update = Update { register: Register::Control(3), value: 8 };
    let window = Update { register: Register::Implicit(UPDATE_CWND.1), value: 8 };
    let program = Program::from_install(&always(2, &[define((0, 3), 7)])).unwrap();
    machine.change(&program, &[update, window], 0);
    assert_eq!(machine.program_uid(), Some(2));
    assert_eq!(machine.register(Register::Report(0)), 1, "set again by the program before");
    assert_eq!(local(&machine), 6);
    assert_eq!(machine.register(Register::Control(3)), 8, "updates after initial values");
    assert_eq!(machine.register(Register::Implicit(UPDATE_CWND.1)), 10_000, "not ours to set");
}

#[test]
fn window_and_rate_are_what_is_in_force_until_the_program_says_otherwise() {
    let records = [
        bind(FLAG, constant(1)),
        bind(LOCAL, CWND),
        bind(TEMPORARY, RATE),
        bind(CWND, (4, 0)),
        bind(RATE, (4, 1)),
    ];
    let mut machine = running(&install(1, &[[0, 1, 1, 4]], &records));
    let mut check = |wanted: (u64, u64), want: (Option<u64>, Option<u64>)| {
        let (bytes_acked, bytes_misordered) = wanted;
        let p = Primitives { bytes_acked, bytes_misordered, ..Primitives::default() };
        let ran = machine.run(&p, 5_000, 6_000, 0);
        assert_eq!((ran.cwnd_bytes, ran.rate), want, "{wanted:?}");
        assert_eq!(local(&machine), 5_000);
        assert_eq!(machine.register(Register::Temporary(0)), 6_000);
    };
    check((5_000, 6_000), (None, None));
    check((0, 0), (None, None));
    check((1, 2), (Some(1), Some(2)));
    check((u64::MAX, 6_000), (Some(u64::MAX), None));
}

#[test]
fn a_condition_that_reports_without_fields_is_refused_as_a_body_is() {
    let records = [bind(WANTS_REPORT, constant(1))];
    for events in [[0, 1, 0, 0], [0, 0, 0, 1]] {
        let refusal = Program::from_install(&install(1, &[events], &records)).unwrap_err();
        assert_eq!(refusal.reason, Reason::NoFields);
    }
}

#[test]
fn more_constants_than_registers_are_no_matter() {
    let records: Vec<_> =
        (0..250).map(|n| (code::ADD, LOCAL, LOCAL, constant(1_000_000 + n))).collect();
    let mut machine = running(&always(1, &records));
    run(&mut machine, 0);
    assert_eq!(local(&machine), (0..250).map(|n| 1_000_000 + n).sum::<u64>());
}

#[test]
fn instructions_that_no_event_has_are_not_read() {
    let records = [
        (200, (9, 9), (9, 9), (9, 9)),
        bind(FLAG, constant(1)),
        bind(LOCAL, constant(3)),
        define((6, 0), 1),
    ];
    let mut machine = running(&install(1, &[[1, 1, 2, 1]], &records));
    run(&mut machine, 0);
    assert_eq!(local(&machine), 3);
}

#[test]
fn programs_of_every_arm_run() {
    for arm in ARMS {
        let message = compile(7, arm.program_text);
        let program = Program::from_install(&message).unwrap();
        assert!(program.report_fields() >= signals::FIELDS.len(), "{}", arm.name);
        let mut machine = Machine::new();
        machine.change(&program, &[], 0);
        let mut reports = 0;
        for ack in 1..=1_000 {
            let p = Primitives {
                bytes_acked: 1_448,
                packets_acked: 1,
                now_us: ack * 100,
                bytes_in_flight: 144_800,
                rate_incoming: 1_000_000,
                rate_outgoing: 2_000_000,
                rtt_sample_us: if ack % 3 == 0 { RTT_NONE } else { 20_000 + ack },
                ..Primitives::default()
            };
            let ran = machine.run(&p, 144_800, 0, ack * 100_000);
            if ran.reported {
                reports += 1;
                let [acked, .., rtt_min] = [0, 1, 2, 3, 4, 5].map(|field| machine.report()[field]);
                assert_eq!(acked % 1_448, 0);
                assert!((20_000..21_001).contains(&rtt_min), "{} {rtt_min}", arm.name);
            }
        }
        assert!((5..200).contains(&reports), "{}: {reports} reports in 100 ms", arm.name);
    }
}
