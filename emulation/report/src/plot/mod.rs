//! The page's charts for papers: each as SVG and as PNG, on white, one column wide.
//!
//! They show the same numbers as the page: the [ranking](Slice::ranks) with its intervals,
//! [clouds](crate::Cloud) between throughput and delay, the distribution of every
//! [`Metric`](crate::Metric), and merit by arm and group.

mod axis;
mod canvas;
mod distribution;
mod heat;
mod ranking;
mod scatter;

use crate::arms::check_arms;
use crate::board::Board;
use crate::error::Error;
use crate::metric::METRICS;
use crate::slice::Slice;
use canvas::COLOURS_MAX;
use distribution::Distribution;
use heat::Heat;
use ranking::Ranking;
use remuda_results::paper::Chart;
use scatter::Scatter;

/// Number of arms that are highlighted if the user names none, as on the page.
const MARKED: usize = 5;
/// Longest name of a slice in a file name.
const SLUG_MAX: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// The stem of the file's name, as `ranking-all-paths`.
    pub name: String,
    pub svg: String,
    pub png: Vec<u8>,
}

impl Plot {
    fn of(name: String, chart: &impl Chart) -> Result<Self, Error> {
        let (svg, png) = (canvas::svg(&name, chart)?, canvas::png(&name, chart)?);
        Ok(Self { name, svg, png })
    }
}

/// Lower-case letters and digits; all other characters become hyphens.
fn slug(text: &str) -> String {
    let letter = |it: char| if it.is_ascii_alphanumeric() { it.to_ascii_lowercase() } else { ' ' };
    let plain: String = text.chars().map(letter).take(SLUG_MAX).collect();
    plain.split_whitespace().collect::<Vec<_>>().join("-")
}

/// The subtitle of every chart of a slice.
fn title(slice: &Slice) -> String {
    let count = slice.environments.len();
    format!("{}: {count} {}", slice.label, if count == 1 { "environment" } else { "environments" })
}

/// For each part, the slice with that label, or else the slices whose label contains the part.
/// Without parts, the slice of all paths.
fn wanted<'a>(board: &'a Board, parts: &[String]) -> Result<Vec<&'a Slice>, Error> {
    if parts.is_empty() {
        return Ok(board.slices.iter().take(1).collect());
    }
    let mut all = Vec::new();
    for part in parts {
        let exact = board.slices.iter().filter(|slice| slice.label == *part);
        let mut found: Vec<&Slice> = exact.collect();
        if found.is_empty() {
            found = board.slices.iter().filter(|slice| slice.label.contains(part)).collect();
        }
        if found.is_empty() {
            let labels: Vec<&str> = board.slices.iter().map(|it| it.label.as_str()).collect();
            let known = labels.join("; ");
            let rule = format!("--paths {part}: no such paths in the table; fix: name one of: ");
            return Err(Error::Choice { rule: rule + &known });
        }
        all.extend(found);
    }
    Ok(all)
}

/// Refuses more arms than there are colours.
fn check_count(arms: &[String]) -> Result<(), Error> {
    if arms.len() > COLOURS_MAX {
        let rule = format!("--arm: {} arms; a plot has colours for {COLOURS_MAX}", arms.len());
        return Err(Error::Choice { rule: rule + "; fix: name fewer, or none for the five best" });
    }
    Ok(())
}

/// All charts of the slices whose label has one of `paths` in it, or of all paths if `paths` is
/// empty. The charts highlight the given arms, or the five best of each slice if `arms` is empty.
///
/// # Errors
///
/// The table does not have the paths or arms, there are more arms than colours, or the library
/// cannot draw a chart.
pub fn plots(board: &Board, paths: &[String], arms: &[String]) -> Result<Vec<Plot>, Error> {
    check_arms(&board.drivers, arms)?;
    check_count(arms)?;
    let mut all = Vec::new();
    for slice in wanted(board, paths)? {
        let best = slice.ranks.iter().map(|rank| rank.driver.as_str());
        let marked: Vec<&str> = match arms {
            [] => best.take(MARKED).collect(),
            some => some.iter().map(String::as_str).collect(),
        };
        let of = slug(&slice.label);
        all.push(Plot::of(format!("ranking-{of}"), &Ranking::of(slice, &marked))?);
        if let Some(scatter) = Scatter::of(slice, &marked) {
            all.push(Plot::of(format!("throughput-delay-{of}"), &scatter)?);
        }
        for (place, metric) in METRICS.iter().enumerate() {
            if let Some(chart) = Distribution::of(board, slice, &marked, place) {
                all.push(Plot::of(format!("cdf-{}-{of}", metric.name), &chart)?);
            }
        }
    }
    all.push(Plot::of("merit-by-group".to_owned(), &Heat::of(board))?);
    Ok(all)
}

#[cfg(test)]
mod tests;
