//! Compares a link with queueing theory.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use remuda_link::{Direction, Link, LinkSpec, Nanos, QueueSpec};

/// The time to send 1500 bytes at 12 Mbit/s.
const SERVICE_MS: f64 = 1.0;
const PACKETS: u32 = 400_000;

/// Sends packets of 1500 bytes at random moments that load the link by `load`.
fn poisson(load: f64, queue: QueueSpec) -> Link<u32> {
    let spec = LinkSpec { rate_mbit_per_sec: Some(12.0), queue, ..LinkSpec::default() };
    let mut link = spec.build(Nanos::ZERO, Direction::Up).expect("a valid spec");
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    let mut now_ms = 0.0;
    for _ in 0..PACKETS {
        // In (0, 1], so that the logarithm exists.
        let fraction = (f64::from(rng.next_u32()) + 1.0) / (f64::from(u32::MAX) + 1.0);
        now_ms -= fraction.ln() * SERVICE_MS / load;
        let now = Nanos::from_millis_f64(now_ms);
        while link.pop(now).is_some() {}
        link.push(1500, now);
    }
    while let Some(at) = link.next_event() {
        link.pop(at);
    }
    link
}

/// Pollaczek and Khinchine: the mean wait is load / (2 (1 - load)) service times.
#[test]
fn the_wait_in_an_m_d_1_queue_is_the_one_of_theory() {
    for load in [0.3, 0.5, 0.8] {
        let delay = poisson(load, QueueSpec::default()).stats().queueing_delay;
        let want_ms = SERVICE_MS * (1.0 + load / (2.0 * (1.0 - load)));
        let error = delay.mean_ms / want_ms - 1.0;
        assert!(error.abs() < 0.02, "load {load}: {} for {want_ms} ms", delay.mean_ms);
    }
}

/// M/D/1 with room for one waiting packet. The loss is 1 - 1 / (load + p), where p is the chance
/// that a departure leaves no packet behind: the chance e^-load of no arrival during a service
/// (Gross and Harris, the embedded chain of M/G/1/K).
#[test]
fn the_loss_of_a_queue_of_one_is_the_one_of_theory() {
    for load in [0.5, 1.0, 2.0] {
        let stats = poisson(load, QueueSpec::droptail_packets(1)).stats();
        let want = 1.0 - 1.0 / (load + (-load).exp());
        let got = stats.dropped.total() as f64 / f64::from(PACKETS);
        assert!((got - want).abs() < 0.002, "load {load}: {got} for {want}");
    }
}
