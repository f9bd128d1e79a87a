//! Runs jobs of `remuda matrix` for `remuda._ray`, and collects a file of training samples for
//! `remuda.training.ray_collect`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use remuda_matrix::{Work, Worker};
use remuda_samples::Collection;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Runs jobs, one after the other.
#[pyclass(module = "remuda._native", name = "Worker")]
pub struct PyWorker(Worker);

#[pymethods]
impl PyWorker {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
    fn new(python: PathBuf) -> Self {
        Self(Worker::new(&python))
    }

    /// Runs a job. Returns its row as JSON.
    fn run(
        &mut self,
        py: Python<'_>,
        work: &str,
        texts: BTreeMap<String, String>,
    ) -> PyResult<String> {
        let work = Work::parse(work).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let worker = &mut self.0;
        py.detach(|| worker.run(work, &texts)).map_err(PyValueError::new_err)
    }
}

/// Simulates environments into a folder, as `remuda train antelope --collect` does. With `plans` of
/// 0, each arm has a flow of its own throughout.
#[pyfunction]
pub fn collect(
    py: Python<'_>,
    folder: PathBuf,
    seeds: (u64, u64),
    plans: u64,
    about: BTreeMap<String, String>,
) -> PyResult<()> {
    let (first, end) = seeds;
    let environments = end.saturating_sub(first);
    let collection = Collection { folder, first, environments, plans, threads: 1, about };
    let never = AtomicBool::new(false);
    let collected = py.detach(|| remuda_samples::collect(&collection, &never, |_| {}));
    collected.map(|_| ()).map_err(|error| PyValueError::new_err(error.to_string()))
}
