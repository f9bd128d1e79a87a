//! What LinUCB begins with: what other flows have taught, as a file.
//!
//! ```json
//! {
//!   "version": 1,
//!   "schema": "the hash of selector/features.toml, 64 hexadecimal digits",
//!   "arms": { "cubic": { "a": [[32 numbers], ... 32 rows], "b": [32 numbers] } }
//! }
//! ```
//!
//! `a` is I + sum x xT and `b` is sum r x over the observations of an arm, with x a context
//! ([`super::context`]) and r its reward. Arms that are not there begin with nothing. Whoever
//! writes the file may scale both sums by the same factor: it says for how many observations of the
//! flow's own the prior counts.

use super::context::{Context, LENGTH};
use super::ridge::{Matrix, Ridge, identity};
use crate::candidates::{CANDIDATES, place};
use crate::features::SchemaHash;
use remuda_algorithms::loaded::{Loadable, digest_of};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// A longer file is no prior: ten arms of a thousand numbers take a third of that.
pub const BYTES_MAX: usize = 1 << 20;
const VERSION: u32 = 1;
/// By how much `a` may miss symmetry and the identity: a sum of doubles is not exact.
const TOLERANCE: f64 = 1e-6;
/// Exactly, it is 1.
const INVERSE_MAX: f64 = 2.0;
/// More observations than any training has.
const SUM_MAX: f64 = 1e12;

/// The regression that each candidate begins with, in their order.
#[derive(Clone, Debug)]
pub struct Prior {
    pub(super) arms: [Arc<Ridge>; CANDIDATES.len()],
    digest: String,
}

impl Loadable for Prior {
    fn digest(&self) -> &str {
        &self.digest
    }
}

/// Why a prior cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum PriorError {
    /// Not JSON, or not of the form.
    #[error("it is no prior of LinUCB: {0}")]
    Form(#[from] serde_json::Error),
    /// JSON of that form, which breaks a rule.
    #[error("{what}: {rule}")]
    Rule {
        what: String,
        /// What it must be.
        rule: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    schema: String,
    arms: BTreeMap<String, SavedArm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedArm {
    a: Vec<Vec<f64>>,
    b: Vec<f64>,
}

fn refuse<T>(what: impl Into<String>, rule: impl Into<String>) -> Result<T, PriorError> {
    Err(PriorError::Rule { what: what.into(), rule: rule.into() })
}

/// What arms begin with if there is no prior.
pub(super) fn nothing_known() -> [Arc<Ridge>; CANDIDATES.len()] {
    static NOTHING: LazyLock<Arc<Ridge>> = LazyLock::new(|| Arc::new(Ridge::new()));
    std::array::from_fn(|_| Arc::clone(&NOTHING))
}

impl Prior {
    /// Reads a file's text; all of it is checked, or none is taken.
    pub fn parse(text: &[u8]) -> Result<Self, PriorError> {
        if text.len() > BYTES_MAX {
            return refuse("the file", format!("it must have at most {BYTES_MAX} bytes"));
        }
        let file: File = serde_json::from_slice(text)?;
        if file.version != VERSION {
            return refuse(format!("version = {}", file.version), "it must be 1");
        }
        let ours = SchemaHash::ours().to_string();
        if file.schema != ours {
            let what = format!("schema = {:?}", file.schema);
            let fix = "train it anew with this program's selector/features.toml";
            return refuse(what, format!("this program's is {ours}\nfix: {fix}"));
        }
        let mut arms = nothing_known();
        for (arm, saved) in &file.arms {
            let Some(at) = place(arm) else {
                let known = CANDIDATES.join(", ");
                return refuse(format!("arms.{arm}"), format!("an arm must be one of {known}"));
            };
            arms[at] = Arc::new(ridge(arm, saved)?);
        }
        Ok(Self { arms, digest: digest_of(text) })
    }
}

fn ridge(arm: &str, saved: &SavedArm) -> Result<Ridge, PriorError> {
    let b = row(&format!("arms.{arm}.b"), &saved.b)?;
    let name = format!("arms.{arm}.a");
    if saved.a.len() != LENGTH {
        return refuse(&name, format!("it has {} rows and must have {LENGTH}", saved.a.len()));
    }
    let mut a = identity();
    for (at, (to, from)) in a.iter_mut().zip(&saved.a).enumerate() {
        *to = row(&format!("{name}[{at}]"), from)?;
    }
    let scale = a.iter().flatten().fold(1.0, |most: f64, cell| most.max(cell.abs()));
    let differs = |i: usize, j: usize| (a[i][j] - a[j][i]).abs() > TOLERANCE * scale;
    let mut below = (0..LENGTH).flat_map(|i| (0..i).map(move |j| (i, j)));
    if let Some((i, j)) = below.find(|(i, j)| differs(*i, *j)) {
        return refuse(format!("{name}[{i}][{j}]"), format!("it must equal [{j}][{i}]"));
    }
    // Nothing but more than the identity is a sum of squares added to it; and the inverse of such a
    // matrix has no number above 1.
    let mut excess = a;
    (0..LENGTH).for_each(|at| excess[at][at] -= 1.0 - TOLERANCE * scale);
    let inverse = cholesky(&excess).and_then(|_| cholesky(&a)).map(|lower| inverse(&lower));
    let is_small = |matrix: &Matrix| matrix.iter().flatten().all(|cell| cell.abs() <= INVERSE_MAX);
    match inverse.filter(is_small) {
        Some(inverse) => Ok(Ridge::of(inverse, b)),
        None => refuse(&name, "it must be the identity plus a sum of squares"),
    }
}

fn row(name: &str, values: &[f64]) -> Result<Context, PriorError> {
    let Ok(row) = Context::try_from(values) else {
        return refuse(name, format!("it has {} numbers and must have {LENGTH}", values.len()));
    };
    match row.iter().find(|value| !value.is_finite() || value.abs() > SUM_MAX) {
        Some(value) => {
            refuse(name, format!("{value:e} is not between -{SUM_MAX:e} and {SUM_MAX:e}"))
        }
        None => Ok(row),
    }
}

/// The lower triangle L of a = L LT, if `a` is positive definite.
fn cholesky(a: &Matrix) -> Option<Matrix> {
    let mut lower = [[0.0; LENGTH]; LENGTH];
    for i in 0..LENGTH {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
            let left = a[i][j] - known;
            if i == j && left <= 0.0 {
                return None;
            }
            lower[i][j] = if i == j { left.sqrt() } else { left / lower[j][j] };
        }
    }
    Some(lower)
}

/// The inverse of L LT, column by column: L y = e, then LT z = y.
fn inverse(lower: &Matrix) -> Matrix {
    let mut inverse = identity();
    // It is symmetric: its rows are its columns.
    for column in &mut inverse {
        for i in 0..LENGTH {
            let known: f64 = (0..i).map(|k| lower[i][k] * column[k]).sum();
            column[i] = (column[i] - known) / lower[i][i];
        }
        for i in (0..LENGTH).rev() {
            let known: f64 = (i + 1..LENGTH).map(|k| lower[k][i] * column[k]).sum();
            column[i] = (column[i] - known) / lower[i][i];
        }
    }
    inverse
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// The file that these observations of an arm are.
    pub(in super::super) fn file(arm: &str, seen: &[(Context, f64)]) -> Value {
        let (mut a, mut b) = (identity(), [0.0; LENGTH]);
        for (x, reward) in seen {
            for i in 0..LENGTH {
                (0..LENGTH).for_each(|j| a[i][j] += x[i] * x[j]);
                b[i] += reward * x[i];
            }
        }
        let rows = |matrix: Matrix| matrix.map(|row| row.to_vec()).to_vec();
        let sums = json!({ "a": rows(a), "b": b.to_vec() });
        json!({ "version": 1, "schema": SchemaHash::ours().to_string(), "arms": { arm: sums } })
    }

    fn parse(file: &Value) -> Result<Prior, PriorError> {
        Prior::parse(file.to_string().as_bytes())
    }

    fn refused(change: impl FnOnce(&mut Value), want: &str) {
        let mut file = file("cubic", &[]);
        change(&mut file);
        let error = parse(&file).expect_err(want).to_string();
        assert!(error.contains(want), "{error}");
    }

    #[test]
    fn what_is_no_prior_is_refused_by_name_and_rule() {
        let error = Prior::parse(b"{\"version\": 1").expect_err("half a file").to_string();
        assert!(error.contains("it is no prior of LinUCB: EOF"), "{error}");
        let error = Prior::parse(&[b' '; (1 << 20) + 1]).expect_err("too long").to_string();
        assert_eq!(error, "the file: it must have at most 1048576 bytes");
        refused(|it| it["version"] = json!(2), "version = 2: it must be 1");
        refused(|it| it["schema"] = json!("00"), "schema = \"00\": this program's is");
        refused(|it| it["more"] = json!(1), "unknown field");
        refused(|it| it["arms"]["reno"] = it["arms"]["cubic"].clone(), "arms.reno: an arm must");
        refused(|it| it["arms"]["cubic"]["b"] = json!([1.0]), "arms.cubic.b: it has 1 numbers");
        refused(|it| it["arms"]["cubic"]["b"][3] = json!(1e300), "arms.cubic.b: 1e");
        refused(|it| it["arms"]["cubic"]["a"] = json!([]), "arms.cubic.a: it has 0 rows");
        refused(|it| it["arms"]["cubic"]["a"][2] = json!([1.0]), "arms.cubic.a[2]: it has 1");
        refused(|it| it["arms"]["cubic"]["a"][4][1] = json!(0.5), "arms.cubic.a[4][1]: it must");
        refused(|it| it["arms"]["cubic"]["a"][5][5] = json!(0.5), "arms.cubic.a: it must be the");
        refused(|it| it["arms"]["cubic"]["a"][5][5] = json!(-1.0), "arms.cubic.a: it must be the");
    }

    #[test]
    fn an_arm_that_is_not_there_begins_with_nothing() {
        let prior = parse(&file("bbr", &[])).expect("it is one");
        assert!(prior.arms.iter().all(|ridge| **ridge == Ridge::new()));
    }

    proptest! {
        /// The same observations one after the other, and as a file.
        #[test]
        fn a_file_knows_what_was_learned(
            seen in prop::collection::vec((any::<[u8; LENGTH]>(), 0.0f64..1.0), 1..40),
        ) {
            let of = |bytes: [u8; LENGTH]| bytes.map(|byte| f64::from(byte) / 1_500.0);
            let seen: Vec<(Context, f64)> =
                seen.into_iter().map(|(bytes, reward)| (of(bytes), reward)).collect();
            let mut learned = Ridge::new();
            seen.iter().for_each(|(x, reward)| learned.learn(x, *reward));
            let prior = parse(&file("copa", &seen)).expect("it is one");
            let read = &prior.arms[place("copa").expect("it is one")];
            for (x, _) in &seen {
                let (a, b) = (learned.estimate(x), read.estimate(x));
                prop_assert!((a.mean - b.mean).abs() < 1e-9, "{a:?} {b:?}");
                prop_assert!((a.width - b.width).abs() < 1e-9, "{a:?} {b:?}");
            }
        }
    }
}
