//! A training set: the environments among which each episode chooses one.

use crate::error::Error;
use rand::RngCore;
use remuda_samples::draw::Environment as Drawn;
use remuda_samples::family::Family;
use remuda_scenarios::{Environment, Scenario, Suite};
use std::ops::Range;
use std::path::Path;

/// The driver of the flows that a program drives.
const DRIVER: &str = "external";
/// The seeds that families draw from if none are given. Higher ones are held out.
pub const SEEDS: Range<u64> = 0..1_000_000;

/// Environments, one or many.
#[derive(Clone, Debug, PartialEq)]
enum Member {
    Scenario(Box<Scenario>),
    /// An environment of a suite, with its flow under test as the driven one.
    Suite(Box<Environment>),
    /// The draws of a family.
    Family(Family),
}

/// A training set. Each of its members is equally likely.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    members: Vec<Member>,
    /// The seeds of drawn environments; each is equally likely.
    seeds: Vec<Range<u64>>,
}

impl Set {
    /// Scenarios with external flows.
    pub fn of_scenarios(scenarios: Vec<Scenario>) -> Result<Self, Error> {
        let members = scenarios.into_iter().map(|it| Member::Scenario(Box::new(it)));
        Self::of("scenarios", members.collect(), Vec::new())
    }

    /// The environments of a suite: the name of one that comes with the program, the path of a
    /// file, or `drawn:FROM..TO`.
    pub fn of_suite(name: &str) -> Result<Self, Error> {
        if let Some((family, seeds)) = remuda_samples::suite::range(name)? {
            return Self::of("suite", vec![Member::Family(family)], vec![seeds]);
        }
        let suite = match remuda_scenarios::suite(name) {
            Some(known) => known?,
            None if name.ends_with(".toml") => Suite::load(Path::new(name))?,
            None => {
                let known: Vec<&str> = remuda_scenarios::suite_names().collect();
                let known = known.join(", ");
                let rule = format!("must be drawn:FROM..TO, a file, or one of: {known}");
                return Err(Error::Unfit { name: name.to_owned(), rule });
            }
        };
        let members = suite.environments()?.into_iter().map(|it| Member::Suite(Box::new(it)));
        Self::of("suite", members.collect(), Vec::new())
    }

    /// The draws of families. No names are all families, and no seeds are [`SEEDS`].
    pub fn of_families(
        names: &[String],
        without: &[String],
        seeds: Vec<Range<u64>>,
    ) -> Result<Self, Error> {
        let named = |key: &str, name: &String| {
            Family::named(name).ok_or_else(|| {
                let known: Vec<&str> = Family::all().map(Family::name).collect();
                let rule = format!("`{key}` must name families: {}", known.join(", "));
                Error::Unfit { name: name.clone(), rule }
            })
        };
        let of = |key, names: &[String]| -> Result<Vec<Family>, Error> {
            names.iter().map(|name| named(key, name)).collect()
        };
        let (with, without) = (of("families", names)?, of("without", without)?);
        let with = if with.is_empty() { Family::all().collect() } else { with };
        let kept = with.into_iter().filter(|it| !without.contains(it)).map(Member::Family);
        let seeds = if seeds.is_empty() { vec![SEEDS] } else { seeds };
        Self::of("families", kept.collect(), seeds)
    }

    fn of(key: &'static str, members: Vec<Member>, seeds: Vec<Range<u64>>) -> Result<Self, Error> {
        let rule = "leaves nothing to train on";
        if members.is_empty() {
            return Err(Error::invalid(key, "empty", rule));
        }
        if seeds.iter().any(Range::is_empty) {
            let rule = "must be ranges or numbers, each range with one seed at least";
            return Err(Error::invalid("draws", "an empty range", rule));
        }
        Ok(Self { members, seeds })
    }

    /// The environment of an episode. Takes the same number of draws for each.
    pub fn draw(&self, rng: &mut impl RngCore) -> Result<Scenario, Error> {
        let (which, seed, of_family) = (rng.next_u64(), rng.next_u64() >> 1, rng.next_u64());
        match &self.members[(which % self.members.len() as u64) as usize] {
            Member::Scenario(scenario) => Ok(Scenario { seed, ..(**scenario).clone() }),
            Member::Suite(environment) => Ok(environment.scenario(DRIVER, seed)?),
            Member::Family(family) => self.drawn(*family, of_family),
        }
    }

    fn drawn(&self, family: Family, number: u64) -> Result<Scenario, Error> {
        let all: u64 = self.seeds.iter().map(|seeds| seeds.end - seeds.start).sum();
        let mut at = number % all;
        for seeds in &self.seeds {
            let count = seeds.end - seeds.start;
            if at < count {
                let drawn: Drawn = family.draw(seeds.start + at);
                return Ok(Scenario::parse(&drawn.with(DRIVER), "drawn")?);
            }
            at -= count;
        }
        unreachable!("`at` is below the number of all seeds")
    }

    /// One environment of each member, to check them.
    pub fn samples(&self) -> impl Iterator<Item = Result<Scenario, Error>> + '_ {
        self.members.iter().map(|member| match member {
            Member::Scenario(scenario) => Ok((**scenario).clone()),
            Member::Suite(environment) => Ok(environment.scenario(DRIVER, 1)?),
            Member::Family(family) => self.drawn(*family, 0),
        })
    }
}
