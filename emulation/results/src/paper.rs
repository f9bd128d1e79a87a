//! Charts as SVG documents and PNG files, also on a machine without fonts.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::sync::OnceLock;

/// The result of a drawing operation.
pub type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;
pub type Area<DB> = DrawingArea<DB, Shift>;

/// A chart that can be drawn as SVG and as PNG.
pub trait Chart {
    /// Width and height, in points, which are the pixels of an SVG.
    fn size(&self) -> (u32, u32);
    /// Draws the whole chart on white, with `scale` pixels for each point.
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

/// The chart as an SVG document; an error is the drawing library's.
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

/// The chart as a PNG file with `scale` pixels for each point. `per_metre` is stored in the file as
/// the pixels in a metre of paper. An error is a library's.
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
