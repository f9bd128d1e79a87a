use super::*;
use crate::measurement::RttSamples;
use crate::pcc::link::Link;
use crate::script::MSS;
use crate::units::{Packets, Rate};
use std::sync::Arc;

fn learned() -> Learned {
    Learned::new(&ARM, None)
}

/// The stages that it has entered since the last call.
fn stages(arm: &mut Learned) -> Vec<(&'static str, String)> {
    std::iter::from_fn(|| arm.stage()).map(|stage| (stage.name, stage.why.text)).collect()
}

fn at(ms: u64) -> Time {
    Time(Duration::from_millis(ms))
}

/// A report of a path whose bottleneck of 24 Mbit/s is full.
fn report(rtt_ms: u64) -> Measurement {
    Measurement {
        acked: Bytes(30_000),
        delivered: Bytes(30_000),
        delivery_rate: Rate::from_bytes_per_sec(3_000_000),
        send_rate: Rate::from_bytes_per_sec(3_000_000),
        in_flight: Bytes(150_000),
        rtt: Some(RttSamples::one(Duration::from_millis(rtt_ms))),
        ..Measurement::QUIET
    }
}

/// One that the network drives, on a known path, and the time.
fn driven() -> (Learned, u64) {
    let mut arm = learned();
    arm.resume(&Link::new(24, 40, 480_000).known_path(), Time::ZERO);
    let mut now_ms = 0;
    for _ in 0..20 {
        now_ms += 10;
        arm.on_measurement(&report(45), at(now_ms));
    }
    assert_eq!(arm.driver, Driver::Network);
    stages(&mut arm);
    (arm, now_ms)
}

/// How much queue it leaves is checked in the simulator (emulation/sim/tests/learned.rs): this link
/// delivers as a fluid, and reports of it are unlike those that the network was trained with.
#[test]
fn slow_start_is_cubics_and_then_the_network_drives() {
    let mut link = Link::new(24, 40, 480_000);
    let mut arm = learned();
    link.run(&mut arm, 20_000);
    assert!(link.filled(5_000) > 0.8, "{}", link.filled(5_000));
    assert_eq!(stages(&mut arm)[0].0, "network");
}

#[test]
fn a_known_path_is_taken_over_without_slow_start() {
    let mut arm = learned();
    let known = Link::new(24, 40, 480_000).known_path();
    let first = arm.resume(&known, Time::ZERO);
    assert!(first.cwnd <= known.cwnd, "a switch never raises the window");
    assert_eq!(stages(&mut arm), [("network", "slow start is over".to_owned())]);
    let mut left = known.clone();
    arm.hand_off(&mut left);
    assert_eq!((left.cwnd, left.rate), (first.cwnd, None));
}

#[test]
fn slow_start_ends_after_eight_samples_of_a_standing_queue() {
    let entered = |rtts_ms: &[u64]| {
        let mut arm = learned();
        arm.resume(&window::no_path(), Time::ZERO);
        for (rtt_ms, now_ms) in rtts_ms.iter().zip((100..).step_by(100)) {
            arm.on_measurement(&report(*rtt_ms), at(now_ms));
        }
        stages(&mut arm).pop().map(|stage| stage.1)
    };
    let filled = [&[40][..], &[60; 8]].concat();
    assert_eq!(entered(&filled[..8]), None, "seven samples");
    assert_eq!(entered(&filled).as_deref(), Some("slow start has filled a queue"));
    let jittery = [[40, 90, 90, 90, 90, 90]; 4].concat();
    assert_eq!(entered(&jittery), None, "no queue stands");
}

#[test]
fn an_input_outside_the_training_is_answered_by_cubic_and_named() {
    let (mut arm, mut now_ms) = driven();
    // Half a million segments in flight are beyond every environment of the training.
    let vast = Measurement { in_flight: Bytes(500_000 * MSS.0), ..report(45) };
    for _ in 0..6 {
        now_ms += 10;
        arm.on_measurement(&vast, at(now_ms));
    }
    let entered = stages(&mut arm);
    assert_eq!(entered[0].0, "fallback", "{entered:?}");
    assert!(entered[0].1.contains("_log2 is"), "{entered:?}");
    let before = arm.cwnd();
    for _ in 0..200 {
        now_ms += 10;
        arm.on_measurement(&report(45), at(now_ms));
    }
    assert_eq!(stages(&mut arm)[0].0, "network", "inside the training again");
    assert!(before > Bytes(0));
}

/// The network's window is in force again afterwards, and a timeout ends making room at once.
#[test]
fn behind_a_queue_it_makes_room_with_half_its_window() {
    let makes_room = |arm: &Learned| arm.decision().cwnd < arm.cwnd();
    let (mut arm, mut now_ms) = driven();
    let full = |arm: &Learned| Measurement { in_flight: arm.cwnd(), ..report(60) };
    while !makes_room(&arm) {
        now_ms += 10;
        arm.on_measurement(&full(&arm), at(now_ms));
        assert!(now_ms < 12_000, "it makes no room");
    }
    let (began_ms, whole) = (now_ms, arm.cwnd());
    assert!(began_ms >= 10_000, "{began_ms}");
    assert_eq!(arm.decision().cwnd, Bytes(whole.0 / 2));
    let mut left = arm.path.clone();
    arm.hand_off(&mut left);
    assert_eq!(left.cwnd, whole, "the next arm gets what the network set");
    let mut timed_out = arm.clone();
    timed_out
        .on_measurement(&Measurement { timed_out: true, ..Measurement::QUIET }, at(now_ms + 300));
    assert!(!timed_out.probe.is_on());
    while makes_room(&arm) {
        assert_eq!(arm.cwnd(), whole);
        now_ms += 10;
        arm.on_measurement(&full(&arm), at(now_ms));
    }
    assert_eq!(now_ms - began_ms, 120, "two round trips");
}

#[test]
fn a_timeout_starts_again_from_the_floor() {
    let (mut arm, now_ms) = driven();
    let timeout = Measurement { timed_out: true, ..Measurement::QUIET };
    // The report of the timeout ends what the network drives; CUBIC answers the same report.
    let cwnd = arm.on_measurement(&timeout, at(now_ms + 300)).cwnd;
    assert_eq!(cwnd, Packets(2).to_bytes(MSS));
    let want = ("classic", "a retransmission timeout".to_owned());
    assert_eq!(stages(&mut arm)[0], want);
}

#[test]
fn a_step_ends_without_a_report() {
    let (mut arm, now_ms) = driven();
    let wake = arm.wake_at().expect("packets are in flight");
    assert!(wake > at(now_ms) && wake < at(now_ms + 100), "{wake:?}");
    assert_eq!(arm.on_wake(at(now_ms)), None, "it is not due yet");
    let start = arm.step_start;
    assert!(arm.on_wake(wake).is_some());
    assert!(arm.step_start > start, "the step of silence is over");
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let (mut arm, mut now_ms) = driven();
    let before = arm.cwnd();
    for _ in 0..50 {
        now_ms += 10;
        let idle = Measurement { in_flight: Bytes(3_000), app_limited: true, ..report(40) };
        arm.on_measurement(&idle, at(now_ms));
    }
    assert!(arm.cwnd() <= before);
}

#[test]
fn weights_that_cannot_be_followed_leave_running_flows_to_cubic() {
    let (mut arm, mut now_ms) = driven();
    let card = include_str!("../../models/learned.json");
    let other = card.replace("\"action_scale\": 0.25", "\"action_scale\": 0.125");
    assert_ne!(card, other);
    let weights = include_bytes!("../../models/learned.safetensors");
    arm.weights.put(Arc::new(Network::parse(weights, &other).expect("it is sound")));
    for _ in 0..6 {
        now_ms += 10;
        arm.on_measurement(&report(45), at(now_ms));
    }
    assert_eq!(stages(&mut arm)[0].0, "fallback");
}

#[test]
fn a_card_that_no_arm_can_follow_is_refused_by_place_and_rule() {
    let card = include_str!("../../models/learned.json");
    let weights = include_bytes!("../../models/learned.safetensors");
    let refused = |from: &str, to: &str| {
        let other = card.replacen(from, to, 1);
        assert_ne!(card, other, "{from}");
        let network = Network::parse(weights, &other).expect("it is sound");
        Plan::of(&network).expect_err(to).to_string()
    };
    for (from, to, want) in [
        ("\"kind\": \"window\"", "\"kind\": \"rtt\"", "the card's kind is \"rtt\""),
        ("\"loss_rate\"", "\"loss\"", "the card's inputs[3] is \"loss\""),
        ("\"action_scale\": 0.25", "\"action_scale\": 0", "hyperparameters.action_scale is 0"),
        ("\n  \"action\"\n", "\n  \"rate\"\n", "the card's outputs are [\"rate\"]"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn the_shipped_weights_are_few_and_cover_all_features() {
    let network = shipped::weights().get();
    assert!(network.parameters() <= 100_000, "{}", network.parameters());
    let plan = Plan::of(&network).expect("the arm can follow them");
    assert_eq!((plan.history, plan.features), (1, observation::Features::Sizes));
}

/// A number from 0 to below 1, by splitmix64.
fn drawn(place: u64) -> f32 {
    let mut z = place.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32
}

/// `learned.expected` has what JAX computes; a Python test makes it again.
#[test]
fn a_flow_of_ten_thousand_steps_is_that_of_jax() {
    let network = shipped::weights().get();
    let (expected, _) = include_bytes!("../../models/learned.expected").as_chunks::<4>();
    let mut state = State::new(&network);
    let mut inputs = vec![0.0; network.inputs_len()];
    let mut place = 0;
    for (row, want) in expected.iter().enumerate() {
        for (index, input) in inputs.iter_mut().enumerate() {
            place += 1;
            let (low, high) = network.input_range(index);
            *input = low + (high - low) * drawn(place);
        }
        let (want, mut got) = (f32::from_le_bytes(*want), [0.0; 1]);
        assert_eq!(network.evaluate(&inputs, &mut state, &mut got), Validity::Inside);
        assert!((got[0] - want).abs() < 1e-5, "row {row}: {} and {want}", got[0]);
    }
    assert_eq!(expected.len(), 10_000);
}
