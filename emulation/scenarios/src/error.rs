//! Everything that can be wrong with a scenario.

use crate::overrides::OverrideError;
use remuda_link::SpecError;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Why a scenario was refused. Each message names the file, the key and the rule.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{path}: cannot read the scenario: {source}", path = .path.display())]
    Read {
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not TOML, or holds a key or a kind of value that a scenario has not.
    #[error("{name}: {message}")]
    Text {
        name: String,
        /// Where, what, and what was meant if that can be guessed.
        message: String,
    },
    /// One value breaks a rule.
    #[error("`{key}` is {value}: {rule}")]
    Invalid {
        /// The key, with its table.
        key: String,
        /// What it was set to.
        value: String,
        /// What it must be.
        rule: String,
    },
    /// A link is none.
    #[error("[links.{link}] {source}")]
    Link {
        link: String,
        /// What is wrong with it.
        source: SpecError,
    },
    /// A value given beside the file does not fit into it.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// Any of these, in a file.
    #[error("{name}: {source}")]
    In { name: String, source: Box<Error> },
}

impl Error {
    pub(crate) fn invalid(key: String, value: impl Display, rule: impl Into<String>) -> Self {
        Self::Invalid { key, value: value.to_string(), rule: rule.into() }
    }

    pub(crate) fn read(path: &Path, source: std::io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    /// Names the file, if the error does not yet.
    pub(crate) fn within(self, name: &str) -> Self {
        match self {
            Self::Read { .. } | Self::Text { .. } | Self::In { .. } => self,
            Self::Invalid { .. } | Self::Link { .. } | Self::Override(_) => {
                Self::In { name: name.to_owned(), source: Box::new(self) }
            }
        }
    }
}
