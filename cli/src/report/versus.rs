//! A driver compared with each other driver, as a table.

use crate::matrix::spread;
use crate::table::{figure, table};
use remuda_matrix::Versus;

/// The most environments listed for a pair; the page lists more.
const PLACES: usize = 3;

fn places(it: &Versus) -> String {
    let percent = |share: f64| figure(Some(share * 100.0));
    let named = it.losses.iter().take(PLACES).map(|loss| {
        let (own, other) = (percent(loss.own), percent(loss.other));
        format!("{}/{}: {own} to {other}", loss.suite, loss.environment)
    });
    let mut lines: Vec<String> = named.collect();
    if it.behind_in > lines.len() {
        lines.push(format!("and {} more", it.behind_in - lines.len()));
    }
    lines.join("\n")
}

/// All pairs as a table, the smallest difference first.
pub fn shown(pairs: &[Versus]) -> String {
    if pairs.is_empty() {
        return "There is no arm to compare by, or no other driver to compare with.".to_owned();
    }
    let mut pairs: Vec<&Versus> = pairs.iter().collect();
    pairs.sort_by(|a, b| {
        let by_name = a.driver.cmp(&b.driver);
        by_name.then(a.difference.middle.total_cmp(&b.difference.middle))
    });
    let columns =
        ["driver", "compared with", "has more, points", "ahead in", "behind in", "least, %"];
    let mut shown = table(&columns);
    for it in &pairs {
        shown.add_row([
            it.driver.clone(),
            it.other.clone(),
            spread(it.difference, 100.0),
            it.ahead_in.to_string(),
            it.behind_in.to_string(),
            places(it),
        ]);
    }
    let count = pairs.first().map_or(0, |it| it.environments);
    format!(
        "{shown}\nOver {count} environments that all of them ran. Points: percent of the merit of \
         the best arm of each environment,\nthe mean difference between the two; in brackets its \
         95 % interval. An interval without 0 shows\nwhich of the two does better. Least: where \
         the driver has least in comparison, its percent to the other's."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use remuda_matrix::{Interval, Loss};

    #[test]
    fn who_does_better_and_where_not_is_said_worst_first() {
        let loss = |name: &str, own| Loss {
            suite: "s".to_owned(),
            environment: name.to_owned(),
            own,
            other: 1.0,
        };
        let pair = |other: &str, middle: f64| Versus {
            driver: "rein".to_owned(),
            other: other.to_owned(),
            environments: 9,
            difference: Interval { middle, bounds: Some([middle - 0.01, middle + 0.02]) },
            ahead_in: 4,
            behind_in: 5,
            losses: vec![loss("e1", 0.5), loss("e2", 0.6), loss("e3", 0.7), loss("e4", 0.8)],
        };
        let text = shown(&[pair("cubic", 0.1), pair("bbr", -0.2)]);
        let bbr = text.lines().find(|line| line.contains("bbr")).expect(&text);
        assert!(
            bbr.contains("-20.0 (-21.0 to -18.0)") && bbr.contains("s/e1: 50.0 to 100"),
            "{text}"
        );
        assert!(text.contains("and 2 more") && !text.contains("e4"), "{text}");
        assert!(text.find("bbr") < text.find("cubic"), "{text}");
        assert!(shown(&[]).contains("no arm to compare by"));
    }
}
