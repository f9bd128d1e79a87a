//! Runs jobs of `remuda matrix`, for `remuda._ray`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use remuda_matrix::{Work, Worker};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Runs jobs, one after the other.
#[pyclass(module = "remuda._native", name = "Worker")]
pub struct PyWorker(Worker);

#[pymethods]
impl PyWorker {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over what it has made")]
    fn new(python: PathBuf) -> Self {
        Self(Worker::new(&python))
    }

    /// Runs a job, and says its row as JSON.
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
