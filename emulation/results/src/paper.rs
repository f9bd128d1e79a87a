//! Paper: a chart on it is an SVG document or a PNG file, on a machine without fonts as well.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::sync::OnceLock;

/// What came of drawing.
pub type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;
/// What is drawn on.
pub type Area<DB> = DrawingArea<DB, Shift>;

/// What can be drawn on both kinds of paper.
pub trait Chart {
    /// Width and height, in points: pixels of an SVG.
    fn size(&self) -> (u32, u32);
    /// Draws all of it, on white, with so many pixels for each point.
    fn draw<DB: DrawingBackend>(&self, scale: u32, paper: &Area<DB>) -> Drawn<DB>;
}

fn with_font() -> Result<(), String> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let register =
        || register_font("sans-serif", FontStyle::Normal, ttf_noto_sans::REGULAR).is_ok();
    match *REGISTERED.get_or_init(register) {
        true => Ok(()),
        false => Err("the font that comes with it was refused".to_owned()),
    }
}

fn said(error: impl ToString) -> String {
    error.to_string()
}

/// As an SVG document; an error is what the drawing library said.
pub fn svg(chart: &impl Chart) -> Result<String, String> {
    with_font()?;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, chart.size()).into_drawing_area();
        root.fill(&WHITE).map_err(said)?;
        chart.draw(1, &root).map_err(said)?;
        root.present().map_err(said)?;
    }
    Ok(text)
}

/// As a PNG file with so many pixels for each point, that says how many there are in a metre of
/// paper, if it is told; an error is what a library said.
pub fn png(chart: &impl Chart, scale: u32, per_metre: Option<u32>) -> Result<Vec<u8>, String> {
    with_font()?;
    let (width, height) = chart.size();
    let (width, height) = (width * scale, height * scale);
    let mut pixels = vec![255; (width * height * 3) as usize];
    {
        let root = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        chart.draw(scale, &root).map_err(said)?;
        root.present().map_err(said)?;
    }
    let mut file = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut file, width, height);
    encoder.set_color(::png::ColorType::Rgb);
    encoder.set_depth(::png::BitDepth::Eight);
    let unit = ::png::Unit::Meter;
    encoder.set_pixel_dims(per_metre.map(|xppu| ::png::PixelDimensions { xppu, yppu: xppu, unit }));
    let mut writer = encoder.write_header().map_err(said)?;
    writer.write_image_data(&pixels).map_err(said)?;
    writer.finish().map_err(said)?;
    Ok(file)
}
