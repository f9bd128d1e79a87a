//! An arm's timer in simulated time: an arm that changes its window by its timer alone.

mod climber;

use remuda_link::Nanos;
use remuda_scenarios::Scenario;
use remuda_sim::Simulation;

/// One flow over 5 Mbit/s and 200 ms, with room for all that it sends.
fn of(driver: &str, more: &str) -> Simulation {
    climber::add();
    let text = format!(
        "duration_s = 20\nseed = 1\nsample_ms = 0\ncontrol_delay_ms = 0.05\n\
         [links.down]\nrate_mbit_per_sec = 5\ndelay_ms = 100\n\
         queue = {{ kind = \"droptail\", limit_bdp = 20 }}\n\
         [links.up]\nrate_mbit_per_sec = 100\ndelay_ms = 100\n\
         [[flows]]\ndriver = \"{driver}\"\n{more}"
    );
    let scenario = Scenario::parse(&text, "test").expect(&text);
    Simulation::new(&scenario).expect("an arm that was added drives flows")
}

/// The windows in segments, each 20 ms from one moment to the other.
fn windows(simulation: &mut Simulation, from_ms: u64, to_ms: u64) -> Vec<u64> {
    let look = |ms| {
        simulation.run_until(Nanos::from_millis(ms));
        simulation.cwnd(0).0 / 1_448
    };
    (from_ms..to_ms).step_by(20).map(look).collect()
}

#[test]
fn a_timer_moves_the_window_between_two_reports() {
    let mut simulation = of("climber", "");
    let seen = windows(&mut simulation, 3_000, 5_000);
    // The link is full, so ACKs come all the time; but a report comes once a round trip.
    let rises = seen.windows(2).filter(|two| two[1] == two[0] + 1).count();
    assert!(rises >= 95, "a segment more each 20 ms: {seen:?}");
    assert!(simulation.outcome().flows[0].reports < 30, "{:?}", simulation.outcome());
    assert_eq!(seen, windows(&mut of("climber", ""), 3_000, 5_000), "a seed has one outcome");
}

#[test]
fn a_timer_goes_off_while_no_ack_comes() {
    // The application writes a segment each 290 ms: more seldom, the flow would restart from idle.
    let mut simulation = of("climber", "app_rate_mbit_per_sec = 0.04");
    let seen = windows(&mut simulation, 2_000, 10_000);
    let rises: Vec<u64> =
        seen.windows(2).map(|two| two[1] - two[0]).filter(|rise| *rise > 0).collect();
    assert!((26..=29).contains(&rises.len()), "one at each ACK: {rises:?}");
    assert!(rises.iter().all(|rise| (13..=16).contains(rise)), "290 / 20 each: {rises:?}");
}

#[test]
fn an_arm_that_asks_for_the_past_is_woken_once_a_millisecond() {
    let mut simulation = of("hasty", "");
    simulation.run_until(Nanos::from_millis(1_000));
    let events = simulation.events();
    assert!(events < 10_000, "{events} events in a second");
    assert_eq!(simulation.cwnd(0).0 / 1_448, 200, "190 wakes are enough for 200 segments");
}

#[test]
fn a_flow_that_is_over_is_not_woken() {
    let mut simulation = of("climber", "bytes = 100000");
    simulation.run_until(Nanos::from_millis(19_000));
    assert!(simulation.is_over());
    assert!(simulation.events() < 500, "{} events", simulation.events());
}
