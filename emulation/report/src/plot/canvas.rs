//! A chart of one column's width, written as SVG and as PNG.
//!
//! Sizes are in points of a paper 480 points wide. In a column of 3.33 inches the letters are 7
//! points high. A PNG has 576 pixels an inch, and its metadata say so.

use crate::error::Error;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use remuda_results::paper::{self, Chart};

pub const WIDTH: u32 = 480;
/// Even, because the drawing library halves the size and rounds each letter by itself.
pub const TEXT: u32 = 14;
/// Text size of the figures in a field.
pub const SMALL_TEXT: u32 = 12;
/// Pixels of a PNG for each point.
const PNG_SCALE: u32 = 4;
const PIXELS_PER_METRE: u32 = 22_677;

/// The colours of Okabe and Ito, which colour-blind people can tell apart; only those that show on
/// white.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];
/// For print in black and white: the length of a line's dashes and gaps, in points; 0 is a solid
/// line.
const DASHES: [(i32, i32); COLOURS_MAX] =
    [(0, 0), (8, 3), (2, 3), (16, 4), (5, 6), (2, 7), (11, 9)];
/// For data that is not highlighted.
pub const GREY: RGBColor = RGBColor(120, 120, 120);

/// Most lines that a reader can tell apart.
pub const COLOURS_MAX: usize = COLOURS.len();

/// The colour of the arm at this place.
pub fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}

/// The length of the dashes and gaps of the line at this place, in points; `None` for a solid line.
pub fn dashes(place: usize) -> Option<(i32, i32)> {
    let (dash, gap) = DASHES[place % COLOURS_MAX];
    (dash > 0).then_some((dash, gap))
}

/// Pixels for each point.
#[derive(Clone, Copy)]
pub struct Pen(pub u32);

impl Pen {
    pub fn px(self, points: i32) -> i32 {
        points * self.0 as i32
    }

    /// Width of a line, in pixels.
    pub fn width(self, points: u32) -> u32 {
        points * self.0
    }

    /// Text of this size, aligned at its middle or end.
    pub fn text(self, points: u32, at: HPos) -> TextStyle<'static> {
        let font = ("sans-serif", points * self.0).into_font();
        font.color(&BLACK).pos(Pos::new(at, VPos::Center))
    }

    /// Black text for titles and axes.
    pub fn plain(self) -> TextStyle<'static> {
        ("sans-serif", TEXT * self.0).into_font().color(&BLACK)
    }
}

fn failed(name: &str) -> impl Fn(String) -> Error {
    move |what| Error::Plot { name: name.to_owned(), what }
}

pub fn svg(name: &str, chart: &impl Chart) -> Result<String, Error> {
    paper::svg(chart).map_err(failed(name))
}

pub fn png(name: &str, chart: &impl Chart) -> Result<Vec<u8>, Error> {
    paper::png(chart, PNG_SCALE, Some(PIXELS_PER_METRE)).map_err(failed(name))
}
