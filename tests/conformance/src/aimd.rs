//! An agent like the examples in CCP's own documentation: additive increase, multiplicative
//! decrease, on an unmodified portus. It changes its program once.

use portus::ipc::Ipc;
use portus::lang::Scope;
use portus::{CongAlg, DatapathInfo, DatapathTrait, Flow, Report};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The window of a new flow.
pub const INITIAL_PKTS: u32 = 10;
const LEAST_PKTS: u32 = 4;
/// Reports until the agent changes the program.
const RISE_REPORTS: u64 = 20;

const RISE: &str = "(def (Report (volatile acked 0) (volatile lost 0) (rtt 0)) (every_us 1000000))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.rtt Flow.rtt_sample_us)
    (fallthrough))
(when (> Micros every_us) (:= Micros 0) (report))";

const STEADY: &str =
    "(def (Report (volatile lost 0) (volatile acked 0) (cwnd 0)) (wait_us 1000000))
(when true
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.cwnd Cwnd)
    (fallthrough))
(when (&& (> Report.lost 0) (> Micros 20000)) (:= Micros 0) (report))
(when (> Micros wait_us) (:= Micros 0) (report))";

/// The actions of the agent, which a test reads.
#[derive(Default)]
pub struct Notes {
    pub reports: u64,
    /// Reports of the second program.
    pub steady_reports: u64,
    /// The windows that the agent decided, in bytes, in order.
    pub decided: Vec<u64>,
    /// The values of `Report.cwnd`.
    pub seen_cwnd: Vec<u64>,
    /// Whether the flow has ended.
    pub closed: bool,
}

/// Shared between a test and its agent.
pub type Shared = Arc<Mutex<Notes>>;

/// Calls `look` with the notes.
pub fn with<T>(notes: &Shared, look: impl FnOnce(&mut Notes) -> T) -> T {
    look(&mut notes.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Additive increase, multiplicative decrease.
pub struct Aimd(pub Shared);

/// One flow of [`Aimd`].
pub struct AimdFlow<I: Ipc> {
    control: portus::Datapath<I>,
    scope: Scope,
    cwnd_pkts: u32,
    mss_bytes: u32,
    notes: Shared,
}

impl<I: Ipc> CongAlg<I> for Aimd {
    type Flow = AimdFlow<I>;

    fn name() -> &'static str {
        "aimd"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        HashMap::from([("aimd/rise", RISE.to_owned()), ("aimd/steady", STEADY.to_owned())])
    }

    fn new_flow(&self, mut control: portus::Datapath<I>, info: DatapathInfo) -> Self::Flow {
        let mss_bytes = info.mss;
        let cwnd = INITIAL_PKTS * mss_bytes;
        let first = [("Cwnd", cwnd), ("every_us", 10_000)];
        let scope = control.set_program("aimd/rise", Some(&first)).expect("it is installed");
        with(&self.0, |notes| notes.decided.push(cwnd.into()));
        let notes = Arc::clone(&self.0);
        AimdFlow { control, scope, cwnd_pkts: INITIAL_PKTS, mss_bytes, notes }
    }
}

impl<I: Ipc> Flow for AimdFlow<I> {
    fn on_report(&mut self, _: u32, report: Report) {
        let Ok(lost) = report.get_field("Report.lost", &self.scope) else {
            return; // of the program before
        };
        let less = (self.cwnd_pkts / 2).max(LEAST_PKTS);
        self.cwnd_pkts = if lost > 0 { less } else { self.cwnd_pkts + 1 };
        let cwnd = self.cwnd_pkts * self.mss_bytes;
        let reports = with(&self.notes, |notes| {
            notes.reports += 1;
            notes.decided.push(cwnd.into());
            if let Ok(seen) = report.get_field("Report.cwnd", &self.scope) {
                notes.steady_reports += 1;
                notes.seen_cwnd.push(seen);
            }
            notes.reports
        });
        if reports == RISE_REPORTS {
            let fields = [("Cwnd", cwnd), ("wait_us", 20_000)];
            let changed = self.control.set_program("aimd/steady", Some(&fields));
            self.scope = changed.expect("it is installed");
        } else {
            self.control.update_field(&self.scope, &[("Cwnd", cwnd)]).expect("it listens");
        }
    }

    fn close(&mut self) {
        with(&self.notes, |notes| notes.closed = true);
    }
}
