//! A column: converts a field of a row to Arrow, and back.
//!
//! A crate with another type of rows lists the columns with [`column!`](crate::column!), and writes
//! and reads the rows with [`Rows`](crate::Rows).

use crate::error::Error;
use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Field};
use std::collections::HashMap;
use std::sync::Arc;

/// Reads a value from a row, and writes a value into a row.
pub enum Cells<T> {
    U32(fn(&T) -> u32, fn(&mut T, u32)),
    U64(fn(&T) -> u64, fn(&mut T, u64)),
    F64(fn(&T) -> f64, fn(&mut T, f64)),
    /// A quantity that may be missing.
    Maybe(fn(&T) -> Option<f64>, fn(&mut T, Option<f64>)),
    Text(fn(&T) -> &str, fn(&mut T, &str)),
}

/// A column of rows of `T`.
pub struct Column<T> {
    /// The field's name, which ends with the unit.
    pub name: &'static str,
    /// The unit; empty for texts.
    pub unit: &'static str,
    pub cells: Cells<T>,
}

/// A column for the field of the same name in the row's type.
#[macro_export]
macro_rules! column {
    ($field:ident: Text) => {
        $crate::Column {
            name: stringify!($field),
            unit: "",
            cells: $crate::Cells::Text(|row| &row.$field, |row, it| row.$field = it.into()),
        }
    };
    ($field:ident: $kind:ident, $unit:literal) => {
        $crate::Column {
            name: stringify!($field),
            unit: $unit,
            cells: $crate::Cells::$kind(|row| row.$field, |row, it| row.$field = it),
        }
    };
}

/// An Arrow field whose metadata have the unit.
pub(crate) fn field(name: &str, kind: DataType, nullable: bool, unit: &str) -> Field {
    let unit = (!unit.is_empty()).then(|| ("unit".to_owned(), unit.to_owned()));
    Field::new(name, kind, nullable).with_metadata(unit.into_iter().collect::<HashMap<_, _>>())
}

fn primitives<A: ArrowPrimitiveType>(values: impl Iterator<Item = A::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<A>::from_iter_values(values))
}

impl<T> Column<T> {
    /// The column's field in a schema.
    pub fn field(&self) -> Field {
        let (kind, nullable) = match self.cells {
            Cells::U32(..) => (DataType::UInt32, false),
            Cells::U64(..) => (DataType::UInt64, false),
            Cells::F64(..) => (DataType::Float64, false),
            Cells::Maybe(..) => (DataType::Float64, true),
            Cells::Text(..) => (DataType::Utf8, false),
        };
        field(self.name, kind, nullable, self.unit)
    }

    pub fn array(&self, rows: &[T]) -> ArrayRef {
        match self.cells {
            Cells::U32(get, _) => primitives::<UInt32Type>(rows.iter().map(get)),
            Cells::U64(get, _) => primitives::<UInt64Type>(rows.iter().map(get)),
            Cells::F64(get, _) => primitives::<Float64Type>(rows.iter().map(get)),
            Cells::Maybe(get, _) => {
                Arc::new(rows.iter().map(get).collect::<PrimitiveArray<Float64Type>>())
            }
            Cells::Text(get, _) => {
                let mut texts = StringBuilder::with_capacity(rows.len(), 0);
                rows.iter().for_each(|row| texts.append_value(get(row)));
                Arc::new(texts.finish())
            }
        }
    }

    /// Writes the values of the column into the rows, one value a row.
    pub fn fill(
        &self,
        table: &'static str,
        batch: &RecordBatch,
        rows: &mut [T],
    ) -> Result<(), Error> {
        let refuse = |rule| Error::Table { table, rule };
        let array = batch
            .column_by_name(self.name)
            .ok_or_else(|| refuse(format!("has no column `{}`", self.name)))?;
        let field = self.field();
        let nulls = !field.is_nullable() && array.null_count() > 0;
        if array.data_type() != field.data_type() || nulls {
            let (is, wanted) = (array.data_type(), field.data_type());
            let rule = format!("column `{}` is {is}, or has gaps; it must be {wanted}", self.name);
            return Err(refuse(rule));
        }
        for (at, row) in rows.iter_mut().enumerate() {
            match self.cells {
                Cells::U32(_, set) => set(row, array.as_primitive::<UInt32Type>().value(at)),
                Cells::U64(_, set) => set(row, array.as_primitive::<UInt64Type>().value(at)),
                Cells::F64(_, set) => set(row, array.as_primitive::<Float64Type>().value(at)),
                Cells::Maybe(_, set) => {
                    let value = array.as_primitive::<Float64Type>().value(at);
                    set(row, array.is_valid(at).then_some(value));
                }
                Cells::Text(_, set) => set(row, array.as_string::<i32>().value(at)),
            }
        }
        Ok(())
    }
}
