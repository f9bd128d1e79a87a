//! Algorithms built on portus 0.9 as CCP's own are, for tests: one source, run as a peer agent by
//! `remuda datapath` and as an arm of ours.
//!
//! CCP's own reno and bbr are in no registry in a version for portus 0.9. These measure the same
//! primitives, report at the same moments, and decide the same: [`Reno`] as generic-cong-avoid
//! (reports each round trip), [`Pulses`] as ccp-project/bbr in its PROBE_BW (three phases of eight
//! round trips that the program itself steps through), without its PROBE_RTT. [`Copa`] and
//! [`Nimbus`] are written from their papers.

mod copa;
mod nimbus;

pub use copa::Copa;
pub use nimbus::Nimbus;

use portus::ipc::Ipc;
use portus::lang::Scope;
use portus::{CongAlg, Datapath, DatapathInfo, DatapathTrait, Flow, Report};
use std::collections::HashMap;

fn field(report: &Report, name: &str, scope: &Scope) -> u64 {
    // As CCP's own do: what is no field of the program ends the agent.
    report.get_field(name, scope).expect("a field of the program that runs")
}

fn word(value: f64) -> u32 {
    value as u32 // saturates, as portus' fields have 32 bits
}

/// Additive increase per round trip, half after a loss, one initial window after a timeout.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reno;

pub struct RenoFlow<I: Ipc> {
    control: Datapath<I>,
    scope: Scope,
    mss: f64,
    init: f64,
    cwnd: f64,
    ssthresh: f64,
}

const EACH_ROUND: &str = "
    (def (Report
        (volatile bytes 0) (volatile losses 0) (volatile expired false)
        (volatile rtt 0) (volatile flying 0)))
    (when true
        (:= Report.bytes (+ Report.bytes Ack.bytes_acked))
        (:= Report.losses Ack.lost_pkts_sample)
        (:= Report.expired Flow.was_timeout)
        (:= Report.rtt Flow.rtt_sample_us)
        (:= Report.flying Flow.packets_in_flight)
        (fallthrough))
    (when (|| Report.expired (> Report.losses 0)) (report) (:= Micros 0))
    (when (> Micros Flow.rtt_sample_us) (report) (:= Micros 0))";

impl<I: Ipc> CongAlg<I> for Reno {
    type Flow = RenoFlow<I>;

    fn name() -> &'static str {
        "reno"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        HashMap::from([("each_round", EACH_ROUND.to_owned())])
    }

    fn new_flow(&self, mut control: Datapath<I>, info: DatapathInfo) -> Self::Flow {
        let set = [("Cwnd", info.init_cwnd)];
        let scope = control.set_program("each_round", Some(&set)).expect("it is installed");
        let (mss, init) = (info.mss.into(), info.init_cwnd.into());
        RenoFlow { control, scope, mss, init, cwnd: init, ssthresh: f64::from(u32::MAX) }
    }
}

impl<I: Ipc> Flow for RenoFlow<I> {
    fn on_report(&mut self, _: u32, report: Report) {
        let get = |name| field(&report, name, &self.scope);
        let acked = get("Report.bytes") as f64;
        if get("Report.expired") != 0 {
            self.ssthresh = (self.cwnd / 2.0).max(self.init);
            self.cwnd = self.init;
        } else if get("Report.losses") > 0 {
            self.cwnd = (self.cwnd / 2.0).max(self.init);
            self.ssthresh = self.cwnd;
        } else if self.cwnd < self.ssthresh {
            self.cwnd += acked.min(self.ssthresh - self.cwnd);
        } else {
            self.cwnd += self.mss * acked / self.cwnd;
        }
        let set = [("Cwnd", word(self.cwnd))];
        self.control.update_field(&self.scope, &set).expect("the datapath listens");
    }
}

/// Pulses of the rate around the fastest delivery seen; the window is two of its BDPs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pulses;

pub struct PulsesFlow<I: Ipc> {
    control: Datapath<I>,
    scope: Scope,
    rate: f64,
    rtt_us: f64,
    pulsing: bool,
}

const FIRST: &str = "
    (def (Report (volatile fastest 0) (shortest +infinity)))
    (when true
        (:= Report.shortest (min Report.shortest Flow.rtt_sample_us))
        (:= Report.fastest (max Report.fastest (min Flow.rate_outgoing Flow.rate_incoming)))
        (fallthrough))
    (when (> Micros Report.shortest) (report))";
/// Five control registers, one of which the program sets itself, as it does the rate.
const PULSING: &str = "
    (def (Report (volatile fastest 0) (volatile shortest +infinity) (phase 0))
        (step 0) (window 0) (even 0) (below 0) (above 0))
    (when true
        (:= Report.shortest (min Report.shortest Flow.rtt_sample_us))
        (:= Report.fastest (max Report.fastest (min Flow.rate_outgoing Flow.rate_incoming)))
        (:= Report.phase step)
        (fallthrough))
    (when (&& (> Micros Report.shortest) (== step 0))
        (:= Rate below) (:= step 1) (report))
    (when (&& (> Micros (* Report.shortest 2)) (== step 1))
        (:= Rate even) (:= step 2) (report))
    (when (&& (> Micros (* Report.shortest 8)) (== step 2))
        (:= step 0) (:= Cwnd window) (:= Rate above) (:= Micros 0) (report))";

impl<I: Ipc> CongAlg<I> for Pulses {
    type Flow = PulsesFlow<I>;

    fn name() -> &'static str {
        "bbr"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        HashMap::from([("first", FIRST.to_owned()), ("pulsing", PULSING.to_owned())])
    }

    fn new_flow(&self, mut control: Datapath<I>, info: DatapathInfo) -> Self::Flow {
        let set = [("Cwnd", info.init_cwnd)];
        let scope = control.set_program("first", Some(&set)).expect("it is installed");
        PulsesFlow { control, scope, rate: 125_000.0, rtt_us: 1e6, pulsing: false }
    }
}

impl<I: Ipc> PulsesFlow<I> {
    fn values(&self) -> [(&'static str, u32); 4] {
        [
            ("window", word(self.rate * 2.0 * self.rtt_us / 1e6)),
            ("even", word(self.rate)),
            ("below", word(self.rate * 0.75)),
            ("above", word(self.rate * 1.25)),
        ]
    }
}

impl<I: Ipc> Flow for PulsesFlow<I> {
    fn on_report(&mut self, _: u32, report: Report) {
        if report.program_uid != self.scope.program_uid {
            return; // of the program before
        }
        let shortest = field(&report, "Report.shortest", &self.scope) as f64;
        let fastest = field(&report, "Report.fastest", &self.scope) as f64;
        let news = shortest < self.rtt_us || fastest > self.rate;
        self.rtt_us = self.rtt_us.min(shortest);
        self.rate = self.rate.max(fastest);
        if !self.pulsing {
            self.pulsing = true;
            let [window, even, below, above] = self.values();
            let begin = [("Cwnd", window.1), ("Rate", above.1), window, even, below, above];
            let set = self.control.set_program("pulsing", Some(&begin));
            self.scope = set.expect("it is installed");
        } else if news {
            let set = self.control.update_field(&self.scope, &self.values());
            set.expect("the datapath listens");
        }
    }
}
