//! Axes: their ranges, ticks and texts.

use super::canvas::Pen;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use remuda_results::paper::Area;
use std::ops::Range;

/// The range and the label of an axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// In the label's unit, or in its decimal logarithm.
    pub range: Range<f64>,
    /// Whether the range is in decimal logarithms.
    pub is_log: bool,
    pub label: String,
}

fn steps(start: f64, end: f64) -> Vec<f64> {
    let rough = (end - start) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let sizes = [1.0, 2.0, 5.0, 10.0].map(|it| it * power);
    let step = sizes.into_iter().find(|it| *it >= rough).unwrap_or(rough);
    let (first, last) = ((start / step - 1e-9).ceil() as i64, (end / step + 1e-9).floor() as i64);
    (first..=last).map(|it| it as f64 * step).collect()
}

pub type Plane<'a, DB> = ChartContext<'a, DB, Cartesian2d<Axis, Axis>>;

impl Axis {
    /// An axis that holds `values`, which are in the label's unit.
    pub fn of(label: &str, values: impl Iterator<Item = f64>, is_log: bool) -> Self {
        let shown = |value: f64| if is_log { value.log10() } else { value };
        let (low, high) = values
            .map(shown)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |all, it| (all.0.min(it), all.1.max(it)));
        let range = match low < high {
            true => low..high,
            false if low.is_finite() => low..low + 1.0,
            false => 0.0..1.0,
        };
        Self { range, is_log, label: label.to_owned() }
    }

    /// The position of a value on the axis.
    pub fn at(&self, value: f64) -> f64 {
        if self.is_log { value.log10() } else { value }
    }

    /// At 1, 2 and 5 of every power of ten, or about five round steps.
    pub fn ticks(&self) -> Vec<f64> {
        let Range { start, end } = self.range;
        if !self.is_log {
            return steps(start, end);
        }
        let powers = start.floor() as i32..=end.ceil() as i32;
        let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit: f64| (digit, power)));
        let all = all.map(|(digit, power)| digit.log10() + f64::from(power));
        let inside: Vec<f64> = all.filter(|it| *it >= start - 1e-9 && *it <= end + 1e-9).collect();
        // A wide range shows only the powers, a narrow one needs more ticks.
        let is_power = |it: &f64| (it - it.round()).abs() < 1e-9;
        let powers: Vec<f64> = inside.iter().copied().filter(is_power).collect();
        match (powers.len(), inside.len()) {
            (4.., _) => powers,
            (_, 3..) => inside,
            _ => steps(10f64.powf(start), 10f64.powf(end)).into_iter().map(f64::log10).collect(),
        }
    }

    /// The text at a tick, without trailing zeros.
    pub fn text(&self, tick: f64) -> String {
        let value = if self.is_log { 10f64.powf(tick) } else { tick };
        let text = format!("{value:.4}");
        let short = text.trim_end_matches('0').trim_end_matches('.');
        if short == "-0" { "0".to_owned() } else { short.to_owned() }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range.clone()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, tick: &f64) -> String {
        self.text(*tick)
    }
}

/// Draws two axes with their grid.
pub fn plane<'a, DB: DrawingBackend>(
    pen: Pen,
    area: &'a Area<DB>,
    (x, y): (&Axis, &Axis),
) -> Result<Plane<'a, DB>, DrawingAreaErrorKind<DB::ErrorType>> {
    let mut chart = ChartBuilder::on(area)
        .margin_left(pen.px(6))
        .margin_right(pen.px(16))
        .margin_top(pen.px(8))
        .x_label_area_size(pen.px(42))
        .y_label_area_size(pen.px(54))
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.14).stroke_width(pen.width(1)))
        .axis_style(BLACK.mix(0.6).stroke_width(pen.width(1)))
        .set_all_tick_mark_size(pen.px(4))
        .label_style(pen.plain())
        .axis_desc_style(pen.plain())
        .x_desc(x.label.clone())
        .y_desc(y.label.clone())
        .draw()?;
    Ok(chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(range: Range<f64>, is_log: bool) -> Vec<String> {
        let axis = Axis { range, is_log, label: String::new() };
        axis.ticks().into_iter().map(|tick| axis.text(tick)).collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(texts(0.0..100.0, false), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(0.0..0.3, false), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(texts(-0.1..0.1, false), ["-0.1", "-0.05", "0", "0.05", "0.1"]);
        assert_eq!(texts(0.0..2.0, true), ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(texts(0.8..1.1, true), ["8", "10", "12"]);
        assert_eq!(texts(-1.0..3.0, true), ["0.1", "1", "10", "100", "1000"]);
    }

    #[test]
    fn an_axis_holds_its_values_and_one_value_too() {
        let of = |values: &[f64], is_log| Axis::of("", values.iter().copied(), is_log).range;
        assert_eq!(of(&[3.0, 1.0], false), 1.0..3.0);
        assert_eq!(of(&[1.0, 100.0], true), 0.0..2.0);
        assert_eq!(of(&[7.0, 7.0], false), 7.0..8.0);
        assert_eq!(of(&[], false), 0.0..1.0);
    }
}
