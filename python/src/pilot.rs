//! What a program that drives a flow sees and does: observations from measurements, and decisions
//! from actions. Environments use it, and so does a policy that is deployed.

use crate::config::{Config, Control};
use remuda_algorithms::learned::action::{CWND_PKTS_MIN, PKTS_MIN, bound_window, factor};
use remuda_algorithms::learned::observation::{Observer, Seen};
use remuda_algorithms::units::{Bytes, Rate};
use remuda_algorithms::{Decision, Measurement};
use std::time::Duration;

/// The window leaves room for the queue that a rate causes, so that only the rate limits the flow.
const CWND_GAIN: f64 = 2.0;
/// The highest rate, as a multiple of the highest delivery rate so far, as in slow start. Higher
/// rates would only lose packets, which cost time to simulate.
const RATE_GAIN_MAX: f64 = 2.0;
/// How many round trips the rate is constant before the first observation: ACKs arrive in the
/// second, and in the third they measure the delivery rate instead of the flow's start.
const WARM_UP_RTTS: f64 = 3.0;

/// The steps before the first observation.
pub fn warm_up_steps(step_rtts: f64) -> u32 {
    (WARM_UP_RTTS / step_rtts).ceil() as u32
}

/// One flow as the program that drives it sees it.
#[derive(Clone, Debug)]
pub struct Pilot {
    control: Control,
    action_scale: f64,
    observer: Observer,
    /// The round trip to assume before one has been measured.
    assumed_rtt_s: f64,
    /// The rate in bytes per second, or the window in bytes, that actions change.
    in_force: f64,
}

impl Pilot {
    pub fn new(config: &Config) -> Self {
        Self {
            control: config.control,
            action_scale: config.action_scale,
            observer: Observer::new(config.features, config.history),
            assumed_rtt_s: 1.0,
            in_force: 0.0,
        }
    }

    /// A flow begins, at this rate.
    pub fn start(&mut self, mss_bytes: u32, assumed_rtt_s: f64, bytes_per_sec: f64) {
        self.observer.restart(mss_bytes);
        self.assumed_rtt_s = assumed_rtt_s;
        self.in_force = match self.control {
            Control::Rate => bytes_per_sec,
            Control::Window | Control::Arm => bytes_per_sec * assumed_rtt_s,
        };
    }

    pub fn observation(&self) -> &[f32] {
        self.observer.observation()
    }

    /// The shortest round trip that was measured, in seconds.
    pub fn rtt_min_s(&self) -> Option<f64> {
        self.observer.rtt_min_s()
    }

    /// Changes the rate or window. An action outside of -1 to 1 counts as the nearest of these.
    pub fn act(&mut self, action: f64) {
        self.in_force *= factor(action, self.action_scale);
        self.bound();
    }

    /// Limits the rate or window to what the path can carry, as far as that is known.
    fn bound(&mut self) {
        let mss_bytes = self.observer.mss_bytes();
        let rtt_s = self.observer.rtt_min_s().unwrap_or(self.assumed_rtt_s);
        self.in_force = match self.control {
            Control::Rate => {
                let low = PKTS_MIN * mss_bytes / rtt_s.max(1e-6);
                // Before the first delivery no upper limit is known.
                let high = self.observer.delivery_max().map(|rate| rate * RATE_GAIN_MAX);
                self.in_force.clamp(low, high.unwrap_or(f64::INFINITY).max(CWND_PKTS_MIN * low))
            }
            Control::Window | Control::Arm => {
                bound_window(self.in_force, mss_bytes, &self.observer)
            }
        };
    }

    /// The rate and window in force; `srtt_s` is the smoothed round trip.
    pub fn decision(&self, srtt_s: Option<f64>) -> Decision {
        match self.control {
            Control::Rate => {
                let rtt_s = srtt_s.unwrap_or(self.assumed_rtt_s);
                let least = CWND_PKTS_MIN * self.observer.mss_bytes();
                let cwnd = (CWND_GAIN * self.in_force * rtt_s).max(least);
                let rate = Some(Rate::from_bytes_per_sec(self.in_force as u64));
                Decision { cwnd: Bytes(cwnd as u64), rate }
            }
            Control::Window | Control::Arm => {
                Decision { cwnd: Bytes(self.in_force as u64), rate: None }
            }
        }
    }

    /// An arm drives the flow, with this window.
    pub fn note_window(&mut self, cwnd: Bytes, rtt_s: Option<f64>) {
        self.in_force = match self.control {
            Control::Rate => cwnd.0 as f64 / rtt_s.unwrap_or(self.assumed_rtt_s),
            Control::Window | Control::Arm => cwnd.0 as f64,
        };
    }

    /// Observes a step of length `span`, in which so much arrived.
    pub fn observe(&mut self, m: &Measurement, arrived: Bytes, span: Duration) -> Seen {
        let (in_force, control) = (self.in_force, self.control);
        self.observer.take(m, arrived, span, |observer| {
            let carries = match control {
                Control::Rate => observer.delivery_max(),
                Control::Window | Control::Arm => observer.bdp_bytes(),
            };
            carries.filter(|it| *it > 0.0).map(|carries| in_force / carries)
        })
    }
}
