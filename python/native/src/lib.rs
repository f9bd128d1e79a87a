//! The module `remuda._native`: the part of the `remuda` package that is written in Rust.
//!
//! `_native.pyi` describes its types and rules, for readers and type checkers.
//!
//! A crate of its own, as a test program that contained it would have to be linked with Python.

mod buffer;
mod embedded;
mod gym;
mod merit;
mod pilot;
mod run;
mod scenario;
mod summary;
mod table;
mod work;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use remuda_python::Error;
use std::path::Path;

/// The part of `remuda` that is written in Rust. Use it through `remuda`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::embedded::PyEmbedded;
    #[pymodule_export]
    use super::gym::{PyEnv, PyEnvs};
    #[pymodule_export]
    use super::merit::merits;
    #[pymodule_export]
    use super::pilot::PyPilot;
    #[pymodule_export]
    use super::run::{PyOutcome, read, run, run_many};
    #[pymodule_export]
    use super::scenario::PyScenario;
    #[pymodule_export]
    use super::table::{Column, Table};
    #[pymodule_export]
    use super::work::{PyWorker, collect};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("BUILD", remuda_matrix::BUILD)?;
        module.add("METRICS", super::gym::metrics(module.py())?)?;
        let [ratios, sizes] = super::gym::features(module.py())?;
        module.add("FEATURES", ratios)?;
        module.add("SIZE_FEATURES", sizes)?;
        module.add("FAMILIES", super::gym::families(module.py())?)
    }
}

/// The exception of Python's own `open`, such as `FileNotFoundError`, for an unreadable file.
fn unreadable(path: &Path, source: &std::io::Error) -> PyErr {
    let text = source.to_string();
    PyOSError::new_err((source.raw_os_error(), text, path.display().to_string()))
}

/// The exception for what an environment refuses.
fn raised(error: Error) -> PyErr {
    match error {
        Error::Scenario(error) => refused(error),
        Error::Over => PyRuntimeError::new_err(error.to_string()),
        Error::In { ref source, .. } if matches!(**source, Error::Over) => {
            PyRuntimeError::new_err(error.to_string())
        }
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// An invalid scenario: `ValueError`, or `OSError` if its file cannot be read.
fn refused(error: remuda_scenarios::Error) -> PyErr {
    match error {
        remuda_scenarios::Error::Read { path, source } => unreadable(&path, &source),
        error => PyValueError::new_err(error.to_string()),
    }
}

/// The exception for a scenario that cannot be simulated.
fn unfit(error: remuda_sim::Error) -> PyErr {
    match error {
        remuda_sim::Error::Scenario(error) => refused(error),
        error => PyValueError::new_err(error.to_string()),
    }
}

/// A result that cannot be written or read: `OSError` for an error of the file system.
fn unwritten(error: remuda_results::Error) -> PyErr {
    match error {
        remuda_results::Error::Io { path, source } => unreadable(&path, &source),
        error @ remuda_results::Error::Table { .. } => PyValueError::new_err(error.to_string()),
        error => PyRuntimeError::new_err(error.to_string()),
    }
}
