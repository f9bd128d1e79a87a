//! Runs jobs of `remuda matrix`, for `remuda._ray`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use remuda_matrix::Work;
use std::collections::BTreeMap;

/// Runs a job, and says its row as JSON.
#[pyfunction]
pub fn run_work(py: Python<'_>, work: &str, traces: BTreeMap<String, String>) -> PyResult<String> {
    let work = Work::parse(work).map_err(|error| PyValueError::new_err(error.to_string()))?;
    py.detach(|| work.run(&traces)).map_err(PyValueError::new_err)
}
