//! Runs scenarios in the simulator, for Python.

use super::scenario::{from_any, seeded};
use super::table::Table;
use super::{summary, unfit, unwritten};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use remuda_results::{About, Table as Kind, batch};
use remuda_scenarios::outcome::Outcome;
use remuda_scenarios::{Nanos, Scenario};
use remuda_sim::{Setup, Simulation};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The simulated time between two checks for Ctrl-C: some milliseconds' work on most links.
const SLICE: Nanos = Nanos::from_millis(100);
/// The time between two checks for Ctrl-C while other threads work.
const LOOK: Duration = Duration::from_millis(50);
const JOBS_MAX: usize = 1_024;

/// The result of a scenario.
#[pyclass(name = "Result", module = "remuda", frozen)]
pub struct PyOutcome {
    outcome: Outcome,
    about: About,
    tables: [Mutex<Option<Py<Table>>>; Kind::ALL.len()],
}

impl PyOutcome {
    fn new(outcome: Outcome, scenario: &Scenario) -> Self {
        // If a path in the scenario is not Unicode, the result has no scenario text.
        let about = About { scenario_toml: scenario.to_toml().ok(), ..About::default() };
        Self { outcome, about, tables: Default::default() }
    }

    /// The table of a kind; it is built at the first call.
    fn table(&self, py: Python<'_>, kind: Kind) -> PyResult<Py<Table>> {
        let mut made = locked(&self.tables[kind as usize]);
        if let Some(table) = &*made {
            return Ok(table.clone_ref(py));
        }
        let batch = batch(kind, &self.outcome, &self.about).map_err(unwritten)?;
        let table = Py::new(py, Table::new(batch))?;
        *made = Some(table.clone_ref(py));
        Ok(table)
    }
}

#[pymethods]
impl PyOutcome {
    /// One row for each flow.
    #[getter]
    fn flows(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, Kind::Flows)
    }

    /// One row for each link.
    #[getter]
    fn links(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, Kind::Links)
    }

    /// One row for each change of a flow's arm.
    #[getter]
    fn switches(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, Kind::Switches)
    }

    /// One row for each decision about a flow's arm.
    #[getter]
    fn decisions(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, Kind::Decisions)
    }

    /// The time series of flows.
    #[getter]
    fn flow_samples(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, Kind::FlowSamples)
    }

    /// The time series of links.
    #[getter]
    fn link_samples(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, Kind::LinkSamples)
    }

    /// Writes the tables into a folder, as Parquet files.
    fn write(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        py.detach(|| remuda_results::write(&folder, &self.outcome, &self.about)).map_err(unwritten)
    }

    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        summary::summary(py, &self.outcome)
    }

    #[getter]
    fn scenario(&self) -> &str {
        &self.outcome.scenario
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.outcome.seed
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        self.outcome.duration_s
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().outcome == self.outcome)
    }

    fn __repr__(&self) -> String {
        summary::line(&self.outcome)
    }
}

/// Reads one run that `Result.write` has written, or `remuda sim --out` in NAME-seedN.
#[pyfunction]
pub fn read(py: Python<'_>, folder: PathBuf) -> PyResult<PyOutcome> {
    let outcome = py.detach(|| remuda_results::read(&folder)).map_err(unwritten)?;
    Ok(PyOutcome { outcome, about: About::default(), tables: Default::default() })
}

/// A panic of another thread leaves no half-changed value here.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a simulation to its end, in slices; `step` runs a slice, and may end the simulation.
fn simulate<E>(
    mut simulation: Simulation,
    mut step: impl FnMut(&mut Simulation) -> Result<(), E>,
) -> Result<Outcome, E> {
    while !simulation.is_over() {
        step(&mut simulation)?;
    }
    Ok(simulation.outcome())
}

fn slice(simulation: &mut Simulation) {
    let until = (simulation.now() + SLICE).min(simulation.end());
    simulation.run_until(until);
}

/// Runs a scenario in the simulator.
#[pyfunction]
#[pyo3(signature = (scenario, seed = None))]
pub fn run(py: Python<'_>, scenario: &Bound<'_, PyAny>, seed: Option<u64>) -> PyResult<PyOutcome> {
    let scenario = seeded(from_any(scenario)?, seed)?;
    let simulation = py.detach(|| Simulation::new(&scenario)).map_err(unfit)?;
    let outcome = simulate(simulation, |simulation| {
        py.detach(|| slice(simulation));
        py.check_signals()
    })?;
    Ok(PyOutcome::new(outcome, &scenario))
}

/// Runs scenarios in the simulator, several at a time; results have the order of scenarios.
#[pyfunction]
#[pyo3(signature = (scenarios, seeds = None, jobs = None, config = None))]
pub fn run_many(
    py: Python<'_>,
    scenarios: &Bound<'_, PyAny>,
    seeds: Option<Vec<u64>>,
    jobs: Option<usize>,
    config: Option<&str>,
) -> PyResult<Vec<PyOutcome>> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = jobs.unwrap_or_else(cores);
    if !(1..=JOBS_MAX).contains(&jobs) {
        return Err(PyValueError::new_err(format!("`jobs` is {jobs}: must be from 1 to 1024")));
    }
    let mut read = Vec::new();
    for scenario in scenarios.try_iter()? {
        read.push(from_any(&scenario?)?);
    }
    if let Some(seeds) = &seeds {
        let (found, wanted) = (seeds.len(), read.len());
        if found != wanted {
            let rule = format!("`seeds` has {found} values: must have {wanted}, one per scenario");
            return Err(PyValueError::new_err(rule));
        }
        let pairs = read.into_iter().zip(seeds);
        read = pairs.map(|(it, seed)| seeded(it, Some(*seed))).collect::<PyResult<_>>()?;
    }
    let setup = config.map_or_else(|| Ok(Arc::default()), remuda_sim::configured);
    let setup = setup.map_err(unfit)?;
    let outcomes = run_all(py, &read, jobs, &setup)?;
    let made = outcomes.into_iter().zip(&read);
    Ok(made.map(|(outcome, scenario)| PyOutcome::new(outcome, scenario)).collect())
}

/// The error of a worker that was stopped.
struct Stopped;

type Ran = Result<Result<Outcome, Stopped>, remuda_sim::Error>;

/// Each worker takes the next scenario; this thread checks for Ctrl-C.
fn run_all(
    py: Python<'_>,
    scenarios: &[Scenario],
    jobs: usize,
    setup: &Arc<Setup>,
) -> PyResult<Vec<Outcome>> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut outcomes: Vec<Option<Outcome>> = Vec::new();
    outcomes.resize_with(scenarios.len(), || None);
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel::<(usize, Ran)>();
        // A receiver belongs to one thread. The lock makes it usable on any thread that Python
        // uses.
        let results = Mutex::new(results);
        for _ in 0..jobs.min(scenarios.len()) {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                let mut index = next.fetch_add(1, Ordering::Relaxed);
                while let Some(scenario) = scenarios.get(index) {
                    // Fails only if the receiver is gone, and then `stop` is set.
                    let _ = sender.send((index, run_one(scenario, setup, stop)));
                    index = next.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        drop(sender);
        let gathered = gather(py, &results, &mut outcomes);
        stop.store(true, Ordering::Relaxed);
        // Workers end within a slice; the interpreter is released meanwhile.
        py.detach(|| while locked(&results).recv().is_ok() {});
        gathered
    })?;
    Ok(outcomes.into_iter().flatten().collect())
}

fn run_one(scenario: &Scenario, setup: &Arc<Setup>, stop: &AtomicBool) -> Ran {
    if stop.load(Ordering::Relaxed) {
        return Ok(Err(Stopped));
    }
    let simulation = Simulation::with_setup(scenario, setup)?;
    Ok(simulate(simulation, |simulation| {
        slice(simulation);
        if stop.load(Ordering::Relaxed) { Err(Stopped) } else { Ok(()) }
    }))
}

/// Receives results until all workers have ended.
fn gather(
    py: Python<'_>,
    results: &Mutex<mpsc::Receiver<(usize, Ran)>>,
    outcomes: &mut [Option<Outcome>],
) -> PyResult<()> {
    loop {
        match py.detach(|| locked(results).recv_timeout(LOOK)) {
            Ok((index, Ok(Ok(outcome)))) => outcomes[index] = Some(outcome),
            Ok((_, Ok(Err(Stopped)))) => {}
            Ok((index, Err(error))) => {
                let error = unfit(error);
                let note = format!("in scenario {index} of this call, counted from 0");
                error.value(py).call_method1("add_note", (note,))?;
                return Err(error);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
        }
        py.check_signals()?;
    }
}
