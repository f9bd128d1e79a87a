//! A deployed policy's own view of its flow: the Rust part of `remuda.deploy`.

use super::buffer::Writable;
use super::gym::{Settings, locked};
use super::raised;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use remuda_algorithms::units::{Bytes, Packets, Rate};
use remuda_algorithms::{Measurement, RttSamples};
use remuda_python::pilot::warm_up_steps;
use remuda_python::{Config, Control, Pilot, hold_length};
use std::sync::Mutex;
use std::time::Duration;

/// The shortest step, as in environments.
const STEP_S_MIN: f64 = 1e-4;
/// The round trip of a flow that knows none.
const RTT_S_UNKNOWN: f64 = 0.1;

/// What has happened since the last step.
#[derive(Default)]
struct SoFar {
    delivered: u64,
    lost: u64,
    ecn_marked: u64,
    in_flight: u64,
    send_rate: u64,
    delivery_rate: u64,
    rtt: Option<(f64, f64, u64)>,
    began_s: f64,
}

struct Flown {
    pilot: Pilot,
    so_far: SoFar,
    step_rtts: f64,
    mss_bytes: u32,
    assumed_rtt_s: f64,
    /// The steps before the first observation.
    warming: u32,
}

impl Flown {
    fn step_s(&self) -> f64 {
        let rtt_s = self.pilot.rtt_min_s().unwrap_or(self.assumed_rtt_s);
        (rtt_s * self.step_rtts).max(STEP_S_MIN)
    }
}

/// Observes a flow by its reports, in steps, as an environment does.
#[pyclass(name = "Pilot", module = "remuda._native", frozen)]
pub struct PyPilot {
    config: Config,
    flown: Mutex<Flown>,
}

#[pymethods]
impl PyPilot {
    #[new]
    fn new(settings: Settings<'_>) -> PyResult<Self> {
        let config = settings.config()?;
        config.validate().map_err(raised)?;
        if config.control == Control::Arm {
            let rule = "a choice of arms cannot be deployed as an arm";
            return Err(PyValueError::new_err(format!("`control` is \"arm\": {rule}")));
        }
        let flown = Flown {
            pilot: Pilot::new(&config),
            so_far: SoFar::default(),
            step_rtts: config.step_rtts,
            mss_bytes: 1,
            assumed_rtt_s: RTT_S_UNKNOWN,
            warming: 0,
        };
        Ok(Self { config, flown: Mutex::new(flown) })
    }

    #[getter]
    fn observation_len(&self) -> usize {
        locked(&self.flown).pilot.observation().len()
    }

    /// A flow starts, or is taken over. Returns its window and rate.
    fn resume(
        &self,
        now_s: f64,
        mss_bytes: u32,
        cwnd_bytes: u64,
        srtt_s: Option<f64>,
    ) -> (u64, Option<u64>) {
        let flown = &mut *locked(&self.flown);
        flown.pilot = Pilot::new(&self.config);
        flown.mss_bytes = mss_bytes.max(1);
        flown.assumed_rtt_s = srtt_s.filter(|it| *it > 0.0).unwrap_or(RTT_S_UNKNOWN);
        flown.warming = warm_up_steps(flown.step_rtts);
        flown.so_far = SoFar { began_s: now_s, ..SoFar::default() };
        let rate = cwnd_bytes as f64 / flown.assumed_rtt_s;
        flown.pilot.start(flown.mss_bytes, flown.assumed_rtt_s, rate);
        decided(flown, srtt_s)
    }

    /// Takes in a report: bytes delivered, segments lost and marked, most bytes in flight, rates in
    /// bytes per second, and minimum, sum and number of round trips in seconds. Returns whether a
    /// step has ended; then `observation` has what the policy shall see. The first steps, in which
    /// nothing is measured reliably, return false.
    #[expect(clippy::too_many_arguments, reason = "a report has as many fields")]
    fn report(
        &self,
        now_s: f64,
        delivered: u64,
        lost: u64,
        ecn_marked: u64,
        in_flight: u64,
        send_rate: u64,
        delivery_rate: u64,
        rtt: Option<(f64, f64, u64)>,
        mut observation: Writable<f32>,
    ) -> PyResult<bool> {
        let flown = &mut *locked(&self.flown);
        let all = &mut flown.so_far;
        all.delivered += delivered;
        all.lost += lost;
        all.ecn_marked += ecn_marked;
        all.in_flight = all.in_flight.max(in_flight);
        all.send_rate = all.send_rate.max(send_rate);
        all.delivery_rate = all.delivery_rate.max(delivery_rate);
        if let Some((min, sum, count)) = rtt {
            let (least, so_far, of) = all.rtt.unwrap_or((min, 0.0, 0));
            all.rtt = Some((least.min(min), so_far + sum, of + count));
        }
        let span_s = now_s - all.began_s;
        if span_s < flown.step_s() {
            return Ok(false);
        }
        let place = observation.slice()?;
        hold_length("observation", place.len(), flown.pilot.observation().len()).map_err(raised)?;
        let all =
            std::mem::replace(&mut flown.so_far, SoFar { began_s: now_s, ..SoFar::default() });
        let m = measurement(&all);
        flown.pilot.observe(&m, Bytes(all.delivered), Duration::from_secs_f64(span_s));
        place.copy_from_slice(flown.pilot.observation());
        flown.warming = flown.warming.saturating_sub(1);
        Ok(flown.warming == 0)
    }

    /// Executes an action. Returns window and rate; the rate is `None` without pacing.
    fn act(&self, action: f64, srtt_s: Option<f64>) -> PyResult<(u64, Option<u64>)> {
        if !action.is_finite() {
            let rule = "must be a finite number";
            return Err(PyValueError::new_err(format!("the action is {action}: {rule}")));
        }
        let flown = &mut *locked(&self.flown);
        flown.pilot.act(action);
        Ok(decided(flown, srtt_s))
    }
}

fn decided(flown: &Flown, srtt_s: Option<f64>) -> (u64, Option<u64>) {
    let decision = flown.pilot.decision(srtt_s.filter(|it| *it > 0.0));
    let least = 2 * u64::from(flown.mss_bytes);
    (decision.cwnd.0.max(least), decision.rate.map(|rate| rate.bytes_per_sec()))
}

fn measurement(all: &SoFar) -> Measurement {
    let rtt = all.rtt.filter(|(_, _, count)| *count > 0).map(|(min_s, sum_s, count)| {
        let min = Duration::try_from_secs_f64(min_s).unwrap_or_default();
        let sum_us = (sum_s * 1e6).round() as u64;
        let one = RttSamples::one(min);
        RttSamples { sum_us, count, ..one }
    });
    Measurement {
        delivered: Bytes(all.delivered),
        lost: Packets(all.lost),
        ecn_marked: Packets(all.ecn_marked),
        in_flight: Bytes(all.in_flight),
        send_rate: Rate::from_bytes_per_sec(all.send_rate),
        delivery_rate: Rate::from_bytes_per_sec(all.delivery_rate),
        rtt,
        ..Measurement::QUIET
    }
}
