//! What a datapath reports of a flow, decoded.

use crate::units::{Bytes, Gain, Packets, Rate};
use std::time::Duration;

/// A window of which so much was in flight was used: what is in flight is seen after an ACK.
const CWND_FULL: Gain = Gain(850);

/// How many report fields a program may have of its own: CCP's language has 16, of which the shared
/// signals take 15.
pub const OWN_FIELDS_MAX: usize = 1;

/// The round trips of one report: enough for mean, spread and range without a list of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttSamples {
    pub last: Duration,
    pub min: Duration,
    pub max: Duration,
    /// Sum of all samples, in microseconds.
    pub sum_us: u64,
    /// Sum of the squares of all samples, in square microseconds.
    pub sq_sum_us2: u64,
    /// How many samples; at least 1.
    pub count: u64,
}

impl RttSamples {
    pub fn one(rtt: Duration) -> Self {
        let rtt_us = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
        Self {
            last: rtt,
            min: rtt,
            max: rtt,
            sum_us: rtt_us,
            sq_sum_us2: rtt_us.saturating_mul(rtt_us),
            count: 1,
        }
    }

    pub fn mean(&self) -> Duration {
        Duration::from_micros(self.sum_us / self.count.max(1))
    }
}

/// How much of its window a sender used (Linux' `tcp_cwnd_validate`). Growing a window that is not
/// used is unsafe (RFC 7661).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CwndUse {
    Little,
    /// Half at least: enough in slow start, as the window has just been raised.
    Half,
    /// All: the window held it back.
    Full,
}

/// One datapath report, decoded. The agent fills it; arms and policies only read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Bytes newly acknowledged, cumulatively, since the last report.
    pub acked: Bytes,
    /// Bytes newly delivered, cumulatively or out of order (Linux' `rs->acked_sacked`), since the
    /// last report: what a round trip and a bandwidth are counted by, as the cumulative ACK stands
    /// still while a loss is repaired. In whole segments; `acked` if the datapath does not tell.
    pub delivered: Bytes,
    /// Segments newly marked lost since the last report.
    pub lost: Packets,
    /// Segments newly delivered with an ECN mark since the last report.
    pub ecn_marked: Packets,
    /// A retransmission timeout fired since the last report.
    pub timed_out: bool,
    /// Round trips sampled since the last report; `None` if there was no valid sample.
    pub rtt: Option<RttSamples>,
    /// The largest send rate sampled since the last report.
    pub send_rate: Rate,
    /// The largest delivery rate sampled since the last report: for each sample, the lower of the
    /// rates at which its packets were sent and acknowledged (draft-cheng-iccrg-delivery-rate).
    pub delivery_rate: Rate,
    /// The most bytes that were in flight since the last report.
    pub in_flight: Bytes,
    /// The sender had nothing to send for part of the report; its rates are lower bounds.
    pub app_limited: bool,
    /// The datapath is repairing losses (RFC 6675, RFC 8985) or a timeout.
    pub in_recovery: bool,
    /// The datapath has found its last recovery spurious: nothing was lost, the packets came late
    /// (RFC 3522, RFC 3708). The losses of this report, if it is not in recovery, are of that kind.
    pub undone: bool,
    /// The flow sent again after an idle time longer than its timeout: `cwnd` is the restart window
    /// of RFC 5681 section 4.1, or has grown from it. A paced flow is not restarted.
    pub restarted: bool,
    /// The window the datapath had when it reported.
    pub cwnd: Bytes,
    /// Size of a segment, which grows with the path's MTU; 0 if the datapath does not tell.
    pub mss: Bytes,
    /// The longest run of ACKs that were at most 2 ms apart (Linux' `hystart_ack_delta_us`), up to
    /// the report: how long the bottleneck took for the packets of one burst.
    pub ack_train: Duration,
    /// How much of its window the sender used; `None` if the datapath does not tell, and it is to
    /// be guessed from what is in flight.
    pub cwnd_use: Option<CwndUse>,
    /// Other flows of this host to the same network, /24 or /56, that are busy and driven alike.
    pub companions: u32,
    /// The program's own report fields, in the order of [`crate::Arm::own_fields`].
    pub own: [u64; OWN_FIELDS_MAX],
}

impl Measurement {
    /// A report in which nothing happened.
    pub const QUIET: Self = Self {
        acked: Bytes(0),
        delivered: Bytes(0),
        lost: Packets(0),
        ecn_marked: Packets(0),
        timed_out: false,
        rtt: None,
        send_rate: Rate::from_bytes_per_sec(0),
        delivery_rate: Rate::from_bytes_per_sec(0),
        in_flight: Bytes(0),
        app_limited: false,
        in_recovery: false,
        undone: false,
        restarted: false,
        cwnd: Bytes(0),
        mss: Bytes(0),
        ack_train: Duration::ZERO,
        cwnd_use: None,
        companions: 0,
        own: [0; OWN_FIELDS_MAX],
    };

    /// This report and the next one, as one.
    #[must_use]
    pub fn and(&self, next: &Self) -> Self {
        let rtt = match (self.rtt, next.rtt) {
            (Some(a), Some(b)) => Some(RttSamples {
                last: b.last,
                min: a.min.min(b.min),
                max: a.max.max(b.max),
                sum_us: a.sum_us.saturating_add(b.sum_us),
                sq_sum_us2: a.sq_sum_us2.saturating_add(b.sq_sum_us2),
                count: a.count.saturating_add(b.count),
            }),
            (a, b) => b.or(a),
        };
        Self {
            acked: self.acked + next.acked,
            delivered: self.delivered + next.delivered,
            lost: self.lost + next.lost,
            ecn_marked: self.ecn_marked + next.ecn_marked,
            timed_out: self.timed_out || next.timed_out,
            rtt,
            send_rate: self.send_rate.max(next.send_rate),
            delivery_rate: self.delivery_rate.max(next.delivery_rate),
            in_flight: self.in_flight.max(next.in_flight),
            app_limited: self.app_limited || next.app_limited,
            in_recovery: next.in_recovery,
            undone: self.undone || next.undone,
            restarted: self.restarted || next.restarted,
            cwnd: next.cwnd,
            mss: next.mss,
            ack_train: self.ack_train.max(next.ack_train),
            cwnd_use: self.cwnd_use.max(next.cwnd_use),
            companions: next.companions,
            own: next.own,
        }
    }

    /// Whether the report carries a loss that the datapath still believes in.
    pub fn has_loss(&self) -> bool {
        self.lost > Packets(0) && (self.in_recovery || !self.undone)
    }

    /// How much of a window of `cwnd` the sender used: as the datapath says, or by what was in
    /// flight, with two segments of slack, as TSO leaves some unused.
    pub fn cwnd_use(&self, cwnd: Bytes, mss: Bytes) -> CwndUse {
        let in_flight = self.in_flight + Packets(2).to_bytes(mss);
        let guessed = if in_flight >= cwnd * CWND_FULL {
            CwndUse::Full
        } else if in_flight + in_flight >= cwnd {
            CwndUse::Half
        } else {
            CwndUse::Little
        };
        self.cwnd_use.unwrap_or(guessed)
    }
}
