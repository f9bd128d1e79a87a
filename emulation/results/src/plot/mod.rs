//! Plots over time: delivery rate with the arms in charge, window, RTT and queues.

mod draw;

use crate::error::Error;
use crate::paper;
use plotters::prelude::*;
use remuda_scenarios::outcome::{FlowOutcome, FlowSample, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// The colours of Okabe and Ito, which colour-blind people can tell apart.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(160, 150, 30),
];
/// Pixels of a PNG for each pixel of an SVG; with fewer, letters are visibly misplaced.
const PNG_SCALE: u32 = 2;
/// More lines cannot be told apart.
const LINES_MAX: usize = 40;
/// More strips leave no room for the plot.
const STRIPS_MAX: usize = 8;
/// More points are finer than a pixel.
const POINTS_MAX: usize = 2_000;

/// A line over time.
pub(crate) struct Line {
    name: String,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

impl Line {
    /// A line in the colour of `number`, with no more points than a reader can see.
    pub(crate) fn new(name: String, number: usize, points: Vec<(f64, f64)>) -> Self {
        Self { name, colour: colour(number), points: thinned(points) }
    }

    #[cfg(test)]
    pub(crate) fn points(&self) -> &[(f64, f64)] {
        &self.points
    }
}

/// One of several plots, drawn one below the other.
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) lines: Vec<Line>,
}

/// The arms of a flow, one after the other.
pub(crate) struct Strip {
    flow: String,
    /// Start, end, colour and name of each arm.
    bands: Vec<(f64, f64, RGBColor, String)>,
}

/// Everything that a plot shows.
pub(crate) struct Figure {
    pub(crate) title: String,
    /// A note on what is not drawn, if anything.
    pub(crate) left_out: Option<String>,
    /// The end of the time axis.
    pub(crate) end_s: f64,
    pub(crate) strips: Vec<Strip>,
    pub(crate) panels: Vec<Panel>,
}

fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// If there are too many points, keeps the least and the largest of every group of neighbours.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points;
    }
    let few = points.len().div_ceil(POINTS_MAX / 2);
    let mut kept = Vec::with_capacity(POINTS_MAX);
    for chunk in points.chunks(few) {
        let by_value = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
        let ends = [chunk.iter().min_by(by_value), chunk.iter().max_by(by_value)];
        let mut ends: Vec<(f64, f64)> = ends.into_iter().flatten().copied().collect();
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        ends.dedup();
        kept.extend(ends);
    }
    kept
}

/// Delivery rate in Mbit/s between the samples of one flow.
fn rates(samples: &[&FlowSample]) -> Vec<(f64, f64)> {
    let rate = |pair: &[&FlowSample]| {
        let span_s = pair[1].t_s - pair[0].t_s;
        let bytes = pair[1].delivered_bytes.saturating_sub(pair[0].delivered_bytes);
        (span_s > 0.0).then(|| (pair[1].t_s, bytes as f64 * 8.0 / 1e6 / span_s))
    };
    samples.windows(2).filter_map(rate).collect()
}

fn bands(flow: &FlowOutcome, end_s: f64, arms: &BTreeMap<&str, RGBColor>) -> Strip {
    let mut bands = Vec::new();
    let mut from_s = flow.start_s;
    let mut band = |from_s: f64, to_s: f64, arm: &str| {
        let colour = arms.get(arm).copied().unwrap_or(BLACK);
        bands.push((from_s, to_s.max(from_s), colour, arm.to_owned()));
    };
    for switch in &flow.switches {
        band(from_s, switch.t_s, &switch.from);
        from_s = switch.t_s;
    }
    band(from_s, flow.end_s.unwrap_or(end_s), &flow.arm);
    Strip { flow: flow.name.clone(), bands }
}

/// A strip for each of the first flows that changed their arm.
fn strips(outcome: &Outcome, end_s: f64) -> Vec<Strip> {
    let switching = || outcome.flows.iter().filter(|flow| !flow.switches.is_empty());
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for flow in switching() {
        names.insert(&flow.arm);
        names.extend(flow.switches.iter().flat_map(|it| [it.from.as_str(), it.to.as_str()]));
    }
    let arms = names.into_iter().enumerate().map(|(at, arm)| (arm, colour(at))).collect();
    switching().take(STRIPS_MAX).map(|flow| bands(flow, end_s, &arms)).collect()
}

/// One value over time, a line for each flow.
fn flow_lines(
    flows: &[(&FlowOutcome, Vec<&FlowSample>)],
    points: impl Fn(&[&FlowSample]) -> Vec<(f64, f64)>,
) -> Vec<Line> {
    let line = |(at, (flow, samples)): (usize, &(&FlowOutcome, Vec<&FlowSample>))| {
        Line::new(flow.name.clone(), at, points(samples))
    };
    flows.iter().enumerate().map(line).collect()
}

fn queue_lines(outcome: &Outcome) -> Vec<Line> {
    let mut of_link: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in &outcome.link_samples {
        let points = of_link.entry(sample.link).or_default();
        points.push((sample.t_s, sample.queue_packets as f64));
    }
    of_link.retain(|_, points| points.iter().any(|(_, packets)| *packets > 0.0));
    let name = |link: u32| {
        let of = outcome.links.get(link as usize);
        of.map_or_else(|| link.to_string(), |of| of.name.clone())
    };
    let links = of_link.into_iter().take(LINES_MAX).enumerate();
    let line = |(at, (link, points))| Line::new(name(link), at, points);
    links.map(line).collect()
}

impl Figure {
    fn of(outcome: &Outcome) -> Result<Self, Error> {
        if outcome.flow_samples.is_empty() {
            let scenario = outcome.scenario.clone();
            let what = "it has no time series; set its sample_ms above 0".to_owned();
            return Err(Error::Plot { scenario, what });
        }
        let drawn: Vec<&FlowOutcome> = outcome.flows.iter().take(LINES_MAX).collect();
        let mut samples: BTreeMap<u32, Vec<&FlowSample>> = BTreeMap::new();
        for sample in &outcome.flow_samples {
            samples.entry(sample.flow).or_default().push(sample);
        }
        let flows: Vec<_> = drawn
            .into_iter()
            .map(|flow| (flow, samples.remove(&flow.flow).unwrap_or_default()))
            .collect();
        let count = outcome.flows.len();
        let left_out = (count > LINES_MAX).then(|| format!("the first {LINES_MAX} of {count}"));
        let windows =
            |of: &[&FlowSample]| of.iter().map(|it| (it.t_s, it.cwnd_pkts)).collect::<Vec<_>>();
        let trips = |of: &[&FlowSample]| {
            of.iter().filter_map(|it| it.srtt_ms.map(|ms| (it.t_s, ms))).collect::<Vec<_>>()
        };
        let mut panels = vec![
            Panel { title: "delivery rate, Mbit/s", lines: flow_lines(&flows, rates) },
            Panel { title: "window, packets", lines: flow_lines(&flows, windows) },
            Panel { title: "smoothed RTT, ms", lines: flow_lines(&flows, trips) },
        ];
        let lines = queue_lines(outcome);
        if !lines.is_empty() {
            panels.push(Panel { title: "queue, packets", lines });
        }
        // If the last event is long before the scenario's end, the axis ends early: otherwise all
        // lines would be squeezed into its left edge.
        let last_s = outcome.flow_samples.iter().map(|sample| sample.t_s).fold(0.0, f64::max);
        let end_s = if last_s > 0.0 { last_s } else { outcome.duration_s };
        let end_s = end_s.max(f64::MIN_POSITIVE);
        let (engine, seed) = (outcome.engine, outcome.seed);
        Ok(Self {
            title: format!("{} (remuda {engine}, seed {seed})", outcome.scenario),
            left_out,
            end_s,
            strips: strips(outcome, end_s),
            panels,
        })
    }
}

/// The plots of an outcome, as an SVG document.
pub fn svg(outcome: &Outcome) -> Result<String, Error> {
    paint_svg(&outcome.scenario, &Figure::of(outcome)?)
}

/// The plots of an outcome, as a PNG file.
pub fn png(outcome: &Outcome) -> Result<Vec<u8>, Error> {
    paint_png(&outcome.scenario, &Figure::of(outcome)?)
}

/// A figure as an SVG document; errors contain `name`.
pub(crate) fn paint_svg(name: &str, figure: &Figure) -> Result<String, Error> {
    paper::svg(figure).map_err(failed(name))
}

/// A figure as a PNG file; errors contain `name`.
pub(crate) fn paint_png(name: &str, figure: &Figure) -> Result<Vec<u8>, Error> {
    paper::png(figure, PNG_SCALE, None).map_err(failed(name))
}

fn failed(name: &str) -> impl Fn(String) -> Error {
    move |what| Error::Plot { scenario: name.to_owned(), what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_scenarios::outcome::Switch;

    #[test]
    fn thinning_keeps_the_extremes() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|n| (f64::from(n), 1.0)).collect();
        points[5_000].1 = 9.0;
        points[5_001].1 = -9.0;
        let thin = thinned(points.clone());
        assert!(thin.len() <= POINTS_MAX + 2, "{}", thin.len());
        assert!(thin.contains(&(5_000.0, 9.0)) && thin.contains(&(5_001.0, -9.0)));
        assert!(thin.is_sorted_by(|one, other| one.0 <= other.0));
        points.truncate(POINTS_MAX);
        assert_eq!(thinned(points.clone()), points);
    }

    #[test]
    fn a_strip_has_every_arm_from_start_to_end() {
        let switch = |t_s, from: &str, to: &str| Switch {
            t_s,
            from: from.to_owned(),
            to: to.to_owned(),
            why: String::new(),
        };
        let flow = FlowOutcome {
            start_s: 1.0,
            end_s: Some(9.0),
            arm: "cubic".to_owned(),
            switches: vec![switch(2.0, "cubic", "bbr"), switch(5.0, "bbr", "cubic")],
            ..FlowOutcome::default()
        };
        let outcome = Outcome { duration_s: 10.0, flows: vec![flow], ..Outcome::default() };
        let strips = strips(&outcome, 10.0);
        let bands: Vec<_> =
            strips[0].bands.iter().map(|band| (band.0, band.1, band.3.as_str())).collect();
        assert_eq!(bands, [(1.0, 2.0, "cubic"), (2.0, 5.0, "bbr"), (5.0, 9.0, "cubic")]);
        assert_eq!(strips[0].bands[0].2, strips[0].bands[2].2, "an arm has one colour");
    }

    #[test]
    fn a_rate_is_of_what_arrived_between_two_looks() {
        let sample =
            |t_s, delivered_bytes| FlowSample { t_s, delivered_bytes, ..FlowSample::default() };
        let samples = [sample(0.0, 0), sample(0.5, 125_000), sample(0.5, 125_000)];
        let samples: Vec<&FlowSample> = samples.iter().collect();
        assert_eq!(rates(&samples), [(0.5, 2.0)]);
    }
}
