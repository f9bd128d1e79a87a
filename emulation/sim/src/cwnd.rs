//! Sets the sender's window from the window that the agent or the program wants, as
//! datapath/tcp/cwnd.h does for a socket. Normally the wanted window applies at once. During loss
//! recovery the window is what RFC 6937 allows (`remuda_reduction.h`, which the datapaths of Linux
//! TCP compile too), because with `cong_control` the stack does not reduce it.

use crate::tcp::sender::{AckSample, Sender, State};
use remuda_vm::Repair;

const CWND_MIN_PKTS: u32 = 2;

/// The wanted window, and the state of the current reduction.
#[derive(Clone, Copy, Debug)]
pub struct CwndSetter {
    /// The wanted window, in segments.
    wanted_pkts: u32,
    /// The sender's window as last set here. If the sender's window differs, the stack has changed
    /// it.
    set_pkts: u32,
    delivered_pkts: u64,
    began_ns: u64,
}

impl CwndSetter {
    /// Starts with the sender's current window as the wanted one.
    pub fn new(cwnd_pkts: u32) -> Self {
        Self { wanted_pkts: cwnd_pkts, set_pkts: cwnd_pkts, delivered_pkts: 0, began_ns: 0 }
    }

    /// The wanted window, in segments.
    pub fn wanted_pkts(&self) -> u32 {
        self.wanted_pkts
    }

    /// Sets the wanted window, in segments; at least two.
    pub fn want(&mut self, pkts: u64) {
        self.wanted_pkts = u32::try_from(pkts).unwrap_or(u32::MAX).max(CWND_MIN_PKTS);
    }

    /// `note_cwnd()`: if the stack has changed the window, as after a timeout, that window becomes
    /// the wanted one.
    pub fn note(&mut self, sender: &Sender) {
        if sender.cwnd_pkts != self.set_pkts {
            self.wanted_pkts = sender.cwnd_pkts;
        }
    }

    /// `undone_cwnd()`: the last recovery was spurious, so a flow that is not paced gets its
    /// earlier window back.
    pub fn undo(&mut self, sender: &mut Sender, paced: bool) {
        if paced || sender.prior_cwnd_pkts <= sender.cwnd_pkts {
            return;
        }
        self.wanted_pkts = self.wanted_pkts.max(sender.prior_cwnd_pkts);
        sender.cwnd_pkts = sender.prior_cwnd_pkts;
    }

    pub fn begin(&mut self, now_ns: u64) {
        self.delivered_pkts = 0;
        self.began_ns = now_ns;
    }

    /// `reduced_cwnd()`.
    fn reduced_pkts(&mut self, sender: &Sender, sample: &AckSample, now_ns: u64) -> u64 {
        self.delivered_pkts += u64::from(sample.delivered_pkts);
        let repair = Repair {
            wanted: self.wanted_pkts.into(),
            ssthresh: sender.ssthresh_pkts.into(),
            prior: sender.prior_cwnd_pkts.into(),
            in_flight: sender.in_flight_pkts().into(),
            sent: sender.prr_out_pkts.into(),
            delivered: self.delivered_pkts,
            delivered_now: sample.delivered_pkts.into(),
            gets_on: (sample.acked_pkts > 0 && sample.lost_pkts == 0).into(),
            age_ns: now_ns - self.began_ns,
            srtt_ns: sender.rtt().smoothed_ns().unwrap_or(0),
        };
        repair.cwnd()
    }

    /// `settle_cwnd()`: sets the sender's window.
    pub fn settle(&mut self, sender: &mut Sender, sample: &AckSample, paced: bool, now_ns: u64) {
        let mut cwnd = u64::from(self.wanted_pkts);
        if !paced && matches!(sender.state(), State::Recovery | State::Cwr) {
            cwnd = self.reduced_pkts(sender, sample, now_ns);
        }
        sender.cwnd_pkts = u32::try_from(cwnd).unwrap_or(u32::MAX).max(CWND_MIN_PKTS);
        self.set_pkts = sender.cwnd_pkts;
    }
}
