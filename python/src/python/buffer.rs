//! NumPy's arrays as slices, without a copy.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A NumPy array that Rust writes into.
///
/// It is C-contiguous and writable: [`Writable::slice`] refuses others.
pub struct Writable<T>(PyBuffer<T>);

impl<'a, 'py, T: Element> FromPyObject<'a, 'py> for Writable<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        PyBuffer::get(&object).map(Self)
    }
}

impl<T: Element> Writable<T> {
    pub fn slice(&mut self) -> PyResult<&mut [T]> {
        if self.0.readonly() || !self.0.is_c_contiguous() {
            return Err(PyValueError::new_err("an array to write to must be writable, in C order"));
        }
        if self.0.item_count() == 0 {
            return Ok(&mut []);
        }
        // SAFETY: the buffer is held, so the memory stays where it is; `PyBuffer::get` has checked
        // type, size and alignment, and the lines above that it is one writable piece. The package
        // passes arrays that nobody else has yet, or that a caller has lent for this call
        // (`out=`), and none twice; a caller that writes to such an array from another thread
        // meanwhile gets a mix of both, as from NumPy itself.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), self.0.item_count()) })
    }
}

/// The values of an array, copied: it may change while the interpreter is let go of.
pub fn copied<T: Element>(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    PyBuffer::get(object)?.to_vec(py)
}
