//! The cumulative distribution of a metric: the share of the environments in which an arm has at
//! most a value.

use super::axis::{Axis, plane};
use super::canvas::{Pen, TEXT, WIDTH, colour, dashes};
use super::title;
use crate::board::Board;
use crate::metric::METRICS;
use crate::slice::Slice;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use remuda_results::paper::{Area, Chart, Drawn};
use std::collections::BTreeSet;

const TITLE_HEIGHT: i32 = 26;
const PLOT_HEIGHT: u32 = 300;
const LEGEND_COLUMNS: usize = 3;
const LEGEND_ROW: u32 = 20;
const LEFT: i32 = 60;
/// Length of a line in the legend: the longest dash, its gap, and part of the next dash.
const KEY: i32 = 34;

pub struct Distribution<'a> {
    title: String,
    x: Axis,
    /// The values of each highlighted arm, ascending.
    lines: Vec<(&'a str, Vec<f64>)>,
}

impl<'a> Distribution<'a> {
    /// The distribution of the metric at `place`; `None` if no environment of the slice has the
    /// metric.
    pub fn of(board: &Board, slice: &Slice, marked: &[&'a str], place: usize) -> Option<Self> {
        let metric = &METRICS[place];
        let inside: BTreeSet<usize> = slice.environments.iter().copied().collect();
        let values = |driver: &'a str| {
            let column = board.drivers.iter().position(|name| name == driver)?;
            let own = board.ascending[place][column].iter().filter(|it| inside.contains(it));
            let cells = own.filter_map(|it| board.cells[*it][column].as_ref());
            Some((driver, cells.filter_map(|cell| metric.shown(cell)).collect::<Vec<_>>()))
        };
        let lines: Vec<_> = marked.iter().filter_map(|it| values(it)).collect();
        let all = lines.iter().flat_map(|(_, values)| values).copied();
        all.clone().next()?;
        let is_log = metric.least.is_some();
        let label = format!("{}{}", metric.label, if is_log { ", logarithmic" } else { "" });
        let x = Axis::of(&label, all, is_log);
        Some(Self { title: title(slice), x, lines })
    }

    fn legend_height(&self) -> u32 {
        self.lines.len().div_ceil(LEGEND_COLUMNS) as u32 * LEGEND_ROW + 10
    }

    /// A step up at each value.
    fn steps(&self, values: &[f64]) -> Vec<(f64, f64)> {
        let share = |count: usize| count as f64 * 100.0 / values.len() as f64;
        let corners = values.iter().enumerate().flat_map(|(place, value)| {
            let at = self.x.at(*value);
            [(at, share(place)), (at, share(place + 1))]
        });
        corners.chain([(self.x.range.end, 100.0)]).collect()
    }
}

/// Draws a line in the colour and the dashes of its place.
fn line<DB: DrawingBackend, Point: Clone + 'static>(
    pen: Pen,
    place: usize,
    points: Vec<Point>,
    stroke: ShapeStyle,
) -> DynElement<'static, DB, Point> {
    match dashes(place) {
        None => PathElement::new(points, stroke).into_dyn(),
        Some((dash, gap)) => {
            DashedPathElement::new(points, pen.px(dash), pen.px(gap), stroke).into_dyn()
        }
    }
}

impl Chart for Distribution<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH, TITLE_HEIGHT as u32 + PLOT_HEIGHT + self.legend_height())
    }

    fn draw<DB: DrawingBackend>(&self, scale: u32, paper: &Area<DB>) -> Drawn<DB> {
        let pen = Pen(scale);
        let left = pen.text(TEXT, HPos::Left);
        paper.draw_text(&self.title, &left, (pen.px(12), pen.px(14)))?;
        let (_, rest) = paper.split_vertically(pen.px(TITLE_HEIGHT));
        let (area, legend) = rest.split_vertically(pen.px(PLOT_HEIGHT as i32));
        let label = "of the environments (%)".to_owned();
        let y = Axis { range: 0.0..100.0, is_log: false, label };
        let mut chart = plane(pen, &area, (&self.x, &y))?;
        let pitch = (WIDTH as i32 - LEFT) / LEGEND_COLUMNS as i32;
        // Drawn last to first, so that the first line lies on top where lines coincide.
        for (place, (driver, values)) in self.lines.iter().enumerate().rev() {
            let stroke = colour(place).stroke_width(pen.width(2));
            if !values.is_empty() {
                chart.draw_series([line(pen, place, self.steps(values), stroke)])?;
            }
            let (column, row) = (place % LEGEND_COLUMNS, place / LEGEND_COLUMNS);
            let across = pen.px(LEFT + column as i32 * pitch);
            let down = pen.px(12 + row as i32 * LEGEND_ROW as i32);
            let key = vec![(across, down), (across + pen.px(KEY), down)];
            legend.draw(&line(pen, place, key, stroke))?;
            legend.draw_text(driver, &left, (across + pen.px(KEY + 6), down))?;
        }
        Ok(())
    }
}
