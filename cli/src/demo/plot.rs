//! Plots as inline SVG, in a size that a phone shows without scaling.

use std::fmt::Write as _;

/// The width of a plot: that of a phone in pixels.
const WIDTH: f64 = 360.0;
const TIME_HEIGHT: f64 = 230.0;
const LEFT: f64 = 36.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 38.0;
/// The height of the strip above a plot that shows the driving arm.
const STRIP: f64 = 6.0;
/// The approximate width of a letter: a band narrower than its name shows no name.
const LETTER_WIDTH: f64 = 6.2;
const BAR_LEFT: f64 = 76.0;
const BAR_RIGHT: f64 = 64.0;
const BAR_PITCH: f64 = 30.0;
const BAR_HEIGHT: f64 = 14.0;
/// The approximate number of steps of an axis.
const STEPS: f64 = 5.0;

/// Escapes text for use between tags and in attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

/// The scale of an axis that starts at 0.
#[derive(Clone, Copy, Debug)]
struct Scale {
    most: f64,
    step: f64,
    from_px: f64,
    to_px: f64,
}

impl Scale {
    /// An axis from 0 to `most`, extended to the next step.
    fn new(most: f64, from_px: f64, to_px: f64) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let rough = most / STEPS;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * power).into_iter().find(|it| *it >= rough);
        let step = step.unwrap_or(rough);
        Self { most: (most / step).ceil() * step, step, from_px, to_px }
    }

    fn at(&self, value: f64) -> f64 {
        self.from_px + (self.to_px - self.from_px) * (value / self.most).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        (0..).map(|n| f64::from(n) * self.step).take_while(|tick| *tick <= self.most * 1.001)
    }
}

#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    /// The style class of its colour on the page.
    pub class: &'static str,
    /// Seconds, and the value in the unit of the axis.
    pub points: Vec<(f64, f64)>,
}

/// A span of time in which one arm drove the flow.
#[derive(Clone, Debug)]
pub struct Band {
    pub name: String,
    /// The style class of its colour on the page.
    pub class: &'static str,
    pub span_s: (f64, f64),
}

#[derive(Clone, Debug)]
pub struct TimePlot {
    pub title: String,
    /// The unit of the vertical axis.
    pub unit: &'static str,
    /// The end of the vertical axis.
    pub most: f64,
    /// The last series is drawn on top.
    pub series: Vec<Series>,
    /// The spans of the driving arms.
    pub bands: Vec<Band>,
}

impl TimePlot {
    pub fn figure(&self) -> String {
        let ends = self.series.iter().flat_map(|series| series.points.last());
        let end_s = ends.map(|(at_s, _)| *at_s).fold(0.0, f64::max);
        let x = Scale::new(end_s, LEFT, WIDTH - RIGHT);
        let y = Scale::new(self.most, TIME_HEIGHT - BOTTOM, TOP);
        let mut body = String::new();
        for band in &self.bands {
            body += &band_svg(band, x);
        }
        body += &axes(x, y, self.unit);
        for series in &self.series {
            body += &line_svg(series, x, y);
        }
        figure(&self.title, &format!("{}, {} over time", self.title, self.unit), TIME_HEIGHT, &body)
    }
}

fn figure(title: &str, label: &str, height: f64, body: &str) -> String {
    let (title, label) = (escape(title), escape(label));
    format!(
        "<figure><figcaption>{title}</figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\">{body}</svg>\
         </figure>\n"
    )
}

fn axes(x: Scale, y: Scale, unit: &str) -> String {
    let mut svg = String::new();
    let (left, right, top, bottom) = (x.from_px, x.to_px, y.to_px, y.from_px);
    for tick in y.ticks() {
        let (at, text_at) = (y.at(tick), y.at(tick) + 4.0);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"end\" x=\"{:.1}\" y=\"{text_at:.1}\">{}</text>",
            left - 5.0,
            tick_text(tick)
        );
    }
    let text_at = bottom + 16.0;
    for tick in x.ticks() {
        let at = x.at(tick);
        let text = tick_text(tick);
        let _ = write!(svg, "<text class=\"mid\" x=\"{at:.1}\" y=\"{text_at:.1}\">{text}</text>");
    }
    let (middle, below, above) = ((left + right) / 2.0, bottom + 32.0, top - 22.0);
    let unit = escape(unit);
    let _ = write!(
        svg,
        "<text class=\"mid\" x=\"{middle:.1}\" y=\"{below:.1}\">time since the first byte, s</text>\
         <text x=\"0\" y=\"{above:.1}\">{unit}</text>"
    );
    svg
}

fn tick_text(tick: f64) -> String {
    let text = format!("{tick:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn band_svg(band: &Band, x: Scale) -> String {
    let (from, to) = (x.at(band.span_s.0), x.at(band.span_s.1));
    let (width, height) = (to - from, TIME_HEIGHT - BOTTOM - TOP);
    let (class, name) = (band.class, escape(&band.name));
    let mut svg = format!(
        "<g class=\"{class}\"><title>rein has {name} from {:.1} s to {:.1} s</title>\
         <rect class=\"band\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{width:.1}\" \
         height=\"{height}\"/>\
         <rect class=\"strip\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" \
         height=\"{STRIP}\"/>",
        band.span_s.0,
        band.span_s.1,
        TOP - STRIP
    );
    if width >= LETTER_WIDTH * band.name.len() as f64 {
        let (at, above) = (from + width / 2.0, TOP - STRIP - 4.0);
        let _ = write!(svg, "<text class=\"mid\" x=\"{at:.1}\" y=\"{above:.1}\">{name}</text>");
    }
    svg + "</g>"
}

fn line_svg(series: &Series, x: Scale, y: Scale) -> String {
    let mut path = String::new();
    for (at_s, value) in &series.points {
        let command = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", x.at(*at_s), y.at(*value));
    }
    let (class, name) = (series.class, escape(&series.name));
    format!("<path class=\"line {class}\" d=\"{path}\"><title>{name}</title></path>")
}

#[derive(Clone, Debug)]
pub struct Bar {
    pub name: String,
    /// The style class of its colour on the page.
    pub class: &'static str,
    /// The length of the bar; `None` without a value.
    pub mean: Option<f64>,
    /// The values of which `mean` is the mean.
    pub values: Vec<f64>,
    pub text: String,
}

#[derive(Clone, Debug)]
pub struct BarPlot {
    pub title: String,
    /// The end of the axis.
    pub most: f64,
    /// In order from top to bottom.
    pub bars: Vec<Bar>,
}

impl BarPlot {
    pub fn figure(&self) -> String {
        let x = Scale::new(self.most, BAR_LEFT, WIDTH - BAR_RIGHT);
        let bottom = 6.0 + BAR_PITCH * self.bars.len() as f64;
        let mut body = String::new();
        for tick in x.ticks() {
            let at = x.at(tick);
            let text_at = bottom + 15.0;
            let _ = write!(
                body,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"6\" y2=\"{bottom:.1}\"/>\
                 <text class=\"mid\" x=\"{at:.1}\" y=\"{text_at:.1}\">{}</text>",
                tick_text(tick)
            );
        }
        for (index, bar) in self.bars.iter().enumerate() {
            body += &bar_svg(bar, x, 6.0 + BAR_PITCH * (index as f64 + 0.5));
        }
        let middle = (BAR_LEFT + WIDTH - BAR_RIGHT) / 2.0;
        let _ = write!(
            body,
            "<text class=\"mid\" x=\"{middle:.1}\" y=\"{:.1}\">completion time, s</text>",
            bottom + 31.0
        );
        let label = format!("{}, completion time in seconds", self.title);
        figure(&self.title, &label, bottom + 36.0, &body)
    }
}

fn bar_svg(bar: &Bar, x: Scale, middle: f64) -> String {
    let (class, name, text) = (bar.class, escape(&bar.name), escape(&bar.text));
    let (text_at, top) = (middle + 4.0, middle - BAR_HEIGHT / 2.0);
    let mut svg = format!(
        "<g class=\"{class}\"><title>{name}: {text}</title>\
         <text class=\"end\" x=\"{:.1}\" y=\"{text_at:.1}\">{name}</text>",
        BAR_LEFT - 6.0
    );
    if let Some(mean) = bar.mean {
        let width = x.at(mean) - x.from_px;
        let _ = write!(
            svg,
            "<rect class=\"bar\" x=\"{BAR_LEFT}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{BAR_HEIGHT}\" rx=\"2\"/>"
        );
    }
    let several = if bar.values.len() > 1 { &bar.values[..] } else { &[] };
    for value in several {
        let at = x.at(*value);
        let _ = write!(svg, "<circle class=\"dot\" cx=\"{at:.1}\" cy=\"{middle:.1}\" r=\"3.5\"/>");
    }
    let end = several.iter().copied().chain(bar.mean).fold(0.0, f64::max);
    let _ = write!(svg, "<text x=\"{:.1}\" y=\"{text_at:.1}\">{text}</text></g>", x.at(end) + 7.0);
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_a_round_number_at_or_above_the_largest_value() {
        for (most, end, step) in
            [(9.3, 10.0, 2.0), (24.0, 25.0, 5.0), (0.7, 0.8, 0.2), (110.0, 150.0, 50.0)]
        {
            let scale = Scale::new(most, 0.0, 100.0);
            assert!((scale.most - end).abs() < 1e-9, "{most}: {}", scale.most);
            assert!((scale.step - step).abs() < 1e-9, "{most}: {}", scale.step);
        }
        assert_eq!(Scale::new(f64::NAN, 0.0, 100.0).most, 1.0);
        assert_eq!(Scale::new(10.0, 0.0, 100.0).at(f64::INFINITY), 100.0);
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let hostile = "</svg><script>alert('x')</script>\"&";
        let plot = TimePlot {
            title: hostile.to_owned(),
            unit: "ms",
            most: 1.0,
            series: vec![Series { name: hostile.to_owned(), class: "rein", points: vec![] }],
            bands: vec![Band { name: hostile.to_owned(), class: "bbr", span_s: (0.0, 1.0) }],
        };
        let bar = Bar {
            name: hostile.to_owned(),
            class: "bbr",
            mean: Some(1.0),
            values: vec![],
            text: hostile.to_owned(),
        };
        let bars = BarPlot { title: hostile.to_owned(), most: 1.0, bars: vec![bar] };
        for figure in [plot.figure(), bars.figure()] {
            assert!(!figure.contains("<script>") && !figure.contains("'x'"), "{figure}");
            assert_eq!(figure.matches("</svg>").count(), 1);
            assert!(figure.contains("&lt;script&gt;"));
        }
    }
}
