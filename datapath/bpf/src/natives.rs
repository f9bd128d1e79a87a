//! Native flows: flows that run one of the kernel's own algorithms (bpf/native.h). The agent
//! measures them by reading their sockets at intervals, which is called a look.
//!
//! A look reads totals over the socket's life. The VM runs the flow's program here, on the
//! difference to the look before, as if that were one ACK. So a native flow reports the same fields
//! as any other flow, at most once a look, and with one round-trip time for all the ACKs in
//! between.

use crate::layout::{self, Look, NAME_BYTES};
use remuda_vm::{Machine, Primitives, RTT_NONE};
use remuda_wire::Register;
use remuda_wire::to_agent::Signals;
use remuda_wire::to_datapath::Update;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// The shortest time between two looks: a quarter of a round trip of 40 ms, which is how often an
/// arm needs reports.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// The time between two looks grows with what a look costs, so that looks take at most a tenth of a
/// core: the iterator passes every live flow, and writes a record for each native one.
const LOOK_COST_INVERSE: u32 = 10;
const LIVE_FLOW_COST: Duration = Duration::from_nanos(200);
/// An upper estimate that includes the record and the VM.
const NATIVE_FLOW_COST: Duration = Duration::from_micros(2);

/// A flow that so many looks in a row have not found has ended. One look is not enough: the
/// iterator can skip a socket when another one is closed.
const MISSES_MAX: u32 = 5;
/// `TCP_CA_Loss`.
const CA_LOSS: u32 = 4;
/// `tcp_min_rtt()` before the first sample.
const RTT_UNKNOWN: u32 = u32::MAX;
const USEC_PER_SEC: u64 = 1_000_000;

type Name = [u8; NAME_BYTES];

#[derive(Debug)]
struct Native {
    /// The algorithm that the agent has ordered.
    name: Name,
    /// The algorithm before that: our own, or another of the kernel's.
    from: Name,
    machine: Machine,
    /// A look has found the flow running `name`.
    confirmed: bool,
    /// The agent has ordered the flow back to our own algorithm.
    recalled: bool,
    /// The application has chosen another algorithm. The agent leaves the flow alone until it runs
    /// ours again.
    reassigned: bool,
    /// Looks in a row that have not found the flow.
    misses: u32,
    last: Option<Look>,
    /// Flags of all looks since the last report.
    flags: u32,
}

/// The result of one look.
#[derive(Debug, Default)]
pub struct LookOutcome {
    /// Sid, program, optional primitives and fields of each report.
    pub reports: Vec<(u32, u32, Signals, Vec<u64>)>,
    pub ended: Vec<u32>,
    /// Flows whose application has chosen another algorithm.
    pub reassigned: Vec<u32>,
    /// Reassigned flows that run our own algorithm again.
    pub returned: Vec<u32>,
    /// Network namespaces, by inode number, with flows that do not yet run what was ordered.
    pub recall_from: HashSet<u32>,
}

#[derive(Debug)]
pub struct Natives {
    flows: HashMap<u32, Native>,
    ours: Name,
}

/// What a flow's slot says about the kernel's own algorithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeState {
    /// The flow runs one.
    pub is_native: bool,
    /// The agent has ordered one.
    pub wants_native: bool,
}

fn known(rtt_us: u32) -> u32 {
    if rtt_us == RTT_UNKNOWN { 0 } else { rtt_us }
}

impl Natives {
    /// `ours` is the name of our own algorithm.
    pub fn new(ours: Name) -> Self {
        Self { flows: HashMap::new(), ours }
    }

    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// The time from one look to the next, with so many live flows of all kinds.
    pub fn look_interval(&self, live: usize) -> Duration {
        let count = |flows: usize| u32::try_from(flows).unwrap_or(u32::MAX);
        let cost = LIVE_FLOW_COST.saturating_mul(count(live))
            + NATIVE_FLOW_COST.saturating_mul(count(self.flows.len()));
        LOOK_INTERVAL.max(cost.saturating_mul(LOOK_COST_INVERSE))
    }

    /// Whether the agent has ordered one of the kernel's algorithms for this flow.
    pub fn has(&self, sid: u32) -> bool {
        self.flows.contains_key(&sid)
    }

    /// Whether the flow's application has chosen another algorithm than was ordered.
    pub fn is_reassigned(&self, sid: u32) -> bool {
        self.flows.get(&sid).is_some_and(|flow| flow.reassigned)
    }

    /// The agent orders the kernel's algorithm `name`; `machine` runs the flow's program meanwhile.
    pub fn add(&mut self, sid: u32, name: Name, machine: Machine) {
        let before = self.flows.remove(&sid);
        let flow = Native {
            name,
            from: before.as_ref().map_or(self.ours, |before| before.name),
            machine,
            confirmed: false,
            recalled: false,
            reassigned: false,
            misses: 0,
            last: before.and_then(|before| before.last),
            flags: 0,
        };
        self.flows.insert(sid, flow);
    }

    /// The agent orders the flow back to our own algorithm. Nothing happens to any other flow.
    pub fn recall(&mut self, sid: u32) {
        if let Some(flow) = self.flows.get_mut(&sid) {
            flow.recalled = true;
        }
    }

    /// Forgets a flow that has ended or runs our own algorithm.
    pub fn remove(&mut self, sid: u32) {
        self.flows.remove(&sid);
    }

    /// The kernel refused to change the flow's algorithm, so the one that it runs is now the one
    /// ordered. Returns its name.
    pub fn keep_current(&mut self, sid: u32) -> Option<Name> {
        let ours = self.ours;
        let flow = self.flows.get_mut(&sid)?;
        if !flow.confirmed && flow.from != ours {
            flow.name = flow.from;
        }
        (flow.recalled, flow.confirmed) = (false, true);
        Some(flow.name)
    }

    /// Sets control registers. Windows and rates are ignored: the kernel's algorithm chooses them.
    pub fn update(&mut self, sid: u32, updates: &[Update]) {
        let Some(flow) = self.flows.get_mut(&sid) else { return };
        for Update { register, value } in updates {
            if let Register::Control(index) = *register {
                flow.machine.set_control(index, *value);
            }
        }
    }

    /// Takes the records of one look. `native_state` reads a flow's slot.
    pub fn observe(
        &mut self,
        looks: &[Look],
        native_state: impl Fn(u32) -> NativeState,
    ) -> LookOutcome {
        let mut outcome = LookOutcome::default();
        let mut here = HashSet::new();
        for look in looks {
            let Some(flow) = self.flows.get_mut(&look.sid) else { continue };
            here.insert(look.sid);
            flow.misses = 0;
            if flow.note_algorithm(look, &mut outcome) {
                outcome.reports.extend(flow.step(look));
            }
        }
        self.flows.retain(|sid, flow| {
            here.contains(sid) || flow.is_still_native(*sid, native_state(*sid), &mut outcome)
        });
        outcome
    }
}

impl Native {
    /// Compares the algorithm that the flow runs with the one ordered. Returns false if the
    /// application has chosen the algorithm that the flow runs.
    fn note_algorithm(&mut self, look: &Look, outcome: &mut LookOutcome) -> bool {
        if self.reassigned {
            return false;
        }
        let arrived = look.name == self.name;
        if !arrived && (self.confirmed || look.name != self.from) {
            self.reassigned = true;
            outcome.reassigned.push(look.sid);
            return false;
        }
        self.confirmed = arrived;
        if self.recalled || !arrived {
            outcome.recall_from.insert(look.netns);
        }
        true
    }

    /// For a flow that a look has not found: whether the next look should expect it.
    fn is_still_native(
        &mut self,
        sid: u32,
        native_state: NativeState,
        outcome: &mut LookOutcome,
    ) -> bool {
        let NativeState { is_native, wants_native } = native_state;
        if wants_native && !is_native && !self.reassigned {
            self.misses = 0; // it changes at its next ACK, which has not come yet
            return true;
        }
        self.misses += 1;
        if self.misses < MISSES_MAX {
            return true;
        }
        if is_native {
            outcome.ended.push(sid);
        } else if self.reassigned {
            outcome.returned.push(sid);
        }
        false
    }

    fn step(&mut self, look: &Look) -> Option<(u32, u32, Signals, Vec<u64>)> {
        let last = self.last.replace(*look)?;
        self.flags |= look.flags;
        if !was_acked_between(&last, look) {
            return None; // an idle flow costs no run of its program, as under our own algorithm
        }
        let p = primitives(&last, look);
        let mss = u64::from(look.mss_bytes);
        let ran = self.machine.run(&p, u64::from(look.cwnd_pkts) * mss, 0, look.now_ns);
        if !ran.reported {
            return None;
        }
        let is = |flag: u32| self.flags & flag != 0;
        let signals = Signals {
            now_us: look.now_ns / 1_000,
            srtt_us: look.srtt_us,
            rtt_min_us: known(look.rtt_min_us),
            delivered_pkts: look.delivered_pkts,
            lost_pkts: look.lost_pkts,
            cwnd_pkts: look.cwnd_pkts,
            mss_bytes: look.mss_bytes,
            app_limited: is(layout::REPORT_APP_LIMITED),
            in_recovery: look.flags & layout::REPORT_IN_RECOVERY != 0,
            cwnd_full: is(layout::REPORT_CWND_FULL),
            cwnd_half: is(layout::REPORT_CWND_HALF),
            undone: false,
            restarted: false,
            rwnd_limited: is(layout::REPORT_RWND_LIMITED),
            sndbuf_limited: is(layout::REPORT_SNDBUF_LIMITED),
        };
        self.flags = 0;
        let uid = self.machine.program_uid()?;
        Some((look.sid, uid, signals, self.machine.report().to_vec()))
    }
}

/// Whether an ACK, a loss or a timeout has changed the socket's totals between two looks.
fn was_acked_between(last: &Look, look: &Look) -> bool {
    let totals = |it: &Look| {
        let marks = (it.delivered_ce_pkts, it.sacked_pkts);
        (it.bytes_acked, it.delivered_pkts, it.lost_pkts, marks, it.ca_state)
    };
    totals(last) != totals(look)
}

/// What happened between two looks, as if it were one ACK.
fn primitives(last: &Look, look: &Look) -> Primitives {
    let mss = u64::from(look.mss_bytes);
    let delivered = look.delivered_pkts.wrapping_sub(last.delivered_pkts);
    let misordered = u64::from(look.sacked_pkts.saturating_sub(last.sacked_pkts));
    let marked = u64::from(look.delivered_ce_pkts.wrapping_sub(last.delivered_ce_pkts));
    let in_flight = u64::from(look.in_flight_pkts);
    let rate = match look.rate_interval_us {
        0 => 0,
        us => u64::from(look.rate_delivered_pkts) * mss * USEC_PER_SEC / u64::from(us),
    };
    let sampled = delivered > 0 && look.rtt_us > 0;
    Primitives {
        bytes_acked: look.bytes_acked.saturating_sub(last.bytes_acked),
        bytes_misordered: misordered * mss,
        ecn_bytes: marked * mss,
        ecn_packets: marked,
        lost_pkts_sample: look.lost_pkts.wrapping_sub(last.lost_pkts).into(),
        now_us: look.now_ns / 1_000,
        packets_acked: u64::from(delivered).saturating_sub(misordered),
        packets_misordered: misordered,
        bytes_in_flight: in_flight * mss,
        bytes_pending: look.pending_bytes,
        packets_in_flight: in_flight,
        rate_incoming: rate,
        rate_outgoing: rate,
        rtt_sample_us: if sampled { look.rtt_us.into() } else { RTT_NONE },
        was_timeout: (look.ca_state == CA_LOSS && last.ca_state != CA_LOSS).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_vm::Program;

    const PROGRAM: &str = "(def (Report (volatile acked 0) (volatile lost 0) (rtt 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked))
            (:= Report.lost (+ Report.lost Ack.lost_pkts_sample)) (fallthrough))
        (when (< Flow.rtt_sample_us 2000000) (:= Report.rtt Flow.rtt_sample_us) (fallthrough))
        (when (> Micros 15000) (:= Micros 0) (report))";

    fn machine() -> Machine {
        let (bin, _) = portus::lang::compile(PROGRAM.as_bytes(), &[]).expect("it compiles");
        let counts = [5, bin.events.len() as u32, bin.instrs.len() as u32];
        let mut message = vec![2, 0, 0, 0, 0, 0, 0, 0];
        message.extend(counts.iter().flat_map(|word| word.to_le_bytes()));
        message.extend(bin.serialize().expect("it serializes"));
        let length = u16::try_from(message.len()).expect("short");
        message[2..4].copy_from_slice(&length.to_le_bytes());
        let mut machine = Machine::new();
        machine.change(&Program::from_install(&message).expect("valid"), &[], 0);
        machine
    }

    const CUBIC: Name = *b"cubic\0\0\0\0\0\0\0\0\0\0\0";
    const VEGAS: Name = *b"vegas\0\0\0\0\0\0\0\0\0\0\0";
    const OURS: Name = *b"remuda\0\0\0\0\0\0\0\0\0\0";
    const GONE: NativeState = NativeState { is_native: true, wants_native: true };
    const TO_GO: NativeState = NativeState { is_native: false, wants_native: true };
    const BACK: NativeState = NativeState { is_native: false, wants_native: false };

    fn look(sid: u32, ms: u64, acked: u64, lost: u32) -> Look {
        Look {
            sid,
            flags: 0,
            now_ns: ms * 1_000_000,
            bytes_acked: acked,
            pending_bytes: 0,
            mss_bytes: 1_000,
            cwnd_pkts: 10,
            in_flight_pkts: 5,
            srtt_us: 40_000,
            rtt_min_us: 39_000,
            rtt_us: 41_000,
            rate_delivered_pkts: 10,
            rate_interval_us: 40_000,
            delivered_pkts: (acked / 1_000) as u32,
            delivered_ce_pkts: 0,
            lost_pkts: lost,
            sacked_pkts: 0,
            ca_state: 0,
            netns: 3,
            name: CUBIC,
        }
    }

    fn one() -> Natives {
        let mut natives = Natives::new(OURS);
        natives.add(7, CUBIC, machine());
        natives
    }

    /// Makes `times` looks that do not find the flow, and returns the outcome of the last.
    fn missed(natives: &mut Natives, times: u32, native_state: NativeState) -> LookOutcome {
        (0..times).fold(LookOutcome::default(), |_, _| natives.observe(&[], |_| native_state))
    }

    #[test]
    fn differences_of_totals_reach_the_program_and_its_reports_the_agent() {
        let mut natives = one();
        let mut saw = |look| natives.observe(&[look], |_| GONE);
        assert!(saw(look(7, 0, 50_000, 3)).reports.is_empty(), "the first look");
        assert!(saw(look(7, 10, 60_000, 3)).reports.is_empty(), "not due yet");
        let outcome = saw(look(7, 20, 65_000, 5));
        let (sid, uid, signals, fields) = &outcome.reports[0];
        assert_eq!((*sid, *uid, fields.as_slice()), (7, 5, &[15_000, 2, 41_000][..]));
        assert_eq!((signals.cwnd_pkts, signals.delivered_pkts), (10, 65));
        assert!(outcome.ended.is_empty() && outcome.recall_from.is_empty());
    }

    #[test]
    fn an_idle_flow_reports_nothing_and_goes_on_where_it_was() {
        let mut natives = one();
        let mut reports = |look| natives.observe(&[look], |_| GONE).reports.len();
        reports(look(7, 0, 50_000, 3));
        assert_eq!(reports(look(7, 20, 60_000, 3)), 1);
        for ms in 3..100 {
            assert_eq!(reports(look(7, ms * 10, 60_000, 3)), 0);
        }
        assert_eq!(reports(look(7, 1_000, 61_000, 3)), 1);
        let timed_out = Look { ca_state: CA_LOSS, ..look(7, 1_020, 61_000, 3) };
        assert_eq!(reports(timed_out), 1);
    }

    #[test]
    fn looks_are_rarer_the_more_they_cost() {
        let mut natives = one();
        assert_eq!(natives.look_interval(1), LOOK_INTERVAL);
        assert_eq!(natives.look_interval(1_000), LOOK_INTERVAL);
        assert_eq!(natives.look_interval(100_000).as_millis(), 200);
        for sid in 0..1_000 {
            natives.add(sid, CUBIC, machine());
        }
        assert_eq!(natives.look_interval(10_000).as_millis(), 40);
    }

    #[test]
    fn a_flow_that_many_looks_miss_has_ended_unless_it_has_still_to_go() {
        let mut natives = one();
        assert!(missed(&mut natives, 3 * MISSES_MAX, TO_GO).ended.is_empty());
        assert!(missed(&mut natives, MISSES_MAX - 1, GONE).ended.is_empty());
        natives.observe(&[look(7, 1, 0, 0)], |_| GONE);
        assert!(missed(&mut natives, MISSES_MAX - 1, GONE).ended.is_empty(), "counted anew");
        assert_eq!(missed(&mut natives, 1, GONE).ended, [7]);
        assert!(natives.is_empty());
    }

    #[test]
    fn a_flow_that_runs_ours_again_is_forgotten() {
        let mut natives = one();
        natives.observe(&[look(7, 1, 0, 0)], |_| GONE);
        natives.recall(7);
        assert!(natives.observe(&[look(7, 2, 0, 0)], |_| GONE).recall_from.contains(&3));
        let outcome = missed(&mut natives, MISSES_MAX, BACK);
        assert!(outcome.ended.is_empty() && outcome.returned.is_empty() && natives.is_empty());
    }

    #[test]
    fn a_flow_recalled_before_any_look_is_recalled_all_the_same() {
        let mut natives = one();
        natives.recall(7);
        for ms in 1..3 {
            assert!(natives.observe(&[look(7, ms, 0, 0)], |_| GONE).recall_from.contains(&3));
        }
        assert_eq!(natives.keep_current(7), Some(CUBIC));
        assert!(natives.observe(&[look(7, 3, 0, 0)], |_| GONE).recall_from.is_empty());
    }

    #[test]
    fn a_flow_ordered_to_another_algorithm_is_recalled_until_it_runs_it() {
        let mut natives = one();
        natives.observe(&[look(7, 1, 0, 0)], |_| GONE);
        natives.add(7, VEGAS, machine());
        for ms in 2..5 {
            assert!(natives.observe(&[look(7, ms, 0, 0)], |_| GONE).recall_from.contains(&3));
        }
        let arrived = Look { name: VEGAS, ..look(7, 5, 0, 0) };
        assert!(natives.observe(&[arrived], |_| GONE).recall_from.is_empty());
        natives.add(7, CUBIC, machine());
        assert_eq!(natives.keep_current(7), Some(VEGAS), "the algorithm it runs");
        assert!(natives.observe(&[arrived], |_| GONE).recall_from.is_empty());
    }

    #[test]
    fn a_flow_that_its_application_reassigned_is_left_alone_until_it_runs_ours_again() {
        let mut natives = one();
        let early = Look { name: OURS, ..look(7, 4, 0, 0) };
        assert!(natives.observe(&[early], |_| GONE).reassigned.is_empty(), "it is on its way");
        natives.observe(&[look(7, 5, 0, 0)], |_| GONE);
        let other = Look { name: VEGAS, ..look(7, 10, 0, 0) };
        assert_eq!(natives.observe(&[other], |_| GONE).reassigned, [7]);
        natives.recall(7);
        let outcome = natives.observe(&[other], |_| GONE);
        assert!(outcome.reassigned.is_empty() && outcome.recall_from.is_empty());
        assert!(natives.is_reassigned(7));
        assert_eq!(missed(&mut natives, MISSES_MAX, BACK).returned, [7]);
        assert!(natives.is_empty());
    }

    #[test]
    fn totals_that_wrap_or_shrink_do_no_harm() {
        let mut natives = one();
        let first = Look { lost_pkts: u32::MAX, sacked_pkts: 9, ..look(7, 0, 9_000, 0) };
        natives.observe(&[first], |_| GONE);
        let outcome = natives.observe(&[look(7, 20, 8_000, 1)], |_| GONE);
        assert_eq!(outcome.reports[0].3[..2], [0, 2], "acked, lost");
    }
}
