//! The window in force while losses are repaired: RFC 6937, as the datapaths of Linux TCP have it
//! (datapath/tcp/cwnd.h), since with `cong_control` the stack does not do it.

use crate::tcp::sender::{AckSample, Sender, State};

const CWND_MIN_PKTS: u32 = 2;

/// The datapath's window, and what of it is in force.
#[derive(Clone, Copy, Debug)]
pub struct CwndSetter {
    /// The window wanted, in segments.
    wanted_pkts: u32,
    /// The window as last put into force: if it is another now, the stack changed it.
    set_pkts: u32,
    delivered_pkts: u64,
    began_ns: u64,
}

impl CwndSetter {
    /// With the sender's own window.
    pub fn new(cwnd_pkts: u32) -> Self {
        Self { wanted_pkts: cwnd_pkts, set_pkts: cwnd_pkts, delivered_pkts: 0, began_ns: 0 }
    }

    /// The window wanted, in segments.
    pub fn wanted_pkts(&self) -> u32 {
        self.wanted_pkts
    }

    /// Wants another, in segments.
    pub fn want(&mut self, pkts: u64) {
        self.wanted_pkts = u32::try_from(pkts).unwrap_or(u32::MAX).max(CWND_MIN_PKTS);
    }

    /// `note_cwnd()`: after a timeout the window wanted is the stack's.
    pub fn note(&mut self, sender: &Sender) {
        if sender.cwnd_pkts != self.set_pkts {
            self.wanted_pkts = sender.cwnd_pkts;
        }
    }

    pub fn begin(&mut self, now_ns: u64) {
        self.delivered_pkts = 0;
        self.began_ns = now_ns;
    }

    /// `wanted_cwnd()`: until the agent has answered a loss, half.
    fn goal_pkts(&self, sender: &Sender, now_ns: u64) -> u64 {
        let answer_ns = sender.rtt().smoothed_ns().unwrap_or(0) / 4;
        let unanswered = self.wanted_pkts >= sender.prior_cwnd_pkts
            && now_ns - self.began_ns < answer_ns
            && sender.ssthresh_pkts < self.wanted_pkts;
        u64::from(if unanswered { sender.ssthresh_pkts } else { self.wanted_pkts })
    }

    /// `reduced_cwnd()`.
    fn reduced_pkts(&mut self, sender: &Sender, sample: &AckSample, goal_pkts: u64) -> u64 {
        let in_flight = u64::from(sender.in_flight_pkts());
        let sent = u64::from(sender.prr_out_pkts);
        let delivered = u64::from(sample.delivered_pkts);
        self.delivered_pkts += delivered;
        let mut send = if in_flight > goal_pkts {
            let prior = u64::from(sender.prior_cwnd_pkts).max(1);
            (goal_pkts * self.delivered_pkts).div_ceil(prior).saturating_sub(sent)
        } else {
            let gets_on = sample.acked_pkts > 0 && sample.lost_pkts == 0;
            let allowed = self.delivered_pkts.saturating_sub(sent).max(delivered);
            (goal_pkts - in_flight).min(allowed + u64::from(gets_on))
        };
        if sent == 0 && send == 0 {
            send = 1; // the fast retransmission
        }
        in_flight + send
    }

    /// `settle_cwnd()`: puts a window into force.
    pub fn settle(&mut self, sender: &mut Sender, sample: &AckSample, paced: bool, now_ns: u64) {
        let mut cwnd = u64::from(self.wanted_pkts);
        if !paced && matches!(sender.state(), State::Recovery | State::Cwr) {
            let goal = self.goal_pkts(sender, now_ns);
            let reduced = self.reduced_pkts(sender, sample, goal);
            if reduced < cwnd || u64::from(sender.in_flight_pkts()) > goal {
                cwnd = reduced;
            }
        }
        sender.cwnd_pkts = u32::try_from(cwnd).unwrap_or(u32::MAX).max(CWND_MIN_PKTS);
        self.set_pkts = sender.cwnd_pkts;
    }
}
