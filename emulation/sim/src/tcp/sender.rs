//! The sender of a flow: it decides when to send which segment, and evaluates ACKs. The control
//! (control.rs) sets the window and the rate.
//!
//! The states and their order are those of `tcp_fastretrans_alert()` (net/ipv4/tcp_input.c). Loss
//! detection is in rack.rs, detection of spurious recoveries in undo.rs. Tail loss probes follow
//! RFC 8985 section 7, timeouts RFC 6298 and `tcp_enter_loss()`.
//!
//! Differs from Linux: every segment has the size of the MSS; there is no F-RTO; the send buffer
//! never limits the flow; after a recovery was undone, RACK looks at what it had itself found lost
//! too; the timer that an ACK restarts counts from that ACK, also if it was set for reordering.

use crate::packet::{HEADER_BYTES, Packet, clock_us, is_older};
use crate::tcp::pacing::Pacer;
use crate::tcp::rack::{Limits, Rack};
use crate::tcp::rate_sample::{DeliveryRate, RateSample};
use crate::tcp::rtt::{RTO_MIN_NS, RttEstimator};
use crate::tcp::scoreboard::Scoreboard;
use crate::tcp::undo::Undo;

/// `TCP_TIMEOUT_MIN`: two jiffies at 250 Hz.
const PROBE_SLACK_NS: u64 = 8_000_000;
/// `TCP_INIT_CWND`, RFC 6928.
const RESTART_CWND_PKTS: u32 = 10;

/// `icsk_ca_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Open,
    /// A segment was delivered out of order.
    Disorder,
    /// The window is being reduced for an ECN mark.
    Cwr,
    /// Lost segments are being sent again.
    Recovery,
    /// Segments are being sent again after a timeout.
    Loss,
}

/// What the sender's timer is set for; there is one timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alarm {
    Timeout,
    Probe,
    Reordering,
}

/// What one ACK has changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckSample {
    pub acked_pkts: u32,
    /// Segments newly delivered, in order or not (`rs->acked_sacked`).
    pub delivered_pkts: u32,
    /// Segments newly marked lost.
    pub lost_pkts: u32,
    /// Segments newly reported as marked.
    pub ce_pkts: u32,
    /// The round trip of the last segment newly delivered (`rs->rtt_us`), or that of the timestamp
    /// that the ACK echoes, if only segments that were sent again are acknowledged. `None` if
    /// nothing was delivered, or such segments out of order.
    pub rtt_ns: Option<u64>,
    pub rate: Option<RateSample>,
    /// This ACK began a loss recovery or the reduction for a mark.
    pub recovery_began: bool,
    /// This ACK showed that the last recovery or timeout was spurious.
    pub undone: bool,
}

/// Counts since the start of the flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Segments sent, with retransmissions.
    pub sent_pkts: u64,
    pub resent_pkts: u64,
    pub lost_pkts: u64,
    /// Segments reported as marked.
    pub ce_pkts: u64,
    pub timeouts: u64,
}

#[derive(Clone, Debug)]
pub struct Sender {
    pub flow: u32,
    /// Payload of a segment, in bytes.
    pub mss_bytes: u32,
    /// `snd_cwnd`, in segments.
    pub cwnd_pkts: u32,
    /// `snd_ssthresh`, in segments.
    pub ssthresh_pkts: u32,
    /// The window before the last reduction.
    pub prior_cwnd_pkts: u32,
    /// Segments sent since the last reduction.
    pub prr_out_pkts: u32,
    /// Decides when the next burst may be sent.
    pub pacer: Pacer,
    pub counts: Counts,
    /// Segments the application has written.
    pub written_pkts: u32,
    board: Scoreboard,
    rack: Rack,
    rtt: RttEstimator,
    rate: DeliveryRate,
    state: State,
    recovery_end: u32,
    undo: Undo,
    ce_seen_pkts: u32,
    ect: bool,
    timed_out: bool,
    backoff: u32,
    alarm: Option<(u64, Alarm)>,
    probed_until: Option<u32>,
    /// Segments marked lost may only be late. Until the next ACK the sender marks none, and sends
    /// none of them again.
    lost_is_late: bool,
    is_cwnd_limited: bool,
    out_pkts_max: u32,
    usage_until: u32,
    /// When a segment was last sent.
    sent_ns: u64,
}

impl Sender {
    /// A sender that has nothing to send yet.
    pub fn new(flow: u32, mss_bytes: u32, cwnd_pkts: u32, ect: bool) -> Self {
        Self {
            flow,
            mss_bytes,
            cwnd_pkts,
            ssthresh_pkts: u32::MAX,
            prior_cwnd_pkts: 0,
            prr_out_pkts: 0,
            pacer: Pacer::default(),
            counts: Counts::default(),
            written_pkts: 0,
            board: Scoreboard::default(),
            rack: Rack::default(),
            rtt: RttEstimator::default(),
            rate: DeliveryRate::default(),
            state: State::Open,
            recovery_end: 0,
            undo: Undo::default(),
            ce_seen_pkts: 0,
            ect,
            timed_out: false,
            backoff: 0,
            alarm: None,
            probed_until: None,
            lost_is_late: false,
            is_cwnd_limited: false,
            out_pkts_max: 0,
            usage_until: 0,
            sent_ns: 0,
        }
    }

    /// Takes the handshake's round trip as the first RTT sample; 0 is no sample.
    pub fn note_handshake(&mut self, rtt_ns: u64) {
        if rtt_ns > 0 {
            self.rtt.sample(rtt_ns, 0, 0);
            self.rtt.note_min(rtt_ns);
        }
    }

    pub fn in_flight_pkts(&self) -> u32 {
        self.board.in_flight_pkts()
    }

    /// Segments that the application has written and that are not acknowledged.
    pub fn pending_pkts(&self) -> u32 {
        self.written_pkts.saturating_sub(self.board.una())
    }

    /// Segments delivered out of order, beyond a missing one.
    pub fn sacked_pkts(&self) -> u32 {
        self.board.sacked_pkts()
    }

    /// The state of loss recovery.
    pub fn state(&self) -> State {
        self.state
    }

    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Segments delivered since the start of the flow.
    pub fn delivered_pkts(&self) -> u32 {
        self.rate.delivered_pkts()
    }

    /// Whether the window held the sender back when it last sent (`tp->is_cwnd_limited`).
    pub fn is_cwnd_limited(&self) -> bool {
        self.is_cwnd_limited
    }

    /// Whether more than half of the window was in flight (`tcp_is_cwnd_limited()` in slow start).
    pub fn used_half(&self) -> bool {
        self.cwnd_pkts < self.out_pkts_max.saturating_mul(2)
    }

    /// Whether a timeout has fired since the last call.
    pub fn take_timed_out(&mut self) -> bool {
        std::mem::take(&mut self.timed_out)
    }

    /// When the timer is due, in nanoseconds.
    pub fn alarm_ns(&self) -> Option<u64> {
        self.alarm.map(|(at_ns, _)| at_ns)
    }

    /// When pacing next lets the sender send, in nanoseconds; `None` if pacing is not what it waits
    /// for.
    pub fn resumes_ns(&mut self, now_ns: u64) -> Option<u64> {
        let at_ns = self.pacer.next_ns();
        let waits = at_ns > now_ns
            && self.board.in_flight_pkts() < self.cwnd_pkts
            && (self.board.next() < self.written_pkts || self.board.first_to_resend().is_some());
        waits.then_some(at_ns)
    }

    /// Whether everything written has been acknowledged.
    pub fn is_done(&self) -> bool {
        self.board.una() >= self.written_pkts
    }

    /// The application writes `pkts` segments. If everything before was already sent and the window
    /// has room, the following rate samples are app-limited (`tcp_rate_check_app_limited()`).
    pub fn write(&mut self, pkts: u32) {
        let in_flight = self.in_flight_pkts();
        if self.board.next() >= self.written_pkts && in_flight < self.cwnd_pkts {
            self.rate.ran_dry(in_flight);
        }
        self.written_pkts = self.written_pkts.saturating_add(pkts);
    }

    /// Ends the flow's data: discards what was written and not yet sent.
    pub fn stop(&mut self) {
        self.written_pkts = self.board.next();
    }

    pub fn acknowledge(&mut self, ack: &Packet, now_ns: u64) -> AckSample {
        let una = self.board.una();
        let (mut sample, first_sacked_ns) = self.deliver(ack, now_ns);
        sample.acked_pkts = self.board.una() - una;
        sample.ce_pkts = ack.ce_pkts.saturating_sub(self.ce_seen_pkts);
        self.ce_seen_pkts = self.ce_seen_pkts.max(ack.ce_pkts);
        self.counts.ce_pkts += u64::from(sample.ce_pkts);
        if sample.acked_pkts > 0 {
            self.backoff = 0;
            self.probed_until = self.probed_until.filter(|until| self.board.una() < *until);
        }
        self.note_twice(ack, una);
        self.leave_recovery(ack, &mut sample);
        self.rack.widen(self.rate.prior_pkts(), self.rate.delivered_pkts());
        self.lost_is_late = self.is_late(ack, sample.acked_pkts > 0);
        let mut wait_ns = None;
        if !self.lost_is_late {
            let found = (self.state >= State::Recovery, self.limits());
            let rack = &mut self.rack;
            wait_ns = rack.detect(&mut self.board, found, now_ns, &mut sample.lost_pkts);
        }
        self.settle_state(&mut sample);
        sample.rate = self.rate.sample(now_ns, self.rtt.min_ns());
        // SACKs of segments that were sent after the first one must not delay its timeout.
        let was_older = |first_ns| self.board.first_sent_ns().is_some_and(|ns| first_ns < ns);
        if let Some(wait_ns) = wait_ns {
            self.alarm = Some((now_ns + wait_ns, Alarm::Reordering));
        } else if sample.acked_pkts > 0 || first_sacked_ns.is_some_and(was_older) {
            self.restart_alarm(now_ns);
        }
        sample
    }

    /// `tcp_check_dsack()`: passes a DSACK on. Only segments that had been acknowledged before this
    /// ACK count as needlessly sent again.
    fn note_twice(&mut self, ack: &Packet, una: u32) {
        let Some(twice) = ack.came_twice() else { return };
        self.rack.came_twice();
        for seq in (twice.start..twice.end).filter(|seq| *seq < una) {
            self.undo.came_twice(seq);
        }
    }

    /// Ends the recovery if it is over, or undoes it if it was spurious, in the order of
    /// `tcp_fastretrans_alert()`.
    fn leave_recovery(&mut self, ack: &Packet, sample: &mut AckSample) {
        let is_over = self.state >= State::Cwr && self.board.una() >= self.recovery_end;
        if self.is_spurious(ack, sample.acked_pkts > 0, is_over) {
            self.undo_reduction(is_over, sample);
        } else if is_over {
            if self.state == State::Recovery {
                self.rack.recovered();
            }
            self.state = State::Open;
        }
    }

    fn is_spurious(&self, ack: &Packet, has_advanced: bool, is_over: bool) -> bool {
        let original_arrived = || has_advanced && self.undo.original_arrived(ack.sent_us);
        match self.state {
            State::Open | State::Disorder | State::Cwr => self.undo.all_came_twice(),
            State::Recovery => {
                let nothing_out = is_over || self.board.resent_pkts() == 0;
                self.undo.all_came_twice() || (nothing_out && original_arrived())
            }
            State::Loss => has_advanced && (self.undo.all_came_twice() || original_arrived()),
        }
    }

    /// `tcp_try_undo_partial()` with retransmissions under way: an original has arrived within the
    /// recovery, so the others that count as lost may be late too.
    fn is_late(&self, ack: &Packet, has_advanced: bool) -> bool {
        self.state == State::Recovery && has_advanced && self.undo.original_arrived(ack.sent_us)
    }

    /// `tcp_undo_cwnd_reduction()`, without the window, which the control restores (control.rs).
    /// After a timeout, or within a recovery, no segment is lost any more.
    fn undo_reduction(&mut self, is_over: bool, sample: &mut AckSample) {
        self.ssthresh_pkts = self.ssthresh_pkts.max(self.undo.take());
        if self.state == State::Loss || self.state == State::Recovery && !is_over {
            self.board.unmark_lost();
        }
        self.rack.recheck(&self.board);
        self.state = State::Open;
        sample.undone = true;
    }

    /// Marks what the ACK delivers, and takes its RTT samples (`tcp_clean_rtx_queue()`,
    /// `tcp_ack_update_rtt()`). Also returns when the first segment that it delivers out of order
    /// was sent, if it was sent once.
    fn deliver(&mut self, ack: &Packet, now_ns: u64) -> (AckSample, Option<u64>) {
        let Self { board, rack, rate, rtt, .. } = self;
        let rtt_min_ns = rtt.min_ns().unwrap_or(0);
        let una = board.una();
        let mut delivered_pkts = 0;
        let (mut sacked, mut acked) = (None, None);
        let mut resent = false;
        board.sack(&ack.sacks, |seq, segment| {
            delivered_pkts += 1;
            rate.delivered(1, seq, segment);
            rack.delivered(1, seq, segment, (now_ns, rtt_min_ns));
            if !segment.was_resent() {
                let first = sacked.map_or(segment.sent_ns, |(first, _)| first);
                sacked = Some((first, segment.sent_ns));
            }
        });
        board.acknowledge(ack.seq, |pkts, seq, sent_ns, segment| {
            delivered_pkts += pkts;
            rate.delivered(pkts, seq, segment);
            let was_resent = segment.was_resent();
            // `tcp_skb_spurious_retrans()`: the original has arrived.
            if !was_resent || !is_older(ack.sent_us, clock_us(segment.sent_ns)) {
                rack.delivered(pkts, seq, segment, (now_ns, rtt_min_ns));
            }
            if was_resent {
                resent = true;
            } else {
                let first = acked.map_or(sent_ns, |(first, _)| first);
                acked = Some((first, segment.sent_ns));
            }
        });
        let acked = acked.filter(|_| !resent);
        let sent = acked.or(sacked).zip(sacked.or(acked));
        let took = sent.map(|((first_ns, _), (_, last_ns))| (now_ns - first_ns, now_ns - last_ns));
        let has_advanced = self.board.una() > una;
        let rtts = took.or_else(|| has_advanced.then(|| [ack.took_us(now_ns) * 1_000; 2].into()));
        if let Some((first_ns, last_ns)) = rtts {
            self.rtt.sample(first_ns, self.board.una(), self.board.next());
            self.rtt.note_min(last_ns);
        }
        let rtt_ns = rtts.map(|(_, last_ns)| last_ns);
        let sample = AckSample { delivered_pkts, rtt_ns, ..AckSample::default() };
        (sample, sacked.map(|(first_ns, _)| first_ns))
    }

    fn limits(&self) -> Limits {
        Limits {
            rtt_min_ns: self.rtt.min_ns().unwrap_or(0),
            srtt_ns: self.rtt.smoothed_ns().unwrap_or(0),
        }
    }

    fn settle_state(&mut self, sample: &mut AckSample) {
        self.counts.lost_pkts += u64::from(sample.lost_pkts);
        if sample.lost_pkts > 0 && self.state < State::Recovery {
            self.reduce(State::Recovery);
            sample.recovery_began = true;
        } else if sample.ce_pkts > 0 && self.state < State::Cwr {
            self.reduce(State::Cwr);
            sample.recovery_began = true;
        } else if self.state <= State::Disorder {
            let disorder = self.board.sacked_pkts() > 0;
            self.state = if disorder { State::Disorder } else { State::Open };
        }
    }

    /// `tcp_init_cwnd_reduction()`.
    fn reduce(&mut self, state: State) {
        if state == State::Cwr {
            self.undo.forget();
        } else if self.state != State::Cwr {
            let kept_pkts = self.cwnd_pkts / 4 * 3;
            let ssthresh_pkts = self.ssthresh_pkts.max(kept_pkts);
            self.undo.begin(self.board.una(), self.board.resent_pkts(), ssthresh_pkts);
        }
        self.state = state;
        self.recovery_end = self.board.next();
        self.prior_cwnd_pkts = self.cwnd_pkts;
        self.prr_out_pkts = 0;
        self.ssthresh_pkts = (self.cwnd_pkts / 2).max(2);
    }

    /// How long the sender was idle, in nanoseconds, if it is about to send after an idle time
    /// longer than its timeout (`tcp_slow_start_after_idle_check()`); otherwise `None`.
    pub fn idle_ns(&self, now_ns: u64) -> Option<u64> {
        if self.board.out_pkts() > 0 || self.counts.sent_pkts == 0 {
            return None;
        }
        let idle_ns = now_ns - self.sent_ns;
        let begins = self.board.next() < self.written_pkts;
        (begins && idle_ns > self.rtt.timeout_ns(0)).then_some(idle_ns)
    }

    /// `tcp_cwnd_restart()`: halves the window for every timeout that the sender was idle, down to
    /// ten segments.
    pub fn restart(&mut self, idle_ns: u64) {
        let least_pkts = self.cwnd_pkts.min(RESTART_CWND_PKTS);
        let halvings = (idle_ns - 1) / self.rtt.timeout_ns(0);
        self.ssthresh_pkts = self.ssthresh_pkts.max(self.cwnd_pkts / 4 * 3);
        let halved_pkts = self.cwnd_pkts >> halvings.min(u64::from(u32::BITS - 1));
        self.cwnd_pkts = halved_pkts.max(least_pkts);
    }

    /// Sends what window and pacing allow. `out` gets each packet.
    pub fn send(&mut self, now_ns: u64, mut out: impl FnMut(Packet)) {
        let mut sent = false;
        let mut limited = false;
        let was_empty = self.board.out_pkts() == 0;
        loop {
            let room = self.cwnd_pkts.saturating_sub(self.board.in_flight_pkts());
            if room == 0 {
                limited = true;
                break;
            }
            if self.pacer.next_ns() > now_ns {
                break;
            }
            let burst = room.min(self.pacer.burst_pkts(self.mss_bytes));
            let resent = self.send_burst(burst, now_ns, &mut out);
            if resent == 0 {
                break;
            }
            sent = true;
            self.pacer.sent(resent, self.mss_bytes, now_ns);
        }
        if sent || limited {
            self.note_use(limited);
        }
        if sent {
            self.alarm_of_sent(was_empty, now_ns);
        }
    }

    /// Sets the timer after segments were sent (`tcp_event_new_data_sent()`, `tcp_write_xmit()`).
    fn alarm_of_sent(&mut self, was_empty: bool, now_ns: u64) {
        match self.alarm {
            Some((_, Alarm::Reordering)) => {}
            None => self.restart_alarm(now_ns),
            Some(_) if was_empty || self.probe_ns().is_some() => self.restart_alarm(now_ns),
            Some((_, Alarm::Probe)) => self.await_first(now_ns),
            Some((_, Alarm::Timeout)) => {}
        }
    }

    /// Sends up to `burst` segments, lost ones first. Returns how many it sent.
    fn send_burst(&mut self, burst: u32, now_ns: u64, out: &mut impl FnMut(Packet)) -> u32 {
        let mut pkts = 0;
        while pkts < burst {
            let lost = if self.lost_is_late { None } else { self.board.first_to_resend() };
            if let Some(seq) = lost {
                self.undo.resent(clock_us(now_ns));
                self.resend(seq, now_ns, out);
            } else if self.board.next() < self.written_pkts {
                self.send_new(now_ns, out);
            } else {
                break;
            }
            pkts += 1;
        }
        pkts
    }

    fn send_new(&mut self, now_ns: u64, out: &mut impl FnMut(Packet)) {
        let seq = self.board.next();
        let segment = self.rate.sent(now_ns, self.board.out_pkts() == 0);
        self.board.push(segment, self.rate.is_app_limited());
        self.emit(seq, now_ns, out);
    }

    fn resend(&mut self, seq: u32, now_ns: u64, out: &mut impl FnMut(Packet)) {
        let segment = self.rate.sent(now_ns, false);
        self.board.resend(seq, segment, self.rate.is_app_limited());
        self.counts.resent_pkts += 1;
        let waits = matches!(self.alarm, Some((_, Alarm::Reordering)));
        if seq == self.board.una() && !waits {
            self.await_first(now_ns);
        }
        self.emit(seq, now_ns, out);
    }

    fn emit(&mut self, seq: u32, now_ns: u64, out: &mut impl FnMut(Packet)) {
        self.rack.sent(seq, now_ns);
        self.counts.sent_pkts += 1;
        self.sent_ns = now_ns;
        self.prr_out_pkts += u32::from(matches!(self.state, State::Cwr | State::Recovery));
        let bytes = self.mss_bytes + HEADER_BYTES;
        out(Packet::data((self.flow, seq), bytes, self.ect, now_ns));
    }

    /// `tcp_cwnd_validate()`.
    fn note_use(&mut self, limited: bool) {
        let out = self.board.out_pkts();
        let is_new_round = self.board.una() >= self.usage_until;
        let is_larger = !self.is_cwnd_limited && out > self.out_pkts_max;
        if is_new_round || limited || is_larger {
            self.is_cwnd_limited = limited;
            self.out_pkts_max = out;
            self.usage_until = self.board.next();
        }
    }

    /// After how long to send a probe; `None` if none may be sent.
    fn probe_ns(&self) -> Option<u64> {
        let may_probe = self.state == State::Open && self.probed_until.is_none();
        let srtt_ns = self.rtt.smoothed_ns().filter(|_| may_probe && self.backoff == 0)?;
        let alone = if self.board.out_pkts() == 1 { RTO_MIN_NS as u64 } else { PROBE_SLACK_NS };
        let wait_ns = 2 * srtt_ns + alone;
        (wait_ns < self.rtt.timeout_ns(0)).then_some(wait_ns)
    }

    /// Starts the timer anew: for a probe (RFC 8985 section 7.2) or a timeout (RFC 6298 section 5).
    fn restart_alarm(&mut self, now_ns: u64) {
        let timeout_ns = self.rtt.timeout_ns(self.backoff);
        self.alarm = (self.board.out_pkts() > 0).then(|| match self.probe_ns() {
            Some(wait_ns) => (now_ns + wait_ns, Alarm::Probe),
            None => (now_ns + timeout_ns, Alarm::Timeout),
        });
    }

    /// Sets the timer for the timeout of the first segment, which began when it was last sent
    /// (`tcp_rearm_rto()`).
    fn await_first(&mut self, now_ns: u64) {
        let timeout_ns = self.rtt.timeout_ns(self.backoff);
        let due_ns = self.board.first_sent_ns().map(|sent_ns| sent_ns + timeout_ns);
        self.alarm = due_ns.map(|due_ns| (due_ns.max(now_ns + 1), Alarm::Timeout));
    }

    /// Handles the timer if it is due. Returns whether a recovery began.
    pub fn alarm(&mut self, now_ns: u64, out: &mut impl FnMut(Packet)) -> bool {
        let Some((_, alarm)) = self.alarm.take_if(|(at_ns, _)| *at_ns <= now_ns) else {
            return false;
        };
        match alarm {
            Alarm::Timeout => self.time_out(now_ns, out),
            Alarm::Probe => self.probe(now_ns, out),
            Alarm::Reordering => return self.give_up_waiting(now_ns),
        }
        false
    }

    fn give_up_waiting(&mut self, now_ns: u64) -> bool {
        let mut sample = AckSample::default();
        let found = (self.state >= State::Recovery, self.limits());
        let wait_ns = self.rack.detect_at(&mut self.board, found, now_ns, &mut sample.lost_pkts);
        self.settle_state(&mut sample);
        match wait_ns {
            Some(wait_ns) => self.alarm = Some((now_ns + wait_ns, Alarm::Reordering)),
            None => self.await_first(now_ns),
        }
        sample.recovery_began
    }

    /// RFC 8985 section 7.3: sends a new segment, or the last one again.
    fn probe(&mut self, now_ns: u64, out: &mut impl FnMut(Packet)) {
        if self.board.next() < self.written_pkts {
            self.send_new(now_ns, out);
        } else {
            self.resend(self.board.next() - 1, now_ns, out);
        }
        self.probed_until = Some(self.board.next());
        let timeout_ns = self.rtt.timeout_ns(self.backoff);
        self.alarm = Some((now_ns + timeout_ns, Alarm::Timeout));
    }

    /// `tcp_retransmit_timer()` and `tcp_enter_loss()`.
    fn time_out(&mut self, now_ns: u64, out: &mut impl FnMut(Packet)) {
        self.counts.timeouts += 1;
        self.timed_out = true;
        if self.state < State::Recovery {
            self.reduce(State::Loss);
        }
        self.state = State::Loss;
        self.recovery_end = self.board.next();
        self.counts.lost_pkts += u64::from(self.board.mark_all_lost());
        self.cwnd_pkts = self.board.in_flight_pkts() + 1;
        self.backoff += 1;
        if let Some(seq) = self.board.first_to_resend() {
            self.undo.resent(clock_us(now_ns));
            self.resend(seq, now_ns, out);
        }
        let timeout_ns = self.rtt.timeout_ns(self.backoff);
        self.alarm = Some((now_ns + timeout_ns, Alarm::Timeout));
    }
}
