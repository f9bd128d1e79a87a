//! The ranking: each arm's regret to the best merit, with its interval.

use super::axis::Axis;
use super::canvas::{GREY, Pen, SMALL_TEXT, TEXT, WIDTH, colour};
use super::title;
use crate::slice::Slice;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use remuda_matrix::{Interval, Rank};
use remuda_results::paper::{Area, Chart, Drawn};

const TITLE_HEIGHT: i32 = 26;
const ROW: u32 = 21;
const AXIS_HEIGHT: u32 = 46;
/// Width of the names on the left and of the figures on the right.
const NAMES: i32 = 96;
const FIGURES: i32 = 112;

pub struct Ranking<'a> {
    title: String,
    ranks: &'a [Rank],
    marked: Vec<&'a str>,
    x: Axis,
}

fn figures(it: Interval) -> String {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    match it.bounds {
        None => percent(it.middle),
        Some([low, high]) => {
            format!("{} ({} to {})", percent(it.middle), percent(low), percent(high))
        }
    }
}

impl<'a> Ranking<'a> {
    /// All arms, the best first.
    pub fn of(slice: &'a Slice, marked: &[&'a str]) -> Self {
        let ends = |it: &Rank| it.regret.bounds.unwrap_or([it.regret.middle; 2]);
        let ends = slice.ranks.iter().flat_map(ends).map(|share| share * 100.0);
        let label = "below the best merit of the environment (%)";
        let mut x = Axis::of(label, ends.chain([0.0]), false);
        x.range.end += (x.range.end - x.range.start) * 0.03;
        Self { title: title(slice), ranks: &slice.ranks, marked: marked.to_vec(), x }
    }

    /// Draws the mean, and the interval if there is one.
    fn row<DB: DrawingBackend>(
        &self,
        (pen, paper): (Pen, &Area<DB>),
        rank: &Rank,
        (at, middle): (impl Fn(f64) -> i32, i32),
    ) -> Drawn<DB> {
        let place = self.marked.iter().position(|it| *it == rank.driver);
        let shade = place.map_or(GREY, colour);
        if let Some([low, high]) = rank.regret.bounds {
            let line = vec![(at(low * 100.0), middle), (at(high * 100.0), middle)];
            paper.draw(&PathElement::new(line, shade.stroke_width(pen.width(2))))?;
        }
        let dot = (at(rank.regret.middle * 100.0), middle);
        paper.draw(&Circle::new(dot, pen.px(4), shade.filled()))?;
        let name = pen.text(TEXT, HPos::Right);
        paper.draw_text(&rank.driver, &name, (pen.px(NAMES - 8), middle))?;
        let small = pen.text(SMALL_TEXT, HPos::Left);
        let beside = pen.px(WIDTH as i32 - FIGURES + 8);
        paper.draw_text(&figures(rank.regret), &small, (beside, middle))
    }
}

impl Chart for Ranking<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH, TITLE_HEIGHT as u32 + ROW * self.ranks.len() as u32 + AXIS_HEIGHT)
    }

    fn draw<DB: DrawingBackend>(&self, scale: u32, paper: &Area<DB>) -> Drawn<DB> {
        let pen = Pen(scale);
        let left = pen.text(TEXT, HPos::Left);
        paper.draw_text(&self.title, &left, (pen.px(12), pen.px(14)))?;
        let room = (pen.px(NAMES), pen.px(WIDTH as i32 - FIGURES));
        let at = |value: f64| self.x.map(&value, room);
        let top = pen.px(TITLE_HEIGHT);
        let bottom = top + pen.px(ROW as i32 * self.ranks.len() as i32);
        let line = BLACK.mix(0.14).stroke_width(pen.width(1));
        let centred = pen.text(TEXT, HPos::Center);
        for tick in self.x.ticks() {
            let across = at(tick);
            paper.draw(&PathElement::new(vec![(across, top), (across, bottom)], line))?;
            paper.draw_text(&self.x.text(tick), &centred, (across, bottom + pen.px(12)))?;
        }
        let middle = pen.px(WIDTH as i32 / 2);
        let label = format!("{}: mean, 95 % interval", self.x.label);
        paper.draw_text(&label, &centred, (middle, bottom + pen.px(32)))?;
        for (place, rank) in self.ranks.iter().enumerate() {
            let middle = top + pen.px(ROW as i32 * place as i32 + ROW as i32 / 2);
            self.row((pen, paper), rank, (at, middle))?;
        }
        Ok(())
    }
}
