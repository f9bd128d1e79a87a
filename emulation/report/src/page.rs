//! The page: one HTML file that contains its style, its program and its data.
//!
//! Fixed texts and tables are in the HTML; `page.js` draws what depends on the reader's choice from
//! the data. The template escapes all text, and the data is JSON without any `<`, so no text of a
//! suite, an author's file or a table becomes markup.

use crate::board::Board;
use crate::diff::Diff;
use crate::error::Error;
use crate::metric::{METRICS, Metric};
use crate::series::Series;
use crate::slice::Slice;
use minijinja::{AutoEscape, Environment, context};
use remuda_matrix::Interval;
use serde::Serialize;

/// The data for `page.js`.
#[derive(Serialize)]
struct Data<'a> {
    board: &'a Board,
    metrics: &'a [Metric],
    diff: Option<&'a Diff>,
    series: &'a [Series],
}

/// The best driver of a kind of path, in words.
#[derive(Serialize)]
struct Best {
    paths: String,
    environments: usize,
    first: String,
    wins: usize,
    regret: String,
    ahead: String,
    second: String,
    second_wins: usize,
    second_regret: String,
}

fn spread(it: Interval) -> String {
    let percent = |share: f64| (share * 100.0).round();
    match it.bounds {
        None => percent(it.middle).to_string(),
        Some([low, high]) => {
            format!("{} ({} to {})", percent(it.middle), percent(low), percent(high))
        }
    }
}

fn best(slice: &Slice) -> Option<Best> {
    let (first, second) = (slice.ranks.first()?, slice.ranks.get(1)?);
    Some(Best {
        paths: slice.label.clone(),
        environments: first.environments,
        first: first.driver.clone(),
        wins: first.wins,
        regret: spread(first.regret),
        ahead: spread(first.ahead),
        second: second.driver.clone(),
        second_wins: second.wins,
        second_regret: spread(second.regret),
    })
}

/// The page's HTML.
///
/// # Errors
///
/// A defect of the template.
pub fn page(board: &Board, diff: Option<&Diff>, series: &[Series]) -> Result<String, Error> {
    let data = serde_json::to_string(&Data { board, metrics: &METRICS, diff, series })?
        .replace('<', "\\u003c");
    let of_paths = board.slices.iter().filter(|slice| slice.by == "all" || slice.by == "path");
    let bests: Vec<Best> = of_paths.filter_map(best).collect();
    let mut templates = Environment::new();
    templates.set_auto_escape_callback(|_| AutoEscape::Html);
    let made = templates
        .render_str(
            include_str!("page.html"),
            context! {
                style => include_str!("page.css"),
                program => include_str!("page.js"),
                data,
                about => board.about,
                runs => board.runs,
                seeds => board.seeds,
                drivers => board.drivers.len(),
                environments => board.environments.len(),
                bests,
                expected => board.expected,
                missed => board.missed.len(),
                diff,
                passes => diff.map(Diff::passes),
                has_series => !series.is_empty(),
            },
        )
        .map_err(Box::new)?;
    Ok(made)
}
