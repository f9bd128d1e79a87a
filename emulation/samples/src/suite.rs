//! A suite of drawn environments, so that the matrix can run any arm or policy in environments of
//! the training and in held-out ones.
//!
//! `drawn:FROM..TO` names the environments with seeds from FROM up to, but not including, TO. The
//! training starts at seed 0, so high seeds are held out. In place of `drawn`, the name of a
//! [`Family`] draws paths of one kind: `cellular:0..100`.

use crate::draw::Environment;
use crate::family::Family;
use remuda_scenarios::{Error, Suite};
use std::ops::Range;
use toml::{Table, Value};

/// The time between two samples of a flow.
pub(crate) const SAMPLE_MS: i64 = 100;
/// A larger range is a mistake.
const ENVIRONMENTS_MAX: u64 = 100_000;

fn refuse(name: &str, message: impl Into<String>) -> Error {
    Error::Text { name: name.to_owned(), message: message.into() }
}

fn seeds_of(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once("..")?;
    let seeds: Range<u64> = from.parse().ok()?..to.parse().ok()?;
    let count = seeds.end.checked_sub(seeds.start)?;
    (1..=ENVIRONMENTS_MAX).contains(&count).then_some(seeds)
}

/// The family and the seeds of such a suite's name; `None` if it is the name of another suite.
///
/// # Errors
///
/// The name has no range of 1 to 100000 seeds.
pub fn range(name: &str) -> Result<Option<(Family, Range<u64>)>, Error> {
    let Some((family, seeds)) = name.split_once(':') else { return Ok(None) };
    let Some(family) = Family::named(family) else { return Ok(None) };
    let rule = "must be a range of 1 to 100000 seeds, such as drawn:1000000..1000300";
    seeds_of(seeds).map(|seeds| Some((family, seeds))).ok_or_else(|| refuse(name, rule))
}

/// The suite whose name is a family, a colon and a range of seeds.
///
/// # Errors
///
/// The name has no range of 1 to 100000 seeds.
pub fn suite(name: &str) -> Result<Suite, Error> {
    let rule = "must be a family and a range of seeds, such as drawn:1000000..1000300";
    let (of, seeds) = range(name)?.ok_or_else(|| refuse(name, rule))?;
    let families = seeds.map(|seed| family(of, &of.draw(seed)));
    let families = families.collect::<Result<Vec<Value>, String>>();
    let families = families.map_err(|rule| refuse(name, rule))?;
    let text = |value: &str| Value::String(value.to_owned());
    let suite = Table::from_iter([
        ("title".to_owned(), text(of.about())),
        ("source".to_owned(), text(of.source())),
        ("families".to_owned(), Value::Array(families)),
    ]);
    let written = toml::to_string(&suite).map_err(|error| refuse(name, error.to_string()))?;
    Suite::parse(&written, of.name())
}

fn family(of: Family, environment: &Environment) -> Result<Value, String> {
    let mut scenario: Table =
        toml::from_str(&environment.with("tested")).map_err(|error| error.to_string())?;
    // A suite gives its runs names and seeds.
    scenario.remove("name");
    scenario.remove("seed");
    // Without samples, what flows leave to each other is unknown.
    scenario.insert("sample_ms".to_owned(), Value::Integer(SAMPLE_MS));
    let text = |value: &str| Value::String(value.to_owned());
    let path = of.path_of(environment);
    let name = format!("{}-{}-{}", environment.kind, environment.neighbours, environment.seed);
    Ok(Value::Table(Table::from_iter([
        ("name".to_owned(), text(&name)),
        ("group".to_owned(), text("A10")),
        ("path".to_owned(), text(path)),
        ("scenario".to_owned(), Value::Table(scenario)),
    ])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw;

    #[test]
    fn a_range_of_seeds_is_a_suite_of_as_many_environments() {
        let environments = suite("drawn:1000000..1000200").unwrap().environments().unwrap();
        assert_eq!(environments.len(), 200);
        let first = Environment::draw(1_000_000);
        assert!(environments[0].name.starts_with(first.kind), "{}", environments[0].name);
        let scenario = environments[0].scenario("bbr", 3).unwrap();
        let last = scenario.flows.last().expect("a flow");
        assert_eq!((last.driver.to_string(), scenario.seed), ("bbr".to_owned(), 3));
        assert_eq!(scenario.duration_s, draw::DURATION_S);
    }

    #[test]
    fn what_is_no_range_is_refused_with_an_example() {
        for name in
            ["drawn:", "drawn:3", "drawn:3..3", "drawn:5..3", "drawn:0..x", "drawn:0..200000"]
        {
            let error = suite(name).expect_err(name).to_string();
            assert!(error.contains(name) && error.contains("drawn:1000000..1000300"), "{error}");
        }
    }
}
