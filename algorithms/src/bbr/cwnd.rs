//! BBR's window: the target, approached by what is acknowledged; in the first round of a recovery
//! one packet out for one packet in; afterwards the former window.

use crate::measurement::Measurement;
use crate::path::PathState;
use crate::recovery::{Recovery, episode_rtt};
use crate::units::{Bytes, Packets, Time};
use crate::window;

/// tcp_bbr.c `bbr_cwnd_min_target`: two bursts of two segments, for delayed ACKs.
const CWND_MIN: Packets = Packets(4);

/// The window in force, and what to go back to.
#[derive(Clone, Debug)]
pub struct Cwnd {
    mss: Bytes,
    cwnd: Bytes,
    /// tcp_bbr.c `prior_cwnd`: the window before a recovery or PROBE_RTT has cut it.
    prior: Bytes,
    /// First round of a recovery: packet conservation.
    conserving: bool,
    recovery: Recovery,
    /// A recovery has cut the window.
    recovering: bool,
    /// A loss has been seen.
    lossy: bool,
}

/// What a report says about recovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovering {
    /// It begins with this report.
    pub started: bool,
    /// This is the first report after it.
    ended: bool,
}

impl Cwnd {
    /// Takes over the window of the path, and its recovery.
    pub fn resume(path: &PathState, now: Time) -> Self {
        Self {
            mss: path.mss,
            cwnd: path.cwnd,
            prior: path.cwnd,
            conserving: false,
            recovery: Recovery::resume(path, now),
            recovering: false,
            lossy: false,
        }
    }

    /// The window in force.
    pub fn in_force(&self) -> Bytes {
        self.cwnd
    }

    pub fn min(&self) -> Bytes {
        CWND_MIN.to_bytes(self.mss)
    }

    /// Losses reported before this have been answered.
    pub fn recovery_until(&self) -> Time {
        self.recovery.until()
    }

    /// A threshold for a successor, if there was a loss.
    pub fn after_loss(&self) -> Option<Bytes> {
        self.lossy.then_some(self.cwnd.max(self.prior))
    }

    /// The window that a cut replaced, at most a BDP if that is known.
    pub fn saved(&self, bdp: Option<Bytes>) -> Bytes {
        let saved = self.prior.max(self.cwnd);
        bdp.map_or(saved, |bdp| saved.min(bdp)).max(self.cwnd)
    }

    /// tcp_bbr.c `bbr_set_cwnd_to_recover_or_restore`, the part that a report's losses decide.
    pub fn observe_loss(
        &mut self,
        m: &Measurement,
        path: &PathState,
        (probing_rtt, now): (bool, Time),
    ) -> Recovering {
        let covered = self.recovery.covers(m, now);
        let mut recovering = Recovering { started: false, ended: self.recovery.ends_with(m, now) };
        if m.timed_out || (m.has_loss() && !covered) {
            self.save(probing_rtt);
            self.recovering = true;
            self.recovery.enter(episode_rtt(path, m), now);
            self.lossy = true;
            recovering = Recovering { started: true, ended: false };
        }
        self.recovery.observe(m, now);
        recovering
    }

    /// `target` is where the window goes, and whether it is to be cut to it.
    pub fn update(
        &mut self,
        m: &Measurement,
        recovering: Recovering,
        round_started: bool,
        (cut, target): (bool, Bytes),
    ) {
        if recovering.started {
            self.conserving = !m.timed_out;
            // The most that was in flight, since what is lost is deducted below.
            self.cwnd = if m.timed_out { self.min() } else { self.cwnd.min(m.in_flight) };
        } else if round_started {
            self.conserving = false;
        }
        self.cwnd = self.cwnd - m.lost.to_bytes(self.mss);
        if recovering.ended {
            self.conserving = false;
            self.recovering = false;
            self.restore();
        }
        if !self.conserving && m.delivered > Bytes(0) && !m.timed_out {
            self.approach(m.delivered, cut, target);
        }
        self.cwnd = self.cwnd.max(self.min()).min(window::CWND_MAX.max(self.min()));
    }

    /// tcp_bbr.c `bbr_set_cwnd`: the window is cut only if the pipe has been filled.
    fn approach(&mut self, delivered: Bytes, cut: bool, target: Bytes) {
        if cut {
            self.cwnd = (self.cwnd + delivered).min(target);
        } else if self.cwnd < target {
            self.cwnd += delivered;
        }
    }

    /// tcp_bbr.c `bbr_save_cwnd`: a recovery or PROBE_RTT is about to cut the window. If one has
    /// cut it already, the window that the first cut replaced is still the one to restore.
    pub fn save(&mut self, probing_rtt: bool) {
        let is_cut = self.recovering || probing_rtt;
        self.prior = if is_cut { self.prior.max(self.cwnd) } else { self.cwnd };
    }

    /// PROBE_RTT, and what else bounds it: to `bytes`, never below the least window.
    pub fn cut(&mut self, bytes: Bytes) {
        self.cwnd = self.cwnd.min(bytes.max(self.min()));
    }

    /// The cut is over.
    pub fn restore(&mut self) {
        self.cwnd = self.cwnd.max(self.prior);
    }
}
