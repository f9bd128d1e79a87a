//! An algorithm that measures the latency of its own orders.
//!
//! Its program stamps each report with the time. The algorithm returns the stamp together with a
//! window, and at the ACK where the stamp arrives the program reports the stamp's age. So the flow
//! measures the whole round itself, with one clock, on every datapath and transport.
//!
//! With a [`Host`] the algorithm first lets the host do its usual work on a report: decode it, step
//! `cubic`, guard the decision. That decision is dropped, and the same order is sent as without a
//! host.

use ccp_agent::clock;
use ccp_agent::flow::Actuator;
use ccp_agent::host::{Host, Key};
use ccp_agent::ipc::{Current, lock};
use portus::ipc::Ipc;
use portus::lang::Scope;
use portus::{CongAlg, Datapath, DatapathInfo, DatapathTrait, Flow, Report};
use remuda_algorithms::ProgramId;
use remuda_wire::{Register, ToDatapath};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const NAME: &str = "echo";

/// The program's clock: microseconds of the monotonic clock modulo this, because a register is set
/// in 32 bits. It wraps every quarter of an hour; a stamp taken just before counts as 1 us.
const CLOCK_WRAP_US: u64 = 1_000_000_000;

/// `echo` is the last field of an order, and the first control register.
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
    /// Time from a report to the answer in the flow's slot.
    pub written_us: Vec<f64>,
    /// Time from a report to the ACK that applies the answer.
    pub applied_us: Vec<f64>,
}

impl Samples {
    fn written(&mut self, stamp_us: u64) {
        let now_us = clock::monotonic_us() % CLOCK_WRAP_US;
        self.written_us.push(now_us.saturating_sub(stamp_us) as f64);
    }

    /// Records an order that another thread has just written into the slot.
    pub fn carried_out(&mut self, order: &[u8]) {
        if let Ok(ToDatapath::UpdateFields { updates, .. }) = ToDatapath::parse(order)
            && let Some(echo) = updates.iter().find(|update| update.register == ECHO)
        {
            self.written(echo.value);
        }
    }
}

/// The product's flow host, and the junction that has the message being handled.
#[derive(Clone)]
pub struct Product {
    pub host: Arc<Mutex<Host>>,
    pub current: Arc<Mutex<Current>>,
}

pub struct Echo {
    pub samples: Arc<Mutex<Samples>>,
    /// The windows, in segments, that the algorithm sets in turn.
    pub windows_pkts: [u32; 2],
    /// With a product, sending an order writes it into the slot; without, another process does
    /// that.
    pub product: Option<Product>,
}

pub struct EchoFlow<I: Ipc> {
    control: Datapath<I>,
    scope: Scope,
    samples: Arc<Mutex<Samples>>,
    windows_bytes: [u32; 2],
    product: Option<(Product, Key)>,
}

/// Ignores the host's orders.
struct Deaf;

impl Actuator for Deaf {
    fn set_program(&mut self, _: ProgramId, _: &[(&str, u32)]) {}

    fn update(&mut self, _: &[(&str, u32)]) {}

    fn run_native(&mut self, _: &'static str, _: u32) {}
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
        let product = self.product.clone().map(|product| {
            let (peer, create) = {
                let current = lock(&product.current);
                (current.peer.clone(), current.create.clone())
            };
            let key = (peer, info.sock_id);
            lock(&product.host).create(&key, &create, &mut Deaf);
            (product, key)
        });
        let windows_bytes = self.windows_pkts.map(|pkts| pkts * info.mss);
        let first = [("Cwnd", windows_bytes[0])];
        let scope = control.set_program(NAME, Some(&first)).expect("the program is installed");
        EchoFlow { control, scope, samples: Arc::clone(&self.samples), windows_bytes, product }
    }
}

impl<I: Ipc> Flow for EchoFlow<I> {
    fn on_report(&mut self, _: u32, report: Report) {
        let field = |name: &str| report.get_field(name, &self.scope).ok();
        let Some(stamp) = field("Report.at_us").and_then(|at| u32::try_from(at).ok()) else {
            return;
        };
        if let Some((product, key)) = &self.product {
            // A field that this program does not report counts as 0.
            let reported = |name: &'static str| field(name).or(Some(0));
            lock(&product.host).report(key, reported, &mut Deaf);
        }
        self.windows_bytes.swap(0, 1);
        let order = [("Cwnd", self.windows_bytes[0]), ("echo", stamp)];
        let sent = self.control.update_field(&self.scope, &order);
        let mut samples = lock(&self.samples);
        if sent.is_ok() && self.product.is_some() {
            samples.written(stamp.into());
        }
        samples.reports += 1;
        let applied = field("Report.applied_us").filter(|us| *us > 0);
        samples.applied_us.extend(applied.map(|us| us as f64));
    }

    fn close(&mut self) {
        if let Some((product, key)) = &self.product {
            lock(&product.host).close(key);
        }
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
