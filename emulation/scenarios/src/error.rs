//! Errors in scenarios and suites.

use crate::overrides::OverrideError;
use remuda_link::SpecError;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Why a scenario was refused. The message names the file, the key and the rule.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: cannot read the scenario: {source}", path = .path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The text is not TOML, or has an unknown key or a value of the wrong type.
    #[error("{name}: {message}")]
    Text {
        name: String,
        /// The place, the problem, and the nearest known key if there is one.
        message: String,
    },
    #[error("`{key}` is {value}: {rule}")]
    Invalid {
        /// The key, with its table.
        key: String,
        value: String,
        /// The rule that the value breaks.
        rule: String,
    },
    /// A link breaks a rule of [`LinkSpec`](crate::LinkSpec).
    #[error("[links.{link}] {source}")]
    Link { link: String, source: SpecError },
    /// An override does not fit the file.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// Any of these errors, with the name of the file.
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

    /// Adds the file's name, unless the error already names it.
    pub(crate) fn within(self, name: &str) -> Self {
        match self {
            Self::Read { .. } | Self::Text { .. } | Self::In { .. } => self,
            Self::Invalid { .. } | Self::Link { .. } | Self::Override(_) => {
                Self::In { name: name.to_owned(), source: Box::new(self) }
            }
        }
    }
}
