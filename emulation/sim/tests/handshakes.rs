//! What a flow that starts later learns from its handshake, and when it begins to send.

mod common;

use common::run;
use remuda_scenarios::outcome::{FlowOutcome, Outcome};

/// Runs these flows over 12 Mbit/s, 40 ms and a queue of half a second.
fn over(links: &str, flows: &str) -> Outcome {
    run(&format!(
        "duration_s = 20\n[links.down]\nrate_mbit_per_sec = 12\ndelay_ms = 20\n\
         queue = {{ kind = 'droptail', limit_packets = 500 }}\n{links}\
         [links.up]\ndelay_ms = 20\n{flows}"
    ))
}

fn late<'a>(outcome: &'a Outcome, name: &str) -> Vec<&'a FlowOutcome> {
    outcome.flows.iter().filter(|flow| flow.name.starts_with(name)).collect()
}

#[test]
fn an_idle_path_has_a_flow_started_after_one_and_a_half_round_trips() {
    let outcome = over("", "[[flows]]\ndriver = 'reno'\nstart_s = 1\nbytes = 14480\n");
    let flow = &outcome.flows[0];
    // Sending a SYN-ACK of 60 bytes takes 40 us.
    assert!((flow.start_s - 1.060).abs() < 1e-4, "{flow:?}");
    let rtt_min_ms = flow.rtt_min_ms.expect("the handshake's");
    assert!((rtt_min_ms - 40.0).abs() < 0.1, "{flow:?}");
    let before = over("", "[[flows]]\ndriver = 'reno'\nbytes = 14480\n");
    assert_eq!(before.flows[0].start_s, 0.0, "who starts with the scenario has shaken hands");
}

#[test]
fn who_comes_to_a_standing_queue_knows_no_path_without_it_and_times_out_for_nothing() {
    let flows = "[[flows]]\ndriver = 'window:500'\nname = 'first'\n\
                 [[flows]]\ndriver = 'cubic'\nname = 'late'\ncount = 20\nstart_s = 5\n\
                 stagger_s = 0.5\nbytes = 14480\n";
    let outcome = over("", flows);
    assert_eq!(outcome.links[0].dropped_pkts, 0, "room for all");
    for flow in late(&outcome, "late") {
        // 40 ms, plus the 460 segments that the first flow keeps in the queue.
        assert!(flow.rtt_min_ms.is_some_and(|ms| ms > 480.0), "{flow:?}");
        assert_eq!((flow.timeouts, flow.retransmitted_pkts), (0, 0), "{flow:?}");
    }
}

#[test]
fn a_handshake_gets_through_whatever_loses_its_packets_and_ends_with_its_flow() {
    let flows = "[[flows]]\ndriver = 'cubic'\nname = 'late'\ncount = 40\nstart_s = 1\n\
                 stagger_s = 0.05\nbytes = 2896\n\
                 [[flows]]\ndriver = 'cubic'\nname = 'short'\nstart_s = 2\nstop_s = 2.01\n";
    let outcome = over("loss_percent = 30\n", flows);
    let late = late(&outcome, "late");
    assert!(late.iter().all(|flow| flow.delivered_bytes == 2_896), "{late:?}");
    let again = late.iter().filter(|flow| {
        let asked_s = 1.0 + f64::from(flow.flow) * 0.05;
        flow.start_s > asked_s + 1.0
    });
    assert!((4..=24).contains(&again.count()), "some SYN-ACKs of 30 % went again");
    let short = outcome.flows.last().expect("it was there");
    let is_at_its_stop = short.end_s.is_some_and(|at_s| (at_s - 2.01).abs() < 1e-6);
    assert!(short.sent_pkts == 0 && is_at_its_stop, "{short:?}");
}
