//! The file of the memory. Reading trusts nothing; writing replaces the file whole or leaves it as
//! it was.

use crate::run_dir::{self, RunDir};
use crate::{Error, clock, state_file};
use remuda_selector::antelope::memory::{DESTINATION_BYTES_MAX, Memory, MemoryConfig};
use std::path::{Path, PathBuf};

/// The largest file that is read. The largest memory that can be configured needs less.
const FILE_BYTES_MAX: u64 = 2 * 32_768 * DESTINATION_BYTES_MAX as u64 + 4_096;

/// The memory file in a state directory that this agent has locked.
#[derive(Debug)]
pub struct MemoryFile {
    path: PathBuf,
    _dir: RunDir,
}

impl MemoryFile {
    /// Creates and locks the state directory. The file itself may be absent.
    pub fn take(state_dir: &Path) -> Result<Self, Error> {
        let dir = RunDir::take(state_dir)?;
        Ok(Self { path: run_dir::memory_file(dir.path()), _dir: dir })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the memory; `None` if there is no file. An error names the rule that the file breaks.
    pub fn read(&self, config: &MemoryConfig) -> Result<Option<Memory>, String> {
        let Some(text) = state_file::read(&self.path, "memory", FILE_BYTES_MAX)? else {
            return Ok(None);
        };
        let (now_s, now_unix_s) = (clock::monotonic_s(), clock::wall().as_secs());
        let memory = Memory::parse(&text, config, now_s, now_unix_s);
        memory.map(Some).map_err(|error| error.to_string())
    }

    /// Renames the file, so that its content is not lost, and returns the new path.
    pub fn set_aside(&self) -> Result<PathBuf, Error> {
        state_file::set_aside(&self.path)
    }

    /// Replaces the file. After an error the old file is unchanged.
    pub fn write(&self, text: &str) -> Result<(), Error> {
        state_file::write(&self.path, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::net::IpAddr;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    fn taken() -> (TempDir, MemoryFile) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = MemoryFile::take(&folder.path().join("state")).expect("it is free");
        (folder, file)
    }

    fn config() -> MemoryConfig {
        MemoryConfig::default()
    }

    fn known() -> Memory {
        let mut memory = Memory::new(&config());
        memory.note("192.0.2.7".parse::<IpAddr>().unwrap(), "bbr", 0.7, clock::monotonic_s());
        memory
    }

    fn text() -> String {
        known().to_json(clock::monotonic_s(), clock::wall().as_secs())
    }

    #[test]
    fn what_is_written_is_private_and_read_again() {
        let (_folder, file) = taken();
        assert!(file.read(&config()).expect("nothing is no fault").is_none());
        file.write(&text()).expect("it is written");
        let memory = file.read(&config()).expect("it is taken").expect("it is there");
        assert_eq!(memory.len(), 2);
        let mode = fs::metadata(file.path()).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!file.path().with_extension("new").exists());
    }

    #[test]
    fn one_agent_a_state_directory() {
        let (folder, _file) = taken();
        let error = MemoryFile::take(&folder.path().join("state")).expect_err("it is taken");
        assert!(error.to_string().contains("--state-dir"), "{error}");
    }

    #[test]
    fn what_breaks_a_rule_is_set_aside_each_time_under_a_name_of_its_own() {
        let (_folder, file) = taken();
        let broken = [
            (text().into_bytes()[..40].to_vec(), "EOF"),
            (vec![0xff; 64], "UTF-8"),
            (b"{}".to_vec(), "missing field"),
            (text().replace("\"version\":1", "\"version\":2").into_bytes(), "it must be 1"),
        ];
        for (n, (bytes, rule)) in (1..).zip(&broken) {
            fs::write(file.path(), bytes).expect("it is written");
            let said = file.read(&config()).expect_err("it is refused");
            assert!(said.contains(rule), "{said}");
            let to = file.set_aside().expect("it is renamed");
            assert!(to.ends_with(format!("memory.refused.{n}")), "{}", to.display());
            assert_eq!(&fs::read(&to).expect("it is kept"), bytes);
            assert!(file.read(&config()).expect("nothing is left").is_none());
        }
    }

    #[test]
    fn a_file_that_is_too_long_is_not_read_to_its_end() {
        let (_folder, file) = taken();
        let long = File::create(file.path()).expect("it is made");
        long.set_len(FILE_BYTES_MAX + 1).expect("a sparse file");
        let said = file.read(&config()).expect_err("it is refused");
        assert!(said.contains("a memory is never so large"), "{said}");
    }

    #[test]
    fn links_folders_and_pipes_are_no_memories() {
        let (folder, file) = taken();
        symlink(folder.path().join("elsewhere"), file.path()).expect("a link");
        assert!(file.read(&config()).is_err());
        file.set_aside().expect("it is renamed");
        fs::create_dir(file.path()).expect("a folder");
        assert!(file.read(&config()).is_err());
        file.set_aside().expect("it is renamed");
        nix::unistd::mkfifo(file.path(), nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
        assert_eq!(file.read(&config()).expect_err("refused"), "it is not a regular file");
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file_as_it_was() {
        let (_folder, file) = taken();
        file.write(&text()).expect("it is written");
        let before = fs::read(file.path()).expect("it is there");
        let new = file.path().with_extension("new");
        fs::create_dir(&new).expect("where the new one would be");
        let error = file.write("{}").expect_err("it cannot be").to_string();
        assert!(error.contains("memory.json"), "{error}");
        assert_eq!(fs::read(file.path()).expect("it is there"), before);
    }
}
