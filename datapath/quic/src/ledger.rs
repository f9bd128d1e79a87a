//! The packets in flight on one path, with the state at which each was sent. From these and an ACK
//! follow delivery-rate samples, as in draft-cheng-iccrg-delivery-rate-estimation and
//! net/ipv4/tcp_rate.c.
//!
//! A packet is identified by its time of sending and its number. The number alone is not enough: a
//! path's controller sees three packet number spaces, each of which starts at 0, and some stacks
//! report no numbers.
//!
//! Differs from tcp_rate.c: this counts bytes, as the draft does, not segments; and a pause of the
//! application is noticed only at the next ACK, because the stack does not call the controller
//! before.

use std::collections::VecDeque;

/// The most packets stored for a path, at 48 bytes each.
pub const PACKETS_MAX: usize = 131_072;
/// A packet older than this many round trips, and sent before one acknowledged since, is dropped
/// here: the stack has forgotten it, because its keys are gone or it was sent to another address.
/// RFC 9002 section 6.1.2 declares packets lost after 9/8 of a round trip.
const FORGOTTEN_ROUNDS: u64 = 2;

/// One packet; or one transmission, for a stack that does not report single packets.
#[derive(Clone, Copy, Debug)]
struct Record {
    sent_ns: u64,
    pn: u64,
    /// Bytes neither acknowledged nor lost yet; 0 when the packet is settled.
    out_bytes: u32,
    is_app_limited: bool,
    first_sent_ns: u64,
    delivered_ns: u64,
    delivered_bytes: u64,
}

/// The bytes delivered over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    pub delivered_bytes: u64,
    /// The time it took to send these bytes, in nanoseconds.
    pub send_ns: u64,
    /// The time it took to acknowledge these bytes, in nanoseconds.
    pub ack_ns: u64,
    /// Whether the application had nothing to send during part of the interval.
    pub is_app_limited: bool,
}

#[derive(Debug, Default)]
pub struct Ledger {
    records: VecDeque<Record>,
    delivered_bytes: u64,
    delivered_ns: u64,
    first_sent_ns: u64,
    /// Samples are app-limited until this many bytes are delivered; 0 means not limited.
    app_limited_until: u64,
    /// Of the packets acknowledged since the last sample, the one sent last.
    prior: Option<Record>,
}

impl Ledger {
    /// Adds a packet that was sent; `in_flight_bytes` does not include it.
    pub fn sent(&mut self, now_ns: u64, pn: u64, bytes: u32, in_flight_bytes: u64) {
        if in_flight_bytes == 0 {
            self.first_sent_ns = now_ns;
            self.delivered_ns = now_ns;
        }
        if self.records.len() >= PACKETS_MAX {
            self.records.pop_front();
        }
        self.records.push_back(Record {
            sent_ns: now_ns,
            pn,
            out_bytes: bytes,
            is_app_limited: self.app_limited_until != 0,
            first_sent_ns: self.first_sent_ns,
            delivered_ns: self.delivered_ns,
            delivered_bytes: self.delivered_bytes,
        });
    }

    /// Marks a packet as acknowledged. Returns true if a packet sent earlier is still in flight.
    pub fn acked(&mut self, sent_ns: u64, pn: Option<u64>, bytes: u32) -> bool {
        self.trim();
        self.delivered_bytes += u64::from(bytes);
        let from = self.records.partition_point(|record| record.sent_ns < sent_ns);
        let mut same = self.records.range_mut(from..).take_while(|r| r.sent_ns == sent_ns);
        let is_it = |r: &Record| r.out_bytes > 0 && pn.is_none_or(|pn| pn == r.pn);
        let Some(at) = same.position(|record| is_it(record)) else { return false };
        let record = &mut self.records[from + at];
        record.out_bytes = if pn.is_some() { 0 } else { record.out_bytes.saturating_sub(bytes) };
        let record = *record;
        let newest = self.prior.map(|prior| (prior.sent_ns, prior.pn));
        if newest.is_none_or(|newest| (record.sent_ns, record.pn) >= newest) {
            self.first_sent_ns = record.sent_ns;
            self.prior = Some(record);
        }
        from + at > 0
    }

    /// Marks the packet with this number as lost.
    pub fn lost(&mut self, pn: u64) {
        let is_it = |record: &&mut Record| record.out_bytes > 0 && record.pn == pn;
        if let Some(record) = self.records.iter_mut().find(is_it) {
            record.out_bytes = 0;
        }
        self.trim();
    }

    /// Marks bytes as lost when only the sending time of the last one is known. The oldest packets
    /// are taken as the lost ones.
    pub fn lost_bytes(&mut self, last_sent_ns: u64, mut bytes: u64) {
        for record in self.records.iter_mut().take_while(|r| r.sent_ns <= last_sent_ns) {
            let taken = bytes.min(record.out_bytes.into());
            record.out_bytes -= u32::try_from(taken).unwrap_or(record.out_bytes);
            bytes -= taken;
        }
        self.trim();
    }

    /// Notes that the application has nothing to send although the window has room.
    pub fn ran_dry(&mut self, in_flight_bytes: u64) {
        self.app_limited_until = (self.delivered_bytes + in_flight_bytes).max(1);
    }

    /// The rate sample of a complete ACK, as in `tcp_rate_gen()`. Returns `None` if the interval is
    /// shorter than the minimum RTT, because the rate would be too high.
    pub fn sample(&mut self, now_ns: u64, rtt_min_ns: u64, rtt_ns: u64) -> Option<RateSample> {
        if self.app_limited_until != 0 && self.delivered_bytes > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let prior = self.prior.take()?;
        self.delivered_ns = now_ns;
        self.forget(prior.sent_ns, now_ns, rtt_ns);
        let send_ns = prior.sent_ns.saturating_sub(prior.first_sent_ns);
        let ack_ns = now_ns.saturating_sub(prior.delivered_ns);
        if send_ns.max(ack_ns) < rtt_min_ns {
            return None;
        }
        Some(RateSample {
            delivered_bytes: self.delivered_bytes - prior.delivered_bytes,
            send_ns,
            ack_ns,
            is_app_limited: prior.is_app_limited,
        })
    }

    fn trim(&mut self) {
        while self.records.front().is_some_and(|record| record.out_bytes == 0) {
            self.records.pop_front();
        }
    }

    fn forget(&mut self, acked_sent_ns: u64, now_ns: u64, rtt_ns: u64) {
        let age_ns = rtt_ns.saturating_mul(FORGOTTEN_ROUNDS);
        let is_gone = |record: &Record| {
            record.sent_ns < acked_sent_ns && now_ns.saturating_sub(record.sent_ns) > age_ns
        };
        while self.records.front().is_some_and(|r| r.out_bytes == 0 || is_gone(r)) {
            self.records.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const PACKET: u32 = 1_000;

    /// Sends packets `from..to`, packet N at N ms.
    fn send(ledger: &mut Ledger, from: u64, to: u64) {
        for pn in from..to {
            ledger.sent(pn * MS, pn, PACKET, u64::from(pn > from) * 1_000);
        }
    }

    fn ack(ledger: &mut Ledger, pn: u64) -> bool {
        ledger.acked(pn * MS, Some(pn), PACKET)
    }

    #[test]
    fn a_sample_is_what_was_delivered_since_its_packet_was_sent() {
        // Ten packets a millisecond apart; each is acknowledged 20 ms after it was sent.
        let mut ledger = Ledger::default();
        send(&mut ledger, 0, 10);
        let mut samples = Vec::new();
        for pn in 0..10 {
            ack(&mut ledger, pn);
            samples.push(ledger.sample((pn + 20) * MS, 20 * MS, 20 * MS).expect("a sample"));
        }
        let rows: Vec<(u64, u64, u64)> =
            samples.iter().map(|s| (s.delivered_bytes, s.send_ns / MS, s.ack_ns / MS)).collect();
        // (bytes, send interval, ACK interval), both intervals since the first packet of the
        // flight.
        let want: Vec<(u64, u64, u64)> = (0..10).map(|n| ((n + 1) * 1_000, n, n + 20)).collect();
        assert_eq!(rows, want);
    }

    #[test]
    fn an_interval_shorter_than_the_round_trip_is_no_sample() {
        let mut ledger = Ledger::default();
        send(&mut ledger, 0, 2);
        ack(&mut ledger, 0);
        assert!(ledger.sample(20 * MS, 20 * MS, 20 * MS).is_some());
        ack(&mut ledger, 1);
        assert!(ledger.sample(20 * MS, 30 * MS, 20 * MS).is_none());
        assert!(ledger.sample(21 * MS, 0, 20 * MS).is_none(), "nothing was acknowledged");
    }

    #[test]
    fn an_ack_above_a_hole_is_out_of_order_until_the_hole_is_acked_or_lost() {
        let mut ledger = Ledger::default();
        send(&mut ledger, 0, 6);
        let rows = [(0, false), (2, true), (3, true), (1, false), (4, false)];
        for (pn, misordered) in rows {
            assert_eq!(ack(&mut ledger, pn), misordered, "{pn}");
        }
        let mut ledger = Ledger::default();
        send(&mut ledger, 0, 4);
        assert!(ack(&mut ledger, 1));
        ledger.lost(0);
        assert!(!ack(&mut ledger, 2));
    }

    #[test]
    fn the_same_number_in_two_spaces_is_two_packets() {
        let mut ledger = Ledger::default();
        ledger.sent(0, 0, 1_200, 0);
        ledger.sent(0, 0, 400, 1_200);
        assert!(!ledger.acked(0, Some(0), 1_200));
        assert!(!ledger.acked(0, Some(0), 400));
        assert!(!ledger.acked(0, Some(0), 400), "an unknown one is counted, and nothing else");
        assert_eq!(ledger.delivered_bytes, 2_000);
        assert!(ledger.records.iter().all(|record| record.out_bytes == 0));
    }

    #[test]
    fn what_is_sent_after_a_pause_is_app_limited_until_it_is_delivered() {
        let mut ledger = Ledger::default();
        send(&mut ledger, 0, 1);
        ack(&mut ledger, 0);
        assert!(!ledger.sample(20 * MS, 0, 20 * MS).expect("a sample").is_app_limited);
        ledger.ran_dry(0);
        send(&mut ledger, 100, 102);
        ack(&mut ledger, 100);
        assert!(ledger.sample(120 * MS, 0, 20 * MS).expect("a sample").is_app_limited);
        send(&mut ledger, 130, 131);
        ack(&mut ledger, 130);
        assert!(!ledger.sample(150 * MS, 0, 20 * MS).expect("a sample").is_app_limited);
    }

    #[test]
    fn lost_bytes_without_numbers_are_the_oldest() {
        let mut ledger = Ledger::default();
        send(&mut ledger, 0, 4);
        assert!(ledger.acked(2 * MS, None, PACKET));
        ledger.lost_bytes(MS, 2_000);
        assert!(!ledger.acked(3 * MS, None, PACKET));
        assert_eq!(ledger.records.iter().map(|r| r.out_bytes).sum::<u32>(), 0);
    }

    #[test]
    fn what_the_stack_forgot_is_forgotten_and_the_ledger_is_bounded() {
        let mut ledger = Ledger::default();
        send(&mut ledger, 0, 1);
        send(&mut ledger, 30, 32);
        ack(&mut ledger, 31);
        let _ = ledger.sample(51 * MS, 20 * MS, 20 * MS);
        assert_eq!(ledger.records.len(), 2, "0 is forgotten, 30 may still be acknowledged");
        let mut ledger = Ledger::default();
        send(&mut ledger, 0, PACKETS_MAX as u64 + 10);
        assert_eq!(ledger.records.len(), PACKETS_MAX);
    }
}
