//! The sending end: what leaves when, and what an ACK says. How large the window is, and at what
//! rate it is sent, is the control's (control.rs).
//!
//! The states and their order are those of net/ipv4/tcp_input.c `tcp_fastretrans_alert()`; loss
//! detection is rack.rs; tail loss probes are RFC 8985 section 7; timeouts RFC 6298 and
//! `tcp_enter_loss()`; what shows that a recovery was spurious is undo.rs.
//!
//! Differs from Linux: segments are all of the MSS; no F-RTO; the send buffer is never the limit; a lost segment of which only the ACK's timestamp could tell
//! the round trip has no RTT sample.

use crate::packet::{HEADER_BYTES, Packet, clock_us};
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
    /// Something was delivered out of order.
    Disorder,
    /// A mark is being answered.
    Cwr,
    /// Losses are being repaired.
    Recovery,
    /// A timeout is being repaired.
    Loss,
}

/// What the one timer of a sender is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alarm {
    Timeout,
    Probe,
    Reordering,
}

/// What one ACK brought.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckSample {
    pub acked_pkts: u32,
    /// Segments delivered by it, cumulatively or not (`rs->acked_sacked`).
    pub delivered_pkts: u32,
    /// Segments newly marked lost.
    pub lost_pkts: u32,
    /// Segments newly reported as marked.
    pub ce_pkts: u32,
    /// The round trip of the latest of them (`rs->rtt_us`).
    pub rtt_ns: Option<u64>,
    pub rate: Option<RateSample>,
    /// A recovery, or the answer to a mark, began with it.
    pub recovery_began: bool,
    /// It showed that the last recovery, or timeout, was spurious.
    pub undone: bool,
}

/// Counts of a sender's life.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Segments sent, again or not.
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
    /// When it may send.
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
    is_cwnd_limited: bool,
    out_pkts_max: u32,
    usage_until: u32,
    /// When it last sent a segment.
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
            is_cwnd_limited: false,
            out_pkts_max: 0,
            usage_until: 0,
            sent_ns: 0,
        }
    }

    /// The handshake has told a round trip.
    pub fn note_handshake(&mut self, rtt_ns: u64) {
        if rtt_ns > 0 {
            self.rtt.sample(rtt_ns, 0, 0);
            self.rtt.note_min(rtt_ns);
        }
    }

    /// What is in flight, in segments.
    pub fn in_flight_pkts(&self) -> u32 {
        self.board.in_flight_pkts()
    }

    /// What is not acknowledged cumulatively, and what was written and not sent, in segments.
    pub fn pending_pkts(&self) -> u32 {
        self.written_pkts.saturating_sub(self.board.una())
    }

    /// Segments delivered beyond what is missing.
    pub fn sacked_pkts(&self) -> u32 {
        self.board.sacked_pkts()
    }

    /// The state of its loss recovery.
    pub fn state(&self) -> State {
        self.state
    }

    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Segments delivered in its life.
    pub fn delivered_pkts(&self) -> u32 {
        self.rate.delivered_pkts()
    }

    /// The window held it back when it last sent (`tp->is_cwnd_limited`).
    pub fn is_cwnd_limited(&self) -> bool {
        self.is_cwnd_limited
    }

    /// A flight used half of the window at least (`tcp_is_cwnd_limited()` in slow start).
    pub fn used_half(&self) -> bool {
        self.cwnd_pkts < self.out_pkts_max.saturating_mul(2)
    }

    /// Whether a timeout fired since this was last asked.
    pub fn take_timed_out(&mut self) -> bool {
        std::mem::take(&mut self.timed_out)
    }

    /// When its timer is due, in nanoseconds.
    pub fn alarm_ns(&self) -> Option<u64> {
        self.alarm.map(|(at_ns, _)| at_ns)
    }

    /// When a paced sender that has room and something to send may go on, in nanoseconds.
    pub fn resumes_ns(&mut self, now_ns: u64) -> Option<u64> {
        let at_ns = self.pacer.next_ns();
        let waits = at_ns > now_ns
            && self.board.in_flight_pkts() < self.cwnd_pkts
            && (self.board.next() < self.written_pkts || self.board.first_to_resend().is_some());
        waits.then_some(at_ns)
    }

    /// Everything written has been acknowledged.
    pub fn is_done(&self) -> bool {
        self.board.una() >= self.written_pkts
    }

    /// The application writes; if all before was sent and the window has room, what follows is
    /// limited by the application (`tcp_rate_check_app_limited()`).
    pub fn write(&mut self, pkts: u32) {
        let in_flight = self.in_flight_pkts();
        if self.board.next() >= self.written_pkts && in_flight < self.cwnd_pkts {
            self.rate.ran_dry(in_flight);
        }
        self.written_pkts = self.written_pkts.saturating_add(pkts);
    }

    /// Nothing more is written than has been sent.
    pub fn stop(&mut self) {
        self.written_pkts = self.board.next();
    }

    /// Takes an ACK in.
    pub fn acknowledge(&mut self, ack: &Packet, now_ns: u64) -> AckSample {
        let una = self.board.una();
        let mut sample = self.deliver(ack, now_ns);
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
        let recovering = self.state >= State::Recovery;
        let limits = self.limits();
        let rack = &mut self.rack;
        let found = (recovering, limits);
        let wait_ns = rack.detect(&mut self.board, found, now_ns, &mut sample.lost_pkts);
        self.settle_state(&mut sample);
        sample.rate = self.rate.sample(now_ns, self.rtt.min_ns());
        if sample.acked_pkts > 0 || wait_ns.is_some() || sample.delivered_pkts > 0 {
            self.set_alarm(wait_ns, now_ns);
        }
        sample
    }

    /// `tcp_check_dsack()`: what has come twice is a sign of a spurious retransmission if it is not
    /// of before the recovery, and was acknowledged before.
    fn note_twice(&mut self, ack: &Packet, una: u32) {
        let Some(twice) = ack.came_twice() else { return };
        self.rack.came_twice();
        for seq in (twice.start..twice.end).filter(|seq| *seq < una) {
            self.undo.came_twice(seq);
        }
    }

    /// Whether the repair is over, and whether there was anything to repair: the order of
    /// `tcp_fastretrans_alert()`.
    fn leave_recovery(&mut self, ack: &Packet, sample: &mut AckSample) {
        let is_over = self.state >= State::Cwr && self.board.una() >= self.recovery_end;
        if self.is_spurious(ack, sample.acked_pkts > 0, is_over) {
            self.undo_reduction(sample);
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

    /// `tcp_undo_cwnd_reduction()`. The window is the control's (control.rs).
    fn undo_reduction(&mut self, sample: &mut AckSample) {
        self.ssthresh_pkts = self.ssthresh_pkts.max(self.undo.take());
        self.board.unmark_lost();
        self.rack.recheck();
        self.state = State::Open;
        sample.undone = true;
    }

    /// What the ACK delivers, and the round trips it tells of (`tcp_clean_rtx_queue()`).
    fn deliver(&mut self, ack: &Packet, now_ns: u64) -> AckSample {
        let Self { board, rack, rate, rtt, .. } = self;
        let rtt_min_ns = rtt.min_ns().unwrap_or(0);
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
            rack.delivered(pkts, seq, segment, (now_ns, rtt_min_ns));
            if segment.was_resent() {
                resent = true;
            } else {
                let first = acked.map_or(sent_ns, |(first, _)| first);
                acked = Some((first, segment.sent_ns));
            }
        });
        let acked = acked.filter(|_| !resent);
        let rtt_ns = sacked.or(acked).map(|(_, last_ns)| now_ns - last_ns);
        if let (Some((first_ns, _)), Some(rtt_ns)) = (acked.or(sacked), rtt_ns) {
            self.rtt.sample(now_ns - first_ns, self.board.una(), self.board.next());
            self.rtt.note_min(rtt_ns);
        }
        AckSample { delivered_pkts, rtt_ns, ..AckSample::default() }
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

    /// How long it was idle, in nanoseconds, if it has something to send after an idle time longer
    /// than its timeout (`tcp_slow_start_after_idle_check()`).
    pub fn idle_ns(&self, now_ns: u64) -> Option<u64> {
        if self.board.out_pkts() > 0 || self.counts.sent_pkts == 0 {
            return None;
        }
        let idle_ns = now_ns - self.sent_ns;
        let begins = self.board.next() < self.written_pkts;
        (begins && idle_ns > self.rtt.timeout_ns(0)).then_some(idle_ns)
    }

    /// `tcp_cwnd_restart()`: the window is halved for every timeout that it was idle, down to ten
    /// segments.
    pub fn restart(&mut self, idle_ns: u64) {
        let least_pkts = self.cwnd_pkts.min(RESTART_CWND_PKTS);
        let halvings = (idle_ns - 1) / self.rtt.timeout_ns(0);
        self.ssthresh_pkts = self.ssthresh_pkts.max(self.cwnd_pkts / 4 * 3);
        let halved_pkts = self.cwnd_pkts >> halvings.min(u64::from(u32::BITS - 1));
        self.cwnd_pkts = halved_pkts.max(least_pkts);
    }

    /// Sends what may go. `out` gets each packet.
    pub fn send(&mut self, now_ns: u64, mut out: impl FnMut(Packet)) {
        let mut sent = false;
        let mut limited = false;
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
        if sent && !matches!(self.alarm, Some((_, Alarm::Reordering))) {
            self.set_alarm(None, now_ns);
        }
    }

    /// Lost segments first. Says how many went.
    fn send_burst(&mut self, burst: u32, now_ns: u64, out: &mut impl FnMut(Packet)) -> u32 {
        let mut pkts = 0;
        while pkts < burst {
            if let Some(seq) = self.board.first_to_resend() {
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

    /// RFC 8985 section 7.2 for a probe, RFC 6298 section 5 else.
    fn set_alarm(&mut self, reordering_ns: Option<u64>, now_ns: u64) {
        if self.board.out_pkts() == 0 {
            self.alarm = None;
            return;
        }
        if let Some(wait_ns) = reordering_ns {
            self.alarm = Some((now_ns + wait_ns, Alarm::Reordering));
            return;
        }
        let timeout_ns = self.rtt.timeout_ns(self.backoff);
        let may_probe = self.state == State::Open && self.probed_until.is_none();
        let probe_ns = self.rtt.smoothed_ns().filter(|_| may_probe && self.backoff == 0);
        let alone = if self.board.out_pkts() == 1 { RTO_MIN_NS as u64 } else { PROBE_SLACK_NS };
        let probe_ns = probe_ns.map(|srtt_ns| 2 * srtt_ns + alone).filter(|ns| *ns < timeout_ns);
        self.alarm = Some(match probe_ns {
            Some(wait_ns) => (now_ns + wait_ns, Alarm::Probe),
            None => (now_ns + timeout_ns, Alarm::Timeout),
        });
    }

    /// Its timer may be due. Says whether a recovery began.
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
        self.set_alarm(wait_ns, now_ns);
        sample.recovery_began
    }

    /// RFC 8985 section 7.3: a new segment, or the last one again.
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
