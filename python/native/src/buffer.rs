//! NumPy arrays as slices, without a copy.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A NumPy array for Rust to write into.
///
/// It must be C-contiguous and writable: [`Writable::slice`] refuses other arrays.
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
        // type, size and alignment, and the lines above have checked that it is one writable block.
        // The package passes either new arrays that no other code has, or an array that a caller
        // lends for this call (`out=`), and none of them twice. If a caller writes to such an array
        // from another thread at the same time, the values are mixed, as in NumPy.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), self.0.item_count()) })
    }
}

/// A copy of an array's values, which may change while the interpreter is released.
pub fn copied<T: Element>(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    PyBuffer::get(object)?.to_vec(py)
}
