//! What a policy learns from and decides by: the features of one data unit of a flow.
//!
//! The schema is a file, `selector/features.toml`, which training reads as well. Training and
//! inference get their features from [`Units`], and so from the same lines of code: a model cannot
//! have been trained on anything else than what it is asked about.
//!
//! Differs from the paper (Zhou et al., Antelope, ICNP 2021, Table I): a unit lasts a round trip at
//! least, as 20 ACKs of a fast path do not show what an arm does; rates are delivery rates, not the
//! arm's pacing rate; buffers, jitter, competition and random loss have features of their own.

mod past;
mod unit;

pub use unit::{Unit, Units};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::OnceLock;

pub const SCHEMA: &str = include_str!("../../features.toml");
/// How many features there are.
pub const COUNT: usize = 35;

/// The features of one decision, in the schema's order; what is not known is a NaN. Trees compare
/// 32-bit floats, so features are 32-bit floats in training and here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features(pub [f32; COUNT]);

/// One feature, as the schema describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Its name, unit and all.
    pub name: String,
    pub unit: String,
    /// Over what it is taken.
    pub window: String,
    /// What lies beyond counts as its end.
    pub range: [f32; 2],
    /// The primitive that it is made of.
    pub source: String,
    /// Its name in the paper, if it has one there.
    pub paper: Option<String>,
    pub about: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// Counts up at every change.
    pub version: u32,
    /// In the order of [`Features`].
    #[serde(rename = "feature")]
    pub features: Vec<Feature>,
}

/// A hash of the schema: two of one hash mean the same by a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaHash([u8; 32]);

impl SchemaHash {
    /// Of this program's schema.
    pub fn ours() -> Self {
        static OURS: OnceLock<SchemaHash> = OnceLock::new();
        *OURS.get_or_init(|| Self(Sha256::digest(SCHEMA).into()))
    }
}

impl fmt::Display for SchemaHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

pub fn schema() -> &'static Schema {
    static OURS: OnceLock<Schema> = OnceLock::new();
    OURS.get_or_init(|| toml::from_str(SCHEMA).expect("a test parses it"))
}

impl Features {
    /// Holds each value to its range. A value that is no number, an infinity too, is not known.
    pub(crate) fn bounded(mut values: [f32; COUNT]) -> Self {
        for (value, feature) in values.iter_mut().zip(&schema().features) {
            let [least, most] = feature.range;
            *value = if value.is_finite() { value.clamp(least, most) } else { f32::NAN };
        }
        Self(values)
    }

    /// The value of that name, if it is known.
    pub fn get(&self, name: &str) -> Option<f32> {
        let at = schema().features.iter().position(|feature| feature.name == name)?;
        Some(self.0[at]).filter(|value| !value.is_nan())
    }

    pub fn named(&self) -> impl Iterator<Item = (&'static str, f32)> {
        schema().features.iter().map(|feature| feature.name.as_str()).zip(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_schema_has_as_many_features_as_a_unit_has_values() {
        let schema = schema();
        assert_eq!((schema.version, schema.features.len()), (3, COUNT));
        let names: BTreeSet<&str> = schema.features.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), COUNT, "each name once");
        for feature in &schema.features {
            assert!(feature.range[0] < feature.range[1], "{feature:?}");
            assert!(
                ["unit", "16 units", "flow", "2 s", "4 s", "10 s", "300 s"]
                    .contains(&&*feature.window)
            );
        }
    }

    #[test]
    fn all_of_the_papers_table_is_there() {
        let papers: Vec<&str> =
            schema().features.iter().filter_map(|it| it.paper.as_deref()).collect();
        let want =
            ["sRTT_avg", "number", "lost", "time", "pacing_rate_max", "throughput", "delay_min"];
        assert_eq!(papers, want);
    }

    #[test]
    fn what_lies_beyond_its_range_counts_as_its_end() {
        let mut values = [f32::NAN; COUNT];
        values[..3].copy_from_slice(&[1e9, -1.0, f32::INFINITY]);
        let bounded = Features::bounded(values);
        assert_eq!(bounded.get("rtt_mean_ms"), Some(60_000.0));
        assert_eq!(bounded.get("acks"), Some(0.0));
        assert_eq!(bounded.get("lost_pkts"), None);
        assert_eq!(bounded.get("no such feature"), None);
    }
}
