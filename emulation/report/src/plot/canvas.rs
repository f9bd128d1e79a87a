//! Paper of one column's width, and a chart on it as both kinds of file.
//!
//! Sizes are in points of a paper 480 wide. In a column of 3.33 inches its letters are 7 points
//! high, and a PNG, which says so, has 576 pixels an inch.

use crate::error::Error;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};
use std::sync::OnceLock;

/// Of a column.
pub const WIDTH: u32 = 480;
/// Even: the drawing library halves it, and rounds each letter by itself.
pub const TEXT: u32 = 14;
/// Of figures in a field.
pub const SMALL_TEXT: u32 = 12;
/// Pixels of a PNG for each point.
const PNG_SCALE: u32 = 4;
const PIXELS_PER_METRE: u32 = 22_677;

pub type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;
pub type Area<DB> = DrawingArea<DB, Shift>;

/// Okabe and Ito's colours, which people tell apart who see fewer; those that show on white.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];
/// What is there and not meant.
pub const GREY: RGBColor = RGBColor(120, 120, 120);

/// So many lines are told apart.
pub const COLOURS_MAX: usize = COLOURS.len();

/// Of the arm that is drawn at this place.
pub fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}

/// What can be drawn on both kinds of paper.
pub trait Chart {
    /// Width and height, in points.
    fn size(&self) -> (u32, u32);
    /// Draws all of it.
    fn draw<DB: DrawingBackend>(&self, pen: Pen, paper: &Area<DB>) -> Drawn<DB>;
}

/// How many pixels a point has.
#[derive(Clone, Copy)]
pub struct Pen(u32);

impl Pen {
    /// In pixels.
    pub fn px(self, points: i32) -> i32 {
        points * self.0 as i32
    }

    /// A line's width, in pixels.
    pub fn width(self, points: u32) -> u32 {
        points * self.0
    }

    /// Letters of this size, whose middle or end lies where they are put.
    pub fn text(self, points: u32, at: HPos) -> TextStyle<'static> {
        let font = ("sans-serif", points * self.0).into_font();
        font.color(&BLACK).pos(Pos::new(at, VPos::Center))
    }

    /// In black, of a title or an axis.
    pub fn plain(self) -> TextStyle<'static> {
        ("sans-serif", TEXT * self.0).into_font().color(&BLACK)
    }
}

/// Makes text drawable on a machine without fonts.
fn with_font() -> Result<(), String> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let register =
        || register_font("sans-serif", FontStyle::Normal, ttf_noto_sans::REGULAR).is_ok();
    match *REGISTERED.get_or_init(register) {
        true => Ok(()),
        false => Err("the font that comes with it was refused".to_owned()),
    }
}

fn failed<E: ToString>(name: &str) -> impl Fn(E) -> Error {
    let name = name.to_owned();
    move |error| Error::Plot { name: name.clone(), what: error.to_string() }
}

/// As an SVG document.
pub fn svg(name: &str, chart: &impl Chart) -> Result<String, Error> {
    with_font().map_err(failed(name))?;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, chart.size()).into_drawing_area();
        root.fill(&WHITE).map_err(failed(name))?;
        chart.draw(Pen(1), &root).map_err(failed(name))?;
        root.present().map_err(failed(name))?;
    }
    Ok(text)
}

/// As a PNG file.
pub fn png(name: &str, chart: &impl Chart) -> Result<Vec<u8>, Error> {
    with_font().map_err(failed(name))?;
    let (width, height) = chart.size();
    let (width, height) = (width * PNG_SCALE, height * PNG_SCALE);
    let mut pixels = vec![255; (width * height * 3) as usize];
    {
        let root = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        chart.draw(Pen(PNG_SCALE), &root).map_err(failed(name))?;
        root.present().map_err(failed(name))?;
    }
    let mut file = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut file, width, height);
    encoder.set_color(::png::ColorType::Rgb);
    encoder.set_depth(::png::BitDepth::Eight);
    encoder.set_pixel_dims(Some(::png::PixelDimensions {
        xppu: PIXELS_PER_METRE,
        yppu: PIXELS_PER_METRE,
        unit: ::png::Unit::Meter,
    }));
    let mut writer = encoder.write_header().map_err(failed(name))?;
    writer.write_image_data(&pixels).map_err(failed(name))?;
    writer.finish().map_err(failed(name))?;
    Ok(file)
}
