//! The models that outlive the agent: read without trust, each there whole or not at all.
//!
//! ```text
//! base.json       the configured or shipped model, as a parent to train from
//! candidate.json  from the trainer; it lies there for as long as it is in the shadow
//! current.json    in force, if it is not the base
//! previous.json   in force before
//! refused.json    the last candidate that was none, lost, or was dropped
//! left.json       the last one that was in force and is not gone back to
//! state.json      of which base current.json descends, and since when it is in force
//! ```
//!
//! Files change by renames and links within the folder, so a disk that is full keeps what is there.

use crate::error::on;
use crate::run_dir::RunDir;
use crate::state_file::absent_is_none;
use crate::{Error, state_file};
use remuda_selector::antelope::model::{self, Model, digest_of};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The form of state.json.
const VERSION: u32 = 1;
/// A longer model is none.
const BYTES_MAX: u64 = model::BYTES_MAX as u64;
/// A longer state is none.
const STATE_BYTES_MAX: u64 = 4_096;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The configured or shipped model.
    Base,
    Candidate,
    /// The one in force, if it is not the base.
    Current,
    Previous,
    /// The last candidate that was not taken.
    Refused,
    /// The last one that was in force.
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

/// Of the model in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    version: u32,
    /// The digest of the base that it descends from.
    base: String,
    since_unix_s: u64,
}

impl State {
    /// Of a model that descends from the base of that digest, and is in force since then, by the
    /// wall clock: for people to read.
    pub fn new(base: &str, since_unix_s: u64) -> Self {
        Self { version: VERSION, base: base.to_owned(), since_unix_s }
    }
}

/// Which file that is, as far as can be told without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// Models in a folder that is this agent's alone.
#[derive(Debug)]
pub struct Store {
    dir: RunDir,
    /// The candidate that was looked at last.
    looked_at: Option<Identity>,
}

impl Store {
    /// The one in this folder, which is made if need be.
    pub fn take(dir: &Path) -> Result<Self, Error> {
        let store = Self { dir: RunDir::take(dir)?, looked_at: None };
        // An agent that died while a candidate took over: it is one again, if there is no newer.
        if !store.path(Place::Candidate).exists() {
            let renamed = absent_is_none(fs::rename(store.taken(), store.path(Place::Candidate)));
            renamed.map_err(on(store.taken().display()))?;
        }
        Ok(store)
    }

    /// Where a model lies.
    pub fn path(&self, place: Place) -> PathBuf {
        self.dir.path().join(place.name())
    }

    /// What takes over, on its way.
    fn taken(&self) -> PathBuf {
        self.path(Place::Current).with_extension("new")
    }

    fn state_path(&self) -> PathBuf {
        self.dir.path().join("state.json")
    }

    /// The model there, if there is a file; or which rule it breaks.
    pub fn read(&self, place: Place) -> Result<Option<Model>, String> {
        let text = state_file::read(&self.path(place), "model", BYTES_MAX)?;
        text.map(|text| Model::parse(&text).map_err(|error| error.to_string())).transpose()
    }

    /// The model in force, and since when, if there is one beside the base; or why it cannot be.
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
            let rule = "the configured or shipped model is another one now";
            return Err(format!("it descends from {}: {rule}", state.base));
        }
        Ok(Some((model, state.since_unix_s)))
    }

    /// Puts the base there, if it is not.
    pub fn keep_base(&self, text: &str) -> Result<(), Error> {
        let there = state_file::read(&self.path(Place::Base), "model", BYTES_MAX);
        if there.is_ok_and(|there| there.is_some_and(|it| it == text)) {
            return Ok(());
        }
        state_file::write(&self.path(Place::Base), text)
    }

    /// Whether another candidate lies there, or none any more, than when this was asked last.
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

    /// Gives what lies there another name. Nothing there is no fault.
    pub fn rename(&self, from: Place, to: Place) -> Result<(), Error> {
        let renamed = absent_is_none(fs::rename(self.path(from), self.path(to)));
        renamed.map_err(on(self.path(from).display()))?;
        self.sync()
    }

    /// Removes what lies there. Nothing there is no fault.
    pub fn remove(&self, place: Place) -> Result<(), Error> {
        let removed = absent_is_none(fs::remove_file(self.path(place)));
        removed.map_err(on(self.path(place).display())).map(|_| ())
    }

    /// The candidate of that digest becomes the current one, and what `before` is in force, the
    /// base or the current one, the previous.
    ///
    /// # Errors
    ///
    /// Another candidate lies there by now, or the disk takes nothing: what was in force still is.
    pub fn take_over(&self, digest: &str, before: Place, state: &State) -> Result<(), Error> {
        let taken = self.taken();
        let (candidate, current) = (self.path(Place::Candidate), self.path(Place::Current));
        fs::rename(&candidate, &taken).map_err(on(candidate.display()))?;
        let prepared = self.prepare(&taken, digest, before).and_then(|()| self.write_state(state));
        let done =
            prepared.and_then(|()| fs::rename(&taken, &current).map_err(on(current.display())));
        if done.is_err() {
            let _ = fs::rename(&taken, &candidate); // where it was; the error says what matters
        }
        done.and_then(|()| self.sync())
    }

    /// Checks what takes over once more, now that nobody else can replace it, and keeps what is in
    /// force.
    fn prepare(&self, taken: &Path, digest: &str, before: Place) -> Result<(), Error> {
        let refuse = |rule: String| {
            let path = self.path(Place::Candidate).display().to_string();
            Error::Config { path, rule }
        };
        let text = state_file::read(taken, "model", BYTES_MAX).map_err(refuse)?;
        if text.is_none_or(|text| digest_of(&text) != digest) {
            return Err(refuse("another one lies there now".to_owned()));
        }
        File::open(taken).and_then(|file| file.sync_all()).map_err(on(taken.display()))?;
        self.remove(Place::Previous)?;
        let previous = self.path(Place::Previous);
        fs::hard_link(self.path(before), &previous).map_err(on(previous.display()))
    }

    /// The previous one is in force again; or the base, if that is `to`. What was is left, and
    /// there is no previous one any more.
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
