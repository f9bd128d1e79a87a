//! A table of `remuda matrix`, read back.

use crate::error::Error;
use remuda_matrix::{ROWS, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Rows, and what the table says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    pub rows: Vec<Row>,
    /// Program, commit, suites, arms.
    pub about: BTreeMap<String, String>,
}

impl Matrix {
    /// Each once, by name.
    pub fn drivers(&self) -> Vec<String> {
        let names: BTreeSet<&str> = self.rows.iter().map(|row| row.driver.as_str()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Reads `matrix.parquet`, or the one in a folder.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is no such table, or has no rows.
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
