//! Flows under an algorithm of the kernel's own (bpf/native.h): still measured, by looking at them.
//!
//! A look finds totals of the socket's life; the difference to the last look is to the flow's
//! program what an ACK is, and the VM runs it here. So such a flow reports what any other does, at
//! most once a look, and its round trips are samples of many.

use crate::Error;
use crate::error::tried;
use crate::layout::{self, Look, NAME_BYTES};
use libbpf_rs::{Iter, Link};
use remuda_vm::{Machine, Primitives, RTT_NONE};
use remuda_wire::Register;
use remuda_wire::to_agent::Signals;
use remuda_wire::to_datapath::Update;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::time::Duration;

/// A quarter of a round trip of 40 ms, which is how often an arm wants to hear.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// `TCP_CA_Loss`.
const CA_LOSS: u32 = 4;
/// `tcp_min_rtt()` before the first sample.
const RTT_UNKNOWN: u32 = u32::MAX;
const USEC_PER_SEC: u64 = 1_000_000;

/// One such flow.
#[derive(Debug)]
struct Native {
    name: [u8; NAME_BYTES],
    machine: Machine,
    /// It has gone: it goes at its next ACK.
    gone: bool,
    /// It was seen under that name.
    settled: bool,
    last: Option<Look>,
    /// Of all looks since the last report.
    flags: u32,
}

/// What looking at the flows brought.
#[derive(Debug, Default)]
pub struct Seen {
    /// Reports: flow, program, its fields, and the optional primitives.
    pub reports: Vec<(u32, u32, Signals, Vec<u64>)>,
    /// Flows that are there no more, or that someone else gave another algorithm.
    pub ended: Vec<u32>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Natives {
    flows: HashMap<u32, Native>,
    namespaces: HashSet<u32>,
}

fn known(rtt_us: u32) -> u32 {
    if rtt_us == RTT_UNKNOWN { 0 } else { rtt_us }
}

/// Every record that the iterator writes.
pub fn look(iterator: &Link) -> Result<Vec<Look>, Error> {
    let mut bytes = Vec::new();
    Iter::new(iterator)
        .map_err(tried("looking at the flows"))?
        .read_to_end(&mut bytes)
        .map_err(|source| Error::File { path: "the flows' iterator".to_owned(), source })?;
    Ok(bytes.chunks_exact(size_of::<Look>()).filter_map(layout::read).collect())
}

impl Natives {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Whether the flow is one of them, or is to be.
    pub fn has(&self, sid: u32) -> bool {
        self.flows.contains_key(&sid)
    }

    /// The network namespaces they were last seen in, by inode number.
    pub fn namespaces(&self) -> &HashSet<u32> {
        &self.namespaces
    }

    /// The flow is to run the kernel's `name`, and `machine` its program.
    pub fn add(&mut self, sid: u32, name: [u8; NAME_BYTES], machine: Machine) {
        let (gone, last) =
            self.flows.remove(&sid).map_or((false, None), |before| (before.gone, before.last));
        self.flows.insert(sid, Native { name, machine, gone, settled: false, last, flags: 0 });
    }

    /// It is ours again, or gone.
    pub fn remove(&mut self, sid: u32) {
        self.flows.remove(&sid);
    }

    /// What it runs, or is to run, by the kernel's name.
    pub fn name(&self, sid: u32) -> Option<[u8; NAME_BYTES]> {
        self.flows.get(&sid).map(|flow| flow.name)
    }

    /// Notes who has gone: `took` says whether a flow has found its order. To be called before a
    /// look, so that one that goes between the two is not taken for one that has ended.
    pub fn note_gone(&mut self, took: impl Fn(u32) -> bool) {
        for (sid, flow) in &mut self.flows {
            flow.gone = flow.gone || took(*sid);
        }
    }

    /// New values of control registers. A window or a rate is the kernel's to choose.
    pub fn update(&mut self, sid: u32, updates: &[Update]) {
        let Some(flow) = self.flows.get_mut(&sid) else { return };
        for Update { register, value } in updates {
            if let Register::Control(index) = *register {
                flow.machine.set_control(index, *value);
            }
        }
    }

    /// Takes in one look at all of them.
    pub fn saw(&mut self, looks: &[Look]) -> Seen {
        let mut seen = Seen::default();
        let mut here = HashSet::new();
        self.namespaces.clear();
        for look in looks {
            let Some(flow) = self.flows.get_mut(&look.sid) else { continue };
            if look.name == flow.name {
                flow.settled = true;
            } else if flow.settled {
                continue; // its application has chosen another
            }
            here.insert(look.sid);
            self.namespaces.insert(look.netns);
            seen.reports.extend(flow.step(look));
        }
        let gone =
            |(sid, flow): (&u32, &Native)| (flow.gone && !here.contains(sid)).then_some(*sid);
        seen.ended = self.flows.iter().filter_map(gone).collect();
        for sid in &seen.ended {
            self.flows.remove(sid);
        }
        seen
    }
}

impl Native {
    fn step(&mut self, look: &Look) -> Option<(u32, u32, Signals, Vec<u64>)> {
        let last = self.last.replace(*look)?;
        self.flags |= look.flags;
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
        };
        self.flags = 0;
        let uid = self.machine.program_uid()?;
        Some((look.sid, uid, signals, self.machine.report().to_vec()))
    }
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
        bytes_acked: look.bytes_acked.wrapping_sub(last.bytes_acked),
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
            name: *b"cubic\0\0\0\0\0\0\0\0\0\0\0",
        }
    }

    fn one() -> Natives {
        let mut natives = Natives::default();
        natives.add(7, look(7, 0, 0, 0).name, machine());
        natives
    }

    #[test]
    fn differences_of_totals_reach_the_program_and_its_reports_the_agent() {
        let mut natives = one();
        assert!(natives.saw(&[look(7, 0, 50_000, 3)]).reports.is_empty(), "the first look");
        assert!(natives.saw(&[look(7, 10, 60_000, 3)]).reports.is_empty(), "not due yet");
        let seen = natives.saw(&[look(7, 20, 65_000, 5)]);
        let (sid, uid, signals, fields) = &seen.reports[0];
        assert_eq!((*sid, *uid, fields.as_slice()), (7, 5, &[15_000, 2, 41_000][..]));
        assert_eq!((signals.cwnd_pkts, signals.delivered_pkts), (10, 65));
        assert!(seen.ended.is_empty());
    }

    #[test]
    fn a_flow_that_is_seen_no_more_has_ended_but_one_that_has_not_gone_yet_has_not() {
        let mut natives = one();
        assert!(natives.saw(&[]).ended.is_empty(), "its next ACK is to come");
        natives.note_gone(|sid| sid == 7);
        assert_eq!(natives.saw(&[look(8, 1, 0, 0)]).ended, [7]);
        assert!(natives.is_empty());
    }

    #[test]
    fn one_that_its_application_gave_another_algorithm_has_ended_for_us() {
        let mut natives = one();
        natives.note_gone(|_| true);
        let other = Look { name: [b'x'; NAME_BYTES], ..look(7, 5, 0, 0) };
        assert!(natives.saw(&[other]).ended.is_empty(), "it is on its way there");
        assert!(natives.saw(&[look(7, 10, 0, 0)]).ended.is_empty());
        assert_eq!(natives.saw(&[other]).ended, [7]);
    }

    #[test]
    fn totals_that_wrap_or_shrink_do_no_harm() {
        let mut natives = one();
        natives.saw(&[Look { lost_pkts: u32::MAX, sacked_pkts: 9, ..look(7, 0, 9_000, 0) }]);
        let seen = natives.saw(&[look(7, 20, 8_000, 1)]);
        assert_eq!(seen.reports[0].3[1], 2, "lost");
    }
}
