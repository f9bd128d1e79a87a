//! Which losses a flow causes itself: those beyond what the path usually loses.
//!
//! ```text
//! reports ─▶ epochs of a second ─▶ the least share of the last eight: the usual share
//!        └─▶ losses beyond the usual share, added up ─▶ a tenth of a window: the flow's own
//! ```
//!
//! A path that loses at random does so in every second, whatever the window is. A buffer that
//! overflows does not: after the flows have reduced their windows, it loses nothing for a while.
//! The queue says little here: a short buffer is full within what jitter explains, and a flow that
//! starts late may never have seen the path without a queue.
//!
//! Where several flows overfill a buffer all the time, no second is without losses. So how much
//! can be usual depends on the path: round trips that jitter are those of a radio link, which may
//! lose a lot; a path without jitter is wired and loses little at random. Jitter is the
//! spread of the round trips between two decisions: a queue hardly changes in that time.
//!
//! The sum is a CUSUM (Page, Biometrika 1954): a few losses at random do not raise it, and a large
//! excess raises it at once.

use crate::filter::Windowed;
use crate::units::Time;
use std::time::Duration;

/// An epoch lasts so long, or four round trips.
const EPOCH: Duration = Duration::from_secs(1);
const EPOCH_RTTS: u32 = 4;
/// And has so many segments: a share of few says little.
const EPOCH_PKTS: f64 = 50.0;
/// The usual share is the least of so many epochs.
const EPOCHS: u64 = 8;
/// The usual share is at most the jitter times this, within these bounds. The training had no more
/// than the upper one.
const USUAL_PER_JITTER: f64 = 4.5;
const USUAL_MAX: (f64, f64) = (0.03, 0.3);
/// Losses up to this multiple of the usual share, plus [`TOLERATED`], add nothing to the sum.
const TOLERATED_RATIO: f64 = 1.5;
const TOLERATED: f64 = 0.01;
/// Losses are the flow's own if the sum reaches this share of the window plus [`OWN_PKTS`].
const OWN_SHARE: f64 = 0.1;
const OWN_PKTS: f64 = 4.0;
/// The sum of random losses varies more the more are usual: the limit grows by this per share.
const OWN_PER_USUAL: f64 = 5.0;

/// What a report says of a flow's segments.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    pub delivered_pkts: f64,
    pub lost_pkts: f64,
}

/// The losses of one flow.
#[derive(Clone, Debug)]
pub struct Losses {
    /// `None` until the first epoch has ended. Keys are numbers of epochs.
    least: Option<Windowed<f64>>,
    epochs: u64,
    since: Time,
    delivered_pkts: f64,
    lost_pkts: f64,
    excess_pkts: f64,
}

impl Losses {
    /// For a path of which nothing is known.
    pub fn new(now: Time) -> Self {
        Self {
            least: None,
            epochs: 0,
            since: now,
            delivered_pkts: 0.0,
            lost_pkts: 0.0,
            excess_pkts: 0.0,
        }
    }

    /// Takes in the segments of a report. `jitter` is a standard deviation of the round
    /// trip, in means of RTT_min.
    pub fn observe(&mut self, segments: Segments, jitter: f64, rtt: Duration, now: Time) {
        let Segments { delivered_pkts, lost_pkts } = segments;
        let tolerated = TOLERATED_RATIO * self.usual(jitter) + TOLERATED;
        let beyond = lost_pkts - tolerated * (delivered_pkts + lost_pkts);
        self.excess_pkts = (self.excess_pkts + beyond).max(0.0);
        self.delivered_pkts += delivered_pkts;
        self.lost_pkts += lost_pkts;
        let known_pkts = self.delivered_pkts + self.lost_pkts;
        let span = EPOCH.max(rtt.saturating_mul(EPOCH_RTTS));
        if now - self.since < span || known_pkts < EPOCH_PKTS {
            return;
        }
        let share = self.lost_pkts / known_pkts;
        self.epochs += 1;
        match &mut self.least {
            Some(least) => least.update(self.epochs, share),
            None => self.least = Some(Windowed::min(EPOCHS, self.epochs, share)),
        }
        (self.since, self.delivered_pkts, self.lost_pkts) = (now, 0.0, 0.0);
    }

    /// The share that the path usually loses.
    pub fn usual(&self, jitter: f64) -> f64 {
        let (low, high) = USUAL_MAX;
        let most = (USUAL_PER_JITTER * jitter).clamp(low, high);
        self.least.map_or(most, |least| least.get().min(most))
    }

    /// Whether the flow, with this window, has caused losses itself since the last cut.
    pub fn are_own(&self, cwnd_pkts: f64, jitter: f64) -> bool {
        let spread = 1.0 + OWN_PER_USUAL * self.usual(jitter);
        self.excess_pkts >= (OWN_PKTS + OWN_SHARE * cwnd_pkts) * spread
    }

    /// The flow has reduced its window for its own losses.
    pub fn cut(&mut self) {
        self.excess_pkts = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);
    const WIFI: f64 = 0.2;

    /// Ten reports a second of a hundred segments, with so many lost in each second. Returns after
    /// how many seconds the losses were the flow's own.
    fn own_after(losses: &mut Losses, std: f64, lost: &[f64]) -> Option<usize> {
        let began = losses.since;
        let mut seconds = lost.iter().enumerate();
        seconds.find_map(|(second, lost)| {
            let any = (1..=10).any(|tenth| {
                let now =
                    Time(began.0 + Duration::from_millis(second as u64 * 1_000 + tenth * 100));
                let segments = Segments { delivered_pkts: 100.0 - lost, lost_pkts: *lost };
                losses.observe(segments, std, RTT, now);
                losses.are_own(100.0, std)
            });
            any.then_some(second)
        })
    }

    #[test]
    fn usual_losses_are_not_own_where_round_trips_jitter() {
        let steady = [28.0, 31.0, 30.0, 29.0, 32.0, 30.0, 27.0, 33.0, 30.0, 30.0, 29.0, 31.0];
        assert_eq!(own_after(&mut Losses::new(Time::ZERO), WIFI, &steady), None);
        assert_eq!(own_after(&mut Losses::new(Time::ZERO), 0.0, &steady), Some(0));
        assert_eq!(own_after(&mut Losses::new(Time::ZERO), 0.0, &[2.0; 12]), None);
    }

    #[test]
    fn losses_beyond_the_usual_ones_are_own() {
        let grows = [0.0, 0.0, 10.0];
        assert_eq!(own_after(&mut Losses::new(Time::ZERO), WIFI, &grows), Some(2));
        let grows = [20.0, 20.0, 20.0, 45.0];
        assert_eq!(own_after(&mut Losses::new(Time::ZERO), WIFI, &grows), Some(3));
    }

    #[test]
    fn a_cut_takes_the_sum_and_not_what_is_usual() {
        let mut losses = Losses::new(Time::ZERO);
        assert_eq!(own_after(&mut losses, WIFI, &[5.0, 5.0, 40.0]), Some(2));
        let usual = losses.usual(WIFI);
        losses.cut();
        assert!(!losses.are_own(100.0, WIFI));
        assert_eq!((losses.usual(WIFI), usual), (0.05, 0.05));
    }

    #[test]
    fn what_is_usual_rises_after_eight_seconds() {
        let mut losses = Losses::new(Time::ZERO);
        own_after(&mut losses, WIFI, &[1.0]);
        assert_eq!(losses.usual(WIFI), 0.01);
        for second in 1..=20 {
            let now = Time(Duration::from_secs(second + 1));
            let segments = Segments { delivered_pkts: 900.0, lost_pkts: 100.0 };
            losses.observe(segments, WIFI, RTT, now);
            let want = if second <= 8 { 0.01 } else { 0.1 };
            assert_eq!(losses.usual(WIFI), want, "{second}");
        }
    }
}
