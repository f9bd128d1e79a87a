//! Orders for a datapath built on libccp, CCP's own library.
//!
//! libccp ignores a rate of 0, by which an arm leaves pacing to the datapath: the flow keeps the
//! rate of the arm before, or of its handshake. The highest rate limits nothing, so it is sent
//! instead.

use remuda_wire::Order;
use remuda_wire::program::{RATE, Register};
use remuda_wire::to_datapath::Update;

/// Writes an order as libccp takes it.
pub fn encode(order: &Order<'_>, out: &mut Vec<u8>) {
    match *order {
        Order::Run { sid, uid, updates } => {
            Order::Run { sid, uid, updates: &without_zero_rate(updates) }.encode(out);
        }
        Order::Update { sid, updates } => {
            Order::Update { sid, updates: &without_zero_rate(updates) }.encode(out);
        }
        Order::Install(_) | Order::Native { .. } => order.encode(out),
    }
}

fn without_zero_rate(updates: &[Update]) -> Vec<Update> {
    let unpaced = Update { register: Register::Implicit(RATE), value: 0 };
    let value = |update: &Update| if *update == unpaced { u32::MAX.into() } else { update.value };
    updates.iter().map(|update| Update { value: value(update), ..*update }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_wire::program::CWND;

    #[test]
    fn an_arm_without_a_rate_is_not_held_to_the_rate_of_another_one() {
        let update = |index, value| Update { register: Register::Implicit(index), value };
        let sent = without_zero_rate(&[update(CWND, 0), update(RATE, 0), update(RATE, 7)]);
        assert_eq!(sent, [update(CWND, 0), update(RATE, u32::MAX.into()), update(RATE, 7)]);
    }
}
