//! Rows of other types than an outcome's, in Parquet files of their own.

use crate::batch::rows;
use crate::column::Column;
use crate::error::Error;
use crate::files::{Loaded, Whole};
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// A type of rows: the table's name and its columns.
pub struct Rows<T: 'static> {
    /// The table's name in errors.
    pub name: &'static str,
    /// The columns, in their order.
    pub columns: &'static [Column<T>],
}

impl<T: Default> Rows<T> {
    /// Writes a file, which gets its name only when it is complete. `metadata` is stored in the
    /// table. The same rows give the same bytes.
    pub fn write(
        &self,
        path: &Path,
        all: &[T],
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let fields: Vec<_> = self.columns.iter().map(Column::field).collect();
        let facts: HashMap<String, String> = metadata.clone().into_iter().collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, facts));
        let arrays = self.columns.iter().map(|column| column.array(all)).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)
            .map_err(|source| Error::Arrow { table: self.name, source })?;
        let mut file = Whole::create(path, schema, metadata)?;
        file.write(&batch)?;
        file.finish()
    }

    /// Reads the rows and the metadata of a file.
    pub fn read(&self, path: &Path) -> Result<(Vec<T>, HashMap<String, String>), Error> {
        let Loaded { metadata, batches } = Loaded::from(path, self.name)?;
        Ok((rows(self.name, self.columns, &batches)?, metadata))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Row {
        name: String,
        delay_ms: Option<f64>,
    }

    const ROWS: Rows<Row> =
        Rows { name: "some", columns: &[column!(name: Text), column!(delay_ms: Maybe, "ms")] };

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.parquet");
        let all = vec![
            Row { name: "a".to_owned(), delay_ms: Some(1.5) },
            Row { name: "b".to_owned(), delay_ms: None },
        ];
        let facts = BTreeMap::from([("commit".to_owned(), "abc".to_owned())]);
        ROWS.write(&path, &all, &facts).unwrap();
        let (read, said) = ROWS.read(&path).unwrap();
        assert_eq!((read, said["commit"].as_str()), (all, "abc"));
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "no part of a file stays: {names:?}");
    }
}
