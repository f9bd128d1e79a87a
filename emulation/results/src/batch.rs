//! Converts an outcome to Arrow, and Arrow to rows.

use crate::column::{Column, field};
use crate::error::Error;
use crate::tables::{
    DECISIONS, FLOW_SAMPLES, FLOWS, LINK_SAMPLES, LINKS, SWITCHES, Table, decision_rows,
    switch_rows,
};
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use remuda_scenarios::outcome::Outcome;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Version of the tables' columns and metadata. Increase it when a column changes its name, unit or
/// meaning, or is removed, but not when a column is added.
pub const SCHEMA_VERSION: u32 = 1;

/// Facts about an outcome that the outcome does not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The commit of the program that made the outcome.
    pub commit: Option<String>,
    /// The scenario in the form of a scenario file, so that a result can be repeated from its own
    /// table.
    pub scenario_toml: Option<String>,
}

/// The metadata of a table, in the order of names.
pub(crate) fn metadata(
    table: Table,
    outcome: Option<&Outcome>,
    about: &About,
) -> BTreeMap<String, String> {
    let mut facts = vec![
        ("program", concat!("remuda ", env!("CARGO_PKG_VERSION")).to_owned()),
        ("schema_version", SCHEMA_VERSION.to_string()),
        ("table", table.name().to_owned()),
    ];
    facts.extend(about.commit.clone().map(|commit| ("commit", commit)));
    if let Some(outcome) = outcome {
        facts.extend(about.scenario_toml.clone().map(|text| ("scenario_toml", text)));
        facts.extend([
            ("scenario", outcome.scenario.clone()),
            ("engine", outcome.engine.to_string()),
            ("seed", outcome.seed.to_string()),
            ("duration_s", outcome.duration_s.to_string()),
            ("packets", outcome.packets.to_string()),
        ]);
    }
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The columns that name the run of a row. Only the short tables have them; the rows of many runs
/// can be put into one such table.
fn run_fields(table: Table) -> Vec<Field> {
    match table {
        Table::Flows | Table::Links | Table::Switches | Table::Decisions => vec![
            field("scenario", DataType::Utf8, false, ""),
            field("engine", DataType::Utf8, false, ""),
            field("seed", DataType::UInt64, false, ""),
        ],
        Table::FlowSamples | Table::LinkSamples => Vec::new(),
    }
}

fn run_arrays(table: Table, outcome: &Outcome, rows: usize) -> Vec<ArrayRef> {
    if run_fields(table).is_empty() {
        return Vec::new();
    }
    let texts = |text: &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows)))
    };
    vec![
        texts(&outcome.scenario),
        texts(outcome.engine.name()),
        Arc::new(UInt64Array::from(vec![outcome.seed; rows])),
    ]
}

fn fields<T>(table: Table, columns: &[Column<T>]) -> Vec<Field> {
    run_fields(table).into_iter().chain(columns.iter().map(Column::field)).collect()
}

/// The columns and the metadata of a table.
pub(crate) fn schema(table: Table, metadata: &BTreeMap<String, String>) -> SchemaRef {
    let fields = match table {
        Table::Flows => fields(table, FLOWS),
        Table::Links => fields(table, LINKS),
        Table::Switches => fields(table, SWITCHES),
        Table::Decisions => fields(table, DECISIONS),
        Table::FlowSamples => fields(table, FLOW_SAMPLES),
        Table::LinkSamples => fields(table, LINK_SAMPLES),
    };
    let metadata: HashMap<String, String> = metadata.clone().into_iter().collect();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// At most `rows` rows, beginning with row `from`.
fn slice<T>(all: &[T], from: usize, rows: usize) -> &[T] {
    let from = from.min(all.len());
    &all[from..from.saturating_add(rows).min(all.len())]
}

/// A part of a table: at most `rows` rows, beginning with row `from`.
pub(crate) fn part(
    table: Table,
    outcome: &Outcome,
    schema: &SchemaRef,
    (from, rows): (usize, usize),
) -> Result<RecordBatch, Error> {
    fn arrays<T>(columns: &[Column<T>], rows: &[T]) -> (usize, Vec<ArrayRef>) {
        (rows.len(), columns.iter().map(|column| column.array(rows)).collect())
    }
    let (rows, arrays) = match table {
        Table::Flows => arrays(FLOWS, slice(&outcome.flows, from, rows)),
        Table::Links => arrays(LINKS, slice(&outcome.links, from, rows)),
        Table::Switches => arrays(SWITCHES, slice(&switch_rows(outcome), from, rows)),
        Table::Decisions => arrays(DECISIONS, slice(&decision_rows(outcome), from, rows)),
        Table::FlowSamples => arrays(FLOW_SAMPLES, slice(&outcome.flow_samples, from, rows)),
        Table::LinkSamples => arrays(LINK_SAMPLES, slice(&outcome.link_samples, from, rows)),
    };
    let mut all = run_arrays(table, outcome, rows);
    all.extend(arrays);
    RecordBatch::try_new(Arc::clone(schema), all)
        .map_err(|source| Error::Arrow { table: table.name(), source })
}

/// A whole table of an outcome.
///
/// The schema's metadata describe the run (`scenario`, `engine`, `seed`, `duration_s`, `packets`,
/// `commit` if known, `schema_version`), and the metadata of each field have its `unit`.
pub fn batch(table: Table, outcome: &Outcome, about: &About) -> Result<RecordBatch, Error> {
    let schema = schema(table, &metadata(table, Some(outcome), about));
    part(table, outcome, &schema, (0, usize::MAX))
}

/// The rows of a table's batches.
pub(crate) fn rows<T: Default>(
    table: &'static str,
    columns: &[Column<T>],
    batches: &[RecordBatch],
) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    for batch in batches {
        let mut rows: Vec<T> = std::iter::repeat_with(T::default).take(batch.num_rows()).collect();
        for column in columns {
            column.fill(table, batch, &mut rows)?;
        }
        all.append(&mut rows);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_scenarios::outcome::{FlowOutcome, LinkOutcome};

    fn outcome() -> Outcome {
        let flows = (0..3).map(|flow| FlowOutcome { flow, ..FlowOutcome::default() });
        Outcome {
            scenario: "some".to_owned(),
            seed: u64::MAX,
            flows: flows.collect(),
            links: vec![LinkOutcome::default()],
            ..Outcome::default()
        }
    }

    #[test]
    fn a_number_has_a_unit_and_a_table_says_what_it_is_of() {
        let about = About { commit: Some("abc".to_owned()), ..About::default() };
        for table in Table::ALL {
            let batch = batch(table, &outcome(), &about).unwrap();
            let schema = batch.schema();
            for field in schema.fields() {
                let is_text = *field.data_type() == DataType::Utf8 || field.name() == "seed";
                assert_eq!(field.metadata().contains_key("unit"), !is_text, "{}", field.name());
                let unit = field.metadata().get("unit").map_or("", String::as_str);
                let named = match unit {
                    "s" | "ms" | "bytes" => field.name().split('_').any(|part| part == unit),
                    "Mbit/s" => field.name().ends_with("mbit_per_sec"),
                    _ => true,
                };
                assert!(named, "{} is in {unit}", field.name());
            }
            let wanted =
                [("scenario", "some"), ("engine", "sim"), ("seed", "18446744073709551615")];
            for (key, value) in wanted.iter().chain(&[("commit", "abc"), ("schema_version", "1")]) {
                assert_eq!(schema.metadata()[*key], *value, "{}: {key}", table.name());
            }
        }
    }

    #[test]
    fn parts_make_the_whole() {
        let (outcome, about) = (outcome(), About::default());
        let whole = batch(Table::Flows, &outcome, &about).unwrap();
        assert_eq!(whole.num_rows(), 3);
        let schema = whole.schema();
        for from in 0..4 {
            let part = part(Table::Flows, &outcome, &schema, (from, 1)).unwrap();
            assert_eq!(part, whole.slice(from.min(3), usize::from(from < 3)));
        }
    }

    #[test]
    fn a_column_that_is_missing_or_of_another_kind_is_named() {
        let batch = batch(Table::Links, &outcome(), &About::default()).unwrap();
        let without = batch.project(&[0, 1, 2, 3]).unwrap();
        let error = rows(Table::Links.name(), LINKS, &[without]).err().unwrap().to_string();
        assert_eq!(error, "table `links`: has no column `packets_in`");
        let error = rows(Table::Links.name(), &[WRONG], &[batch]).err().unwrap().to_string();
        assert!(error.contains("column `name` is Utf8"), "{error}");
    }

    const QUEUEING: Column<LinkOutcome> = crate::column!(queueing_max_ms: F64, "ms");
    const WRONG: Column<LinkOutcome> = Column { name: "name", ..QUEUEING };
}
