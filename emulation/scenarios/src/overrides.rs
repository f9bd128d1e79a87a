//! Values that replace those of a file, such as `flows.0.driver=bbr`.

use std::fmt;
use std::str::FromStr;
use toml::{Table, Value};

/// A change of one value in a scenario's text, made before the scenario is read.
///
/// The key is a dotted key of TOML. A number is an index into an array; `*` means all entries of an
/// array or of a table. The value is a TOML value; any other text is taken as a string. An empty
/// value removes the key.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    keys: Vec<String>,
    value: Option<Value>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// The text is not `KEY=VALUE`.
    #[error("`{text}` must be KEY=VALUE, as in flows.0.driver=bbr or links.down.delay_ms=20")]
    Form { text: String },
    /// The scenario has no such key or index.
    #[error("`{text}`: `{key}` {rule}")]
    Place {
        text: String,
        /// The part of the key that exists, and cannot be followed further.
        key: String,
        rule: String,
    },
}

impl Override {
    /// Sets `key` to a value, with the rules of [`Override`].
    pub fn new(key: &str, value: &str) -> Result<Self, OverrideError> {
        let text = format!("{key}={value}");
        let keys: Vec<String> = key.split('.').map(|part| part.trim().to_owned()).collect();
        if keys.iter().any(String::is_empty) {
            return Err(OverrideError::Form { text });
        }
        let value = value.trim();
        let value = (!value.is_empty()).then(|| parsed(value));
        Ok(Self { keys, value, text })
    }

    /// Sets `key` to this value.
    pub(crate) fn of(key: &str, value: Value) -> Result<Self, OverrideError> {
        let text = format!("{key}={value}");
        Ok(Self { value: Some(value), text, ..Self::new(key, "")? })
    }

    pub fn key(&self) -> String {
        self.keys.join(".")
    }

    pub(crate) fn apply(&self, table: &mut Table) -> Result<(), OverrideError> {
        let mut root = Value::Table(std::mem::take(table));
        let done = self.set(&mut root, 0);
        if let Value::Table(changed) = root {
            *table = changed;
        }
        done
    }

    fn set(&self, place: &mut Value, depth: usize) -> Result<(), OverrideError> {
        let Some(key) = self.keys.get(depth) else {
            if let Some(value) = &self.value {
                *place = value.clone();
            }
            return Ok(());
        };
        let is_last = depth + 1 == self.keys.len();
        match place {
            Value::Table(table) if key == "*" => {
                table.iter_mut().try_for_each(|(_, place)| self.set(place, depth + 1))
            }
            Value::Table(table) if is_last && self.value.is_none() => {
                table.remove(key);
                Ok(())
            }
            Value::Table(table) => {
                let inner = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
                self.set(inner, depth + 1)
            }
            Value::Array(places) => self.set_in_array(places, depth),
            _ => Err(self.nowhere(depth, "holds a value, not a table".to_owned())),
        }
    }

    fn set_in_array(&self, places: &mut [Value], depth: usize) -> Result<(), OverrideError> {
        let key = &self.keys[depth];
        if key == "*" {
            return places.iter_mut().try_for_each(|place| self.set(place, depth + 1));
        }
        let count = places.len();
        let rule = || format!("has {count} entries: use a number from 0, or `*` for all");
        let place = key.parse::<usize>().ok().and_then(|index| places.get_mut(index));
        self.set(place.ok_or_else(|| self.nowhere(depth, rule()))?, depth + 1)
    }

    fn nowhere(&self, depth: usize, rule: String) -> OverrideError {
        OverrideError::Place { text: self.text.clone(), key: self.keys[..depth].join("."), rule }
    }
}

/// Parses a TOML value; any other text becomes a string.
fn parsed(text: &str) -> Value {
    let as_toml = || {
        let mut table: Table = toml::from_str(&format!("value = {text}")).ok()?;
        (table.len() == 1).then(|| table.remove("value")).flatten()
    };
    as_toml().unwrap_or_else(|| Value::String(text.to_owned()))
}

impl FromStr for Override {
    type Err = OverrideError;

    fn from_str(text: &str) -> Result<Self, OverrideError> {
        let (key, value) =
            text.split_once('=').ok_or_else(|| OverrideError::Form { text: text.to_owned() })?;
        Self::new(key, value)
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a = 1\n[[flows]]\ndriver = 'cubic'\n[[flows]]\ndriver = 'bbr'\nbytes = 5";

    fn changed(text: &str) -> Result<String, String> {
        let mut table: Table = toml::from_str(TEXT).unwrap();
        let change = text.parse::<Override>().map_err(|error| error.to_string())?;
        change.apply(&mut table).map_err(|error| error.to_string())?;
        Ok(table.to_string())
    }

    #[track_caller]
    fn becomes(change: &str, want: &str) {
        let want: Table = toml::from_str(want).unwrap();
        let got: Table = toml::from_str(&changed(change).unwrap()).unwrap();
        assert_eq!(got, want, "{change}");
    }

    #[test]
    fn a_value_is_tomls_or_a_string() {
        becomes("a=2", &TEXT.replace("a = 1", "a = 2"));
        becomes("a=window:7", &TEXT.replace("a = 1", "a = 'window:7'"));
        becomes("a = [1, 2]", &TEXT.replace("a = 1", "a = [1, 2]"));
        becomes("a=", &TEXT.replace("a = 1", ""));
        becomes("flows.1.bytes=", &TEXT.replace("bytes = 5", ""));
        becomes("flows.0.driver=reno", &TEXT.replace("cubic", "reno"));
        becomes("flows.*.driver=reno", &TEXT.replace("cubic", "reno").replace("bbr", "reno"));
        becomes("b.c.d=1.5", &format!("b.c.d = 1.5\n{TEXT}"));
        let links = "[links.x]\ny = 1\n[links.z]\n";
        let mut table: Table = toml::from_str(links).unwrap();
        "links.*.y=2".parse::<Override>().unwrap().apply(&mut table).unwrap();
        assert_eq!(table, toml::from_str("[links.x]\ny = 2\n[links.z]\ny = 2").unwrap());
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        for (change, message) in [
            ("a", "`a` must be KEY=VALUE"),
            ("=1", "`=1` must be KEY=VALUE"),
            ("a..b=1", "`a..b=1` must be KEY=VALUE"),
            ("flows.2.driver=x", "`flows.2.driver=x`: `flows` has 2 entries: use a number from 0"),
            ("flows.x=1", "`flows.x=1`: `flows` has 2 entries"),
            ("a.b=1", "`a.b=1`: `a` holds a value, not a table"),
        ] {
            let error = changed(change).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
