//! Delivery-rate samples: draft-cheng-iccrg-delivery-rate-estimation, as in net/ipv4/tcp_rate.c.

use crate::tcp::scoreboard::Segment;

/// The delivery rate as one ACK measures it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered in the interval.
    pub delivered_pkts: u32,
    /// How long sending them took.
    pub send_ns: u64,
    /// How long acknowledging them took.
    pub ack_ns: u64,
    /// Whether the application had no data to send during a part of the interval.
    pub is_app_limited: bool,
}

/// The state of a connection for delivery-rate samples.
#[derive(Clone, Debug, Default)]
pub struct DeliveryRate {
    /// `tp->delivered`: segments delivered since the start of the flow.
    delivered_pkts: u32,
    delivered_ns: u64,
    first_sent_ns: u64,
    /// `tp->app_limited`: samples are app-limited until this many segments are delivered; 0: not
    /// limited.
    app_limited_until: u32,
    /// The segment sent last among those that this ACK delivers.
    prior: Option<Prior>,
}

#[derive(Clone, Copy, Debug)]
struct Prior {
    sent_ns: u64,
    seq: u32,
    delivered_pkts: u32,
    delivered_ns: u64,
    send_ns: u64,
    is_app_limited: bool,
}

impl DeliveryRate {
    /// Segments delivered since the start of the flow.
    pub fn delivered_pkts(&self) -> u32 {
        self.delivered_pkts
    }

    /// `tcp_rate_skb_sent()`: the state to store with a segment that is sent now.
    pub fn sent(&mut self, now_ns: u64, nothing_out: bool) -> Segment {
        if nothing_out {
            self.first_sent_ns = now_ns;
            self.delivered_ns = now_ns;
        }
        Segment::new(now_ns, self.first_sent_ns, self.delivered_ns, self.delivered_pkts)
    }

    /// Whether a segment sent now is app-limited.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until != 0
    }

    /// `tcp_rate_check_app_limited()`: no data was left to send, and the window had room.
    pub fn ran_dry(&mut self, in_flight_pkts: u32) {
        self.app_limited_until = (self.delivered_pkts + in_flight_pkts).max(1);
    }

    /// `tcp_rate_skb_delivered()` for `pkts` segments that were sent in order; `seq` is the last
    /// one.
    pub fn delivered(&mut self, pkts: u32, seq: u32, segment: &Segment) {
        self.delivered_pkts = self.delivered_pkts.wrapping_add(pkts);
        let later = |prior: &Prior| (segment.sent_ns, seq) > (prior.sent_ns, prior.seq);
        if self.prior.as_ref().is_none_or(later) {
            self.prior = Some(Prior {
                sent_ns: segment.sent_ns,
                seq,
                delivered_pkts: segment.delivered_pkts,
                delivered_ns: segment.delivered_ns,
                send_ns: segment.sent_ns - segment.first_sent_ns,
                is_app_limited: segment.is_app_limited(),
            });
            self.first_sent_ns = segment.sent_ns;
        }
    }

    /// `rs->prior_delivered`: how many segments had been delivered when the segment that this ACK
    /// delivers was sent; `None` if the ACK delivers none.
    pub fn prior_pkts(&self) -> Option<u32> {
        self.prior.map(|prior| prior.delivered_pkts)
    }

    /// `tcp_rate_gen()`: the sample of this ACK; `None` if the ACK delivers nothing, or over an
    /// interval shorter than `rtt_min_ns`.
    pub fn sample(&mut self, now_ns: u64, rtt_min_ns: Option<u64>) -> Option<RateSample> {
        if self.app_limited_until != 0 && self.delivered_pkts > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let prior = self.prior.take()?;
        self.delivered_ns = now_ns;
        let ack_ns = now_ns - prior.delivered_ns;
        let interval_ns = prior.send_ns.max(ack_ns);
        // An interval below the minimum RTT is an artefact of retransmissions.
        if rtt_min_ns.is_some_and(|min_ns| interval_ns < min_ns) {
            return None;
        }
        Some(RateSample {
            delivered_pkts: self.delivered_pkts.wrapping_sub(prior.delivered_pkts),
            send_ns: prior.send_ns,
            ack_ns,
            is_app_limited: prior.is_app_limited,
        })
    }
}
