//! Reads a table of `remuda matrix`.

use crate::error::Error;
use remuda_matrix::{ROWS, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The rows and the metadata of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    pub rows: Vec<Row>,
    /// Metadata: program, commit, suites, arms.
    pub about: BTreeMap<String, String>,
}

impl Matrix {
    /// The drivers, each once, by name.
    pub fn drivers(&self) -> Vec<String> {
        let names: BTreeSet<&str> = self.rows.iter().map(|row| row.driver.as_str()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Reads `matrix.parquet`, or the one in a folder.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not a table of a matrix, or has no rows.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = if path.is_dir() { path.join("matrix.parquet") } else { path.to_owned() };
        let path = || file.display().to_string();
        if !file.is_file() {
            return Err(Error::NoTable { path: path() });
        }
        let refused = |source| Error::Table { path: path(), source: Box::new(source) };
        let (rows, facts) = ROWS.read(&file).map_err(refused)?;
        if rows.is_empty() {
            return Err(Error::Empty { path: path() });
        }
        let own = |key: &String| !key.starts_with("ARROW:");
        Ok(Self { rows, about: facts.into_iter().filter(|(key, _)| own(key)).collect() })
    }
}
