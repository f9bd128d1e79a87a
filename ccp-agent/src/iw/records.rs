//! Records on disk: Parquet files, within a limit on disk space.
//!
//! Each file holds the records of one interval. It is written beside, synced and renamed, so a
//! reader meets whole files alone. The oldest files are deleted to stay below the limit.

use crate::error::on;
use crate::{Error, state_file};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use remuda_selector::tcp_rl::record::Record;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The columns, in their order: those of [`Record`].
const COLUMNS: [(&str, DataType); 11] = [
    ("ended_unix_s", DataType::UInt64),
    ("peer", DataType::Utf8),
    ("uid", DataType::UInt32),
    ("size_bytes", DataType::UInt64),
    ("response_us", DataType::UInt64),
    ("srtt_us", DataType::UInt32),
    ("lost_share", DataType::Float64),
    ("mss_bytes", DataType::UInt32),
    ("peer_window_bytes", DataType::UInt32),
    ("initial_cwnd_pkts", DataType::UInt32),
    ("arm", DataType::Utf8),
];

/// The files of records of one directory, which the caller has locked.
#[derive(Debug)]
pub struct RecordFiles {
    dir: PathBuf,
    bytes_max: u64,
}

/// The number in the name of a file of records; `None` for any other file.
fn number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("records-")?.strip_suffix(".parquet")?.parse().ok()
}

impl RecordFiles {
    pub fn new(dir: &Path, bytes_max: u64) -> Self {
        Self { dir: dir.to_owned(), bytes_max }
    }

    /// Number, path and size in bytes of each file, oldest first.
    pub fn all(&self) -> io::Result<Vec<(u64, PathBuf, u64)>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let about = fs::symlink_metadata(&path)?;
            if let (Some(number), true) = (number(&path), about.is_file()) {
                all.push((number, path, about.len()));
            }
        }
        all.sort();
        Ok(all)
    }

    /// Writes records into a file of their own, and deletes the oldest files beyond the limit.
    ///
    /// # Errors
    ///
    /// A write failed. The records are in no file then.
    pub fn put(&self, records: &[Record]) -> Result<(), Error> {
        if records.is_empty() {
            return Ok(());
        }
        let all = self.all().map_err(on(self.dir.display()))?;
        let next = all.last().map_or(1, |(number, ..)| number.saturating_add(1));
        let path = self.dir.join(format!("records-{next:010}.parquet"));
        let bytes = encode(records).map_err(on(path.display()))?;
        let mut left = all.iter().map(|(.., bytes)| bytes).sum::<u64>() + bytes.len() as u64;
        for (_, old, size) in all {
            if left <= self.bytes_max {
                break;
            }
            fs::remove_file(&old).map_err(on(old.display()))?;
            left -= size;
        }
        state_file::write_bytes(&path, &bytes)
    }
}

fn encode(records: &[Record]) -> io::Result<Vec<u8>> {
    let u64s = |of: fn(&Record) -> u64| -> ArrayRef {
        Arc::new(records.iter().map(of).collect::<UInt64Array>())
    };
    let u32s = |of: fn(&Record) -> u32| -> ArrayRef {
        Arc::new(records.iter().map(of).collect::<UInt32Array>())
    };
    let peers: StringArray = records.iter().map(|it| Some(it.peer.to_string())).collect();
    let lost: Float64Array = records.iter().map(|it| it.lost_share).collect();
    let arms: StringArray = records.iter().map(|it| Some(it.arm.as_str())).collect();
    let columns: Vec<ArrayRef> = vec![
        u64s(|it| it.ended_unix_s),
        Arc::new(peers),
        u32s(|it| it.uid),
        u64s(|it| it.size_bytes),
        u64s(|it| it.response_us),
        u32s(|it| it.srtt_us),
        Arc::new(lost),
        u32s(|it| it.mss_bytes),
        u32s(|it| it.peer_window_bytes),
        u32s(|it| it.initial_cwnd_pkts),
        Arc::new(arms),
    ];
    let fields = COLUMNS.map(|(name, kind)| Field::new(name, kind, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(io::Error::other)?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut bytes = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut bytes, schema, Some(properties)).map_err(io::Error::other)?;
    writer.write(&batch).map_err(io::Error::other)?;
    writer.close().map_err(io::Error::other)?;
    Ok(bytes)
}

/// Reads a file of records, and calls `take` with each. An error names the row and the rule that
/// it breaks; the rows before it have been taken.
pub fn read(path: &Path, now_unix_s: u64, mut take: impl FnMut(Record)) -> Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|it| it.to_string())?;
    let fields = builder.schema().fields();
    let has = COLUMNS
        .iter()
        .zip(fields)
        .filter(|((name, kind), field)| field.name() == name && field.data_type() == kind);
    if has.count() != COLUMNS.len() || fields.len() != COLUMNS.len() {
        let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        return Err(format!("its columns must be {}", names.join(", ")));
    }
    let mut row = 0;
    for batch in builder.build().map_err(|error| error.to_string())? {
        let batch = batch.map_err(|error| error.to_string())?;
        for at in 0..batch.num_rows() {
            row += 1;
            let record = decode(&batch, at).map_err(|rule| format!("row {row}: {rule}"))?;
            record.check(now_unix_s).map_err(|rule| format!("row {row}: {rule}"))?;
            take(record);
        }
    }
    Ok(())
}

fn value<T: ArrowPrimitiveType>(batch: &RecordBatch, column: usize, row: usize) -> T::Native {
    batch.column(column).as_primitive::<T>().value(row)
}

fn decode(batch: &RecordBatch, row: usize) -> Result<Record, String> {
    if let Some(at) = batch.columns().iter().position(|column| column.is_null(row)) {
        return Err(format!("{} is absent", COLUMNS[at].0));
    }
    let text = |column: usize| batch.column(column).as_string::<i32>().value(row);
    let peer = text(1).parse().map_err(|_| format!("peer = {:?}: it is no address", text(1)))?;
    Ok(Record {
        ended_unix_s: value::<UInt64Type>(batch, 0, row),
        peer,
        uid: value::<UInt32Type>(batch, 2, row),
        size_bytes: value::<UInt64Type>(batch, 3, row),
        response_us: value::<UInt64Type>(batch, 4, row),
        srtt_us: value::<UInt32Type>(batch, 5, row),
        lost_share: value::<Float64Type>(batch, 6, row),
        mss_bytes: value::<UInt32Type>(batch, 7, row),
        peer_window_bytes: value::<UInt32Type>(batch, 8, row),
        initial_cwnd_pkts: value::<UInt32Type>(batch, 9, row),
        arm: text(10).to_owned(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn record(peer: &str, cwnd_pkts: u32) -> Record {
        Record {
            ended_unix_s: 1_000,
            peer: peer.parse().expect("an address"),
            uid: 0,
            size_bytes: 120_000,
            response_us: 120_000,
            srtt_us: 40_000,
            lost_share: 0.01,
            mss_bytes: 1_448,
            peer_window_bytes: 65_535,
            initial_cwnd_pkts: cwnd_pkts,
            arm: "cubic".to_owned(),
        }
    }

    fn read_all(files: &RecordFiles) -> Vec<Record> {
        let mut records = Vec::new();
        for (_, path, _) in files.all().expect("a folder") {
            read(&path, 1_000, |it| records.push(it)).expect("it is whole");
        }
        records
    }

    #[test]
    fn records_survive_a_file_and_the_oldest_files_make_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = RecordFiles::new(folder.path(), 1 << 20);
        let first: Vec<Record> = (10..20).map(|pkts| record("192.0.2.1", pkts)).collect();
        let second = vec![record("2001:db8::1", 7)];
        files.put(&first).expect("there is room");
        files.put(&[]).expect("nothing is no file");
        files.put(&second).expect("there is room");
        assert_eq!(read_all(&files), [&first[..], &second].concat());
        let size = files.all().expect("two files")[1].2;
        let small = RecordFiles::new(folder.path(), 2 * size + 10);
        small.put(&second).expect("there is room");
        assert_eq!(read_all(&small), [&second[..], &second].concat(), "the first file made room");
    }

    #[test]
    fn a_file_that_is_cut_or_impossible_is_refused_with_row_and_rule() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = RecordFiles::new(folder.path(), 1 << 20);
        let bad = Record { response_us: 0, ..record("192.0.2.1", 10) };
        files.put(&[record("192.0.2.1", 10), bad]).expect("there is room");
        let path = files.all().expect("one file")[0].1.clone();
        let error = read(&path, 1_000, |_| ()).expect_err("impossible");
        assert!(error.starts_with("row 2: response_us = 0: it must lie in"), "{error}");
        let bytes = fs::read(&path).expect("a file");
        for length in [0, 4, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&path, &bytes[..length]).expect("it is written");
            read(&path, 1_000, |_| ()).expect_err("it is cut");
        }
    }
}
