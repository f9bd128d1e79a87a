//! Each operation at its edges, with registers and with constants.

mod common;

use common::{Operand, always, bind, code, constant};
use remuda_vm::{Machine, Primitives, Program};
use remuda_wire::Register;

const MAX: u64 = u64::MAX;
const RESULT: Operand = (3, 0);

/// `old` is what the result register holds before.
fn with_operands(op: u8, left: Operand, right: Operand, values: [u64; 3]) -> u64 {
    let primitive = |index: u32| (4, index);
    let message = always(1, &[bind(RESULT, primitive(2)), (op, RESULT, left, right)]);
    let program = Program::from_install(&message).expect("a valid program");
    let mut machine = Machine::new();
    machine.change(&program, &[], 0);
    let [bytes_acked, bytes_misordered, ecn_bytes] = values;
    let primitives =
        Primitives { bytes_acked, bytes_misordered, ecn_bytes, ..Primitives::default() };
    machine.run(&primitives, 0, 0, 0);
    machine.register(Register::Local(0))
}

/// Operands as registers, then each of them, and both, as constants where they are 32-bit and the
/// parser lets them.
fn check(op: u8, rows: &[(u64, u64, u64, u64)]) {
    for (left, right, old, want) in rows.iter().copied() {
        let values = [left, right, old];
        let lefts = [Some((4, 0)), u32::try_from(left).ok().map(constant)];
        let rights = [Some((4, 1)), u32::try_from(right).ok().map(constant)];
        for a in lefts.into_iter().flatten() {
            for b in rights.into_iter().flatten() {
                let refused = (op == code::DIV && b == constant(0))
                    || (op == code::EWMA && a.0 == 1 && a.1 > 10);
                if !refused {
                    let got = with_operands(op, a, b, values);
                    assert_eq!(got, want, "op {op}: {left} {a:?}, {right} {b:?}, old {old}");
                }
            }
        }
    }
}

#[test]
fn add_saturates() {
    let rows = [
        (0, 0, 9, 0),
        (1, 2, 9, 3),
        (MAX, 0, 0, MAX),
        (MAX, 1, 0, MAX),
        (1, MAX, 0, MAX),
        (MAX, MAX, 0, MAX),
        (MAX - 1, 1, 0, MAX),
        (u32::MAX as u64, 1, 0, 1 << 32),
    ];
    check(code::ADD, &rows);
}

#[test]
fn bind_copies_the_right_operand() {
    check(code::BIND, &[(1, 2, 3, 2), (0, MAX, 3, MAX), (7, 0, 3, 0)]);
}

#[test]
fn a_quotient_by_zero_saturates() {
    let rows = [
        (7, 2, 0, 3),
        (7, 0, 0, MAX),
        (0, 0, 0, MAX),
        (0, 7, 9, 0),
        (MAX, 1, 0, MAX),
        (6, 7, 1, 0),
    ];
    check(code::DIV, &rows);
}

#[test]
fn comparisons_are_unsigned() {
    check(
        code::EQUIV,
        &[(1, 1, 9, 1), (1, 2, 9, 0), (0, 0, 9, 1), (MAX, MAX, 9, 1), (MAX, 0, 9, 0)],
    );
    check(
        code::GT,
        &[(1, 1, 9, 0), (2, 1, 9, 1), (MAX, 0, 9, 1), (0, MAX, 9, 0), (1 << 63, 1, 9, 1)],
    );
    check(
        code::LT,
        &[(1, 1, 9, 0), (2, 1, 9, 0), (MAX, 0, 9, 0), (0, MAX, 9, 1), (1, 1 << 63, 9, 1)],
    );
}

#[test]
fn max_and_min_are_unsigned() {
    check(code::MAX, &[(1, 2, 9, 2), (2, 1, 9, 2), (MAX, 0, 9, MAX), (0, 0, 9, 0)]);
    check(code::MIN, &[(1, 2, 9, 1), (2, 1, 9, 1), (MAX, 0, 9, 0), (MAX, MAX, 9, MAX)]);
}

#[test]
fn a_product_saturates() {
    let rows = [
        (0, MAX, 9, 0),
        (MAX, 0, 9, 0),
        (MAX, 1, 9, MAX),
        (1, MAX, 9, MAX),
        (MAX, 2, 9, MAX),
        (1 << 32, 1 << 32, 9, MAX),
        (1 << 32, u32::MAX as u64, 9, u64::MAX - u32::MAX as u64),
        (u32::MAX as u64, u32::MAX as u64, 9, 0xffff_fffe_0000_0001),
        (3, 7, 9, 21),
    ];
    check(code::MUL, &rows);
}

#[test]
fn a_difference_is_never_below_zero() {
    check(
        code::SUB,
        &[(1, 2, 9, 0), (2, 1, 9, 1), (0, MAX, 9, 0), (MAX, MAX, 9, 0), (MAX, 0, 9, MAX)],
    );
}

#[test]
fn if_and_not_if_keep_the_old_value() {
    check(code::IF, &[(0, 5, 9, 9), (1, 5, 9, 5), (MAX, 5, 9, 5), (0, 5, MAX, MAX)]);
    check(code::NOT_IF, &[(0, 5, 9, 5), (1, 5, 9, 9), (MAX, 5, 9, 9)]);
}

#[test]
fn ewma_weighs_in_tenths_and_wraps() {
    let wrapped = MAX.wrapping_mul(5).wrapping_add(MAX.wrapping_mul(5)) / 10;
    let rows = [
        (5, 10, 0, 10),    // none yet: the new value
        (5, 10, 20, 15),   // half and half
        (9, 100, 10, 19),  // (90 + 100) / 10
        (0, 100, 10, 100), // the old counts nothing
        (10, 100, 10, 10), // the new counts nothing
        (11, 100, 10, 10), // a register beyond ten tenths counts as ten
        (MAX, 100, 10, 10),
        (5, MAX, MAX, wrapped),
        (5, 0, 9, 4),
    ];
    check(code::EWMA, &rows);
}

#[test]
fn max_wrap_takes_the_later_of_two_that_wrap() {
    let low = u64::from(u32::MAX);
    let rows = [
        (0, 5, 9, 5),
        (5, 0, 9, 5),
        (0, 0, 9, 0),
        (0, MAX, 9, MAX), // none yet: the other as it is, all 64 bits
        (MAX, 0, 9, MAX),
        (5, 6, 9, 6),
        (6, 5, 9, 6),
        (low, 5, 9, 5), // 5 is after the wrap
        (5, low, 9, 5),
        (1 << 31, 1, 9, 1 << 31), // just before half way round
        ((1 << 31) + 1, 1, 9, 1),
        (1, 1 << 31, 9, 1 << 31),
        (7, 7, 9, 7),
        ((1 << 32) + 5, 6, 9, 6), // only the low words count
        ((1 << 32) + 6, 5, 9, 6),
    ];
    check(code::MAX_WRAP, &rows);
}
