//! Slices of the environments, each with its own ranking: every kind of path, every kind of path
//! with one class of buffer, every group, every suite.

use crate::board::Place;
use crate::cloud::Cloud;
use remuda_matrix::{Rank, Row, ranking};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How much the bottleneck's queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Buffer {
    Shallow,
    Moderate,
    /// More than four BDPs, or without a limit.
    Deep,
    /// A policer has no queue: it drops.
    None,
}

impl Buffer {
    const ALL: [Self; 4] = [Self::Shallow, Self::Moderate, Self::Deep, Self::None];

    /// The class of a queue, from the environment's kind of path and the queue's size.
    pub fn of(path: &str, queue_bdp: Option<f64>) -> Self {
        match queue_bdp {
            None if path == "policed" => Self::None,
            Some(bdp) if bdp < 1.0 => Self::Shallow,
            Some(bdp) if bdp <= 4.0 => Self::Moderate,
            _ => Self::Deep,
        }
    }

    /// In words that follow "paths".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Shallow => "with shallow buffers (below 1 BDP)",
            Self::Moderate => "with buffers of 1 to 4 BDP",
            Self::Deep => "with deep buffers (above 4 BDP)",
            Self::None => "with a policer and no buffer",
        }
    }
}

/// Environments with a common property, and their ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slice {
    /// The property: `all`, `path`, `group` or `suite`.
    pub by: &'static str,
    pub label: String,
    /// Indices of the environments in the board.
    pub environments: Vec<usize>,
    /// All drivers, the best first.
    pub ranks: Vec<Rank>,
    /// The clouds of the drivers in the environments with a limit.
    pub clouds: Vec<Cloud>,
}

/// The meaning of a group's letter (`emulation/scenarios/README.md`).
fn group_words(group: &str) -> Option<&'static str> {
    Some(match group {
        "A" => "a steady flow",
        "B" => "buffers",
        "C" => "a rate that changes",
        "D" => "random loss",
        "E" => "cellular, Wi-Fi and satellite paths",
        "F" => "calibrated Internet paths",
        "G" => "policers",
        "H" => "ACKs that come late or together",
        "I" => "fairness among alike",
        "J" => "fairness among round trips",
        "K" => "beside others",
        "L" => "several arms at once",
        "M" => "short flows",
        "N" => "queue management, ECN",
        "O" => "changes of path",
        "P" => "many flows, a slow agent",
        _ => return None,
    })
}

/// All slices that have an environment. An environment counts with all its seeds.
pub fn slices(rows: &[Row], places: &[Place]) -> Vec<Slice> {
    let by_name: BTreeMap<_, &Place> =
        places.iter().map(|it| ((it.suite.as_str(), it.name.as_str()), it)).collect();
    let mut all = Vec::new();
    let mut add = |by, label: String, is_in: &dyn Fn(&Place) -> bool| {
        let environments: Vec<usize> =
            (0..places.len()).filter(|place| is_in(&places[*place])).collect();
        if !environments.is_empty() {
            let is_inside = |row: &&Row| {
                let name = (row.suite.as_str(), row.environment.as_str());
                by_name.get(&name).is_some_and(|it| is_in(it))
            };
            let inside: Vec<Row> = rows.iter().filter(is_inside).cloned().collect();
            let (ranks, clouds) = (ranking(&inside), Vec::new());
            all.push(Slice { by, label, environments, ranks, clouds });
        }
    };
    let distinct = |of: fn(&Place) -> &str| places.iter().map(of).collect::<BTreeSet<_>>();
    add("all", "all paths".to_owned(), &|_| true);
    for path in distinct(|it| &it.path) {
        add("path", format!("{path} paths"), &|it| it.path == path);
        let buffers = Buffer::ALL.into_iter().filter(|it| *it != Buffer::None);
        for buffer in buffers {
            let label = format!("{path} paths {}", buffer.words());
            add("path", label, &|it| it.path == path && it.buffer == buffer);
        }
    }
    for group in distinct(|it| &it.group) {
        let words = group_words(group).map(|words| format!(": {words}")).unwrap_or_default();
        add("group", format!("group {group}{words}"), &|it| it.group == group);
    }
    for suite in distinct(|it| &it.suite) {
        add("suite", format!("suite {suite}"), &|it| it.suite == suite);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path: &str, group: &str, queue_bdp: Option<f64>) -> Row {
        let text = str::to_owned;
        let environment = format!("{path}/{queue_bdp:?}");
        Row { path: text(path), group: text(group), queue_bdp, environment, ..Row::default() }
    }

    #[test]
    fn a_buffer_is_shallow_moderate_deep_or_a_policer() {
        assert_eq!(Buffer::of("wired", Some(0.99)), Buffer::Shallow);
        assert_eq!(Buffer::of("wired", Some(1.0)), Buffer::Moderate);
        assert_eq!(Buffer::of("wired", Some(4.0)), Buffer::Moderate);
        assert_eq!(Buffer::of("wired", Some(4.1)), Buffer::Deep);
        assert_eq!(Buffer::of("cellular", None), Buffer::Deep);
        assert_eq!(Buffer::of("policed", None), Buffer::None);
    }

    #[test]
    fn every_kind_has_a_slice_and_an_empty_one_has_none() {
        let rows = [
            row("cellular", "E", None),
            row("cellular", "E", Some(2.0)),
            row("wired", "B2", Some(2.0)),
        ];
        let places: Vec<Place> = rows.iter().map(|row| Place::of(&[row])).collect();
        let said: Vec<(String, usize)> = slices(&rows, &places)
            .iter()
            .map(|it| (it.label.clone(), it.environments.len()))
            .collect();
        let want = [
            ("all paths", 3),
            ("cellular paths", 2),
            ("cellular paths with buffers of 1 to 4 BDP", 1),
            ("cellular paths with deep buffers (above 4 BDP)", 1),
            ("wired paths", 1),
            ("wired paths with buffers of 1 to 4 BDP", 1),
            ("group B2", 1),
            ("group E: cellular, Wi-Fi and satellite paths", 2),
            ("suite ", 3),
        ];
        assert_eq!(said, want.map(|(label, count)| (label.to_owned(), count)));
    }
    #[test]
    fn an_environment_has_one_buffer_whatever_its_seeds_have() {
        let seeded =
            |seed, bdp| Row { seed, environment: "x".to_owned(), ..row("cellular", "E", bdp) };
        let rows = [3.0, 5.0, 3.9].map(Some).map(|bdp| seeded(bdp.map_or(0, |it| it as u64), bdp));
        let place = Place::of(&rows.iter().collect::<Vec<_>>());
        assert_eq!((place.buffer, place.queue_bdp), (Buffer::Moderate, Some(3.9)));
        let of = |label: &str| -> Vec<usize> {
            let all = slices(&rows, std::slice::from_ref(&place));
            let those = all.iter().filter(|it| it.label.contains(label));
            those.map(|it| it.ranks[0].environments).collect()
        };
        assert_eq!(of("buffers of 1 to 4 BDP"), [1]);
        assert_eq!(of("deep buffers"), [0; 0]);
    }
}
