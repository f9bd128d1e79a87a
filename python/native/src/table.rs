//! Results as Arrow tables and NumPy arrays, without copies.
//!
//! Implements Arrow's C data interface with capsules:
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>. A column also
//! implements Python's buffer protocol (PEP 3118), through which NumPy reads it.

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, Float64Array, PrimitiveArray, RecordBatch, RecordBatchIterator, StructArray,
};
use arrow_schema::DataType;
use pyo3::exceptions::{PyBufferError, PyKeyError, PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// A table of a result.
#[pyclass(module = "remuda", frozen)]
pub struct Table {
    batch: RecordBatch,
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

impl Table {
    pub fn new(batch: RecordBatch) -> Self {
        Self { batch }
    }

    fn column(&self, name: &str) -> PyResult<&ArrayRef> {
        self.batch.column_by_name(name).ok_or_else(|| {
            let names = self.column_names().join(", ");
            PyKeyError::new_err(format!("no column {name}; the columns are: {names}"))
        })
    }
}

#[pymethods]
impl Table {
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    #[getter]
    fn num_columns(&self) -> usize {
        self.batch.num_columns()
    }

    /// Facts about the table: scenario, seed and units.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let schema = self.batch.schema();
        let mut pairs: Vec<_> = schema.metadata().iter().collect();
        pairs.sort();
        for (key, value) in pairs {
            dict.set_item(key, value)?;
        }
        Ok(dict)
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// A column as a NumPy array: a view if it has numbers and no nulls.
    #[pyo3(signature = (column, *, zero_copy_only = false))]
    fn to_numpy<'py>(
        &self,
        py: Python<'py>,
        column: &str,
        zero_copy_only: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.column(column)?;
        let numpy = py.import("numpy")?;
        if let Some(view) = Column::of(array) {
            return numpy.call_method1("asarray", (Bound::new(py, view)?,));
        }
        let kind = array.data_type();
        if zero_copy_only {
            let why = if array.null_count() > 0 { "with nulls " } else { "" };
            let rule =
                format!("`{column}` is of type {kind} {why}and cannot be read without a copy");
            return Err(PyValueError::new_err(rule));
        }
        if *kind == DataType::Float64 {
            let view = Column::of(&with_nan(array)).ok_or_else(|| failed("NaN is a number"))?;
            return numpy.call_method1("asarray", (Bound::new(py, view)?,));
        }
        if let Some(texts) = array.as_string_opt::<i32>() {
            let texts: Vec<Option<&str>> = texts.iter().collect();
            return numpy.call_method1("array", (texts, "object"));
        }
        let rule = "has no NumPy form; read it through Arrow, such as pyarrow.table(result.flows)";
        Err(PyValueError::new_err(format!("`{column}` is of type {kind}: it {rule}")))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyAny>> {
        self.to_numpy(py, column, false)
    }

    fn __contains__(&self, column: &str) -> bool {
        self.batch.column_by_name(column).is_some()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(failed)?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    /// The table as one Arrow struct. Arrow lets producers ignore `requested_schema`.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let array = FFI_ArrowArray::new(&StructArray::from(self.batch.clone()).to_data());
        Ok((self.__arrow_c_schema__(py)?, PyCapsule::new_with_value(py, array, ARRAY)?))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, STREAM)
    }

    fn __repr__(&self) -> String {
        let (rows, names) = (self.batch.num_rows(), self.column_names().join(", "));
        format!("<remuda.Table: {rows} rows of {names}>")
    }
}

/// The array with NaN in place of nulls.
fn with_nan(array: &ArrayRef) -> ArrayRef {
    let floats = array.as_primitive::<Float64Type>();
    let filled = floats.iter().map(|value| value.unwrap_or(f64::NAN));
    Arc::new(Float64Array::from_iter_values(filled))
}

/// A column of numbers as a Python buffer: the memory of a NumPy array.
#[pyclass(module = "remuda", frozen)]
pub struct Column {
    /// Keeps the memory of `values` alive.
    _array: ArrayRef,
    values: *const c_void,
    shape: [ffi::Py_ssize_t; 1],
    strides: [ffi::Py_ssize_t; 1],
    /// The letter of the type in PEP 3118.
    format: &'static CStr,
}

// SAFETY: `values` points into the array, which is Send, Sync and immutable.
unsafe impl Send for Column {}
// SAFETY: as above.
unsafe impl Sync for Column {}

impl Column {
    /// A view, if the array has numbers and no nulls.
    fn of(array: &ArrayRef) -> Option<Self> {
        if array.null_count() > 0 {
            return None;
        }
        match array.data_type() {
            DataType::Float64 => Self::view::<Float64Type>(array, c"d"),
            DataType::Float32 => Self::view::<Float32Type>(array, c"f"),
            DataType::Int64 => Self::view::<Int64Type>(array, c"q"),
            DataType::Int32 => Self::view::<Int32Type>(array, c"i"),
            DataType::UInt64 => Self::view::<UInt64Type>(array, c"Q"),
            DataType::UInt32 => Self::view::<UInt32Type>(array, c"I"),
            _ => None,
        }
    }

    fn view<T: ArrowPrimitiveType>(array: &ArrayRef, format: &'static CStr) -> Option<Self> {
        let values = array.as_any().downcast_ref::<PrimitiveArray<T>>()?.values();
        Some(Self {
            values: values.as_ptr().cast(),
            shape: [ffi::Py_ssize_t::try_from(values.len()).ok()?],
            strides: [size_of::<T::Native>() as ffi::Py_ssize_t],
            format,
            _array: array.clone(),
        })
    }
}

#[pymethods]
impl Column {
    fn __len__(&self) -> usize {
        self.shape[0].unsigned_abs()
    }

    /// # Safety
    ///
    /// Only Python may call this, with its own view to fill.
    // SAFETY: the caller's duties are above; the code checks that the view exists before it writes.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is null"));
        }
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("a result is read-only: copy it first"));
        }
        let column = slf.get();
        let has = |flag: c_int| flags & flag == flag;
        // SAFETY: Python passes a valid view to fill. The pointers in it point into the column,
        // which `obj` keeps alive until the view is released, and which is immutable.
        unsafe {
            (*view).buf = column.values.cast_mut();
            (*view).len = column.shape[0] * column.strides[0];
            (*view).readonly = 1;
            (*view).itemsize = column.strides[0];
            (*view).format = std::ptr::null_mut();
            if has(ffi::PyBUF_FORMAT) {
                (*view).format = column.format.as_ptr().cast_mut();
            }
            (*view).ndim = 1;
            (*view).shape = std::ptr::null_mut();
            if has(ffi::PyBUF_ND) {
                (*view).shape = column.shape.as_ptr().cast_mut();
            }
            (*view).strides = std::ptr::null_mut();
            if has(ffi::PyBUF_STRIDES) {
                (*view).strides = column.strides.as_ptr().cast_mut();
            }
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }
}
