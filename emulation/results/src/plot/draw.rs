//! The layout of a plot.

use super::{Figure, Line, Panel, Strip};
use crate::paper::{Area, Chart, Drawn};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

// In points: one pixel of an SVG, two pixels of a PNG.
const WIDTH: u32 = 1200;
const PANEL_HEIGHT: u32 = 220;
const TITLE_HEIGHT: u32 = 44;
const STRIP_HEIGHT: u32 = 20;
const STRIPS_GAP: u32 = 8;
const LEGEND_WIDTH: u32 = 200;
/// Space to the left of the vertical axis's numbers.
const LEFT: u32 = 10;
/// Width of the vertical axis's title and numbers.
const AXIS_WIDTH: u32 = 64;
const RIGHT: u32 = 14;
/// Even, because the drawing library halves the size and rounds each letter by itself.
const TEXT_SIZE: u32 = 14;
const TITLE_SIZE: u32 = 20;
const LEGEND_PITCH: u32 = 20;

/// Approximate width of a letter: a band that is narrower than its name gets no name.
const LETTER_WIDTH: f64 = 7.5;
const LEGEND_LINES_MAX: usize = 9;
/// The longest name that fits beside the plot.
const NAME_CHARS_MAX: usize = 22;

fn strips_height(figure: &Figure) -> u32 {
    match figure.strips.len() as u32 {
        0 => 0,
        strips => strips * STRIP_HEIGHT + STRIPS_GAP,
    }
}

impl Chart for Figure {
    fn size(&self) -> (u32, u32) {
        let panels = PANEL_HEIGHT * self.panels.len() as u32;
        (WIDTH, TITLE_HEIGHT + strips_height(self) + panels)
    }

    fn draw<DB: DrawingBackend>(&self, scale: u32, paper: &Area<DB>) -> Drawn<DB> {
        Pen(scale).draw(paper, self)
    }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS_MAX {
        return name.to_owned();
    }
    let start: String = name.chars().take(NAME_CHARS_MAX - 1).collect();
    format!("{start}…")
}

/// Pixels for each point.
#[derive(Clone, Copy)]
struct Pen(u32);

impl Pen {
    fn px(self, points: u32) -> i32 {
        (points * self.0) as i32
    }

    fn text(self, points: u32) -> TextStyle<'static> {
        ("sans-serif", points * self.0).into_font().color(&BLACK)
    }

    fn beside(self) -> TextStyle<'static> {
        self.text(TEXT_SIZE).pos(Pos::new(HPos::Left, VPos::Center))
    }

    fn draw<DB: DrawingBackend>(self, root: &Area<DB>, figure: &Figure) -> Drawn<DB> {
        let (head, rest) = root.split_vertically(self.px(TITLE_HEIGHT));
        let top = self.px(12);
        head.draw_text(&figure.title, &self.text(TITLE_SIZE), (top, top))?;
        if let Some(left_out) = &figure.left_out {
            let place = (self.px(WIDTH - LEGEND_WIDTH), top);
            head.draw_text(left_out, &self.text(TEXT_SIZE), place)?;
        }
        let (strips, panels) = rest.split_vertically(self.px(strips_height(figure)));
        for (at, strip) in figure.strips.iter().enumerate() {
            let top = self.px(at as u32 * STRIP_HEIGHT);
            self.strip(&strips, strip, top, figure.end_s)?;
        }
        let areas = panels.split_evenly((figure.panels.len(), 1));
        let last = figure.panels.len().saturating_sub(1);
        for (at, (panel, area)) in figure.panels.iter().zip(areas).enumerate() {
            self.panel(&area, panel, figure.end_s, at == last)?;
        }
        Ok(())
    }

    /// Draws the arms of one flow, above the panels and on their time axis.
    fn strip<DB: DrawingBackend>(
        self,
        area: &Area<DB>,
        strip: &Strip,
        top: i32,
        end_s: f64,
    ) -> Drawn<DB> {
        let left = LEFT + AXIS_WIDTH;
        let room = f64::from(self.px(WIDTH - LEGEND_WIDTH - left - RIGHT));
        let at = |t_s: f64| {
            let share = (t_s / end_s).clamp(0.0, 1.0);
            self.px(left) + (room * share).round() as i32
        };
        let bottom = top + self.px(STRIP_HEIGHT - 3);
        let middle = (top + bottom) / 2;
        let centred = self.text(TEXT_SIZE).pos(Pos::new(HPos::Center, VPos::Center));
        for (from_s, to_s, colour, arm) in &strip.bands {
            let (from, to) = (at(*from_s), at(*to_s).max(at(*from_s) + 1));
            let fill = colour.mix(0.35).filled();
            area.draw(&Rectangle::new([(from, top), (to, bottom)], fill))?;
            let letters = LETTER_WIDTH * arm.len() as f64 * f64::from(self.0);
            if f64::from(to - from) >= letters {
                area.draw_text(arm, &centred, ((from + to) / 2, middle))?;
            }
        }
        let name = format!("{}: arm", shortened(&strip.flow));
        area.draw_text(&name, &self.beside(), (self.px(WIDTH - LEGEND_WIDTH), middle))
    }

    fn panel<DB: DrawingBackend>(
        self,
        area: &Area<DB>,
        panel: &Panel,
        end_s: f64,
        is_last: bool,
    ) -> Drawn<DB> {
        let (plot, legend) = area.split_horizontally(self.px(WIDTH - LEGEND_WIDTH));
        let points = panel.lines.iter().flat_map(|line| &line.points);
        let values = points.map(|(_, value)| *value).filter(|value| value.is_finite());
        let most = values.fold(0.0, f64::max);
        let most = if most > 0.0 { most * 1.05 } else { 1.0 };
        let mut chart = ChartBuilder::on(&plot)
            .margin_left(self.px(LEFT))
            .margin_right(self.px(RIGHT))
            .margin_top(self.px(10))
            .x_label_area_size(self.px(if is_last { 40 } else { 24 }))
            .y_label_area_size(self.px(AXIS_WIDTH))
            .build_cartesian_2d(0.0..end_s, 0.0..most)?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12).stroke_width(self.0))
            .axis_style(BLACK.mix(0.5).stroke_width(self.0))
            .set_all_tick_mark_size(self.px(5))
            .label_style(self.text(TEXT_SIZE))
            .axis_desc_style(self.text(TEXT_SIZE))
            .x_labels(12)
            .y_labels(5)
            .y_desc(panel.title);
        if is_last {
            mesh.x_desc("time, s");
        }
        mesh.draw()?;
        for line in &panel.lines {
            let style = line.colour.stroke_width(self.0);
            chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
        }
        self.legend(&legend, &panel.lines)
    }

    fn legend<DB: DrawingBackend>(self, area: &Area<DB>, lines: &[Line]) -> Drawn<DB> {
        let row = |at: usize| self.px(LEGEND_PITCH * (at as u32 + 1));
        for (at, line) in lines.iter().take(LEGEND_LINES_MAX).enumerate() {
            let y = row(at);
            let key = [(0, y - self.px(1)), (self.px(22), y + self.px(2))];
            area.draw(&Rectangle::new(key, line.colour.filled()))?;
            area.draw_text(&shortened(&line.name), &self.beside(), (self.px(30), y))?;
        }
        if lines.len() > LEGEND_LINES_MAX {
            let more = format!("and {} more", lines.len() - LEGEND_LINES_MAX);
            area.draw_text(&more, &self.beside(), (self.px(30), row(LEGEND_LINES_MAX)))?;
        }
        Ok(())
    }
}
