//! Scenarios from files, texts and dicts.

use super::refused;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyList, PyString, PyTuple, PyType};
use remuda_scenarios::Scenario;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A deeper nesting is no scenario, but perhaps a dict that contains itself.
const DEPTH_MAX: usize = 16;

/// Links, and flows over them. Immutable.
#[pyclass(name = "Scenario", module = "remuda", frozen)]
#[derive(Clone)]
pub struct PyScenario(pub Scenario);

#[pymethods]
impl PyScenario {
    /// Reads and checks a TOML file.
    #[classmethod]
    fn load(_class: &Bound<'_, PyType>, path: PathBuf) -> PyResult<Self> {
        Scenario::load(&path).map(Self).map_err(refused)
    }

    /// Checks a TOML text; errors contain `name`.
    #[classmethod]
    #[pyo3(signature = (text, name = "scenario"))]
    fn parse(_class: &Bound<'_, PyType>, text: &str, name: &str) -> PyResult<Self> {
        Scenario::parse(text, name).map(Self).map_err(refused)
    }

    /// Checks a dict with the keys of a scenario file.
    #[classmethod]
    #[pyo3(signature = (table, name = "scenario"))]
    fn from_dict(
        _class: &Bound<'_, PyType>,
        table: &Bound<'_, PyDict>,
        name: &str,
    ) -> PyResult<Self> {
        from_dict(table, name).map(Self)
    }

    /// The scenario as the text of a TOML file, with all values that have a default.
    fn to_toml(&self) -> PyResult<String> {
        self.0.to_toml().map_err(refused)
    }

    /// The same scenario with another seed.
    fn with_seed(&self, seed: u64) -> PyResult<Self> {
        seeded(self.0.clone(), Some(seed)).map(Self)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        self.0.duration_s
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }

    #[getter]
    fn link_names(&self) -> Vec<&str> {
        self.0.links.keys().map(String::as_str).collect()
    }

    #[getter]
    fn flow_names(&self) -> Vec<String> {
        self.0.flows_expanded().into_iter().map(|flow| flow.name).collect()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        self.0.seed
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let parse = slf.get_type().getattr("parse")?;
        Ok((parse, (slf.get().to_toml()?,)))
    }

    fn __repr__(&self) -> String {
        let Scenario { name, duration_s, seed, links, .. } = &self.0;
        let flows: u64 = self.0.flows.iter().map(|flow| u64::from(flow.count)).sum();
        let links = links.len();
        format!(
            "<remuda.Scenario {name:?}: {duration_s} s, seed {seed}; {flows} flows, {links} links>"
        )
    }
}

/// The scenario that a value stands for: a `Scenario`, a path, or a dict.
pub fn from_any(scenario: &Bound<'_, PyAny>) -> PyResult<Scenario> {
    if let Ok(scenario) = scenario.cast::<PyScenario>() {
        return Ok(scenario.get().0.clone());
    }
    if let Ok(table) = scenario.cast::<PyDict>() {
        return from_dict(table, "scenario");
    }
    if let Ok(path) = scenario.extract::<PathBuf>() {
        return Scenario::load(&path).map_err(refused);
    }
    let kind = scenario.get_type().name()?;
    let rule = "must be a path, a dict or a remuda.Scenario";
    Err(PyTypeError::new_err(format!("scenario is of type {kind}: {rule}")))
}

/// The scenario with that seed, if one is given.
pub fn seeded(mut scenario: Scenario, seed: Option<u64>) -> PyResult<Scenario> {
    if let Some(seed) = seed {
        scenario.seed = seed;
        scenario.validate().map_err(refused)?;
    }
    Ok(scenario)
}

fn from_dict(table: &Bound<'_, PyDict>, name: &str) -> PyResult<Scenario> {
    let table = table_of(table, name, 0)?;
    let text =
        toml::to_string(&table).map_err(|e| PyValueError::new_err(format!("{name}: {e}")))?;
    Scenario::parse(&text, name).map_err(refused)
}

fn table_of(dict: &Bound<'_, PyDict>, place: &str, depth: usize) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, value) in dict {
        let Ok(key) = key.extract::<String>() else {
            let rule = "must be a string";
            return Err(PyValueError::new_err(format!("{place}: the key {key} {rule}")));
        };
        let value = value_of(&value, &format!("{place}.{key}"), depth + 1)?;
        table.insert(key, value);
    }
    Ok(table)
}

/// A number, bool or array of NumPy as Python's own; `None` if the value is neither.
fn without_numpy<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let kind = value.get_type();
    if kind.module()?.to_str()? != "numpy" || !value.hasattr("tolist")? {
        return Ok(None);
    }
    let plain = value.call_method0("tolist")?;
    // What has no counterpart, such as a number of 128 bits, stays NumPy's.
    Ok((!plain.get_type().is(&kind)).then_some(plain))
}

/// A value of a dict as TOML, which has no `None`, and only types with a text form.
fn value_of(value: &Bound<'_, PyAny>, place: &str, depth: usize) -> PyResult<Value> {
    let refuse = |rule: &str| Err(PyValueError::new_err(format!("`{place}`: {rule}")));
    if depth > DEPTH_MAX {
        return refuse("tables are nested too deep for a scenario");
    }
    if value.is_none() {
        return refuse("is None: leave the key out instead");
    }
    if let Ok(table) = value.cast::<PyDict>() {
        return Ok(Value::Table(table_of(table, place, depth)?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.enumerate();
        let items = items.map(|(at, item)| value_of(&item?, &format!("{place}.{at}"), depth + 1));
        return Ok(Value::Array(items.collect::<PyResult<_>>()?));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(text.to_str()?.to_owned()));
    }
    if let Ok(yes) = value.cast::<PyBool>() {
        return Ok(Value::Boolean(yes.is_true()));
    }
    if let Some(plain) = without_numpy(value)? {
        return value_of(&plain, place, depth + 1);
    }
    if !value.is_instance_of::<PyFloat>()
        && let Ok(number) = value.extract::<i64>()
    {
        return Ok(Value::Integer(number));
    }
    if let Ok(number) = value.extract::<f64>() {
        return Ok(Value::Float(number));
    }
    match value.extract::<PathBuf>().ok().as_deref().and_then(Path::to_str) {
        Some(path) => Ok(Value::String(path.to_owned())),
        None => refuse("must be a number, a text, a bool, a path, a list or a dict"),
    }
}
