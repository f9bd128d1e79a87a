//! A10: what the shipped models were trained on, as their card says it.

use crate::Error;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// Of a model card, what A10 is about: `environments`, by kind of path how many there are of each
/// split, as in `{"environments": {"wan": {"train": 24, "held_out": 6}}}`. What else it has is not
/// looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Card {
    environments: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Card {
    /// Reads a card; `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or is no card.
    pub fn load(path: &Path) -> Result<Option<Self>, Error> {
        match std::fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| {
                let form = "{\"wan\": {\"train\": 24, \"held_out\": 6}}";
                Error::file(path, format!("no model card with environments as {form}: {error}"))
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::file(path, error)),
        }
    }

    /// Environments in words: by kind, and of it by split.
    pub fn words(&self) -> String {
        let kinds = self.environments.iter().map(|(kind, splits)| {
            let splits = splits.iter().map(|(split, count)| format!("{count} {split}"));
            format!("{kind}: {}", splits.collect::<Vec<_>>().join(", "))
        });
        kinds.collect::<Vec<_>>().join("; ").replace('_', "-")
    }

    /// How many environments there are of all kinds: all, and those of splits other than `train`.
    pub fn counts(&self) -> (u64, u64) {
        let splits = self.environments.values().flatten();
        splits.fold((0, 0), |(all, held_out), (split, count)| {
            let held = if split == "train" { 0 } else { *count };
            (all.saturating_add(*count), held_out.saturating_add(held))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_says_its_environments_by_kind_and_split() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("card.json");
        assert_eq!(Card::load(&path).expect("none is no error"), None);
        let text = r#"{"seed": 1, "environments": {
            "wan": {"train": 24, "held_out": 6}, "cellular": {"train": 12, "held_out": 4}}}"#;
        std::fs::write(&path, text).expect("it is written");
        let card = Card::load(&path).expect("it is a card").expect("it is there");
        let words = "cellular: 4 held-out, 12 train; wan: 6 held-out, 24 train";
        assert_eq!((card.words().as_str(), card.counts()), (words, (46, 10)));
        std::fs::write(&path, "{}").expect("it is written");
        let error = Card::load(&path).expect_err("it lacks environments").to_string();
        assert!(error.contains("missing field `environments`"), "{error}");
    }
}
