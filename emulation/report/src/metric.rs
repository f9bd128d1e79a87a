//! The figures of a cell whose distributions are drawn, both on the page and for papers.

use crate::board::Cell;
use serde::Serialize;

/// A figure of a cell.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Metric {
    /// Name in file names and links.
    pub name: &'static str,
    pub key: &'static str,
    /// Label of the axis, with the unit.
    pub label: &'static str,
    /// Converts the field's unit to the label's.
    pub factor: f64,
    /// If set, the axis is logarithmic and begins here; smaller values are drawn at this value.
    pub least: Option<f64>,
    #[serde(skip)]
    of: fn(&Cell) -> Option<f64>,
}

pub const UTILISATION: Metric = Metric {
    name: "utilisation",
    key: "utilisation",
    label: "utilisation of the link (%)",
    factor: 100.0,
    least: None,
    of: |cell| cell.utilisation,
};

pub const QUEUEING: Metric = Metric {
    name: "queueing-delay",
    key: "queueing_p95_ms",
    label: "p95 queueing delay (ms)",
    factor: 1.0,
    least: Some(0.1),
    of: |cell| Some(cell.queueing_p95_ms),
};

/// All metrics, in the order of the page's menu.
pub const METRICS: [Metric; 6] = [
    Metric {
        name: "merit",
        key: "of_best",
        label: "merit, of the best arm (%)",
        factor: 100.0,
        least: None,
        of: |cell| Some(cell.of_best),
    },
    UTILISATION,
    QUEUEING,
    Metric {
        name: "retransmitted",
        key: "retransmitted_percent",
        label: "sent again (%)",
        factor: 1.0,
        least: None,
        of: |cell| Some(cell.retransmitted_percent),
    },
    Metric {
        name: "share",
        key: "share",
        label: "goodput to an even share (ratio)",
        factor: 1.0,
        least: None,
        of: |cell| cell.share,
    },
    Metric {
        name: "slowdown",
        key: "slowdown_p95",
        label: "p95 slowdown of transfers (ratio)",
        factor: 1.0,
        least: Some(0.1),
        of: |cell| cell.slowdown_p95,
    },
];

impl Metric {
    /// The value in the label's unit; `None` if the cell has none.
    pub fn shown(&self, cell: &Cell) -> Option<f64> {
        let value = (self.of)(cell)? * self.factor;
        value.is_finite().then(|| value.max(self.least.unwrap_or(f64::NEG_INFINITY)))
    }
}

/// Indexed by metric, then driver: the environments that have a value, ascending. The environments
/// of a slice, in this order, are the slice's distribution.
pub fn ascending(cells: &[Vec<Option<Cell>>], drivers: usize) -> Vec<Vec<Vec<usize>>> {
    let of = |metric: &Metric, driver: usize| {
        let places = cells.iter().enumerate();
        let mut all: Vec<(f64, usize)> = places
            .filter_map(|(place, of)| Some((metric.shown(of[driver].as_ref()?)?, place)))
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.into_iter().map(|(_, place)| place).collect()
    };
    METRICS.iter().map(|metric| (0..drivers).map(|it| of(metric, it)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_ascend_and_those_without_a_value_are_left_out() {
        let cell = |utilisation, queueing_p95_ms| {
            Some(Cell { utilisation, queueing_p95_ms, ..Cell::default() })
        };
        let cells = [
            vec![cell(Some(0.9), 3.0)],
            vec![cell(None, 0.01)],
            vec![None],
            vec![cell(Some(0.2), 2.0)],
        ];
        let all = ascending(&cells, 1);
        assert_eq!(all[1], [vec![3, 0]], "utilisation");
        assert_eq!(all[2], [vec![1, 3, 0]], "queueing delay");
        assert_eq!(QUEUEING.shown(&cells[1][0].unwrap()), Some(0.1), "where its axis begins");
        assert_eq!(UTILISATION.shown(&cells[0][0].unwrap()), Some(90.0));
    }
}
