//! Throughput and delay of an arm: its mean over the environments with a capacity limit, and an
//! ellipse that contains this mean with 95 % confidence. The delay is a logarithm. With fewer than
//! six environments there is no ellipse, for the same reason as there is no interval.

use crate::board::Cell;
use crate::metric::{QUEUEING, UTILISATION};
use remuda_matrix::ENOUGH;
use serde::Serialize;

/// The 95 % quantile of the chi-squared distribution with two degrees of freedom.
const CHI_SQUARED_95: f64 = 5.99;

/// The cloud of one driver in one slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cloud {
    pub driver: String,
    /// Mean of the decimal logarithms of the 95th percentiles of queueing delay in ms.
    pub delay_log10_ms: f64,
    pub utilisation_percent: f64,
    /// The ellipse: the variance of the mean delay, the variance of the mean utilisation, and their
    /// covariance, each times the quantile. All are 0 with too few environments, so that nothing is
    /// drawn.
    pub ellipse: [f64; 3],
}

impl Cloud {
    /// The cloud of a driver's cells; `None` if nothing limits any of them.
    pub fn of<'a>(driver: &str, cells: impl Iterator<Item = &'a Cell>) -> Option<Self> {
        let point = |cell| Some([QUEUEING.shown(cell)?.log10(), UTILISATION.shown(cell)?]);
        let points: Vec<[f64; 2]> = cells.filter_map(point).collect();
        let count = points.len() as f64;
        if points.is_empty() {
            return None;
        }
        let [x, y] = [0, 1].map(|at| points.iter().map(|it| it[at]).sum::<f64>() / count);
        let moment = |a: usize, b: usize| {
            let middle = [x, y];
            let sum: f64 = points.iter().map(|it| (it[a] - middle[a]) * (it[b] - middle[b])).sum();
            if points.len() < ENOUGH { 0.0 } else { sum / count * CHI_SQUARED_95 / count }
        };
        Some(Self {
            driver: driver.to_owned(),
            delay_log10_ms: x,
            utilisation_percent: y,
            ellipse: [moment(0, 0), moment(1, 1), moment(0, 1)],
        })
    }

    /// Points on the ellipse: the logarithm of the delay, and the utilisation in per cent.
    pub fn edge(&self, points: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
        // The Cholesky factors of the covariance turn a circle into the ellipse.
        let [xx, yy, xy] = self.ellipse;
        let across = xx.sqrt();
        let along = if across > 0.0 { xy / across } else { 0.0 };
        let up = (yy - along * along).max(0.0).sqrt();
        (0..points).map(move |point| {
            let turn = point as f64 / points as f64 * std::f64::consts::TAU;
            let (sin, cos) = turn.sin_cos();
            let y = self.utilisation_percent + along * cos + up * sin;
            (self.delay_log10_ms + across * cos, y)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_lies_at_its_mean_and_its_ellipse_is_as_wide_as_it_is_unsure() {
        let cell = |ms: f64, share: f64| Cell {
            queueing_p95_ms: ms,
            utilisation: Some(share),
            ..Cell::default()
        };
        let of = |cells: &[Cell]| Cloud::of("a", cells.iter());
        let cloud = of(&[cell(1.0, 0.6), cell(100.0, 0.8)].repeat(3)).unwrap();
        assert!((cloud.delay_log10_ms - 1.0).abs() < 1e-12);
        assert!((cloud.utilisation_percent - 70.0).abs() < 1e-12);
        // Variances 1 and 100, of six cells; both grow together.
        let want = [1.0, 100.0, 10.0].map(|it| it * CHI_SQUARED_95 / 6.0);
        for (had, want) in cloud.ellipse.iter().zip(want) {
            assert!((had - want).abs() < 1e-9, "{:?}", cloud.ellipse);
        }
        let furthest = cloud.edge(360).map(|(x, _)| x).fold(0.0, f64::max);
        assert!((furthest - 1.0 - want[0].sqrt()).abs() < 1e-3, "{furthest}");
        let mut few: Vec<Cell> = [1.0, 100.0].repeat(2).iter().map(|ms| cell(*ms, 0.5)).collect();
        few.push(cell(10.0, 0.5));
        let few = of(&few).unwrap();
        assert_eq!(few.ellipse, [0.0; 3], "five cells have no ellipse");
        assert!(few.edge(8).all(|it| it == (few.delay_log10_ms, 50.0)), "all points are the mean");
        assert_eq!(of(&[Cell::default()]), None, "no cloud without a limit");
    }
}
