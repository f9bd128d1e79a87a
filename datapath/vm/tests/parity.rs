//! The C side takes exactly the messages that `remuda-wire` takes.

#![expect(clippy::unwrap_used, reason = "tests say what failed by panicking")]

mod common;

use common::{
    FLAG, UPDATE_CWND, UPDATE_RATE, WANTS_REPORT, always, attacks, bind, change_prog, code,
    compile, constant, define, fix_length, install, message, update_fields, wire_program,
};
use proptest::prelude::*;
use remuda_algorithms::ARMS;
use remuda_vm::{Datapath, Ops, Program, Reason, Settings};
use remuda_wire::{Kind, ToDatapath};

struct Nobody;

impl Ops for Nobody {
    fn now_ns(&self) -> u64 {
        0
    }
    fn send(&mut self, _message: &[u8]) -> bool {
        true
    }
    fn set_cwnd(&mut self, _flow: usize, _cwnd_bytes: u64) {}
    fn set_rate(&mut self, _flow: usize, _rate: u64) {}
    fn fell_back(&mut self, _flow: usize) {}
    fn restored(&mut self, _flow: usize) {}
}

fn datapath() -> Datapath<Nobody> {
    let settings = Settings { flows_max: 1, programs_max: 1, ..Settings::default() };
    Datapath::new(&settings, Nobody).unwrap()
}

/// Whether the message is well formed: whom it is for is another matter.
fn accepts(datapath: &mut Datapath<Nobody>, message: &[u8]) -> bool {
    match datapath.handle(message) {
        Ok(()) => true,
        Err(refusal) => {
            matches!(refusal.reason, Reason::NoFlow | Reason::NoProgram | Reason::ProgramsFull)
        }
    }
}

fn check(message: &[u8]) -> Result<(), TestCaseError> {
    let parsed = ToDatapath::parse(message);
    let want = parsed.is_ok();
    prop_assert_eq!(accepts(&mut datapath(), message), want, "{:?}", parsed);
    let is_install = want && matches!(parsed, Ok(ToDatapath::Install(_)));
    let program = Program::from_install(message);
    prop_assert_eq!(program.is_ok(), is_install, "{:?}", program);
    if let (Ok(program), Ok(ToDatapath::Install(wire))) = (program, parsed) {
        prop_assert_eq!(program.uid(), wire.uid);
        prop_assert_eq!(program.report_fields(), wire.report_fields());
    }
    Ok(())
}

/// A valid message of each kind.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = ARMS.iter().map(|arm| compile(3, arm.program_text)).collect();
    let small = [
        define((5, 0), 1),
        define((8, 3), 0x3fff_ffff),
        (code::EWMA, (5, 0), constant(10), (4, 14)),
        (code::DIV, (7, 7), (2, 3), constant(1)),
        bind((2, 3), constant(0)),
        bind(WANTS_REPORT, constant(1)),
    ];
    seeds.extend([
        always(1, &small),
        install(1, &[], &[]),
        install(2, &[[0, 1, 0, 0]], &[bind(FLAG, constant(1))]),
        update_fields(1, &[]),
        update_fields(1, &[((0, 31), 1), ((8, 0), u64::MAX), (UPDATE_CWND, 1), (UPDATE_RATE, 2)]),
        update_fields(7, &[((0, 1), 2); 127]),
        change_prog(1, 3, &[((0, 0), 4)]),
        message(Kind::Heartbeat, 5, &[]),
        message(Kind::Resync, 0, &[]),
    ]);
    seeds
}

#[derive(Clone, Debug)]
enum Mutation {
    Byte(prop::sample::Index, u8),
    Word(prop::sample::Index, u32),
    /// A field of a record of an INSTALL, or of an update.
    Record(prop::sample::Index, prop::sample::Index, u8),
    Type(u16),
    Cut(prop::sample::Index),
    Append(Vec<u8>),
    FixLength,
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<prop::sample::Index>;
    let byte = prop_oneof![0u8..17, any::<u8>()];
    prop_oneof![
        2 => (index(), byte.clone()).prop_map(|(at, byte)| Mutation::Byte(at, byte)),
        2 => (index(), prop_oneof![0u32..130, any::<u32>()])
            .prop_map(|(at, word)| Mutation::Word(at, word)),
        6 => (index(), index(), byte).prop_map(|(at, field, b)| Mutation::Record(at, field, b)),
        1 => prop_oneof![0u16..14, any::<u16>()].prop_map(Mutation::Type),
        1 => index().prop_map(Mutation::Cut),
        1 => prop::collection::vec(any::<u8>(), 1..40).prop_map(Mutation::Append),
        2 => Just(Mutation::FixLength),
    ]
}

fn mutate(message: &mut Vec<u8>, mutation: &Mutation) {
    let length = message.len();
    match mutation {
        Mutation::Byte(at, byte) if length > 0 => message[at.index(length)] = *byte,
        Mutation::Word(at, word) if length >= 12 => {
            let at = 4 * at.index(length / 4 - 1);
            message[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        Mutation::Record(at, field, byte) if length > 36 => {
            // Code, kinds, and low bytes of indexes: where the rules are.
            const FIELDS: [usize; 8] = [0, 1, 2, 6, 7, 11, 12, 4];
            let at = 20 + 16 * at.index((length - 20) / 16) + FIELDS[field.index(FIELDS.len())];
            message[at] = *byte;
        }
        Mutation::Type(kind) if length >= 2 => message[..2].copy_from_slice(&kind.to_le_bytes()),
        Mutation::Cut(at) if length > 0 => message.truncate(at.index(length)),
        Mutation::Append(bytes) => message.extend(bytes),
        Mutation::FixLength => fix_length(message),
        _ => {}
    }
}

proptest! {
    // They cost little. PROPTEST_CASES scales them.
    #![proptest_config(ProptestConfig::with_cases(32 * ProptestConfig::default().cases))]

    #[test]
    fn what_the_wire_takes_is_taken_and_nothing_else(
        seed in any::<prop::sample::Index>(),
        mutations in prop::collection::vec(mutation(), 0..5),
    ) {
        let seeds = seeds_once();
        let mut message = seeds[seed.index(seeds.len())].clone();
        for mutation in &mutations {
            mutate(&mut message, mutation);
        }
        check(&message)?;
    }

    #[test]
    fn bytes_without_a_meaning_are_refused_alike(
        kind in 0u16..12,
        body in prop::collection::vec(any::<u8>(), 0..200),
        fixed: bool,
    ) {
        let mut bytes = [kind.to_le_bytes().to_vec(), body].concat();
        if fixed {
            fix_length(&mut bytes);
        }
        check(&bytes)?;
    }
}

fn seeds_once() -> &'static [Vec<u8>] {
    static SEEDS: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
    SEEDS.get_or_init(seeds)
}

#[test]
fn every_seed_is_valid() {
    for seed in seeds() {
        assert!(ToDatapath::parse(&seed).is_ok(), "{seed:?}");
        check(&seed).unwrap();
    }
}

#[test]
fn no_cut_of_a_message_is_one() {
    for seed in seeds() {
        for cut in 0..seed.len() {
            let mut message = seed[..cut].to_vec();
            assert!(!accepts(&mut datapath(), &message), "cut at {cut}");
            fix_length(&mut message);
            check(&message).unwrap();
        }
    }
}

#[test]
fn every_attack_on_libccp_is_refused_and_changes_nothing() {
    for (what, message) in attacks(1) {
        let mut datapath = datapath();
        assert!(!accepts(&mut datapath, &message), "{what}");
        let mut counters = *datapath.counters();
        assert_eq!(counters.refused.iter().sum::<u64>(), 1, "{what}");
        counters.refused = [0; 17];
        assert_eq!(counters, Default::default(), "{what}: {counters:?}");
    }
}

#[test]
fn a_register_defined_33_times_is_one_too_many() {
    let mut records = vec![define((5, 0), 1); 32];
    assert!(Program::from_install(&always(1, &records)).is_ok());
    records.push(define((5, 0), 1));
    let message = always(1, &records);
    assert!(wire_program(&message).is_none());
    assert_eq!(Program::from_install(&message).unwrap_err().reason, Reason::ManyFields);
}

#[test]
fn each_rule_has_its_reason() {
    let flag = [bind(FLAG, constant(1))];
    let one = |record| install(1, &[[0, 1, 0, 0]], &[record]);
    let rows: Vec<(Reason, Vec<u8>)> = vec![
        (Reason::Length, vec![2, 0, 9, 0, 0, 0, 0, 0]),
        (Reason::Type, message(Kind::Ready, 0, &[0; 4])),
        (Reason::Count, install(1, &[], &vec![flag[0]; 256])),
        (Reason::Register, one(bind((7, 8), constant(1)))),
        (Reason::Register, one(bind((7, 0), (4, 15)))),
        (Reason::Target, one(bind((4, 0), constant(1)))),
        (Reason::Target, install(1, &[], &[define((3, 0), 1)])),
        (Reason::Initial, install(1, &[], &[(code::DEF, FLAG, (5, 0), (0, 0))])),
        (Reason::Opcode, one((15, FLAG, FLAG, FLAG))),
        (Reason::Opcode, one(define((5, 0), 1))),
        (Reason::Event, install(1, &[[0, 2, 0, 0]], &flag)),
        (Reason::Micros, one((code::ADD, (2, 3), FLAG, FLAG))),
        (Reason::Division, one((code::DIV, FLAG, FLAG, constant(0)))),
        (Reason::Ewma, one((code::EWMA, FLAG, constant(11), FLAG))),
        (Reason::NoFields, always(1, &[bind(WANTS_REPORT, constant(1))])),
        (Reason::Target, update_fields(1, &[((2, 0), 1)])),
        (Reason::Register, update_fields(1, &[((0, 32), 1)])),
        (Reason::Count, update_fields(1, &[((0, 1), 2); 128])),
        (Reason::NoFlow, update_fields(1, &[])),
    ];
    for (reason, message) in rows {
        let refusal = datapath().handle(&message).unwrap_err();
        assert_eq!(refusal.reason, reason, "{refusal}");
    }
}

#[test]
fn a_refusal_names_the_record() {
    let records = [bind(FLAG, constant(1)), bind((7, 8), constant(1))];
    let message = install(1, &[[0, 1, 1, 1]], &records);
    let refusal = Program::from_install(&message).unwrap_err();
    assert_eq!((refusal.reason, refusal.record), (Reason::Register, Some(2)));
    assert!(refusal.to_string().contains("record 2: a register does not exist"), "{refusal}");
}
