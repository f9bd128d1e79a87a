//! Model files that survive a restart. Reading trusts nothing; each file is written whole or not at
//! all.
//!
//! ```text
//! base.json       the configured or shipped model, as a parent to train from
//! candidate.json  written by the trainer; stays here while it is compared
//! current.json    the model in force, unless that is the base
//! previous.json   the model in force before
//! refused.json    the last candidate that broke a rule, was not better, or was dropped
//! left.json       the last model that was in force and then given up
//! state.json      the base that current.json descends from, and since when it is in force
//! ```
//!
//! Files change only by renames and links within the directory, so a full disk loses nothing.

use crate::error::on;
use crate::run_dir::RunDir;
use crate::state_file::absent_is_none;
use crate::{Error, state_file};
use remuda_selector::antelope::model::{self, Model, digest_of};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Version of the format of state.json.
const VERSION: u32 = 1;
/// A larger model file is refused.
const BYTES_MAX: u64 = model::BYTES_MAX as u64;
/// A larger state file is refused.
const STATE_BYTES_MAX: u64 = 4_096;

/// The role of a model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The configured or shipped model.
    Base,
    Candidate,
    /// The model in force, unless that is the base.
    Current,
    Previous,
    /// The last candidate that was rejected.
    Refused,
    /// The last model that was in force and then given up.
    Left,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Base => "base.json",
            Self::Candidate => "candidate.json",
            Self::Current => "current.json",
            Self::Previous => "previous.json",
            Self::Refused => "refused.json",
            Self::Left => "left.json",
        }
    }
}

/// The content of state.json, about the model in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    version: u32,
    /// The digest of the base that the model descends from.
    base: String,
    since_unix_s: u64,
}

impl State {
    /// Describes a model that descends from the base with this digest. `since_unix_s` is for
    /// display.
    pub fn new(base: &str, since_unix_s: u64) -> Self {
        Self { version: VERSION, base: base.to_owned(), since_unix_s }
    }
}

/// Tells one file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// The model files in a directory that this agent has locked.
#[derive(Debug)]
pub struct Store {
    dir: RunDir,
    /// The candidate file seen at the last check.
    looked_at: Option<Identity>,
}

impl Store {
    /// Creates the directory if it is absent, and locks it.
    pub fn take(dir: &Path) -> Result<Self, Error> {
        let store = Self { dir: RunDir::take(dir)?, looked_at: None };
        // An agent died while a candidate took over. Restore the candidate, unless there is a newer
        // one.
        if !store.path(Place::Candidate).exists() {
            let renamed = absent_is_none(fs::rename(store.taken(), store.path(Place::Candidate)));
            renamed.map_err(on(store.taken().display()))?;
        }
        Ok(store)
    }

    pub fn path(&self, place: Place) -> PathBuf {
        self.dir.path().join(place.name())
    }

    /// The candidate during a take-over, before it becomes the current model.
    fn taken(&self) -> PathBuf {
        self.path(Place::Current).with_extension("new")
    }

    fn state_path(&self) -> PathBuf {
        self.dir.path().join("state.json")
    }

    /// Reads a model; `None` if there is no file. An error names the rule that the file breaks.
    pub fn read(&self, place: Place) -> Result<Option<Model>, String> {
        let text = state_file::read(&self.path(place), "model", BYTES_MAX)?;
        text.map(|text| Model::parse(&text).map_err(|error| error.to_string())).transpose()
    }

    /// The model in force and since when; `None` if the base is in force. An error says why the
    /// file cannot be used.
    pub fn current(&self, base: &str) -> Result<Option<(Model, u64)>, String> {
        let Some(model) = self.read(Place::Current)? else { return Ok(None) };
        let in_state = |rule: String| format!("state.json: {rule}");
        let text = state_file::read(&self.state_path(), "state", STATE_BYTES_MAX);
        let text = text.map_err(in_state)?;
        let text = text.ok_or_else(|| in_state("it is missing".to_owned()))?;
        let state: State =
            serde_json::from_str(&text).map_err(|error| in_state(error.to_string()))?;
        if state.version != VERSION {
            return Err(in_state(format!("version = {}: it must be {VERSION}", state.version)));
        }
        if state.base != base {
            let rule = "the configured or shipped model has changed since";
            return Err(format!("it was trained from {}: {rule}", state.base));
        }
        Ok(Some((model, state.since_unix_s)))
    }

    /// Writes base.json, unless it already has this text.
    pub fn keep_base(&self, text: &str) -> Result<(), Error> {
        let there = state_file::read(&self.path(Place::Base), "model", BYTES_MAX);
        if there.is_ok_and(|there| there.is_some_and(|it| it == text)) {
            return Ok(());
        }
        state_file::write(&self.path(Place::Base), text)
    }

    /// Whether the candidate file was replaced or deleted since the last call.
    pub fn has_news(&mut self) -> bool {
        let about = fs::symlink_metadata(self.path(Place::Candidate)).ok();
        let identity = about.map(|about| Identity {
            device: about.dev(),
            inode: about.ino(),
            bytes: about.size(),
            modified: (about.mtime(), about.mtime_nsec()),
        });
        std::mem::replace(&mut self.looked_at, identity) != identity
    }

    /// Renames a model file. An absent file is not an error.
    pub fn rename(&self, from: Place, to: Place) -> Result<(), Error> {
        let renamed = absent_is_none(fs::rename(self.path(from), self.path(to)));
        renamed.map_err(on(self.path(from).display()))?;
        self.sync()
    }

    /// Deletes a model file. An absent file is not an error.
    pub fn remove(&self, place: Place) -> Result<(), Error> {
        let removed = absent_is_none(fs::remove_file(self.path(place)));
        removed.map_err(on(self.path(place).display())).map(|_| ())
    }

    /// Makes the candidate with this digest the current model. The model that was in force, in the
    /// file `before` (base or current), becomes the previous one.
    ///
    /// # Errors
    ///
    /// The candidate file was replaced since, or a write failed. The model in force then stays.
    pub fn take_over(&self, digest: &str, before: Place, state: &State) -> Result<(), Error> {
        let taken = self.taken();
        let (candidate, current) = (self.path(Place::Candidate), self.path(Place::Current));
        fs::rename(&candidate, &taken).map_err(on(candidate.display()))?;
        let prepared = self.prepare(&taken, digest, before).and_then(|()| self.write_state(state));
        let done =
            prepared.and_then(|()| fs::rename(&taken, &current).map_err(on(current.display())));
        if done.is_err() {
            let _ = fs::rename(&taken, &candidate); // report the first error, not this one
        }
        done?;
        // The new model has the name by now, so the next agent starts with it unless this host
        // loses its power before the disk has written the folder.
        if let Err(error) = self.sync() {
            tracing::warn!(%error, "a new model may not survive a loss of power");
        }
        Ok(())
    }

    /// Checks the candidate again, now that the trainer cannot replace it, and links the model in
    /// force as the previous one.
    fn prepare(&self, taken: &Path, digest: &str, before: Place) -> Result<(), Error> {
        let refuse = |rule: String| {
            let path = self.path(Place::Candidate).display().to_string();
            Error::Config { path, rule }
        };
        let text = state_file::read(taken, "model", BYTES_MAX).map_err(refuse)?;
        if text.is_none_or(|text| digest_of(&text) != digest) {
            return Err(refuse("another candidate has replaced it".to_owned()));
        }
        File::open(taken).and_then(|file| file.sync_all()).map_err(on(taken.display()))?;
        self.remove(Place::Previous)?;
        let previous = self.path(Place::Previous);
        fs::hard_link(self.path(before), &previous).map_err(on(previous.display()))
    }

    /// Puts the previous model back in force, or the base if `to` is the base. The model given up
    /// becomes left.json, and there is no previous model any more.
    pub fn go_back(&self, to: Place, state: &State) -> Result<(), Error> {
        self.rename(Place::Current, Place::Left)?;
        if to == Place::Base {
            return self.remove(Place::Previous).and_then(|()| self.sync());
        }
        self.write_state(state)?;
        self.rename(Place::Previous, Place::Current)
    }

    fn write_state(&self, state: &State) -> Result<(), Error> {
        let text = serde_json::to_string(state).expect("it is plain data");
        state_file::write(&self.state_path(), &text)
    }

    fn sync(&self) -> Result<(), Error> {
        state_file::sync_folder(self.dir.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults;
    use tempfile::TempDir;

    const TEXTS: [(Place, &str); 3] = [
        (Place::Base, "the base"),
        (Place::Current, "in force"),
        (Place::Candidate, "a candidate"),
    ];

    struct Rig {
        folder: TempDir,
        store: Option<Store>,
    }

    impl Rig {
        fn dir(&self) -> PathBuf {
            self.folder.path().join("models")
        }

        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let mut rig = Self { folder, store: None };
            let store = Store::take(&rig.dir()).expect("it is free");
            for (place, text) in TEXTS {
                state_file::write(&store.path(place), text).expect("it is written");
            }
            store.write_state(&State::new("base", 1)).expect("it is written");
            rig.store = Some(store);
            rig
        }

        fn store(&self) -> &Store {
            self.store.as_ref().expect("it is taken")
        }

        fn text(&self, place: Place) -> Option<String> {
            fs::read_to_string(self.store().path(place)).ok()
        }

        /// As the next agent finds the files.
        fn take_again(&mut self) {
            self.store = None;
            self.store = Some(Store::take(&self.dir()).expect("it is free again"));
            let text = fs::read_to_string(self.store().state_path()).expect("a state");
            serde_json::from_str::<State>(&text).expect("it is whole");
        }

        fn has_all(&self) -> bool {
            let files = fs::read_dir(self.dir()).expect("a folder").flatten();
            let there: Vec<String> =
                files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
            TEXTS.iter().all(|(_, text)| there.iter().any(|it| it == text))
        }
    }

    #[test]
    fn whatever_fails_a_take_over_is_whole_or_has_not_been() {
        let act = |rig: &mut Rig| {
            let state = State::new("base", 2);
            rig.store().take_over(&digest_of("a candidate"), Place::Current, &state)
        };
        let failures = faults::each(Rig::new, act, |mut rig, done, failure| {
            let want = if done.is_ok() { "a candidate" } else { "in force" };
            assert_eq!(rig.text(Place::Current).as_deref(), Some(want), "{failure:?}");
            rig.take_again();
            assert!(rig.has_all(), "{failure:?}");
            let candidate = rig.text(Place::Candidate);
            assert_eq!(candidate.is_none(), done.is_ok(), "{failure:?}: {candidate:?}");
            if done.is_err() {
                act(&mut rig).unwrap_or_else(|error| panic!("{failure:?}: {error}"));
            }
        });
        println!("a take-over of a model: {failures} failures");
        assert!(failures >= 40, "{failures}");
    }

    #[test]
    fn whatever_fails_going_back_loses_no_model() {
        let begin = || {
            let rig = Rig::new();
            let state = State::new("base", 2);
            let taken = rig.store().take_over(&digest_of("a candidate"), Place::Current, &state);
            taken.expect("it takes over");
            rig
        };
        let act = |rig: &mut Rig| rig.store().go_back(Place::Previous, &State::new("base", 3));
        let failures = faults::each(begin, act, |mut rig, done, failure| {
            rig.take_again();
            assert!(rig.has_all(), "{failure:?}");
            if done.is_ok() {
                assert_eq!(rig.text(Place::Current).as_deref(), Some("in force"), "{failure:?}");
            }
        });
        println!("going back to a model: {failures} failures");
        assert!(failures >= 20, "{failures}");
    }
}
