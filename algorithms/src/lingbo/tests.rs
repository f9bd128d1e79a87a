use super::*;
use crate::measurement::RttSamples;
use crate::script::{MSS, path};
use crate::units::Packets;

fn at(ms: u64) -> Time {
    Time(Duration::from_millis(ms))
}

/// A report of 20 ms on a path of 50 ms: `rtt_ms` as the round trip, so many segments delivered.
fn report(rtt_ms: u64, delivered: u64, cwnd: Bytes) -> Measurement {
    let rtt = Duration::from_millis(rtt_ms);
    let us = rtt_ms * 1_000;
    let (count, sum_us, sq_sum_us2) = (40, 40 * us, 40 * us * us);
    Measurement {
        rtt: Some(RttSamples { count, sum_us, sq_sum_us2, ..RttSamples::one(rtt) }),
        delivered: Packets(delivered).to_bytes(MSS),
        acked: Packets(delivered).to_bytes(MSS),
        in_flight: cwnd,
        cwnd,
        ..Measurement::QUIET
    }
}

/// The same, with a standard deviation of a fifth.
fn jittery(rtt_ms: u64, delivered: u64, cwnd: Bytes) -> Measurement {
    let m = report(rtt_ms, delivered, cwnd);
    let widened = |rtt: RttSamples| RttSamples { sq_sum_us2: rtt.sq_sum_us2 / 25 * 26, ..rtt };
    Measurement { rtt: m.rtt.map(widened), ..m }
}

/// A flow past slow start, whose perception knows a path of 50 ms.
fn running(loaded: &Loaded) -> LingBo {
    running_on(loaded, report)
}

fn running_on(loaded: &Loaded, report: fn(u64, u64, Bytes) -> Measurement) -> LingBo {
    let mut lingbo = LingBo::new(loaded);
    let mut known = path(100);
    known.ssthresh = Some(known.cwnd);
    lingbo.resume(&known, Time::ZERO);
    let cwnd = lingbo.cwnd();
    lingbo.on_measurement(&report(50, 20, cwnd), at(20));
    lingbo
}

/// Runs for a second in which reports have this round trip and so many segments in 20 ms.
fn windows_after(lingbo: &mut LingBo, rtt_ms: u64, delivered: u64) -> u64 {
    for step in 2..52 {
        let cwnd = lingbo.cwnd();
        lingbo.on_measurement(&report(rtt_ms, delivered, cwnd), at(20 * step));
    }
    lingbo.cwnd().to_packets(MSS).0
}

#[test]
fn the_shipped_weights_are_read_and_fit() {
    let network = shipped();
    check(&network).expect("they are LingBo's");
    assert_eq!(network.parameters(), 137_601);
}

/// Uniform numbers by splitmix64, as python/tests/test_lingbo.py draws them.
fn drawn(place: u64) -> f32 {
    let mut z = place.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    (z >> 40) as f32 / (1u32 << 24) as f32
}

/// `lingbo.expected` has what JAX computes; a Python test makes it again.
#[test]
fn ten_thousand_evaluations_are_those_of_jax() {
    let network = shipped();
    let (expected, _) = include_bytes!("../../models/lingbo.expected").as_chunks::<4>();
    let ranges = network
        .card()
        .inputs
        .iter()
        .flat_map(|input| std::iter::repeat_n((input.low, input.high), input.count));
    let ranges: Vec<(f32, f32)> = ranges.collect();
    let mut state = State::new(&network);
    let mut place = 0;
    let mut inputs = [0.0; INPUTS];
    for (row, want) in expected.iter().enumerate() {
        for (input, (low, high)) in inputs.iter_mut().zip(&ranges) {
            place += 1;
            *input = low + (high - low) * drawn(place);
        }
        let (want, mut got) = (f32::from_le_bytes(*want), [0.0; 1]);
        assert_eq!(network.evaluate(&inputs, &mut state, &mut got), Validity::Inside);
        assert!((got[0] - want).abs() < 1e-5, "row {row}: {} and {want}", got[0]);
    }
    assert_eq!(expected.len(), 10_000);
}

#[test]
fn a_queue_shrinks_the_window_and_an_idle_path_lets_it_grow() {
    let full = windows_after(&mut running(&Loaded::default()), 200, 20);
    assert!(full < 80, "{full}");
    let idle = windows_after(&mut running(&Loaded::default()), 50, 40);
    assert!(idle > 120, "{idle}");
}

#[test]
fn alpha_is_the_preference() {
    assert_eq!(alpha_of(Preference::DEFAULT), 3.0);
    assert_eq!(alpha_of(Preference::THROUGHPUT), 3.0);
    assert_eq!(alpha_of(Preference::DELAY), 0.0);
    assert_eq!(alpha_of(Preference { throughput: 0.5, delay: 1.0 }), 1.5);
}

#[test]
fn slow_start_doubles_until_the_round_trip_grows() {
    let mut lingbo = LingBo::new(&Loaded::default());
    let mut cwnd = lingbo.resume(&path(10), Time::ZERO).cwnd;
    for round in 1..4 {
        let delivered = cwnd.to_packets(MSS).0;
        cwnd = lingbo.on_measurement(&report(50, delivered, cwnd), at(50 * round)).cwnd;
    }
    assert_eq!(cwnd.to_packets(MSS), Packets(80));
    assert!(matches!(lingbo.can_hand_off(), Readiness::Defer(_)));
}

#[test]
fn a_timeout_halves_and_losses_do_not() {
    let mut lingbo = running(&Loaded::default());
    let lossy = Measurement { lost: Packets(3), ..report(50, 20, lingbo.cwnd()) };
    let before = lingbo.cwnd();
    lingbo.on_measurement(&lossy, at(30));
    assert_eq!(lingbo.cwnd(), before);
    lingbo.on_measurement(&Measurement { timed_out: true, ..lossy }, at(40));
    assert_eq!(lingbo.cwnd().0, before.0 / 2);
}

/// Cuts in the two decisions after a second with these losses in a report, when there are four.
fn cuts_after(steady: u64, rtt_ms: u64, report: fn(u64, u64, Bytes) -> Measurement) -> (u32, bool) {
    let mut lingbo = running_on(&Loaded::default(), report);
    let mut cuts = 0;
    for step in 2..62 {
        let before = lingbo.cwnd_pkts;
        let lost = Packets(if step < 52 { steady } else { 4 });
        let lossy = Measurement { lost, ..report(rtt_ms, 20, lingbo.cwnd()) };
        lingbo.on_measurement(&lossy, at(20 * step));
        let is_cut = lingbo.cwnd_pkts <= before * (1.0 - FULL_CUT) + OWN_PKTS;
        cuts += u32::from(is_cut && step >= 52);
    }
    (cuts, lingbo.yields_until > at(20 * 62))
}

#[test]
fn losses_of_a_full_buffer_take_from_the_window_and_steady_ones_do_not() {
    assert_eq!(cuts_after(0, 75, report), (1, true), "the buffer is full");
    assert_eq!(cuts_after(0, 50, report), (1, true), "a short buffer is full");
    assert_eq!(cuts_after(4, 75, jittery), (0, false), "the path loses all the time");
}

#[test]
fn a_path_without_jitter_does_not_lose_a_sixth_at_random() {
    let mut lingbo = running(&Loaded::default());
    let before = lingbo.cwnd();
    for step in 2..102 {
        let lossy = Measurement { lost: Packets(4), ..report(50, 20, lingbo.cwnd()) };
        lingbo.on_measurement(&lossy, at(20 * step));
    }
    assert!(lingbo.cwnd().0 < before.0 / 2, "{:?} of {before:?}", lingbo.cwnd());
}

#[test]
fn a_window_stays_near_equation_1() {
    let mut lingbo = running(&Loaded::default());
    for step in 2..1_002 {
        lingbo.on_measurement(&report(50, 10, lingbo.cwnd()), at(20 * step));
    }
    // 10 segments in 20 ms are 25 in a round trip.
    let most = CEILING * 25.0 / (1.0 - 0.03);
    assert!(lingbo.cwnd_pkts <= most + 1.0, "{} of {most}", lingbo.cwnd_pkts);
}

#[test]
fn a_loss_in_slow_start_leaves_what_the_path_holds() {
    let mut lingbo = LingBo::new(&Loaded::default());
    let mut cwnd = lingbo.resume(&path(10), Time::ZERO).cwnd;
    let rate = Packets(40).to_bytes(MSS) / Duration::from_millis(50);
    for round in 1..5 {
        let delivered = cwnd.to_packets(MSS).0.min(40);
        let m = Measurement { delivery_rate: rate, ..report(50, delivered, cwnd) };
        cwnd = lingbo.on_measurement(&m, at(50 * round)).cwnd;
    }
    assert!(cwnd > Packets(80).to_bytes(MSS), "{cwnd:?}");
    let m = Measurement { lost: Packets(9), delivery_rate: rate, ..report(50, 40, cwnd) };
    let left = lingbo.on_measurement(&m, at(250)).cwnd;
    assert_eq!(left.to_packets(MSS), Packets(40));
    assert_eq!(lingbo.can_hand_off(), Readiness::Ready);
}

/// The window of a known path after a second at this round trip, with reports of that jitter.
fn window_at(rtt_ms: u64, report: fn(u64, u64, Bytes) -> Measurement) -> u64 {
    let mut lingbo = running_on(&Loaded::default(), report);
    for step in 2..52 {
        // One round trip in six is as low as RTT_min, so that it holds.
        let rtt_ms = if step % 6 == 0 { 50 } else { rtt_ms };
        lingbo.on_measurement(&report(rtt_ms, 20, lingbo.cwnd()), at(20 * step));
    }
    lingbo.cwnd_pkts as u64
}

#[test]
fn a_queue_beyond_the_jitter_bounds_the_window_by_what_was_delivered() {
    // 20 segments in 20 ms are 50 in a round trip of 50 ms.
    let steady = window_at(80, report);
    assert!(steady <= 60, "{steady}");
    let within_the_jitter = window_at(80, jittery);
    assert!(within_the_jitter > steady, "{within_the_jitter} and {steady}");
}

#[test]
fn a_queue_that_changes_slowly_is_no_jitter() {
    let mut lingbo = running(&Loaded::default());
    // A first look while the queue of others grew: from 50 to 70 ms.
    let (first, last) = (RttSamples::one(Duration::from_millis(50)), Duration::from_millis(70));
    let samples = RttSamples {
        count: 40,
        sum_us: 20 * first.sum_us + 20 * RttSamples::one(last).sum_us,
        sq_sum_us2: 20 * first.sq_sum_us2 + 20 * RttSamples::one(last).sq_sum_us2,
        ..first
    };
    lingbo.perception = Perception::new(at(20), false);
    lingbo.perception.observe(&samples, false, at(30));
    windows_after(&mut lingbo, 90, 20);
    let spread = lingbo.perception.rtt_min().map(|it| it.std);
    assert!(spread > Some(0.16), "{spread:?}");
    assert_eq!(lingbo.rtt_min().map(|it| it.std), Some(0.0));
}

#[test]
fn outside_the_training_equation_1_decides_and_the_log_has_it() {
    let mut lingbo = LingBo::new(&Loaded::default());
    let mut known = path(100);
    known.ssthresh = Some(known.cwnd);
    lingbo.resume(&known, Time::ZERO);
    let cwnd = lingbo.cwnd();
    lingbo.on_measurement(&report(900, 100, cwnd), at(900));
    let stage = lingbo.stage().expect("a stage");
    assert_eq!((stage.name, stage.why.features[0].1.as_str()), ("outside", "rtt_min"));
    // No queue: a quarter more, and two segments.
    assert_eq!(lingbo.cwnd().to_packets(MSS), Packets(127));
}

#[test]
fn weights_of_another_kind_are_not_used() {
    let loaded = Loaded::default();
    let mut lingbo = running(&loaded);
    let own = windows_after(&mut lingbo, 200, 20);
    // The check is made where the weights are read; an arm that meets others uses its own.
    loaded.put(SETTINGS, Arc::new(Settings::default()));
    assert_eq!(windows_after(&mut running(&loaded), 200, 20), own);
}

#[test]
fn a_single_rtt_min_is_a_setting() {
    let loaded = Loaded::default();
    loaded.put(SETTINGS, Arc::new(Settings { single_rtt_min: true }));
    let lingbo = running(&loaded);
    assert_eq!(lingbo.perception.rtt_min().map(|it| it.std), Some(0.0));
    assert!(lingbo.settings.single_rtt_min);
}

#[test]
fn takes_a_known_path_over_at_its_bdp() {
    let mut known = path(300);
    known.observe(&report(50, 20, Bytes(0)), at(1));
    known.observe(
        &Measurement { delivery_rate: Rate::from_bytes_per_sec(1_448_000), ..report(50, 20, MSS) },
        at(2),
    );
    let mut lingbo = LingBo::new(&Loaded::default());
    let cwnd = lingbo.resume(&known, at(3)).cwnd;
    assert_eq!(cwnd, known.bdp().expect("it is known"));
    assert_eq!(lingbo.can_hand_off(), Readiness::Ready);
}
