//! A built-in arm inside an arm in Python: the Rust part of `remuda.Embedded`.

use super::gym::locked;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use remuda_algorithms::anole::config::embeddable;
use remuda_algorithms::units::{Bytes, Packets, Rate, Time};
use remuda_algorithms::{Arm, Decision, Measurement, PathState, RttSamples};
use std::sync::Mutex;
use std::time::Duration;

/// `remuda.PathState`.
#[derive(FromPyObject)]
struct Path {
    mss: u64,
    cwnd: f64,
    rate: Option<f64>,
    ssthresh: Option<f64>,
    srtt: Option<f64>,
    rttvar: f64,
    in_flight: u64,
    rtt_min: Option<f64>,
    rtt_max: Option<f64>,
    delivery_rate: Option<u64>,
    ecn: bool,
    app_limited: bool,
}

/// `remuda.RttSamples`.
#[derive(FromPyObject)]
struct Rtt {
    last: f64,
    min: f64,
    max: f64,
    mean: f64,
    std: f64,
    count: u64,
}

/// `remuda.Measurement`.
#[derive(FromPyObject)]
struct Report {
    acked: u64,
    delivered: u64,
    lost: u64,
    ecn_marked: u64,
    timed_out: bool,
    rtt: Option<Rtt>,
    send_rate: u64,
    delivery_rate: u64,
    in_flight: u64,
    app_limited: bool,
    in_recovery: bool,
    cwnd: u64,
}

/// A time from seconds, in whole microseconds, as datapaths have it.
fn time(name: &str, seconds: f64) -> PyResult<Duration> {
    let rule = "must be a number of seconds, 0 or more";
    let refused = |_| PyValueError::new_err(format!("`{name}` is {seconds}: {rule}"));
    Duration::try_from_secs_f64((seconds * 1e6).round() / 1e6).map_err(refused)
}

/// Whole bytes, or bytes a second.
fn whole(name: &str, value: f64) -> PyResult<u64> {
    let rule = "must be a number of bytes, 0 or more";
    let fits = value >= 0.0 && value.is_finite();
    let refused = || PyValueError::new_err(format!("`{name}` is {value}: {rule}"));
    fits.then(|| value.round() as u64).ok_or_else(refused)
}

impl Path {
    fn state(&self, now: Time) -> PyResult<PathState> {
        let known = |name, value: Option<f64>| value.map(|value| whole(name, value)).transpose();
        let span = |name, value: Option<f64>| value.map(|value| time(name, value)).transpose();
        let mut path = PathState::new(Bytes(self.mss.max(1)), Bytes(whole("cwnd", self.cwnd)?));
        let rate = Rate::from_bytes_per_sec(self.delivery_rate.unwrap_or_default());
        path.observe(&Measurement { delivery_rate: rate, ..Measurement::QUIET }, now);
        let (srtt, min) = (span("srtt", self.srtt)?, span("rtt_min", self.rtt_min)?);
        if let Some(min) = min {
            let max = span("rtt_max", self.rtt_max)?.unwrap_or(min);
            let at_us = u64::try_from(now.0.as_micros()).unwrap_or(u64::MAX);
            path.observe_rtt(srtt.unwrap_or(min), min, max, at_us);
        }
        (path.srtt, path.rttvar) = (srtt, time("rttvar", self.rttvar)?);
        path.rate = known("rate", self.rate)?.map(Rate::from_bytes_per_sec);
        path.ssthresh = known("ssthresh", self.ssthresh)?.map(Bytes);
        path.in_flight = Bytes(self.in_flight);
        (path.ecn, path.app_limited) = (self.ecn, self.app_limited);
        Ok(path)
    }
}

impl Report {
    fn measurement(&self) -> PyResult<Measurement> {
        let samples = |rtt: &Rtt| {
            let (mean_us, std_us) = (rtt.mean * 1e6, rtt.std * 1e6);
            Ok::<_, PyErr>(RttSamples {
                last: time("rtt.last", rtt.last)?,
                min: time("rtt.min", rtt.min)?,
                max: time("rtt.max", rtt.max)?,
                sum_us: (mean_us * rtt.count as f64).round() as u64,
                sq_sum_us2: ((std_us * std_us + mean_us * mean_us) * rtt.count as f64) as u64,
                count: rtt.count,
            })
        };
        Ok(Measurement {
            acked: Bytes(self.acked),
            delivered: Bytes(self.delivered),
            lost: Packets(self.lost),
            ecn_marked: Packets(self.ecn_marked),
            timed_out: self.timed_out,
            rtt: self.rtt.as_ref().filter(|rtt| rtt.count > 0).map(samples).transpose()?,
            send_rate: Rate::from_bytes_per_sec(self.send_rate),
            delivery_rate: Rate::from_bytes_per_sec(self.delivery_rate),
            in_flight: Bytes(self.in_flight),
            app_limited: self.app_limited,
            in_recovery: self.in_recovery,
            cwnd: Bytes(self.cwnd),
            ..Measurement::QUIET
        })
    }
}

/// An arm, and the path that it has seen.
struct Driven {
    arm: Box<dyn Arm>,
    path: PathState,
    decision: Decision,
}

/// A built-in arm that an arm in Python asks.
#[pyclass(name = "Embedded", module = "remuda._native", frozen)]
pub struct PyEmbedded {
    driven: Mutex<Driven>,
}

type Decided = (u64, Option<u64>);

fn decided(decision: Decision) -> Decided {
    (decision.cwnd.0, decision.rate.map(Rate::bytes_per_sec))
}

#[pymethods]
impl PyEmbedded {
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        let info = embeddable(name).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let arm = info.build();
        let unmade = || PyValueError::new_err(format!("{name} cannot be embedded"));
        let path = PathState::new(Bytes(1), Bytes(2));
        let decision = Decision { cwnd: path.cwnd, rate: None };
        Ok(Self { driven: Mutex::new(Driven { arm: arm.ok_or_else(unmade)?, path, decision }) })
    }

    /// Gives it the path. Returns its window and rate.
    fn resume(&self, path: Path, now_s: f64) -> PyResult<Decided> {
        let now = Time(time("now", now_s)?);
        let driven = &mut *locked(&self.driven);
        driven.path = path.state(now)?;
        driven.decision = driven.arm.resume(&driven.path, now);
        Ok(decided(driven.decision))
    }

    /// Gives it a report. Returns its window and rate.
    fn on_measurement(&self, report: Report, now_s: f64) -> PyResult<Decided> {
        let (m, now) = (report.measurement()?, Time(time("now", now_s)?));
        let driven = &mut *locked(&self.driven);
        driven.path.observe(&m, now);
        if driven.arm.wake_at().is_some_and(|at| at <= now) {
            driven.decision = driven.arm.on_wake(now).unwrap_or(driven.decision);
        }
        driven.decision = driven.arm.on_measurement(&m, now);
        Ok(decided(driven.decision))
    }

    /// What it leaves to the next arm: window, threshold and rate.
    fn hand_off(&self) -> (u64, Option<u64>, Option<u64>) {
        let driven = &mut *locked(&self.driven);
        (driven.path.cwnd, driven.path.rate) = (driven.decision.cwnd, driven.decision.rate);
        driven.arm.hand_off(&mut driven.path);
        let path = &driven.path;
        (path.cwnd.0, path.ssthresh.map(|it| it.0), path.rate.map(Rate::bytes_per_sec))
    }
}
