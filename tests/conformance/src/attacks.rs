//! Messages that every datapath must refuse: those that crash libccp, and more.

use crate::source::{
    Operand, Record, Source, Span, close, header, immediate, kind, op, operand, put,
};
use remuda_vm::Reason;

fn define(kind: u8, index: u32) -> Record {
    let register = operand(kind, index);
    Record { op: op::DEF, result: register, left: register, right: immediate(0) }
}

fn assign(result: Operand, right: Operand) -> Record {
    Record { op: op::BIND, result, left: result, right }
}

/// A program with `defines` initial values and one event, whose body is `body`.
fn program(defines: u32, body: Vec<Record>) -> Source {
    let mut records: Vec<Record> =
        (0..defines).map(|index| define(kind::VOLATILE_REPORT, index)).collect();
    let start = defines + 1;
    let count = u32::try_from(body.len()).expect("a few");
    records.push(assign(operand(kind::IMPLICIT, 0), immediate(1)));
    records.extend(body);
    Source { uid: 77, spans: vec![Span { condition: (defines, 1), body: (start, count) }], records }
}

fn update(sid: u32, kind: u8, index: u32, count: u32) -> Vec<u8> {
    let mut message = header(3, sid);
    put(&mut message, &[count]);
    message.push(kind);
    put(&mut message, &[index]);
    message.extend(u64::MAX.to_le_bytes());
    close(&mut message);
    message
}

fn change(sid: u32, uid: u32) -> Vec<u8> {
    let mut message = header(4, sid);
    put(&mut message, &[uid, 0]);
    close(&mut message);
    message
}

/// The messages that make libccp write over its tables, read beside them or loop for ever
/// (kernel-module.md, section 5), and other messages that a datapath must refuse, each with the
/// reason.
pub fn attacks(sid: u32) -> Vec<(&'static str, Vec<u8>, Reason)> {
    let report = operand(kind::VOLATILE_REPORT, 0);
    let read = |operand| program(1, vec![assign(report, operand)]).message();
    let many = |count| vec![assign(report, immediate(1)); count];
    let mut huge = read(immediate(1));
    huge[12..20].fill(0xff);
    let mut endless = program(1, many(3));
    endless.spans[0].body = (2, 254);
    let divide = Record { op: op::DIV, result: report, left: report, right: immediate(0) };
    let mut cut = update(sid, kind::CONTROL, 0, 1);
    cut.truncate(20);
    close(&mut cut);
    let mut long = change(sid, 1);
    long.push(0);
    close(&mut long);
    vec![
        ("an update of control register 600", update(sid, 0, 600, 1), Reason::Register),
        ("200 report registers", program(200, many(1)).message(), Reason::Register),
        ("a read of register 90000", read(operand(kind::REPORT, 90_000)), Reason::Register),
        ("256 initial values", program(256, many(1)).message(), Reason::Count),
        ("480 instructions", program(1, many(478)).message(), Reason::Count),
        ("counts of 2^32-1", huge, Reason::Count),
        ("an event beyond the program", endless.message(), Reason::Event),
        ("a read of temporary 8", read(operand(kind::TEMPORARY, 8)), Reason::Register),
        ("a read of primitive 15", read(operand(kind::PRIMITIVE, 15)), Reason::Register),
        ("an unknown kind of register", read(operand(9, 0)), Reason::Register),
        (
            "a write to a primitive",
            program(1, vec![assign(operand(kind::PRIMITIVE, 0), immediate(1))]).message(),
            Reason::Target,
        ),
        ("a division by 0", program(1, vec![divide]).message(), Reason::Division),
        ("an update of Micros", update(sid, kind::IMPLICIT, 3, 1), Reason::Target),
        ("an update of a report register", update(sid, 5, 0, 1), Reason::Target),
        ("200 updates announced, one sent", update(sid, 0, 0, 200), Reason::Count),
        ("an update cut short", cut, Reason::Count),
        ("a change with a byte too many", long, Reason::Count),
        ("an unknown program", change(sid, 4_711), Reason::NoProgram),
        ("an unknown flow", change(sid ^ 1, 1), Reason::NoFlow),
        ("a message for the agent", header_only(0), Reason::Type),
        ("no header", vec![3, 0, 4], Reason::Length),
    ]
}

fn header_only(kind: u16) -> Vec<u8> {
    let mut message = header(kind, 0);
    close(&mut message);
    message
}
