//! Environments for `gymnasium`: the Rust part of `remuda.env` and `remuda.vector`.

use super::buffer::{Writable, copied};
use super::scenario::from_any;
use crate::config::{Config, Control, Paths, Range, Ranges, Weights};
use crate::env::{Env, METRICS};
use crate::envs::{Autoreset, Batch, Envs};
use crate::error::Error;
use crate::observe::FEATURES;
use crate::saved::Saved;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The keys of `remuda.CongestionSettings`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings<'py> {
    bandwidth_mbit_per_sec: (f64, f64),
    rtt_ms: (f64, f64),
    queue_bdp: (f64, f64),
    loss_percent: (f64, f64),
    start_ratio: (f64, f64),
    scenario: Option<Bound<'py, PyAny>>,
    step_rtts: f64,
    episode_steps: Option<u32>,
    history: usize,
    control: String,
    action_scale: f64,
    throughput_weight: f64,
    delay_weight: f64,
    loss_weight: f64,
}

impl Settings<'_> {
    fn config(self) -> PyResult<Config> {
        let range = |(low, high): (f64, f64)| Range { low, high };
        let paths = match &self.scenario {
            Some(scenario) => Paths::Given(Box::new(from_any(scenario)?)),
            None => Paths::Drawn(Ranges {
                bandwidth_mbit_per_sec: range(self.bandwidth_mbit_per_sec),
                rtt_ms: range(self.rtt_ms),
                queue_bdp: range(self.queue_bdp),
                loss_percent: range(self.loss_percent),
                start_ratio: range(self.start_ratio),
            }),
        };
        let control = match self.control.as_str() {
            "rate" => Control::Rate,
            "window" => Control::Window,
            other => {
                let rule = "must be \"rate\" or \"window\"";
                return Err(PyValueError::new_err(format!("`control` is {other:?}: {rule}")));
            }
        };
        Ok(Config {
            paths,
            step_rtts: self.step_rtts,
            episode_steps: self.episode_steps,
            history: self.history,
            control,
            action_scale: self.action_scale,
            weights: Weights {
                throughput: self.throughput_weight,
                delay: self.delay_weight,
                loss: self.loss_weight,
            },
        })
    }
}

/// The names of the figures.
pub fn metrics(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, METRICS)
}

/// `(name, unit, low, high, about)` of each number of an observation.
pub fn features(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, FEATURES.map(|it| (it.name, it.unit, it.low, it.high, it.about)))
}

/// After a panic the environment may be in the middle of a step; the next reset restores it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn named<'py>(py: Python<'py>, figures: &[f64]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let names = [
        intern!(py, "time_s"),
        intern!(py, "throughput_mbit_per_sec"),
        intern!(py, "rtt_ms"),
        intern!(py, "loss_rate"),
        intern!(py, "rate_mbit_per_sec"),
        intern!(py, "cwnd_pkts"),
        intern!(py, "bandwidth_mbit_per_sec"),
        intern!(py, "base_rtt_ms"),
    ];
    for (name, figure) in names.into_iter().zip(figures) {
        dict.set_item(name, figure)?;
    }
    Ok(dict)
}

#[pyclass(name = "Env", module = "remuda._native", frozen)]
pub struct PyEnv {
    env: Mutex<Env>,
}

#[pymethods]
impl PyEnv {
    #[new]
    fn new(settings: Settings<'_>) -> PyResult<Self> {
        Ok(Self { env: Mutex::new(Env::new(settings.config()?)?) })
    }

    #[getter]
    fn observation_len(&self) -> usize {
        locked(&self.env).observation_len()
    }

    /// Starts an episode. Returns its figures.
    fn reset<'py>(
        &self,
        py: Python<'py>,
        seed: Option<u64>,
        mut observation: Writable<f32>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut env = locked(&self.env);
        env.reset(seed, observation.slice()?)?;
        let info = named(py, &env.metrics())?;
        if let (Some(queue_bdp), Some(loss_percent)) =
            (env.truth().queue_bdp, env.truth().loss_percent)
        {
            info.set_item("queue_bdp", queue_bdp)?;
            info.set_item("loss_percent", loss_percent)?;
        }
        Ok(info)
    }

    /// Executes a step. A step is too short to release the interpreter.
    fn step<'py>(
        &self,
        py: Python<'py>,
        action: f32,
        mut observation: Writable<f32>,
    ) -> PyResult<(f64, bool, bool, Bound<'py, PyDict>)> {
        let mut env = locked(&self.env);
        let step = env.step(action, observation.slice()?)?;
        Ok((step.reward, step.terminated, step.truncated, named(py, &env.metrics())?))
    }

    /// The state as bytes, for `pickle`.
    fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &locked(&self.env).save(false).to_bytes())
    }

    /// Repeats the episode of a saved state.
    fn restore(&self, py: Python<'_>, saved: &[u8]) -> PyResult<()> {
        let saved = Saved::from_bytes(saved)?;
        py.detach(|| locked(&self.env).restore(&saved))?;
        Ok(())
    }

    /// Data packets that all flows of all episodes have sent.
    #[getter]
    fn packets_sent(&self) -> u64 {
        locked(&self.env).packets_sent()
    }
}

#[pyclass(name = "Envs", module = "remuda._native", frozen)]
pub struct PyEnvs {
    envs: Mutex<Envs>,
}

#[pymethods]
impl PyEnvs {
    #[new]
    fn new(
        settings: Settings<'_>,
        count: usize,
        threads: usize,
        autoreset: &str,
    ) -> PyResult<Self> {
        let autoreset = match autoreset {
            "NextStep" => Autoreset::NextStep,
            "SameStep" => Autoreset::SameStep,
            "Disabled" => Autoreset::Disabled,
            other => return Err(PyValueError::new_err(format!("`autoreset_mode` is {other:?}"))),
        };
        let envs = Envs::new(settings.config()?, count, threads, autoreset)?;
        Ok(Self { envs: Mutex::new(envs) })
    }

    #[getter]
    fn observation_len(&self) -> usize {
        locked(&self.envs).observation_len()
    }

    /// Starts an episode in each environment, or in those that a mask selects.
    fn reset(
        &self,
        py: Python<'_>,
        seeds: Vec<Option<u64>>,
        mask: Option<&Bound<'_, PyAny>>,
        mut observations: Writable<f32>,
        mut metrics: Writable<f64>,
    ) -> PyResult<()> {
        let mask = mask.map(|mask| copied::<u8>(py, mask)).transpose()?;
        let (observations, metrics) = (observations.slice()?, metrics.slice()?);
        py.detach(|| locked(&self.envs).reset(&seeds, mask.as_deref(), observations, metrics))?;
        Ok(())
    }

    /// Executes a step in each environment, without the interpreter.
    #[expect(clippy::too_many_arguments, reason = "gymnasium needs one array for each result")]
    fn step(
        &self,
        py: Python<'_>,
        actions: &Bound<'_, PyAny>,
        mut observations: Writable<f32>,
        mut rewards: Writable<f64>,
        mut terminated: Writable<u8>,
        mut truncated: Writable<u8>,
        mut metrics: Writable<f64>,
    ) -> PyResult<()> {
        let actions = copied::<f32>(py, actions)?;
        let batch = Batch {
            observations: observations.slice()?,
            rewards: rewards.slice()?,
            terminated: terminated.slice()?,
            truncated: truncated.slice()?,
            metrics: metrics.slice()?,
        };
        py.detach(|| locked(&self.envs).step(&actions, batch))?;
        Ok(())
    }

    /// The last observation and figures of an episode that the last step ended and replaced.
    fn last_of(&self, index: usize, mut observation: Writable<f32>) -> PyResult<Vec<f64>> {
        let envs = locked(&self.envs);
        let Some((last, figures)) = envs.last_of(index) else {
            let rule = "has not just ended an episode";
            return Err(PyIndexError::new_err(format!("environment {index} {rule}")));
        };
        let place = observation.slice()?;
        let (found, wanted) = (place.len(), last.len());
        if found != wanted {
            return Err(Error::Length { key: "observation", found, wanted }.into());
        }
        place.copy_from_slice(last);
        Ok(figures.to_vec())
    }

    /// The state of each environment as bytes, for `pickle`.
    fn save<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let saved = locked(&self.envs).save();
        saved.iter().map(|one| PyBytes::new(py, &one.to_bytes())).collect()
    }

    /// Repeats the episodes of saved states.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
    fn restore(&self, py: Python<'_>, saved: Vec<Vec<u8>>) -> PyResult<()> {
        let saved = saved.iter().map(|one| Saved::from_bytes(one));
        let saved = saved.collect::<Result<Vec<Saved>, Error>>()?;
        py.detach(|| locked(&self.envs).restore(&saved))?;
        Ok(())
    }

    /// Data packets that all flows of all episodes have sent.
    #[getter]
    fn packets_sent(&self) -> u64 {
        locked(&self.envs).packets_sent()
    }
}
