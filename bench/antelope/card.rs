//! Row A10: the training data of the shipped models, from the card in the model's file.

use crate::antelope::Error;
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::Path;

/// The fields of a model's card that A10 uses; `selector/models/README.md` describes the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Card {
    data: String,
    seed: u64,
    environments_trained: u64,
    environments_held_out: u64,
    rows: u64,
}

#[derive(Deserialize)]
struct File {
    card: Card,
}

impl Card {
    /// Reads the card of a model's file; `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no card.
    pub fn load(path: &Path) -> Result<Option<Self>, Error> {
        match std::fs::read_to_string(path) {
            Ok(text) => {
                serde_json::from_str::<File>(&text).map(|file| Some(file.card)).map_err(|error| {
                    let form = "selector/models/README.md has its form";
                    Error::file(path, format!("not a model with a card: {error}; {form}"))
                })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::file(path, error)),
        }
    }

    /// The training data, in words.
    pub fn words(&self) -> String {
        let Self { data, seed, environments_trained, environments_held_out, rows } = self;
        format!(
            "{environments_trained} environments, {environments_held_out} more held out, {rows} \
             rows: {data}; seed {seed}"
        )
    }

    /// Number of environments for training, and number of held-out ones.
    pub fn counts(&self) -> (u64, u64) {
        (self.environments_trained, self.environments_held_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_says_what_was_trained_on_and_what_was_held_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.json");
        assert_eq!(Card::load(&path).expect("none is no error"), None);
        let text = r#"{"format": 1, "card": {"name": "a", "data": "environments 0 to 39",
            "seed": 1, "environments_trained": 32, "environments_held_out": 8, "rows": 2548}}"#;
        std::fs::write(&path, text).expect("it is written");
        let card = Card::load(&path).expect("it is a model").expect("it is there");
        let words = "32 environments, 8 more held out, 2548 rows: environments 0 to 39; seed 1";
        assert_eq!((card.words().as_str(), card.counts()), (words, (32, 8)));
        std::fs::write(&path, "{}").expect("it is written");
        let error = Card::load(&path).expect_err("it lacks a card").to_string();
        assert!(error.contains("missing field `card`"), "{error}");
    }

    #[test]
    fn the_shipped_model_has_one() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR"));
        let shipped = shipped.join("../selector/models/antelope.json");
        assert!(Card::load(&shipped).expect("it is a model").is_some());
    }
}
