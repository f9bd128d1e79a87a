//! The window in force while a TCP sender retransmits lost segments: `include/remuda_reduction.h`.

/// `struct remuda_repair`: the state of loss recovery at one ACK. Windows and counts are in
/// segments.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// The window that the agent or its program asks for.
    pub wanted: u64,
    /// The TCP stack's slow-start threshold.
    pub ssthresh: u64,
    /// The window when recovery began.
    pub prior: u64,
    /// Segments in flight after this ACK.
    pub in_flight: u64,
    /// Segments sent since recovery began.
    pub sent: u64,
    /// Segments delivered since recovery began, including by this ACK.
    pub delivered: u64,
    /// Segments delivered by this ACK.
    pub delivered_now: u64,
    /// 1 if this ACK acknowledges cumulatively and reveals no new loss, else 0.
    pub gets_on: u64,
    /// Time since recovery began, in nanoseconds.
    pub age_ns: u64,
    /// The smoothed RTT, in nanoseconds.
    pub srtt_ns: u64,
}

// SAFETY: the C function reads one `Repair` through the pointer and keeps no pointer.
unsafe extern "C" {
    fn remuda_repair_window(repair: *const Repair) -> u64;
}

impl Repair {
    /// The window at this ACK, in segments: proportional rate reduction (RFC 6937) towards the
    /// wanted window.
    pub fn cwnd(&self) -> u64 {
        // SAFETY: C reads the struct, whose layout both sides assert, and keeps no pointer.
        unsafe { remuda_repair_window(self) }
    }
}

const _: () = assert!(size_of::<Repair>() == 80);

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 of 40 segments were sent before the loss; the agent asks for 20.
    const HALVED: Repair = Repair {
        wanted: 20,
        ssthresh: 20,
        prior: 40,
        in_flight: 38,
        sent: 1,
        delivered: 4,
        delivered_now: 1,
        gets_on: 0,
        age_ns: 40_000_000,
        srtt_ns: 40_000_000,
    };

    #[test]
    fn a_segment_goes_for_each_two_delivered_while_more_is_in_flight_than_wanted() {
        assert_eq!(HALVED.cwnd(), 38 + 1);
        assert_eq!(Repair { delivered: 2, ..HALVED }.cwnd(), 38);
    }

    #[test]
    fn the_first_retransmission_always_goes() {
        assert_eq!(Repair { sent: 0, delivered: 0, ..HALVED }.cwnd(), 38 + 1);
    }

    #[test]
    fn below_the_goal_each_delivery_sends_one_and_one_more_while_the_repair_gets_on() {
        let low = Repair { in_flight: 10, sent: 30, delivered: 30, ..HALVED };
        assert_eq!(low.cwnd(), 10 + 1);
        assert_eq!(Repair { gets_on: 1, ..low }.cwnd(), 10 + 2);
    }

    #[test]
    fn until_the_agent_answers_the_goal_is_the_stacks_threshold() {
        let unanswered = Repair { wanted: 40, age_ns: 9_999_999, ..HALVED };
        assert_eq!(unanswered.cwnd(), 38 + 1);
        assert_eq!(Repair { age_ns: 10_000_000, ..unanswered }.cwnd(), 40);
    }
}
