//! For tests: a script of round trips in, a line of windows out.

use crate::arm::Arm;
use crate::measurement::{Measurement, RttSamples};
use crate::path::PathState;
use crate::units::{Bytes, Packets, Rate, Time};
use std::time::Duration;

pub const MSS: Bytes = Bytes(1_448);
pub const RTT: Duration = Duration::from_millis(50);

/// A path with a window of `cwnd_pkts`, of which nothing else is known.
pub fn path(cwnd_pkts: u64) -> PathState {
    PathState::new(MSS, Packets(cwnd_pkts).to_bytes(MSS))
}

/// A path that an arm has left empty, and the time of its last report. The path has lost one
/// segment in ten in each of ten round trips of `rtt`, and the arm has answered each loss.
pub fn left_empty(mut path: PathState, rtt: Duration, rate: Rate) -> (PathState, Time) {
    let mut now = Time::ZERO;
    for _ in 0..10 {
        now = now + rtt;
        let m = Measurement {
            rtt: Some(RttSamples::one(rtt)),
            delivered: Packets(9).to_bytes(MSS),
            lost: Packets(1),
            in_flight: Packets(9).to_bytes(MSS),
            delivery_rate: rate,
            ..Measurement::QUIET
        };
        path.observe(&m, now);
    }
    path.answered_losses = true;
    (path, now)
}

/// The report of one round trip, by its letter. `a` acknowledges a full window; `e` is `a` with a
/// mark; `u` acknowledges a quarter of the window, because no more of it was used. `l` loses a
/// segment and acknowledges nothing; `L` loses a segment and acknowledges a full window; `t` times
/// out. `r` is `a`, and `R` is `L`, while the datapath is in recovery. `q` acknowledges nothing;
/// `z` is `q` and undoes the last recovery; `i` is `q` after an idle time that left a window of ten
/// segments.
pub fn report(event: char, cwnd: Bytes) -> Measurement {
    let used = match event {
        'u' => Bytes(cwnd.0 / 4),
        'q' | 't' | 'z' | 'i' => Bytes(0),
        _ => cwnd,
    };
    Measurement {
        acked: if event == 'l' { Bytes(0) } else { used },
        delivered: if event == 'l' { Bytes(0) } else { used },
        in_flight: used,
        lost: Packets(u64::from("lLR".contains(event))),
        ecn_marked: Packets(u64::from(event == 'e')),
        timed_out: event == 't',
        in_recovery: "rRt".contains(event),
        undone: event == 'z',
        restarted: event == 'i',
        rtt: Some(RttSamples::one(RTT)),
        cwnd: if event == 'i' { Packets(10).to_bytes(MSS) } else { cwnd },
        ..Measurement::QUIET
    }
}

/// Runs `script` from a window of `cwnd_pkts`, a report a round trip: the window after each report,
/// in segments.
pub fn windows(controller: &mut dyn Arm, path: &PathState, script: &str) -> String {
    let mut cwnd = controller.resume(path, Time::ZERO).cwnd;
    let mut pkts = Vec::new();
    for (round, event) in (1u32..).zip(script.chars()) {
        cwnd = controller.on_measurement(&report(event, cwnd), Time(RTT * round)).cwnd;
        pkts.push(cwnd.to_packets(path.mss).0.to_string());
    }
    pkts.join(" ")
}
