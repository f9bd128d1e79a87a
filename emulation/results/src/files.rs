//! Parquet files: a folder for each outcome, a file for each table.

use crate::batch::{About, metadata, part, rows, schema};
use crate::error::Error;
use crate::tables::{
    DECISIONS, DecisionRow, FLOW_SAMPLES, FLOWS, LINK_SAMPLES, LINKS, SWITCHES, Table,
};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use remuda_scenarios::outcome::{Became, Decided, Engine, FlowOutcome, Outcome, Switch};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Most rows that are converted at a time, because they are in memory twice meanwhile.
const ROWS_AT_A_TIME: usize = 1 << 16;

fn path_of(folder: &Path, table: Table) -> PathBuf {
    folder.join(format!("{}.parquet", table.name()))
}

/// A Parquet file that gets its name only when it is complete.
pub(crate) struct Whole {
    path: PathBuf,
    partial: PathBuf,
    writer: ArrowWriter<File>,
}

impl Whole {
    fn of_table(
        folder: &Path,
        table: Table,
        metadata: &BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        Self::create(&path_of(folder, table), schema(table, metadata), metadata)
    }

    /// Creates the temporary file in an existing folder.
    pub(crate) fn create(
        path: &Path,
        schema: SchemaRef,
        metadata: &BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let path = path.to_owned();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let partial = path.with_file_name(format!(".{stem}.partial"));
        let entry = |(key, value): (&String, &String)| KeyValue::new(key.clone(), value.clone());
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(metadata.iter().map(entry).collect()))
            .build();
        let file = File::create(&partial).map_err(Error::io(&partial))?;
        let writer = ArrowWriter::try_new(file, schema, Some(properties));
        let writer = writer.map_err(Error::parquet(&path))?;
        Ok(Self { path, partial, writer })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.writer.write(batch).map_err(Error::parquet(&self.path))
    }

    pub(crate) fn finish(self) -> Result<(), Error> {
        self.writer.close().map_err(Error::parquet(&self.path))?;
        fs::rename(&self.partial, &self.path).map_err(Error::io(&self.path))
    }
}

fn row_count(table: Table, outcome: &Outcome) -> usize {
    match table {
        Table::Flows => outcome.flows.len(),
        Table::Links => outcome.links.len(),
        Table::Switches => outcome.flows.iter().map(|flow| flow.switches.len()).sum(),
        Table::Decisions => outcome.flows.iter().map(|flow| flow.decisions.len()).sum(),
        Table::FlowSamples => outcome.flow_samples.len(),
        Table::LinkSamples => outcome.link_samples.len(),
    }
}

/// Writes an outcome into a folder, which is created if necessary: `flows.parquet` and so on, a
/// file for each [`Table`]. Files of these names are replaced, each only when the new one is
/// complete.
pub fn write(folder: &Path, outcome: &Outcome, about: &About) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(Error::io(folder))?;
    for table in Table::ALL {
        let metadata = metadata(table, Some(outcome), about);
        let schema = schema(table, &metadata);
        let mut file = Whole::of_table(folder, table, &metadata)?;
        for from in (0..row_count(table, outcome)).step_by(ROWS_AT_A_TIME) {
            file.write(&part(table, outcome, &schema, (from, ROWS_AT_A_TIME))?)?;
        }
        file.finish()?;
    }
    Ok(())
}

/// Many outcomes in one folder: their flows, links, switches and decisions, with the rows of all
/// runs in one file a table.
pub struct Sweep {
    files: Vec<(Table, Whole)>,
    about: About,
}

impl Sweep {
    /// Starts `flows.parquet`, `links.parquet`, `switches.parquet` and `decisions.parquet` in a
    /// folder, which is created if necessary.
    pub fn create(folder: &Path, about: &About) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let tables = [Table::Flows, Table::Links, Table::Switches, Table::Decisions];
        let create = |table: Table| {
            Ok((table, Whole::of_table(folder, table, &metadata(table, None, about))?))
        };
        let files = tables.into_iter().map(create).collect::<Result<_, Error>>()?;
        Ok(Self { files, about: about.clone() })
    }

    pub fn add(&mut self, outcome: &Outcome) -> Result<(), Error> {
        for (table, file) in &mut self.files {
            if row_count(*table, outcome) > 0 {
                let schema = schema(*table, &metadata(*table, None, &self.about));
                file.write(&part(*table, outcome, &schema, (0, usize::MAX))?)?;
            }
        }
        Ok(())
    }

    /// Completes the files and gives them their names.
    pub fn finish(self) -> Result<(), Error> {
        self.files.into_iter().try_for_each(|(_, file)| file.finish())
    }
}

/// The content of a Parquet file.
pub(crate) struct Loaded {
    pub(crate) metadata: HashMap<String, String>,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Loaded {
    /// Reads a whole file. `table` is the table's name in errors.
    pub(crate) fn from(path: &Path, table: &'static str) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::io(path))?;
        let builder =
            ParquetRecordBatchReaderBuilder::try_new(file).map_err(Error::parquet(path))?;
        let metadata = builder.schema().metadata().clone().into();
        let reader = builder.build().map_err(Error::parquet(path))?;
        let batches = reader.collect::<Result<Vec<_>, _>>();
        let batches = batches.map_err(|source| Error::Arrow { table, source })?;
        Ok(Self { metadata, batches })
    }
}

fn load(folder: &Path, table: Table) -> Result<Loaded, Error> {
    Loaded::from(&path_of(folder, table), table.name())
}

/// A value in a table's metadata.
fn fact<T>(loaded: &Loaded, key: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Error> {
    let table = Table::Flows.name();
    let Some(text) = loaded.metadata.get(key) else {
        // A table of several runs has these values in columns.
        let rule = match loaded.metadata.get("program") {
            Some(_) => "is of several runs; read one of the folders beside it, NAME-seedN".into(),
            None => format!("its metadata lack `{key}`; it is not a table of remuda"),
        };
        return Err(Error::Table { table, rule });
    };
    let rule = || format!("its metadata have the invalid value {text:?} for `{key}`");
    parse(text).ok_or_else(|| Error::Table { table, rule: rule() })
}

/// Reads an outcome that [`write()`] has written.
pub fn read(folder: &Path) -> Result<Outcome, Error> {
    let flows = load(folder, Table::Flows)?;
    let mut outcome = Outcome {
        scenario: fact(&flows, "scenario", |text| Some(text.to_owned()))?,
        engine: fact(&flows, "engine", Engine::named)?,
        seed: fact(&flows, "seed", |text| text.parse().ok())?,
        duration_s: fact(&flows, "duration_s", |text| text.parse().ok())?,
        packets: fact(&flows, "packets", |text| text.parse().ok())?,
        flows: rows(Table::Flows.name(), FLOWS, &flows.batches)?,
        links: rows(Table::Links.name(), LINKS, &load(folder, Table::Links)?.batches)?,
        ..Outcome::default()
    };
    let samples = load(folder, Table::FlowSamples)?.batches;
    outcome.flow_samples = rows(Table::FlowSamples.name(), FLOW_SAMPLES, &samples)?;
    let samples = load(folder, Table::LinkSamples)?.batches;
    outcome.link_samples = rows(Table::LinkSamples.name(), LINK_SAMPLES, &samples)?;
    let switches = load(folder, Table::Switches)?.batches;
    for row in rows(Table::Switches.name(), SWITCHES, &switches)? {
        let flow = flow_of(&mut outcome, Table::Switches, row.flow)?;
        let (t_s, from, to, why) = (row.t_s, row.from, row.to, row.why);
        flow.switches.push(Switch { t_s, from, to, why });
    }
    let decisions = load(folder, Table::Decisions)?.batches;
    for row in rows(Table::Decisions.name(), DECISIONS, &decisions)? {
        let flow = flow_of(&mut outcome, Table::Decisions, row.flow)?;
        flow.decisions.push(decided(row)?);
    }
    Ok(outcome)
}

/// The flow to which a row belongs.
fn flow_of(outcome: &mut Outcome, table: Table, number: u32) -> Result<&mut FlowOutcome, Error> {
    let rule = || format!("column `flow` has {number}, and there is no such flow");
    let flow = outcome.flows.iter_mut().find(|flow| flow.flow == number);
    flow.ok_or_else(|| Error::Table { table: table.name(), rule: rule() })
}

fn decided(row: DecisionRow) -> Result<Decided, Error> {
    let refuse = |rule| Error::Table { table: Table::Decisions.name(), rule };
    let unknown = || refuse(format!("column `became` has the unknown value {:?}", row.became));
    let became = Became::named(&row.became).ok_or_else(unknown)?;
    let features = serde_json::from_str(&row.features);
    let features = features.map_err(|error| {
        refuse(format!("column `features` is not a JSON object of texts: {error}"))
    })?;
    let DecisionRow { t_s, arm, to, why, .. } = row;
    Ok(Decided { t_s, became, arm, to, why, features })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_that_is_none_is_named_by_column() {
        let row = |became: &str, features: &str| DecisionRow {
            became: became.to_owned(),
            features: features.to_owned(),
            ..DecisionRow::default()
        };
        assert!(decided(row("stayed", "{}")).is_ok());
        for (became, features, want) in [
            ("left", "{}", "table `decisions`: column `became` has the unknown value \"left\""),
            ("stayed", "", "table `decisions`: column `features` is not a JSON object"),
            ("stayed", "{\"a\": 1}", "column `features` is not a JSON object of texts"),
        ] {
            let error = decided(row(became, features)).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
