//! Sample files: JSON lines, within a limit on disk space.
//!
//! The first line of a file gives the names and the schema hash of its features. A file holds at
//! most an eighth of the limit; then the next file starts and the oldest files are deleted. If a
//! line cannot be written whole, the file is cut back to the line before, so a reader never meets
//! half a line.

use crate::error::on;
use crate::run_dir::RunDir;
use crate::{Error, clock};
use remuda_selector::features::{SchemaHash, schema};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Version of the file format, written in the first line.
const FORMAT: u32 = 1;
/// The number of files that share the disk limit.
const FILES: u64 = 8;

/// The first line of a file: how to read its rows.
#[derive(Serialize)]
struct Head {
    format: u32,
    schema_version: u32,
    schema_hash: String,
    features: Vec<&'static str>,
    version: &'static str,
    began_unix_us: u64,
}

/// The sample files of one directory, locked by this agent.
#[derive(Debug)]
pub struct SampleFiles {
    dir: RunDir,
    bytes_max: u64,
    began_unix_us: fn() -> u64,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
}

fn name(number: u64) -> String {
    format!("samples-{number:010}.jsonl")
}

/// The number in the name of a sample file; `None` for any other file.
fn number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("samples-")?.strip_suffix(".jsonl")?.parse().ok()
}

impl SampleFiles {
    /// Creates the directory if it is absent, and locks it.
    ///
    /// # Errors
    ///
    /// The directory is not private, or another agent holds its lock.
    pub fn take(dir: &Path, bytes_max: u64) -> Result<Self, Error> {
        let began_unix_us = || u64::try_from(clock::wall().as_micros()).unwrap_or(u64::MAX);
        Ok(Self { dir: RunDir::take(dir)?, bytes_max, began_unix_us, open: None })
    }

    /// Like [`Self::take`], but every file says that it began in 1970, so a simulation with the
    /// same seed writes the same bytes.
    ///
    /// # Errors
    ///
    /// As [`Self::take`].
    pub fn simulated(dir: &Path, bytes_max: u64) -> Result<Self, Error> {
        Ok(Self { began_unix_us: || 0, ..Self::take(dir, bytes_max)? })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Number, path and size in bytes of each sample file, oldest first.
    fn all(&self) -> io::Result<Vec<(u64, PathBuf, u64)>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.path())? {
            let path = entry?.path();
            let about = fs::symlink_metadata(&path)?;
            if let (Some(number), true) = (number(&path), about.is_file()) {
                all.push((number, path, about.len()));
            }
        }
        all.sort();
        Ok(all)
    }

    /// Deletes the oldest files until the next one fits the limit, then starts it.
    fn start_file(&mut self) -> io::Result<&mut Open> {
        let all = self.all()?;
        let mut bytes: u64 = all.iter().map(|(_, _, bytes)| bytes).sum();
        let room = self.bytes_max - self.bytes_max / FILES;
        for (_, path, size) in &all {
            if bytes <= room {
                break;
            }
            fs::remove_file(path)?;
            bytes -= size;
        }
        let next = all.last().map_or(1, |(number, _, _)| number.saturating_add(1));
        let mut options = OpenOptions::new();
        options.create_new(true).append(true).mode(0o600);
        let path = self.path().join(name(next));
        let file = options.open(&path)?;
        let head = Head {
            format: FORMAT,
            schema_version: schema().version,
            schema_hash: SchemaHash::ours().to_string(),
            features: schema().features.iter().map(|it| it.name.as_str()).collect(),
            version: env!("CARGO_PKG_VERSION"),
            began_unix_us: (self.began_unix_us)(),
        };
        let mut open = Open { file, bytes: 0 };
        if let Err(error) = open.write(&serde_json::to_string(&head).expect("it is plain data")) {
            // Without this, every sample on a full disk would leave one more empty file.
            fs::remove_file(&path)?;
            return Err(error);
        }
        Ok(self.open.insert(open))
    }

    /// Appends a line.
    ///
    /// # Errors
    ///
    /// The write failed, for example because the disk is full. The file then ends with the line
    /// before.
    pub fn add(&mut self, line: &str) -> Result<(), Error> {
        let bytes_max = self.bytes_max / FILES;
        let fits = |open: &&mut Open| open.bytes + (line.len() as u64) < bytes_max;
        let added = match self.open.as_mut().filter(fits) {
            Some(open) => open.write(line),
            None => self.start_file().and_then(|open| open.write(line)),
        };
        if added.is_err() {
            self.open = None; // its directory may have been deleted
        }
        added.map_err(on(self.path().display()))
    }
}

impl Open {
    fn write(&mut self, line: &str) -> io::Result<()> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        match written {
            Ok(()) => self.bytes += line.len() as u64 + 1,
            Err(_) => self.file.set_len(self.bytes)?,
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::os::unix::fs::PermissionsExt;

    const BUDGET: u64 = 64 << 10;

    fn lines(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).expect("a file");
        text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
    }

    #[test]
    fn a_file_says_first_what_its_rows_mean() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("samples");
        let mut files = SampleFiles::take(&dir, BUDGET).expect("it is free");
        files.add("{\"a\":1}").expect("it is written");
        files.add("{\"a\":2}").expect("it is written");
        let path = dir.join(name(1));
        let lines = lines(&path);
        assert_eq!(lines[0]["schema_hash"], SchemaHash::ours().to_string());
        assert_eq!(lines[0]["features"].as_array().expect("a list").len(), schema().features.len());
        assert_eq!((lines.len(), &lines[2]["a"]), (3, &Value::from(2)));
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        // A second agent cannot take the directory, and the next agent starts a new file.
        SampleFiles::take(&dir, BUDGET).expect_err("it is taken");
        drop(files);
        let mut files = SampleFiles::take(&dir, BUDGET).expect("it is free");
        files.add("{}").expect("it is written");
        assert!(dir.join(name(2)).exists());
    }

    #[test]
    fn the_oldest_make_room_and_what_is_not_ours_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("samples");
        let mut files = SampleFiles::take(&dir, BUDGET).expect("it is free");
        fs::write(dir.join("samples-x.jsonl"), "mine").expect("it is written");
        let line = format!("{{\"a\":\"{}\"}}", "x".repeat(900));
        for _ in 0..300 {
            files.add(&line).expect("it is written");
            let bytes: u64 = files.all().expect("they are there").iter().map(|it| it.2).sum();
            assert!(bytes <= BUDGET, "{bytes} bytes");
        }
        let all = files.all().expect("they are there");
        assert!(all.len() > 4 && all[0].0 > 1, "{all:?}");
        assert!(all.iter().all(|(_, path, _)| lines(path).len() > 1));
        assert!(dir.join("samples-x.jsonl").exists());
    }

    #[test]
    fn whatever_fails_a_line_that_was_added_stays_and_the_next_one_is_added() {
        let long = |n: usize| format!("{{\"n\":{n},\"x\":\"{}\"}}", "x".repeat(900));
        let begin = || {
            let folder = tempfile::tempdir().expect("a folder");
            let files = SampleFiles::take(&folder.path().join("samples"), BUDGET).expect("free");
            (folder, files)
        };
        // A file has 8 KiB, so the second half is in another one.
        let act = |(_, files): &mut (tempfile::TempDir, SampleFiles)| {
            (0..8).filter(|n| files.add(&long(*n)).is_ok()).collect::<Vec<usize>>()
        };
        let failures = crate::faults::each(begin, act, |(_folder, mut files), added, failure| {
            files.add(&long(8)).unwrap_or_else(|error| panic!("{failure:?}: {error}"));
            let mut there = Vec::new();
            for (_, path, _) in files.all().expect("they are there") {
                let text = fs::read_to_string(&path).expect("a file");
                let lines: Vec<&str> = text.lines().collect();
                for (at, line) in lines.iter().enumerate() {
                    match serde_json::from_str::<Value>(line) {
                        Ok(value) => there.extend(value["n"].as_u64()),
                        // A part of a line that could not be cut off ends its file.
                        Err(_) => assert_eq!(at + 1, lines.len(), "{failure:?}"),
                    }
                }
            }
            let is_there = |n: &usize| there.contains(&(*n as u64));
            assert!(added.iter().chain([&8]).all(is_there), "{failure:?}: {added:?}, {there:?}");
        });
        println!("samples: {failures} failures");
        assert!(failures >= 40, "{failures}");
    }
}
