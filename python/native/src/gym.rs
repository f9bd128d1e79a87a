//! Environments for `gymnasium`: the Rust part of `remuda.env` and `remuda.vector`.

use super::buffer::{Writable, copied};
use super::raised;
use super::scenario::from_any;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use remuda_algorithms::Preference;
use remuda_algorithms::learned::observation::{FEATURES, Feature, Features, RATIOS};
use remuda_python::{
    Autoreset, Baseline, Batch, Config, Control, Env, Envs, Error, FLAGS, METRICS, Paths, Range,
    Ranges, RewardKind, Saved, Set, Step, Weights, baseline, hold_length,
};
use remuda_samples::family::Family;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The keys of `remuda.CongestionSettings`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings<'py> {
    bandwidth_mbit_per_sec: (f64, f64),
    rtt_ms: (f64, f64),
    queue_bdp: (f64, f64),
    loss_percent: (f64, f64),
    start_ratio: (f64, f64),
    jitter_ms: (f64, f64),
    jitter_correlation: (f64, f64),
    stagger_s: (f64, f64),
    scenario: Option<Bound<'py, PyAny>>,
    scenarios: Option<Vec<Bound<'py, PyAny>>>,
    suite: Option<String>,
    families: Option<Vec<String>>,
    without: Vec<String>,
    draws: Vec<(u64, u64)>,
    step_rtts: f64,
    episode_steps: Option<u32>,
    history: usize,
    features: String,
    control: String,
    action_scale: f64,
    arms: Vec<String>,
    flows: usize,
    neighbours: Vec<String>,
    companion: String,
    alone: bool,
    reward: String,
    reward_scale: f64,
    preference: (f64, f64),
    throughput_weight: f64,
    delay_weight: f64,
    loss_weight: f64,
}

impl Settings<'_> {
    pub fn config(self) -> PyResult<Config> {
        let paths = self.paths()?;
        let unknown = |key: &str, value: &str, rule: &str| {
            Err(PyValueError::new_err(format!("`{key}` is {value:?}: {rule}")))
        };
        let control = match self.control.as_str() {
            "rate" => Control::Rate,
            "window" => Control::Window,
            "arm" => Control::Arm,
            other => {
                return unknown("control", other, "must be \"rate\", \"window\" or \"arm\"");
            }
        };
        let features = match self.features.as_str() {
            "ratios" => Features::Ratios,
            "sizes" => Features::Sizes,
            other => return unknown("features", other, "must be \"ratios\" or \"sizes\""),
        };
        let reward = match self.reward.as_str() {
            "linear" => RewardKind::Linear,
            "merit" => RewardKind::Merit,
            other => return unknown("reward", other, "must be \"linear\" or \"merit\""),
        };
        let (throughput, delay) = self.preference;
        Ok(Config {
            paths,
            step_rtts: self.step_rtts,
            episode_steps: self.episode_steps,
            history: self.history,
            features,
            control,
            action_scale: self.action_scale,
            arms: self.arms,
            flows: self.flows,
            neighbours: self.neighbours,
            companion: self.companion,
            is_alone: self.alone,
            reward,
            reward_scale: self.reward_scale,
            preference: Preference { throughput, delay },
            weights: Weights {
                throughput: self.throughput_weight,
                delay: self.delay_weight,
                loss: self.loss_weight,
            },
        })
    }
}

impl Settings<'_> {
    fn paths(&self) -> PyResult<Paths> {
        let range = |(low, high): (f64, f64)| Range { low, high };
        if let Some(scenario) = &self.scenario {
            return Ok(Paths::Given(Box::new(from_any(scenario)?)));
        }
        let seeds = || self.draws.iter().map(|(from, to)| *from..*to).collect();
        let set = if let Some(scenarios) = &self.scenarios {
            Set::of_scenarios(scenarios.iter().map(from_any).collect::<PyResult<_>>()?)
                .map_err(raised)?
        } else if let Some(suite) = &self.suite {
            Set::of_suite(suite).map_err(raised)?
        } else if let Some(families) = &self.families {
            Set::of_families(families, &self.without, seeds()).map_err(raised)?
        } else {
            return Ok(Paths::Drawn(Ranges {
                bandwidth_mbit_per_sec: range(self.bandwidth_mbit_per_sec),
                rtt_ms: range(self.rtt_ms),
                queue_bdp: range(self.queue_bdp),
                loss_percent: range(self.loss_percent),
                start_ratio: range(self.start_ratio),
                jitter_ms: range(self.jitter_ms),
                jitter_correlation: range(self.jitter_correlation),
                stagger_s: range(self.stagger_s),
            }));
        };
        Ok(Paths::Among(Arc::new(set)))
    }
}

/// `(name, what its paths have in common)` of each family.
pub fn families(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    let all: Vec<_> = Family::all().map(|it| (it.name(), it.about())).collect();
    PyTuple::new(py, all)
}

/// The names of the figures.
pub fn metrics(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, METRICS)
}

/// `(name, unit, low, high, about)` of each number of an observation: the ratios, and the sizes.
pub fn features(py: Python<'_>) -> PyResult<[Bound<'_, PyTuple>; 2]> {
    let (ratios, sizes) = FEATURES.split_at(RATIOS);
    let tuple = |of: &[Feature]| {
        PyTuple::new(py, of.iter().map(|it| (it.name, it.unit, it.low, it.high, it.about)))
    };
    Ok([tuple(ratios)?, tuple(sizes)?])
}

/// After a panic the environment may be in the middle of a step; the next reset restores it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
        intern!(py, "capacity_mbit_per_sec"),
        intern!(py, "equal_share"),
        intern!(py, "harm"),
        intern!(py, "active"),
        intern!(py, "starts"),
    ];
    let flags_from = names.len() - FLAGS;
    for (index, (name, figure)) in names.into_iter().zip(figures).enumerate() {
        if index < flags_from {
            dict.set_item(name, figure)?;
        } else {
            dict.set_item(name, *figure > 0.0)?;
        }
    }
    Ok(dict)
}

/// The flows of a simulation, and the rewards and figures of each step and flow.
type Played = (usize, Vec<f64>, Vec<f64>);

fn played(it: Baseline) -> Played {
    (it.flows, it.rewards, it.metrics.into_iter().flatten().collect())
}

#[pyclass(name = "Env", module = "remuda._native", frozen)]
pub struct PyEnv {
    env: Mutex<Env>,
}

#[pymethods]
impl PyEnv {
    #[new]
    fn new(settings: Settings<'_>) -> PyResult<Self> {
        Ok(Self { env: Mutex::new(Env::new(settings.config()?).map_err(raised)?) })
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
        env.reset(seed, observation.slice()?).map_err(raised)?;
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
        let step = env.step(action, observation.slice()?).map_err(raised)?;
        Ok((step.reward, step.terminated, step.truncated, named(py, &env.metrics())?))
    }

    /// How many flows are driven.
    #[getter]
    fn flows(&self) -> usize {
        locked(&self.env).flows()
    }

    /// Executes a step of several flows, into arrays for rewards and flags.
    #[expect(clippy::too_many_arguments, reason = "gymnasium needs one array for each result")]
    fn step_all(
        &self,
        py: Python<'_>,
        actions: &Bound<'_, PyAny>,
        mut observations: Writable<f32>,
        mut rewards: Writable<f64>,
        mut terminated: Writable<u8>,
        mut truncated: Writable<u8>,
        mut metrics: Writable<f64>,
    ) -> PyResult<bool> {
        let actions = copied::<f32>(py, actions)?;
        let mut env = locked(&self.env);
        let mut steps = vec![Step::default(); env.flows()];
        hold_length("rewards", rewards.slice()?.len(), steps.len()).map_err(raised)?;
        hold_length("terminated", terminated.slice()?.len(), steps.len()).map_err(raised)?;
        hold_length("truncated", truncated.slice()?.len(), steps.len()).map_err(raised)?;
        hold_length("metrics", metrics.slice()?.len(), steps.len() * METRICS.len())
            .map_err(raised)?;
        env.step_all(&actions, observations.slice()?, &mut steps).map_err(raised)?;
        for (flow, step) in steps.iter().enumerate() {
            rewards.slice()?[flow] = step.reward;
            terminated.slice()?[flow] = u8::from(step.terminated);
            truncated.slice()?[flow] = u8::from(step.truncated);
            let row = &mut metrics.slice()?[flow * METRICS.len()..][..METRICS.len()];
            row.copy_from_slice(&env.metrics_of(flow));
        }
        Ok(env.is_over())
    }

    /// The figures of each flow, one after the other.
    fn metrics(&self) -> Vec<f64> {
        let env = locked(&self.env);
        (0..env.flows()).flat_map(|flow| env.metrics_of(flow)).collect()
    }

    /// The flows, rewards and figures of the episode of a seed, with a driver for all flows.
    fn baseline(&self, py: Python<'_>, driver: &str, seed: u64) -> PyResult<Played> {
        let config = Arc::clone(locked(&self.env).config());
        py.detach(|| baseline(&config, driver, seed)).map(played).map_err(raised)
    }

    /// The state as bytes, for `pickle`.
    fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &locked(&self.env).save(false).to_bytes())
    }

    /// Repeats the episode of a saved state.
    fn restore(&self, py: Python<'_>, saved: &[u8]) -> PyResult<()> {
        let saved = Saved::from_bytes(saved).map_err(raised)?;
        py.detach(|| locked(&self.env).restore(&saved)).map_err(raised)
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
        let envs = Envs::new(settings.config()?, count, threads, autoreset).map_err(raised)?;
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
        py.detach(|| locked(&self.envs).reset(&seeds, mask.as_deref(), observations, metrics))
            .map_err(raised)
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
        py.detach(|| locked(&self.envs).step(&actions, batch)).map_err(raised)
    }

    /// The last observation and figures of an episode that the last step ended and replaced.
    fn last_of(&self, index: usize, mut observation: Writable<f32>) -> PyResult<Vec<f64>> {
        let envs = locked(&self.envs);
        let replaced = envs.last_of(index).map(|(last, figures)| (last, *figures));
        // A flow that ends before the others of its simulation keeps its last observation.
        let Some((last, figures)) = replaced.or_else(|| envs.present_of(index)) else {
            return Err(PyIndexError::new_err(format!("there is no row {index}")));
        };
        let place = observation.slice()?;
        hold_length("observation", place.len(), last.len()).map_err(raised)?;
        place.copy_from_slice(last);
        Ok(figures.to_vec())
    }

    /// As of one environment.
    fn baseline(&self, py: Python<'_>, driver: &str, seed: u64) -> PyResult<Played> {
        let config = locked(&self.envs).env(0).map(|env| Arc::clone(env.config()));
        let Some(config) = config else { return Ok((0, Vec::new(), Vec::new())) };
        py.detach(|| baseline(&config, driver, seed)).map(played).map_err(raised)
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
        let saved = saved.collect::<Result<Vec<Saved>, Error>>().map_err(raised)?;
        py.detach(|| locked(&self.envs).restore(&saved)).map_err(raised)
    }

    /// Data packets that all flows of all episodes have sent.
    #[getter]
    fn packets_sent(&self) -> u64 {
        locked(&self.envs).packets_sent()
    }
}
