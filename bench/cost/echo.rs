//! An algorithm that measures how long its own orders take.
//!
//! Its program stamps each report with the time, the algorithm sends the stamp back with a window,
//! and the program, at the ACK where the stamp arrives, reports how old it is. So the flow itself
//! measures the whole way, with one clock, for every agent and transport.
//!
//! [`Echo`] is an algorithm of portus. [`EchoAgent`] is the same for the agent's own datapaths: it
//! first lets the [`Host`] do what the product does with a report: decode it, step `cubic`, guard
//! the decision. That decision is dropped, and the stamp is sent.

use ccp_agent::clock;
use ccp_agent::datapath::{Agent, Obey, Peer};
use ccp_agent::host::Host;
use ccp_agent::lock::lock;
use ccp_agent::programs::{self, Compiled};
use portus::ipc::Ipc;
use portus::lang::Scope;
use portus::{CongAlg, Datapath, DatapathInfo, DatapathTrait, Flow, Report};
use remuda_algorithms::signals::FIELDS;
use remuda_wire::to_datapath::Update;
use remuda_wire::{Event, Order, Register, ToDatapath, program};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const NAME: &str = "echo";

/// The clock on the wire: microseconds of the monotonic one, modulo this, as registers are set in
/// 32 bits. It wraps every quarter of an hour; the one stamp that meets it counts as 1 us.
const CLOCK_WRAP_US: u64 = 1_000_000_000;

/// `echo` comes last in an order, and first among the control registers.
const ECHO: Register = Register::Control(0);

const PROGRAM: &str = "(def (Report
    (volatile at_us 0)
    (volatile applied_us 0)
    (volatile acked_bytes 0)
    (volatile lost_pkts 0)
    (volatile rtt_us 0)
    (volatile rtt_us_min 2000000000)
    (volatile rtt_us_max 0)
    (volatile rtt_us_sum 0)
    (volatile rtt_samples 0)
    (volatile delivery_rate_bytes_per_sec 0)
    (volatile in_flight_bytes_max 0)
    (volatile cwnd_bytes 0)
    ) (echo 0) (seen 0) (clock_us 0) (every_us 2000))
(when true
    (:= clock_us (- Ack.now (* (/ Ack.now 1000000000) 1000000000)))
    (:= Report.acked_bytes (+ Report.acked_bytes Ack.bytes_acked))
    (:= Report.lost_pkts (+ Report.lost_pkts Ack.lost_pkts_sample))
    (:= Report.delivery_rate_bytes_per_sec
        (max Report.delivery_rate_bytes_per_sec (min Flow.rate_outgoing Flow.rate_incoming)))
    (:= Report.in_flight_bytes_max (max Report.in_flight_bytes_max Flow.bytes_in_flight))
    (:= Report.cwnd_bytes Cwnd)
    (fallthrough))
(when (< Flow.rtt_sample_us 2000000000)
    (:= Report.rtt_us Flow.rtt_sample_us)
    (:= Report.rtt_us_min (min Report.rtt_us_min Flow.rtt_sample_us))
    (:= Report.rtt_us_max (max Report.rtt_us_max Flow.rtt_sample_us))
    (:= Report.rtt_us_sum (+ Report.rtt_us_sum Flow.rtt_sample_us))
    (:= Report.rtt_samples (+ Report.rtt_samples 1))
    (fallthrough))
(when (|| (> echo seen) (< echo seen))
    (:= seen echo)
    (:= Report.applied_us (max 1 (- clock_us echo)))
    (fallthrough))
(when (> Micros every_us)
    (:= Micros 0)
    (:= Report.at_us clock_us)
    (report))";

#[derive(Clone, Debug, Default)]
pub struct Samples {
    pub reports: usize,
    /// From a report to the answer in the flow's slot, in microseconds.
    pub written_us: Vec<f64>,
    /// From a report to the ACK that obeyed, in microseconds.
    pub applied_us: Vec<f64>,
}

impl Samples {
    fn written(&mut self, stamp_us: u64) {
        let now_us = clock::monotonic_us() % CLOCK_WRAP_US;
        self.written_us.push(now_us.saturating_sub(stamp_us) as f64);
    }

    /// Notes a report, which says how old the stamp was that its ACK obeyed; 0: it obeyed none.
    fn reported(&mut self, applied_us: u64) {
        self.reports += 1;
        if applied_us > 0 {
            self.applied_us.push(applied_us as f64);
        }
    }

    /// Notes an order that somebody else has just carried out.
    pub fn carried_out(&mut self, order: &[u8]) {
        if let Ok(ToDatapath::UpdateFields { updates, .. }) = ToDatapath::parse(order)
            && let Some(echo) = updates.iter().find(|update| update.register == ECHO)
        {
            self.written(echo.value);
        }
    }
}

pub struct Echo {
    pub samples: Arc<Mutex<Samples>>,
    /// The windows to set, in turns, in segments.
    pub windows_pkts: [u32; 2],
}

pub struct EchoFlow<I: Ipc> {
    control: Datapath<I>,
    scope: Scope,
    samples: Arc<Mutex<Samples>>,
    windows_bytes: [u32; 2],
}

impl<I: Ipc> CongAlg<I> for Echo {
    type Flow = EchoFlow<I>;

    fn name() -> &'static str {
        NAME
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        HashMap::from([(NAME, PROGRAM.to_owned())])
    }

    fn new_flow(&self, mut control: Datapath<I>, info: DatapathInfo) -> EchoFlow<I> {
        let windows_bytes = self.windows_pkts.map(|pkts| pkts * info.mss);
        let first = [("Cwnd", windows_bytes[0])];
        let scope = control.set_program(NAME, Some(&first)).expect("the program is installed");
        EchoFlow { control, scope, samples: Arc::clone(&self.samples), windows_bytes }
    }
}

impl<I: Ipc> Flow for EchoFlow<I> {
    fn on_report(&mut self, _: u32, report: Report) {
        let field = |name: &str| report.get_field(name, &self.scope).ok();
        let Some(stamp) = field("Report.at_us").and_then(|at| u32::try_from(at).ok()) else {
            return;
        };
        self.windows_bytes.swap(0, 1);
        let order = [("Cwnd", self.windows_bytes[0]), ("echo", stamp)];
        let _ = self.control.update_field(&self.scope, &order);
        lock(&self.samples).reported(field("Report.applied_us").unwrap_or(0));
    }
}

/// The number of the program that measures.
const UID: u32 = 1 << 20;

/// The same over the product's host.
pub struct EchoAgent {
    pub host: Host,
    pub samples: Arc<Mutex<Samples>>,
    windows_pkts: [u32; 2],
    mss: u32,
    program: Compiled,
    /// The number of the program that the host thinks its flow runs.
    cubic: u32,
}

/// The host's orders end here.
struct Deaf;

impl Obey for Deaf {
    fn order(&mut self, _peer: &Peer, _order: &Order<'_>) -> Result<(), String> {
        Ok(())
    }
}

impl EchoAgent {
    pub fn new(
        host: Host,
        samples: Arc<Mutex<Samples>>,
        windows_pkts: [u32; 2],
    ) -> Result<Self, ccp_agent::Error> {
        let program = programs::compiled(NAME, PROGRAM, UID)?;
        let cubic = remuda_algorithms::arm("cubic").map(|arm| arm.program);
        let cubic = programs::ours()?.iter().find(|it| Some(it.id) == cubic);
        let cubic = cubic.map_or(0, |it| it.uid);
        Ok(Self { host, samples, windows_pkts, mss: 1, program, cubic })
    }

    fn field(&self, fields: &[u64], name: &str) -> Option<u64> {
        match self.program.register(name) {
            Some(Register::Report(index)) => fields.get(index as usize).copied(),
            _ => None,
        }
    }

    fn report(&mut self, datapath: &mut dyn Obey, peer: &Peer, report: remuda_wire::Report<'_>) {
        let Some(stamp) = self.field(report.fields, "Report.at_us") else { return };
        // What this program does not report is 0.
        let signals = FIELDS.map(|name| self.field(report.fields, name).unwrap_or(0));
        let product = remuda_wire::Report { uid: self.cubic, fields: &signals, ..report };
        self.host.event(&mut Deaf, peer, Event::Report(product));
        self.windows_pkts.swap(0, 1);
        let window = u64::from(self.windows_pkts[0] * self.mss);
        let updates = [
            Update { register: Register::Implicit(program::CWND), value: window },
            Update { register: ECHO, value: stamp },
        ];
        let sent = datapath.order(peer, &Order::Update { sid: report.sid, updates: &updates });
        let mut samples = lock(&self.samples);
        if sent.is_ok() {
            samples.written(stamp);
        }
        samples.reported(self.field(report.fields, "Report.applied_us").unwrap_or(0));
    }
}

impl Agent for EchoAgent {
    fn event(&mut self, datapath: &mut dyn Obey, peer: &Peer, event: Event<'_>) {
        match event {
            Event::Ready => {
                let _ = datapath.order(peer, &Order::Install(&self.program.install));
            }
            Event::Created { sid, create, .. } => {
                self.mss = create.mss_bytes;
                self.host.event(&mut Deaf, peer, event);
                let window = u64::from(self.windows_pkts[0] * self.mss);
                let register = Register::Implicit(program::CWND);
                let updates = [Update { register, value: window }];
                let _ = datapath.order(peer, &Order::Run { sid, uid: UID, updates: &updates });
            }
            Event::Report(report) => self.report(datapath, peer, report),
            other => self.host.event(&mut Deaf, peer, other),
        }
    }

    fn refused(&mut self, peer: &Peer, reason: String) {
        self.host.refused(peer, reason);
    }

    fn lost(&mut self, peer: &Peer, reason: String) {
        self.host.lost(peer, reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_tests::message;

    #[test]
    fn the_stamp_stands_in_the_register_that_is_looked_for() {
        let (_, scope) = portus::lang::compile(PROGRAM.as_bytes(), &[]).expect("it compiles");
        let Some(portus::lang::Reg::Control(index, ..)) = scope.get("echo") else {
            panic!("echo is a control register");
        };
        assert_eq!(Register::Control(u32::from(*index)), ECHO);
        assert!(message::install(1, PROGRAM).is_ok(), "a datapath takes it");
    }

    #[test]
    fn only_an_answer_to_a_report_is_a_sample() {
        let mut samples = Samples::default();
        let first = message::change_program(1, 1, 1).expect("it encodes");
        samples.carried_out(&first);
        samples.carried_out(&[0]);
        assert!(samples.written_us.is_empty());
    }
}
