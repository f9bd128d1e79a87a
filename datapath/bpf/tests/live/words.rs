//! The words of a slot, while the agent writes them as fast as it can.

use super::*;

/// Reports both control registers at every ACK.
const PAIR: &str = "(def (Report (volatile first 0) (volatile second 0)) (one 0) (two 0))
(when true
    (:= Report.first one)
    (:= Report.second two)
    (:= Cwnd 11584000)
    (report))";
/// The flow gets an ACK each millisecond or so, and one in fifty meets an order that is being
/// written.
const REPORTS: usize = 2_000;
const ORDERS_MAX: u64 = 100_000_000;
/// Reports are taken in after so many orders, so that the ring does not overflow for long.
const ORDERS_A_TURN: u64 = 500;

/// The agent always writes the same value into both registers, so a program never sees two.
#[test]
fn a_program_runs_with_whole_words_alone() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let (mut agent, traffic, sid) = one_flow("127.0.0.1:0");
    agent.install(9, PAIR);
    agent.set_program(sid, 9, None);
    agent.wait(0, reported(9));
    let (mut reports, mut values) = (0, std::collections::BTreeSet::new());
    for order in 1..=ORDERS_MAX {
        let pair = [update(0, 0, order), update(0, 1, order)].concat();
        let body = [2_u32.to_le_bytes().to_vec(), pair].concat();
        agent.send(3, sid, &body).expect("the registers change");
        if reports >= REPORTS {
            break;
        }
        if order % ORDERS_A_TURN == 0 {
            agent.listen();
            for fields in agent.heard.drain(..).filter_map(|heard| reported(9)(&heard)) {
                assert_eq!(fields[0], fields[1], "words of two orders, after {order}");
                reports += 1;
                values.insert(fields[0]);
            }
        }
    }
    println!("{reports} reports of {} different orders", values.len());
    assert!(reports >= REPORTS && values.len() > REPORTS / 4, "the flow hardly ran");
    drop(traffic);
}
