//! What losses say: how much bandwidth and inflight there is for now, and how much inflight at all.
//!
//! draft-ietf-ccwg-bbr, section 5.5.10. A report does not say what was in flight when a lost
//! segment was sent; the losses of a round trip are compared with what was in flight in the one
//! before, which is when they were sent.

use crate::measurement::Measurement;
use crate::units::{Bytes, Gain, Packets, Rate, Time};
use std::collections::VecDeque;

/// `LossThresh`: so many of a flight's segments lost is too many.
const LOSS_THRESH: Gain = Gain(20);
/// `Beta`: what is left of a bound after a loss.
const BETA: Gain = Gain(700);
/// `Headroom`: left free for others, 0.15 of the long-term bound.
const WITHOUT_HEADROOM: Gain = Gain(850);
/// `StartupFullLossCnt`: fewer losses in a round trip do not end STARTUP.
const STARTUP_LOSSES: Packets = Packets(6);
/// `bw_probe_up_rounds`: the growth of a probe doubles each round, up to here.
const UP_ROUNDS_MAX: u32 = 30;
/// Reports of two round trips.
const HISTORY: usize = 64;

/// The bounds of one flow.
#[derive(Clone, Debug)]
pub struct Bounds {
    mss: Bytes,
    /// `bw_lo`, `inflight_lo`: since the last probe; none until a loss.
    bw: Option<Rate>,
    inflight: Option<Bytes>,
    /// `inflight_hi`; none until a flight was too large.
    longterm: Option<Bytes>,
    round: Seen,
    /// All bytes delivered, by report.
    delivered: VecDeque<(Time, Bytes)>,
    /// The most in flight in the round before.
    flight: Bytes,
    up_rounds: u32,
    up_acked: Bytes,
    /// Bytes acknowledged for each byte of growth while probing, in thousandths of a segment.
    up_per_segment: Bytes,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    lost: Packets,
    /// The most that was delivered within a round trip (`inflight_latest`).
    delivered: Bytes,
    in_flight: Bytes,
    bw: Rate,
}

impl Bounds {
    /// None yet, but for a window that a path is known to hold.
    pub fn new(mss: Bytes, longterm: Option<Bytes>) -> Self {
        Self {
            mss,
            bw: None,
            inflight: None,
            longterm,
            round: Seen::default(),
            delivered: VecDeque::new(),
            flight: Bytes(0),
            up_rounds: 0,
            up_acked: Bytes(0),
            up_per_segment: Bytes(u64::MAX),
        }
    }

    /// Takes in one report.
    pub fn observe(&mut self, m: &Measurement, now: Time) {
        let before = self.delivered.back().map_or(Bytes(0), |(_, all)| *all);
        let all = before + m.delivered;
        let rtt = m.rtt.map_or(std::time::Duration::ZERO, |rtt| rtt.last);
        let past = self.delivered.iter().rev().find(|(at, _)| now - *at >= rtt);
        let within = all - past.or(self.delivered.front()).map_or(before, |(_, all)| *all);
        if self.delivered.len() == HISTORY {
            self.delivered.pop_front();
        }
        self.delivered.push_back((now, all));
        let round = &mut self.round;
        round.lost += m.lost;
        round.delivered = round.delivered.max(within);
        round.in_flight = round.in_flight.max(m.in_flight);
        round.bw = round.bw.max(m.delivery_rate);
    }

    /// A round trip is over: if it lost something, and this flow was not `probing` for more, the
    /// short-term bounds follow what was delivered.
    pub fn end_round(&mut self, probing: bool, (bw, cwnd): (Rate, Bytes)) {
        let seen = std::mem::take(&mut self.round);
        self.flight = seen.in_flight;
        if seen.lost > Packets(0) && !probing {
            self.bw = Some(seen.bw.max(self.bw.unwrap_or(bw) * BETA));
            self.inflight = Some(seen.delivered.max(self.inflight.unwrap_or(cwnd) * BETA));
        }
    }

    /// Whether this round trip has lost more than a flight may.
    pub fn lost_too_much(&self) -> bool {
        let flight = self.flight.max(self.round.in_flight);
        self.round.lost.to_bytes(self.mss) > flight * LOSS_THRESH
    }

    /// Whether it has lost so much that the pipe is full.
    pub fn startup_is_over(&self) -> bool {
        self.round.lost >= STARTUP_LOSSES && self.lost_too_much()
    }

    /// What was in flight was too much, where `target` should be.
    pub fn too_high(&mut self, target: Bytes) {
        self.longterm = Some(self.flight.min(self.round.in_flight).max(target * BETA));
    }

    /// STARTUP has lost too much: there is no more than it delivered, or `bdp`.
    pub fn end_startup(&mut self, bdp: Bytes) {
        self.longterm = Some(bdp.max(self.round.delivered));
    }

    /// A flight larger than the bound did no harm.
    pub fn held(&mut self) {
        let flight = self.flight;
        self.longterm = self.longterm.map(|bound| bound.max(flight));
    }

    /// A probe begins: the short-term bounds are forgotten.
    pub fn refill(&mut self) {
        (self.bw, self.inflight) = (None, None);
        self.up_rounds = 0;
        self.up_acked = Bytes(0);
    }

    /// Probing: a round trip more, which allows twice the growth of the last one.
    pub fn raise_slope(&mut self, cwnd: Bytes) {
        let growth = 1u64 << self.up_rounds.min(UP_ROUNDS_MAX);
        self.up_rounds = (self.up_rounds + 1).min(UP_ROUNDS_MAX);
        self.up_per_segment = Bytes(cwnd.0 / growth).max(self.mss);
    }

    /// Probing: the bound grows with what is acknowledged while it is what holds the window.
    pub fn probe_up(&mut self, delivered: Bytes, cwnd: Bytes) {
        let Some(bound) = self.longterm.filter(|bound| cwnd >= *bound) else { return };
        self.up_acked += delivered;
        let segments = self.up_acked.0 / self.up_per_segment.0.max(1);
        self.up_acked = Bytes(self.up_acked.0 % self.up_per_segment.0.max(1));
        self.longterm = Some(bound + Packets(segments).to_bytes(self.mss));
    }

    /// `bw` within the short-term bound.
    pub fn bw(&self, bw: Rate) -> Rate {
        self.bw.map_or(bw, |bound| bw.min(bound))
    }

    pub fn longterm(&self) -> Option<Bytes> {
        self.longterm
    }

    /// The long-term bound with room for others; a segment at least is left free.
    pub fn with_headroom(&self) -> Option<Bytes> {
        let mss = self.mss;
        self.longterm.map(|bound| (bound * WITHOUT_HEADROOM).min(bound - mss))
    }

    /// The window's bound; `cruising` leaves headroom.
    pub fn cwnd(&self, cruising: bool) -> Bytes {
        let long = if cruising { self.with_headroom() } else { self.longterm };
        long.into_iter().chain(self.inflight).min().unwrap_or(Bytes(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::MSS;

    fn segments(pkts: u64) -> Bytes {
        Packets(pkts).to_bytes(MSS)
    }

    fn report(delivered: u64, in_flight: u64, lost: u64) -> Measurement {
        Measurement {
            delivered: segments(delivered),
            in_flight: segments(in_flight),
            lost: Packets(lost),
            delivery_rate: Rate::from_bytes_per_sec(1_000),
            ..Measurement::QUIET
        }
    }

    fn after_a_round(lost: u64) -> Bounds {
        let mut bounds = Bounds::new(MSS, None);
        bounds.observe(&report(100, 100, 0), Time::ZERO);
        bounds.end_round(false, (Rate::default(), Bytes(0)));
        bounds.observe(&report(90, 100, lost), Time::ZERO);
        bounds
    }

    #[test]
    fn two_in_a_hundred_are_not_too_much_and_three_are() {
        assert!(!after_a_round(2).lost_too_much());
        assert!(after_a_round(3).lost_too_much());
        assert!(!after_a_round(5).startup_is_over());
        assert!(after_a_round(6).startup_is_over());
    }

    #[test]
    fn a_lossy_round_leaves_what_it_delivered_or_seven_tenths() {
        let mut bounds = after_a_round(1);
        bounds.end_round(false, (Rate::from_bytes_per_sec(10_000), segments(200)));
        assert_eq!(bounds.bw(Rate::from_bytes_per_sec(10_000)).bytes_per_sec(), 7_000);
        assert_eq!(bounds.cwnd(false), segments(140));
        bounds.refill();
        assert_eq!(bounds.cwnd(false), Bytes(u64::MAX));
    }

    #[test]
    fn a_round_of_a_probe_does_not_bound() {
        let mut bounds = after_a_round(9);
        bounds.end_round(true, (Rate::from_bytes_per_sec(10_000), segments(200)));
        assert_eq!(bounds.cwnd(false), Bytes(u64::MAX));
    }

    #[test]
    fn cruising_leaves_fifteen_hundredths_free() {
        let bounds = Bounds::new(MSS, Some(segments(100)));
        assert_eq!(bounds.cwnd(true), segments(85));
        assert_eq!(bounds.cwnd(false), segments(100));
    }

    #[test]
    fn a_probe_raises_the_bound_by_one_segment_a_round_then_by_two_and_four() {
        let mut bounds = Bounds::new(MSS, Some(segments(100)));
        bounds.refill();
        let mut got = Vec::new();
        for _ in 0..3 {
            let cwnd = bounds.longterm().expect("a bound");
            bounds.raise_slope(cwnd);
            bounds.probe_up(cwnd, cwnd);
            got.push(bounds.longterm().expect("a bound").to_packets(MSS).0);
        }
        assert_eq!(got, [101, 103, 107]);
    }
}
