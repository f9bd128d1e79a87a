//! One sample as a row of a table.

use remuda_results::{Cells, Column, Rows, column};
use remuda_selector::features::{COUNT, schema};
use std::sync::OnceLock;

/// What an arm achieved in a span of a run, and what the sender knew of the path at the end of the
/// span.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The seed of the environment.
    pub environment: u64,
    /// The kind of path, such as `cellular`.
    pub kind: String,
    pub neighbours: String,
    /// The round trip of the path without a queue.
    pub path_rtt_ms: f64,
    /// The name of the plan, which identifies the run within its environment.
    pub plan: String,
    /// The arm that drove the flow.
    pub arm: String,
    /// Start of the span, in seconds since the flow's start.
    pub from_s: f64,
    pub until_s: f64,
    /// Payload delivered in the span.
    pub seen_throughput_mbit_per_sec: f64,
    /// Payload lost in the span.
    pub seen_lost_mbit_per_sec: f64,
    /// Mean round trip in the span.
    pub seen_rtt_mean_ms: f64,
    /// An equal share of what the bottleneck could carry in the span.
    pub share_mbit_per_sec: f64,
    /// Mean goodput of the flow under test and those of its driver.
    pub tested_mbit_per_sec: f64,
    /// Mean goodput of the neighbours; `None` if there were none.
    pub neighbour_mbit_per_sec: Option<f64>,
    /// The features at the end of the span, if the row is a decision state; an unknown feature is
    /// NaN.
    pub features: Option<[f32; COUNT]>,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            environment: 0,
            kind: String::new(),
            neighbours: String::new(),
            path_rtt_ms: 0.0,
            plan: String::new(),
            arm: String::new(),
            from_s: 0.0,
            until_s: 0.0,
            seen_throughput_mbit_per_sec: 0.0,
            seen_lost_mbit_per_sec: 0.0,
            seen_rtt_mean_ms: 0.0,
            share_mbit_per_sec: 0.0,
            tested_mbit_per_sec: 0.0,
            neighbour_mbit_per_sec: None,
            features: None,
        }
    }
}

fn feature<const AT: usize>() -> Column<Row> {
    let feature = &schema().features[AT];
    let get = |row: &Row| {
        let value = row.features.as_ref()?[AT];
        (!value.is_nan()).then_some(f64::from(value))
    };
    let set = |row: &mut Row, value: Option<f64>| {
        if let (Some(features), Some(value)) = (&mut row.features, value) {
            features[AT] = value as f32;
        }
    };
    Column { name: &feature.name, unit: &feature.unit, cells: Cells::Maybe(get, set) }
}

/// The column `state`: 1 if the row is a decision state, otherwise 0. Reading fills this column
/// before those of the features.
fn state() -> Column<Row> {
    let get = |row: &Row| u32::from(row.features.is_some());
    let set = |row: &mut Row, value| row.features = (value == 1).then_some([f32::NAN; COUNT]);
    Column { name: "state", unit: "count", cells: Cells::U32(get, set) }
}

macro_rules! features {
    ($($at:literal)*) => { [$(feature::<$at>()),*] };
}

fn columns() -> Vec<Column<Row>> {
    let of_features: [Column<Row>; COUNT] = features!(
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30
        31 32 33 34
    );
    let mut columns: Vec<Column<Row>> = vec![
        column!(environment: U64, "seed"),
        column!(kind: Text),
        column!(neighbours: Text),
        column!(path_rtt_ms: F64, "ms"),
        column!(plan: Text),
        column!(arm: Text),
        column!(from_s: F64, "s"),
        column!(until_s: F64, "s"),
        column!(seen_throughput_mbit_per_sec: F64, "Mbit/s"),
        column!(seen_lost_mbit_per_sec: F64, "Mbit/s"),
        column!(seen_rtt_mean_ms: F64, "ms"),
        column!(share_mbit_per_sec: F64, "Mbit/s"),
        column!(tested_mbit_per_sec: F64, "Mbit/s"),
        column!(neighbour_mbit_per_sec: Maybe, "Mbit/s"),
        state(),
    ];
    columns.extend(of_features);
    columns
}

/// The table of samples.
pub fn table() -> &'static Rows<Row> {
    static TABLE: OnceLock<Rows<Row>> = OnceLock::new();
    TABLE.get_or_init(|| Rows { name: "samples", columns: columns().leak() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("samples.parquet");
        let mut features = [0.0; COUNT];
        features.iter_mut().zip(0u8..).for_each(|(it, at)| *it = f32::from(at) * 0.1);
        let state = Row {
            environment: u64::MAX,
            kind: "wired".to_owned(),
            plan: "random:0".to_owned(),
            until_s: 0.1 + 0.2,
            features: Some(features),
            ..Row::default()
        };
        let rows = vec![Row::default(), state];
        table().write(&path, &rows, &BTreeMap::new()).expect("it is written");
        assert_eq!(table().read(&path).expect("it is read").0, rows);
    }
}
