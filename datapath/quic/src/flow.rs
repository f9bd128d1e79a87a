//! One path of one connection as a flow of the datapath. The QUIC stack's reports about packets
//! become primitives; the decisions of program, agent or fallback become window and rate.
//!
//! A stack reports which packets an ACK acknowledges before it looks for losses. So the program
//! does not run at the end of an ACK frame. It runs when the stack next calls: to get the window,
//! to send, or to report another ACK. In this way an ACK, its losses and its mark are in the same
//! run, as on TCP.
//!
//! README.md in this folder describes what each primitive means here, and the differences from TCP.

use crate::datapath::{Datapath, Outcome};
use crate::ledger::Ledger;
use crate::reno::{CWND_MIN_DATAGRAMS, Reno};
use remuda_vm::{
    Ack, FlowStart, Primitives, RTT_NONE, SIGNAL_APP_LIMITED, SIGNAL_CWND_FULL, SIGNAL_CWND_HALF,
    SIGNAL_IN_RECOVERY, SIGNAL_UNDONE,
};
use remuda_wire::to_agent::FlowInfo;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

/// RFC 9002 section 7.2: ten datagrams, at most 14,720 bytes.
const INITIAL_DATAGRAMS: u64 = 10;
const INITIAL_BYTES_MAX: u64 = 14_720;
const NS_PER_US: u64 = 1_000;
const NS_PER_SEC: u128 = 1_000_000_000;
/// RFC 6298 section 2: the smoothed RTT takes an eighth of each sample.
const SRTT_SHIFT: u32 = 3;

/// Identifies a flow for the agent's rules and for display. A QUIC stack does not tell a
/// controller's factory which connection it is for, so the application must; see
/// [`crate::Factory`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The local and the remote address; `None` is unknown.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The socket's `SO_MARK`.
    pub mark: u32,
}

impl Identity {
    fn info(&self, cgroup_id: u64, rtt: Rtt) -> FlowInfo {
        let unknown = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let (local, remote) = self.addresses.unwrap_or((unknown, unknown));
        FlowInfo {
            mark: self.mark,
            cgroup_id,
            srtt_us: micros(rtt.smoothed_ns),
            rtt_min_us: micros(rtt.min_ns),
            // Whether packets were marked is known, but not how many. An algorithm that needs the
            // share of marked packets (DCTCP) must not run here.
            ecn: false,
            ..FlowInfo::between(parts(local), parts(remote))
        }
    }
}

/// Turns an IPv4-mapped IPv6 address into an IPv4 address.
fn parts(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

/// The events since the program last ran.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    now_ns: u64,
    /// The ACK is complete; a further acknowledgement belongs to the next ACK.
    is_closed: bool,
    acked_bytes: u64,
    acked_pkts: u64,
    /// Acknowledged bytes that were sent outside of recovery; the fallback's window grows by these.
    growth_bytes: u64,
    misordered_bytes: u64,
    misordered_pkts: u64,
    /// When the last-sent of the acknowledged packets was sent.
    newest_sent_ns: u64,
    lost_pkts: u64,
    marks: u64,
    is_app_limited: bool,
    /// A recovery period begins with this batch.
    is_reduction: bool,
    is_persistent: bool,
}

/// A recovery period of RFC 9002 section 7.3.2.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    began_ns: u64,
    /// The window at the beginning of the period.
    cwnd_bytes: u64,
    /// Losses began the period, not an ECN mark.
    is_repair: bool,
    /// No packet sent after the beginning has been acknowledged yet.
    is_on: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rtt {
    smoothed_ns: u64,
    min_ns: u64,
    newest_sent_ns: u64,
}

#[derive(Debug)]
pub struct Flow {
    datapath: Datapath,
    identity: Identity,
    sid: Option<u32>,
    /// No ACK has arrived yet, so the agent does not know the flow.
    is_new: bool,
    mss_bytes: u64,
    cwnd_bytes: u64,
    /// Bytes per second; 0 means no rate.
    rate: u64,
    reno: Reno,
    ledger: Ledger,
    batch: Option<Batch>,
    recovery: Option<Recovery>,
    rtt: Rtt,
    in_flight_bytes: u64,
    in_flight_bytes_max: u64,
    is_cwnd_full: bool,
    /// The last loss was spurious.
    is_undone: bool,
    rate_incoming: u64,
    rate_outgoing: u64,
    /// Delivered bytes in segments of one mss, modulo 2^32, and the bytes that do not fill a
    /// segment yet.
    delivered_pkts: u32,
    delivered_rest_bytes: u64,
    lost_pkts: u32,
}

impl Flow {
    pub fn new(datapath: Datapath, identity: Identity, mtu: u16) -> Self {
        Self {
            datapath,
            identity,
            sid: None,
            is_new: true,
            mss_bytes: u64::from(mtu.max(1)),
            cwnd_bytes: Self::initial_window(mtu),
            rate: 0,
            reno: Reno::new(),
            ledger: Ledger::default(),
            batch: None,
            recovery: None,
            rtt: Rtt::default(),
            in_flight_bytes: 0,
            in_flight_bytes_max: 0,
            is_cwnd_full: false,
            is_undone: false,
            rate_incoming: 0,
            rate_outgoing: 0,
            delivered_pkts: 0,
            delivered_rest_bytes: 0,
            lost_pkts: 0,
        }
    }

    /// The initial window of RFC 9002 section 7.2, in bytes.
    pub fn initial_window(mtu: u16) -> u64 {
        let mss = u64::from(mtu.max(1));
        (INITIAL_DATAGRAMS * mss).min(INITIAL_BYTES_MAX.max(CWND_MIN_DATAGRAMS * mss))
    }

    // ---- Events that the stack reports ----

    /// A packet was sent, or several in one transmission, of which `pn` is the last.
    pub fn sent(&mut self, now: Instant, bytes: u64, pn: u64) {
        self.settle();
        let now_ns = self.datapath.clock().at_ns(now);
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.ledger.sent(now_ns, pn, length, self.in_flight_bytes);
        self.in_flight_bytes += bytes;
        self.in_flight_bytes_max = self.in_flight_bytes_max.max(self.in_flight_bytes);
    }

    /// Whether a packet of this size probes for a larger MTU. Do not report it: its loss does not
    /// mean that the path is congested.
    pub fn is_probe(&self, bytes: u64) -> bool {
        bytes > self.mss_bytes
    }

    /// A packet was acknowledged. After all packets of the ACK, call [`Self::acks_end`].
    pub fn acked(&mut self, now: Instant, sent: Instant, bytes: u64, pn: Option<u64>) {
        if self.batch.is_some_and(|batch| batch.is_closed) {
            self.settle();
        }
        let clock = self.datapath.clock();
        let (now_ns, sent_ns) = (clock.at_ns(now), clock.at_ns(sent));
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        let misordered = self.ledger.acked(sent_ns, pn, length);
        let is_growth = self.recovery.is_none_or(|recovery| sent_ns > recovery.began_ns);
        let batch = self.batch.get_or_insert_default();
        batch.now_ns = now_ns;
        batch.acked_bytes += bytes;
        batch.acked_pkts += 1;
        batch.misordered_bytes += if misordered { bytes } else { 0 };
        batch.misordered_pkts += u64::from(misordered);
        batch.growth_bytes += if is_growth { bytes } else { 0 };
        batch.newest_sent_ns = batch.newest_sent_ns.max(sent_ns);
        if let Some(recovery) = self.recovery.as_mut().filter(|_| is_growth) {
            recovery.is_on = false;
        }
    }

    /// The ACK is complete; `in_flight_bytes` still includes the losses that this ACK reveals.
    pub fn acks_end(&mut self, in_flight_bytes: u64, app_limited: bool) {
        self.in_flight_bytes = in_flight_bytes;
        if app_limited {
            self.ledger.ran_dry(in_flight_bytes);
        }
        if let Some(batch) = &mut self.batch {
            batch.is_closed = true;
            batch.is_app_limited = app_limited;
        }
    }

    /// A packet was declared lost.
    pub fn lost(&mut self, now: Instant, bytes: u64, pn: u64) {
        self.ledger.lost(pn);
        self.note_losses(now, bytes, 1);
    }

    /// `bytes` bytes were declared lost; the last of them was sent at `last_sent`.
    pub fn lost_bytes(&mut self, now: Instant, last_sent: Instant, bytes: u64) {
        let last_sent_ns = self.datapath.clock().at_ns(last_sent);
        self.ledger.lost_bytes(last_sent_ns, bytes);
        self.note_losses(now, bytes, bytes.div_ceil(self.mss_bytes));
    }

    fn note_losses(&mut self, now: Instant, bytes: u64, pkts: u64) {
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(bytes);
        self.open(now).lost_pkts += pkts;
        self.lost_pkts = self.lost_pkts.wrapping_add(u32::try_from(pkts).unwrap_or(u32::MAX));
    }

    /// Losses or a mark call for a reduction; `sent` is when the last affected packet was sent.
    pub fn congestion(&mut self, now: Instant, sent: Instant, is_persistent: bool, is_mark: bool) {
        let sent_ns = self.datapath.clock().at_ns(sent);
        let cwnd_bytes = self.cwnd_bytes;
        let is_new = self.recovery.is_none_or(|recovery| sent_ns > recovery.began_ns);
        let batch = self.open(now);
        batch.marks += u64::from(is_mark);
        batch.is_persistent |= is_persistent;
        batch.is_reduction |= is_new;
        let began_ns = batch.now_ns;
        if is_new {
            self.recovery =
                Some(Recovery { began_ns, cwnd_bytes, is_repair: !is_mark, is_on: true });
        }
    }

    /// The packets of the last loss have arrived after all. A flow that is not paced gets its
    /// window from before the loss back, and the next report has the flag `undone`. The stack calls
    /// this before it reports the ACK.
    pub fn spurious(&mut self) {
        self.settle();
        let Some(recovery) = self.recovery.filter(|recovery| recovery.is_repair) else { return };
        self.is_undone = true;
        self.recovery = Some(Recovery { is_on: false, ..recovery });
        if self.rate == 0 {
            self.cwnd_bytes = self.cwnd_bytes.max(recovery.cwnd_bytes);
        }
    }

    /// The batch of the present events; a loss or mark without an ACK starts a batch of its own.
    fn open(&mut self, now: Instant) -> &mut Batch {
        let now_ns = self.datapath.clock().at_ns(now);
        let new = Batch { now_ns, is_closed: true, ..Batch::default() };
        self.batch.get_or_insert(new)
    }

    /// The application had data to send, but the window was full.
    pub fn cwnd_limited(&mut self) {
        self.settle();
        self.is_cwnd_full = true;
    }

    /// Infers, for a stack that does not report it, whether the window was full: the application
    /// had more to send, and the bytes in flight left no room for a datagram. Call this before
    /// [`Self::acks_end`].
    pub fn infer_cwnd_limited(&mut self, app_limited: bool) {
        let is_full = self.in_flight_bytes_max + self.mss_bytes >= self.cwnd_bytes;
        self.is_cwnd_full |= is_full && !app_limited;
    }

    /// The size of datagrams has changed.
    pub fn mtu(&mut self, mtu: u16) {
        self.mss_bytes = u64::from(mtu.max(1));
        self.cwnd_bytes = self.cwnd_bytes.max(CWND_MIN_DATAGRAMS * self.mss_bytes);
    }

    // ---- Questions that the stack asks ----

    /// The congestion window, in bytes.
    pub fn window(&mut self) -> u64 {
        self.settle();
        self.cwnd_bytes
    }

    /// The pacing rate, in bytes per second; `None` if no rate is set.
    pub fn rate(&mut self) -> Option<u64> {
        self.settle();
        (self.rate > 0).then_some(self.rate)
    }

    // ---- Decisions ----

    /// Runs the program on the events since the last run, if there are any.
    fn settle(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        let ack = self.measure(&batch);
        let outcome = self.ask(&ack, &batch);
        if outcome.fell_back {
            self.fall_back(&batch);
        }
        if outcome.is_own {
            self.run_own(&batch);
        }
        self.in_flight_bytes_max = self.in_flight_bytes;
        self.is_cwnd_full = false;
        self.is_undone = false;
    }

    /// Announces the flow to the agent when its first packet is acknowledged, not before: the
    /// peer's address may be forged.
    fn ask(&mut self, ack: &Ack, batch: &Batch) -> Outcome {
        if self.is_new && batch.acked_bytes > 0 {
            self.is_new = false;
            let start = FlowStart {
                info: self.identity.info(self.datapath.cgroup_id(), self.rtt),
                cwnd_bytes: self.cwnd_bytes,
                mss_bytes: ack.mss_bytes,
            };
            self.sid = self.datapath.start_flow(&start, batch.now_ns);
        }
        let Some(sid) = self.sid else {
            return Outcome { is_own: true, ..Outcome::default() };
        };
        let outcome = self.datapath.ack(sid, ack, batch.now_ns);
        self.cwnd_bytes = outcome.cwnd_bytes.unwrap_or(self.cwnd_bytes);
        self.rate = outcome.rate.unwrap_or(self.rate);
        outcome
    }

    /// Takes the flow over from the agent. During loss recovery the agent may have ended before it
    /// reduced the window, so the window and what the path delivered are halved here.
    /// datapath/tcp/reno.h does the same.
    fn fall_back(&mut self, batch: &Batch) {
        self.rate = 0;
        let per_rtt = u128::from(self.rate_incoming) * u128::from(self.rtt.smoothed_ns);
        let mut delivered = u64::try_from(per_rtt / NS_PER_SEC).unwrap_or(u64::MAX);
        let repair = self.recovery.filter(|recovery| recovery.is_on && !batch.is_reduction);
        if let Some(recovery) = repair {
            let least = CWND_MIN_DATAGRAMS * self.mss_bytes;
            self.cwnd_bytes = self.cwnd_bytes.min((recovery.cwnd_bytes / 2).max(least));
            delivered /= 2;
        }
        self.reno = Reno::take_over(self.cwnd_bytes, delivered);
    }

    /// RFC 9002 appendix B: acknowledged packets first, then losses.
    fn run_own(&mut self, batch: &Batch) {
        if !batch.is_app_limited {
            self.cwnd_bytes = self.reno.acked(self.cwnd_bytes, batch.growth_bytes, self.mss_bytes);
        }
        if batch.is_reduction {
            self.cwnd_bytes = self.reno.reduce(self.cwnd_bytes, self.mss_bytes);
        }
        if batch.is_persistent {
            self.cwnd_bytes = CWND_MIN_DATAGRAMS * self.mss_bytes;
            self.recovery = None;
        }
    }

    fn measure(&mut self, batch: &Batch) -> Ack {
        let rtt_sample_us = self.sample_rtt(batch);
        let is_app_limited = self.sample_rates(batch.now_ns);
        let mss = self.mss_bytes;
        self.count_delivered(batch.acked_bytes);
        let primitives = Primitives {
            bytes_acked: batch.acked_bytes,
            bytes_misordered: batch.misordered_bytes,
            ecn_bytes: batch.marks * mss,
            ecn_packets: batch.marks,
            lost_pkts_sample: batch.lost_pkts,
            now_us: batch.now_ns / NS_PER_US,
            packets_acked: batch.acked_pkts - batch.misordered_pkts,
            packets_misordered: batch.misordered_pkts,
            bytes_in_flight: self.in_flight_bytes,
            bytes_pending: self.in_flight_bytes,
            packets_in_flight: self.in_flight_bytes.div_ceil(mss),
            rate_incoming: self.rate_incoming,
            rate_outgoing: self.rate_outgoing,
            rtt_sample_us,
            was_timeout: batch.is_persistent.into(),
        };
        Ack {
            primitives,
            cwnd_bytes: self.cwnd_bytes,
            rate: self.rate,
            mss_bytes: u32::try_from(mss).unwrap_or(u32::MAX),
            srtt_us: micros(self.rtt.smoothed_ns),
            rtt_min_us: micros(self.rtt.min_ns),
            delivered_pkts: self.delivered_pkts,
            lost_pkts: self.lost_pkts,
            signals: self.signals(is_app_limited),
        }
    }

    /// Counts delivered bytes in segments, because the agent multiplies by the mss, which may
    /// change during a flow.
    fn count_delivered(&mut self, bytes: u64) {
        self.delivered_rest_bytes += bytes;
        let pkts = self.delivered_rest_bytes / self.mss_bytes;
        self.delivered_rest_bytes %= self.mss_bytes;
        self.delivered_pkts = self.delivered_pkts.wrapping_add(pkts as u32);
    }

    fn signals(&self, is_app_limited: bool) -> u32 {
        let is_repairing = self.recovery.is_some_and(|r| r.is_on && r.is_repair);
        let is_half = self.in_flight_bytes_max * 2 > self.cwnd_bytes;
        let flags = [
            (SIGNAL_APP_LIMITED, is_app_limited),
            (SIGNAL_IN_RECOVERY, is_repairing),
            (SIGNAL_CWND_FULL, self.is_cwnd_full),
            (SIGNAL_CWND_HALF, is_half),
            (SIGNAL_UNDONE, self.is_undone),
        ];
        flags.iter().map(|(bit, is_set)| if *is_set { *bit } else { 0 }).sum()
    }

    /// RFC 9002 section 5.1: an ACK gives a sample unless a packet sent later was acknowledged
    /// before. The sample includes the peer's ACK delay.
    fn sample_rtt(&mut self, batch: &Batch) -> u64 {
        let rtt = &mut self.rtt;
        if batch.acked_pkts == 0 || batch.newest_sent_ns < rtt.newest_sent_ns {
            return RTT_NONE;
        }
        rtt.newest_sent_ns = batch.newest_sent_ns;
        let sample_ns = batch.now_ns.saturating_sub(batch.newest_sent_ns).max(NS_PER_US);
        if rtt.smoothed_ns == 0 {
            (rtt.smoothed_ns, rtt.min_ns) = (sample_ns, sample_ns);
        } else {
            rtt.smoothed_ns -= rtt.smoothed_ns >> SRTT_SHIFT;
            rtt.smoothed_ns += sample_ns >> SRTT_SHIFT;
            rtt.min_ns = rtt.min_ns.min(sample_ns);
        }
        sample_ns / NS_PER_US
    }

    /// Updates the rates if there is a valid sample, else keeps the last ones. Returns whether the
    /// sample is app-limited.
    fn sample_rates(&mut self, now_ns: u64) -> bool {
        let Rtt { smoothed_ns, min_ns, .. } = self.rtt;
        let Some(sample) = self.ledger.sample(now_ns, min_ns, smoothed_ns) else { return false };
        let rate = |span_ns: u64| {
            let bytes_ns = u128::from(sample.delivered_bytes) * NS_PER_SEC;
            bytes_ns.checked_div(span_ns.into()).map(|rate| u64::try_from(rate).unwrap_or(u64::MAX))
        };
        self.rate_outgoing = rate(sample.send_ns).unwrap_or(self.rate_outgoing);
        self.rate_incoming = rate(sample.ack_ns).unwrap_or(self.rate_incoming);
        sample.is_app_limited
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if let Some(sid) = self.sid {
            self.datapath.stop_flow(sid);
        }
    }
}

fn micros(ns: u64) -> u32 {
    u32::try_from(ns / NS_PER_US).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
