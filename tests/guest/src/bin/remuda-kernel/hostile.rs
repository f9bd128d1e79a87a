//! Invalid messages to a module with a live flow: each is refused and harms no flow.

use crate::device::Agent;
use crate::module::counter;
use nix::errno::Errno;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remuda_conformance::attacks::attacks;
use remuda_conformance::generate;
use remuda_live::Clock;
use remuda_live::transfer::Transfer;
use remuda_tests::wired;
use remuda_wire::MESSAGE_BYTES_MAX;
use remuda_wire::program::{CONTROL_REGISTERS, CWND, RATE, Register};
use remuda_wire::to_datapath::{Update, encode_change_prog, encode_update_fields};
use std::thread;
use std::time::Duration;

const SEED: u64 = 1;
const MESSAGES: usize = 400;

/// A generous limit, for machines that use the clock of a busy host.
const LIMIT: Duration = Duration::from_secs(20);
const TURN: Duration = Duration::from_millis(20);

fn wait_for<T>(what: &str, mut result: impl FnMut() -> Option<T>) -> T {
    let clock = Clock::start();
    loop {
        if let Some(result) = result() {
            return result;
        }
        assert!(clock.elapsed() < LIMIT, "{what}: not in {LIMIT:?}");
        thread::sleep(TURN);
    }
}

/// Random messages: well-formed programs and orders, and invalid ones.
fn message(rng: &mut ChaCha8Rng, sid: u32) -> Vec<u8> {
    let uid = rng.random_range(1..=80);
    let mut message = Vec::new();
    match rng.random_range(0..10) {
        0..=2 => message = generate::program(rng, uid, false).message(),
        3..=4 => encode_change_prog(&mut message, sid, uid, &updates(rng)),
        5..=7 => encode_update_fields(&mut message, sid, &updates(rng)),
        8 => message = vec![9, 0, 8, 0, 0, 0, 0, 0],
        _ => {
            message = (0..rng.random_range(1..200)).map(|_| rng.random()).collect();
        }
    }
    if rng.random_ratio(1, 4) && !message.is_empty() {
        let at = rng.random_range(0..message.len());
        message[at] ^= 1 << rng.random_range(0..8);
    }
    message
}

fn updates(rng: &mut ChaCha8Rng) -> Vec<Update> {
    let register = |rng: &mut ChaCha8Rng| match rng.random_range(0..4) {
        0 => Register::Implicit(CWND),
        1 => Register::Implicit(RATE),
        _ => Register::Control(rng.random_range(0..CONTROL_REGISTERS)),
    };
    let value = |rng: &mut ChaCha8Rng| rng.random::<u64>() >> rng.random_range(0..64);
    (0..rng.random_range(0..6))
        .map(|_| Update { register: register(rng), value: value(rng) })
        .collect()
}

/// The attacks on libccp one by one, then random messages for `span`, while flows come and go.
pub fn attacks_and_noise(mbit_per_sec: f64, span: Duration) {
    let mut agent = Agent::open();
    let path = wired(mbit_per_sec, 100.0 / mbit_per_sec, 1.0);
    let transfer = Transfer { algorithm: Some("ccp".to_owned()), ..Transfer::default() };
    let running = transfer.start(path.server(), path.client()).expect("it starts");
    let mut sid = wait_for("a flow is announced", || agent.sid());
    for (what, message, reason) in attacks(sid) {
        let name = format!("refused_{}", reason as u32);
        let before = counter(&name);
        let written = agent.write(&message);
        // A message for a flow that has ended is not an error of the agent.
        let taken = matches!(reason, remuda_vm::Reason::NoFlow);
        assert_eq!(written.is_ok(), taken, "{what}: {written:?}");
        assert_eq!(counter(&name), before + 1, "{what}: not refused as {reason:?}");
    }
    let long = vec![0; MESSAGE_BYTES_MAX * 4];
    let refused = agent.write(&long).expect_err("too long");
    assert_eq!(refused.raw_os_error(), Some(Errno::EMSGSIZE as i32));

    println!("seed {SEED}");
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let (clock, mut sent, mut refused, mut flows) = (Clock::start(), 0, 0, 1);
    while clock.elapsed() < span {
        for _ in 0..MESSAGES {
            sent += 1;
            refused += u64::from(agent.write(&message(&mut rng, sid)).is_err());
        }
        let short = Transfer { bytes: Some(50_000), ..transfer.clone() };
        let short = short.start(path.server(), path.client()).expect("it starts");
        thread::sleep(Duration::from_millis(50));
        sid = agent.sid().unwrap_or(sid);
        // Whatever the messages did to this flow, it ends after the agent has gone; the test does
        // not wait.
        drop(short);
        flows += 1;
    }
    println!("{sent} messages, {refused} refused, {flows} flows");
    assert!(refused > 0 && refused < sent);
    drop(agent);
    let before = running.received_bytes();
    wait_for("the flow goes on", || (running.received_bytes() > before).then_some(()));
    running.stop();
    running.join().expect("it ends intact");
}
