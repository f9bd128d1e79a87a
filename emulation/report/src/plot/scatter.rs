//! Throughput and delay: every arm at its mean, highlighted arms with their ellipse.

use super::axis::{Axis, plane};
use super::canvas::{GREY, Pen, TEXT, WIDTH, colour};
use super::title;
use crate::cloud::Cloud;
use crate::metric::{QUEUEING, UTILISATION};
use crate::slice::Slice;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use remuda_results::paper::{Area, Chart, Drawn};

const HEIGHT: u32 = 400;
const TITLE_HEIGHT: i32 = 26;
/// Corners of the polygon that stands for an ellipse.
const EDGE_POINTS: usize = 120;
const DOT_RADIUS: i32 = 4;
/// How far a name may be moved from its dot, in steps of half a line.
const STEPS_MAX: i32 = 60;

/// A box, as left, top, right and bottom, in pixels.
type Place = [i32; 4];

pub struct Scatter<'a> {
    title: String,
    clouds: &'a [Cloud],
    marked: Vec<&'a str>,
    x: Axis,
    y: Axis,
}

fn overlap(one: &Place, other: &Place) -> bool {
    one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
}

impl<'a> Scatter<'a> {
    /// `None` if nothing limits any of the slice's environments.
    pub fn of(slice: &'a Slice, marked: &[&'a str]) -> Option<Self> {
        let clouds = &slice.clouds;
        let least = |of: fn(&Cloud) -> f64| clouds.iter().map(of).reduce(f64::min);
        let most = |of: fn(&Cloud) -> f64| clouds.iter().map(of).reduce(f64::max);
        let delay = |it: &Cloud| it.delay_log10_ms;
        let used = |it: &Cloud| it.utilisation_percent;
        let low = (((least(used)? - 4.0) / 5.0).floor() * 5.0).max(0.0);
        Some(Self {
            title: title(slice),
            clouds,
            marked: marked.to_vec(),
            x: Axis {
                range: least(delay)? - 0.12..most(delay)? + 0.2,
                is_log: true,
                label: format!("{}, logarithmic", QUEUEING.label),
            },
            y: Axis {
                range: low..most(used)? + 3.0,
                is_log: false,
                label: UTILISATION.label.to_owned(),
            },
        })
    }

    fn colour(&self, driver: &str) -> Option<RGBColor> {
        self.marked.iter().position(|it| *it == driver).map(colour)
    }

    fn edge(&self, cloud: &Cloud) -> Vec<(f64, f64)> {
        let (x, y) = (&self.x.range, &self.y.range);
        let inside = |(a, b): (f64, f64)| (a.clamp(x.start, x.end), b.clamp(y.start, y.end));
        cloud.edge(EDGE_POINTS).map(inside).collect()
    }

    /// A free place for a name: beside its dot, or as near to the dot as possible.
    fn place(pen: Pen, dot: (i32, i32), size: (u32, u32), room: (&Place, &[Place])) -> Place {
        let (width, height) = (size.0 as i32, pen.px(TEXT as i32));
        let (inside, taken) = room;
        let gap = pen.px(DOT_RADIUS + 3);
        let is_free = |it: &Place| {
            let fits = it[0] >= inside[0] && it[2] <= inside[2];
            let fits = fits && it[1] >= inside[1] && it[3] <= inside[3];
            fits && !taken.iter().any(|other| overlap(it, other))
        };
        let at =
            |left: i32, middle: i32| [left, middle - height / 2, left + width, middle + height / 2];
        let candidates = (0..STEPS_MAX).flat_map(|step| {
            let shift = step * height / 2;
            [(gap, shift), (-gap - width, shift), (gap, -shift), (-gap - width, -shift)]
        });
        let mut places = candidates.map(|(across, down)| at(dot.0 + across, dot.1 + down));
        places.find(is_free).unwrap_or_else(|| at(dot.0 + gap, dot.1))
    }
}

impl Chart for Scatter<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH, HEIGHT)
    }

    fn draw<DB: DrawingBackend>(&self, scale: u32, paper: &Area<DB>) -> Drawn<DB> {
        let pen = Pen(scale);
        let left = pen.text(TEXT, HPos::Left);
        paper.draw_text(&self.title, &left, (pen.px(12), pen.px(14)))?;
        let (_, area) = paper.split_vertically(pen.px(TITLE_HEIGHT));
        let mut chart = plane(pen, &area, (&self.x, &self.y))?;
        for (cloud, colour) in
            self.clouds.iter().filter_map(|it| Some((it, self.colour(&it.driver)?)))
        {
            let edge = self.edge(cloud);
            let outline = edge.iter().chain(edge.first()).copied().collect::<Vec<_>>();
            chart.draw_series([Polygon::new(edge, colour.mix(0.1))])?;
            let stroke = colour.mix(0.6).stroke_width(pen.width(1));
            chart.draw_series([PathElement::new(outline, stroke)])?;
        }
        let (across, down) = chart.plotting_area().get_pixel_range();
        let inside = [across.start, down.start, across.end, down.end];
        let dots: Vec<(i32, i32)> = self
            .clouds
            .iter()
            .map(|it| chart.backend_coord(&(it.delay_log10_ms, it.utilisation_percent)))
            .collect();
        let radius = pen.px(DOT_RADIUS);
        let around = |(x, y): (i32, i32)| [x - radius, y - radius, x + radius, y + radius];
        let mut taken: Vec<Place> = dots.iter().map(|dot| around(*dot)).collect();
        for (cloud, dot) in self.clouds.iter().zip(&dots) {
            let colour = self.colour(&cloud.driver);
            let shade = colour.unwrap_or(GREY);
            paper.draw(&Circle::new(*dot, radius, shade.filled()))?;
            let ink = if colour.is_some() { BLACK } else { GREY };
            let style = left.color(&ink);
            let size = paper.estimate_text_size(&cloud.driver, &style)?;
            let place = Self::place(pen, *dot, size, (&inside, &taken));
            let middle = i32::midpoint(place[1], place[3]);
            if (middle - dot.1).abs() > pen.px(TEXT as i32) {
                let near = if place[0] > dot.0 { place[0] } else { place[2] };
                let line = shade.mix(0.6).stroke_width(pen.width(1));
                paper.draw(&PathElement::new(vec![*dot, (near, middle)], line))?;
            }
            paper.draw_text(&cloud.driver, &style, (place[0], middle))?;
            taken.push(place);
        }
        Ok(())
    }
}
