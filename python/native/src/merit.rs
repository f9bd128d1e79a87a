//! The merit by which arms are ranked, for arrays of what was observed.

use crate::buffer::{Writable, copied};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use remuda_algorithms::Preference;
use remuda_algorithms::merit::{Observed, merit};

/// Writes the merit of each row to `out`. All arrays have the same length; a NaN is a term that was
/// not observed.
#[pyfunction]
#[pyo3(signature = (goodput, delay, loss, harm, out, preference))]
pub fn merits(
    py: Python<'_>,
    goodput: &Bound<'_, PyAny>,
    delay: &Bound<'_, PyAny>,
    loss: &Bound<'_, PyAny>,
    harm: &Bound<'_, PyAny>,
    mut out: Writable<f64>,
    preference: (f64, f64),
) -> PyResult<()> {
    let terms = [goodput, delay, loss, harm];
    let [goodput, delay, loss, harm] = terms.map(|term| copied::<f64>(py, term));
    let (goodput, delay, loss, harm) = (goodput?, delay?, loss?, harm?);
    let out = out.slice()?;
    let is_even = [&goodput, &delay, &loss, &harm].iter().all(|term| term.len() == out.len());
    if !is_even {
        return Err(PyValueError::new_err("all arrays must have the same length"));
    }
    let (throughput, delay_weight) = preference;
    let wants = Preference { throughput, delay: delay_weight };
    if !wants.is_valid() {
        return Err(PyValueError::new_err("`preference` must be two weights from 0 to 1"));
    }
    for (at, out) in out.iter_mut().enumerate() {
        let observed = Observed {
            goodput: Some(goodput[at]),
            delay: Some(delay[at]),
            loss: Some(loss[at]),
            harm: Some(harm[at]),
            transfers: None,
        };
        *out = merit(&observed, wants).value;
    }
    Ok(())
}
