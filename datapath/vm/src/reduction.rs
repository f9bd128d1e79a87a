//! The window in force while a TCP sender repairs losses: `include/remuda_reduction.h`.

/// `struct remuda_repair`: a repair, as one ACK finds it. Windows and counts are in segments.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// The window that the agent or its program asks for.
    pub wanted: u64,
    /// The stack's slow-start threshold.
    pub ssthresh: u64,
    /// The window when the repair began.
    pub prior: u64,
    /// In flight after this ACK.
    pub in_flight: u64,
    /// Sent since the repair began.
    pub sent: u64,
    /// Delivered since the repair began, by this ACK included.
    pub delivered: u64,
    /// Delivered by this ACK.
    pub delivered_now: u64,
    /// 1 if this ACK acknowledges cumulatively and finds no new loss, else 0.
    pub gets_on: u64,
    /// How long the repair takes so far, in nanoseconds.
    pub age_ns: u64,
    /// The smoothed round trip, in nanoseconds.
    pub srtt_ns: u64,
}

// SAFETY: the C function reads one `Repair` through the pointer and keeps nothing of it.
unsafe extern "C" {
    fn remuda_repair_window(repair: *const Repair) -> u64;
}

impl Repair {
    /// The window for now, in segments: proportional rate reduction (RFC 6937) towards the window
    /// wanted.
    pub fn cwnd(&self) -> u64 {
        // SAFETY: C reads the struct, whose layout both sides assert, and keeps no pointer.
        unsafe { remuda_repair_window(self) }
    }
}

const _: () = assert!(size_of::<Repair>() == 80);

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 segments of 40 were sent before the loss; the agent wants 20.
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
