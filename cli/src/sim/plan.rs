//! The runs of `remuda sim`: scenarios × values × seeds.

use crate::Failure;
use crate::drivers;
use crate::kinds::suite_for_scenario;
use ccp_agent::Setup;
use remuda_scenarios::{Driver, Override, OverrideError, Scenario};
use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::slice;
use std::str::FromStr;

/// A larger sweep is probably a mistake in a range: its plan alone would fill the memory.
const RUNS_MAX: usize = 1_000_000;
/// The longest name that file systems accept, minus what distinguishes runs, which comes last.
const FOLDER_BYTES_MAX: usize = 200;

/// Seeds from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    first: u64,
    last: u64,
}

impl Seeds {
    pub fn values(self) -> RangeInclusive<u64> {
        self.first..=self.last
    }

    pub fn only(seed: u64) -> Self {
        Self { first: seed, last: seed }
    }
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let largest = i64::MAX.unsigned_abs();
        let seed = |text: &str| text.trim().parse().ok().filter(|seed| *seed <= largest);
        let seeds = || {
            let (first, last) = text.split_once("..")?;
            let seeds = Self { first: seed(first)?, last: seed(last)? };
            (seeds.first <= seeds.last).then_some(seeds)
        };
        seeds().ok_or_else(|| "must be A..B, the smaller first, as in 1..10".to_owned())
    }
}

/// A key and the values to try, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Vary {
    key: String,
    /// Each value as given, and the change that it makes.
    values: Vec<(String, Override)>,
}

impl FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "must be KEY=A,B, as in links.down.queue.limit_bdp=0.5,1,2".to_owned();
        let (key, values) = text.split_once('=').ok_or_else(form)?;
        let change = |value: &str| Ok((value.trim().to_owned(), Override::new(key, value)?));
        let values = values.split(',').map(change).collect::<Result<_, OverrideError>>();
        let key = key.trim().to_owned();
        values.map(|values| Self { key, values }).map_err(|error| error.to_string())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub scenario: Scenario,
    /// The name of the folder of its results, unique in the plan.
    pub folder: String,
}

/// All runs, in the order of the results.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub runs: Vec<Run>,
}

/// The scenario files of a path of the command line.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let doing = |error| format!("{}: {error}", path.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(doing)? {
        let file = entry.map_err(doing)?.path();
        if file.extension().is_some_and(|ending| ending == "toml") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(format!("{}: there is no .toml in this folder", path.display()).into());
    }
    files.sort();
    Ok(files)
}

/// The key's label in a scenario's name: the last part of the key, if that is unique.
fn label<'a>(key: &'a str, vary: &[Vary]) -> &'a str {
    let last = |key: &'a str| key.rsplit('.').next().unwrap_or(key);
    let same = vary.iter().filter(|other| other.key.rsplit('.').next() == Some(last(key)));
    if same.count() > 1 { key } else { last(key) }
}

/// One value for each key: the changes, and the text for the scenario's name.
#[derive(Clone, Default)]
struct Combination {
    changes: Vec<Override>,
    name: String,
}

/// Every combination of values; the last key changes fastest.
fn combinations(vary: &[Vary]) -> Vec<Combination> {
    let mut all = vec![Combination::default()];
    for Vary { key, values } in vary {
        let label = label(key, vary);
        let with = |before: &Combination| {
            let longer = |(value, change): &(String, Override)| Combination {
                changes: [before.changes.as_slice(), slice::from_ref(change)].concat(),
                name: format!("{} {label}={value}", before.name),
            };
            values.iter().map(longer).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// Turns a name into a file name: replaces every character other than letters, digits and `._=-` by
/// `-`.
pub fn slug(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || "._=-".contains(c) { c } else { '-' };
    let slug: String = name.chars().map(letter).collect();
    let from = slug.len().saturating_sub(FOLDER_BYTES_MAX);
    let slug = slug[from..].trim_start_matches('.');
    if slug.is_empty() { "-".to_owned() } else { slug.to_owned() }
}

/// Refuses drivers that the simulator cannot run.
fn check_drivers(path: &Path, scenario: &Scenario, setup: &Setup) -> Result<(), Failure> {
    for (index, flow) in scenario.flows.iter().enumerate() {
        let rule = match &flow.driver {
            Driver::Named(name) => drivers::check(name, setup).err().map(|it| it.to_string()),
            Driver::Native(name) => Some(format!(
                "{name} is an algorithm of the kernel and runs on real TCP only\n\
                 fix: use ours: driver = \"{name}\""
            )),
            Driver::External => Some(
                "an external flow needs an environment\n\
                 fix: run it from Python, or set another driver"
                    .to_owned(),
            ),
            Driver::Window(_) | Driver::Unresponsive => None,
        };
        if let Some(rule) = rule {
            let (path, driver) = (path.display(), &flow.driver);
            return Err(format!("{path}: `flows.{index}.driver` is {driver}: {rule}").into());
        }
    }
    Ok(())
}

impl Plan {
    /// Reads and checks every scenario before anything runs.
    pub fn of(
        paths: &[PathBuf],
        set: &[Override],
        vary: &[Vary],
        seeds: Option<Seeds>,
        setup: &Setup,
    ) -> Result<Self, Failure> {
        let each = vary.iter().map(|vary| vary.values.len()).fold(1, usize::saturating_mul);
        check_count(each, seeds)?;
        let mut scenarios = Vec::new();
        for path in paths {
            for file in files_of(path)? {
                for Combination { changes, name } in combinations(vary) {
                    let changes = [set, &changes].concat();
                    let mut scenario = load(&file, &changes)?;
                    check_drivers(&file, &scenario, setup)?;
                    scenario.name += &name;
                    scenarios.push(scenario);
                    check_count(scenarios.len(), seeds)?;
                }
            }
        }
        let seeded = |scenario: Scenario| {
            let Seeds { first, last } = seeds.unwrap_or(Seeds::only(scenario.seed));
            (first..=last).map(move |seed| Scenario { seed, ..scenario.clone() })
        };
        Ok(Self { runs: named(scenarios.into_iter().flat_map(seeded)) })
    }
}

fn load(file: &Path, changes: &[Override]) -> Result<Scenario, Failure> {
    Scenario::load_with(file, changes)
        .map_err(|error| suite_for_scenario(file).map_or_else(|| error.into(), Failure::from))
}

fn check_count(scenarios: usize, seeds: Option<Seeds>) -> Result<(), Failure> {
    let each = seeds.map_or(1, |seeds| (seeds.last - seeds.first).saturating_add(1));
    let runs = (scenarios as u64).saturating_mul(each);
    if runs > RUNS_MAX as u64 {
        return Err(format!("{runs} runs are too many: at most {RUNS_MAX}").into());
    }
    Ok(())
}

fn named(scenarios: impl Iterator<Item = Scenario>) -> Vec<Run> {
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    let run = |scenario: Scenario| {
        let base = slug(&format!("{}-seed{}", scenario.name, scenario.seed));
        let mut folder = base.clone();
        while taken.contains_key(&folder) {
            let count = taken.entry(base.clone()).or_insert(1);
            *count += 1;
            folder = format!("{base}-{count}");
        }
        taken.insert(folder.clone(), 1);
        Run { scenario, folder }
    };
    scenarios.map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "seed = 5\n[links.a]\ndelay_ms = 1\n[[flows]]\nroute = ['a']\nback = []\n";

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.toml"), TEXT).unwrap();
        fs::write(folder.path().join("a.toml"), TEXT).unwrap();
        fs::write(folder.path().join("notes.txt"), "none").unwrap();
        folder
    }

    fn plan(set: &[&str], vary: &[&str], seeds: Option<&str>) -> Result<Plan, String> {
        let folder = folder();
        let set: Vec<Override> = set.iter().map(|it| it.parse().unwrap()).collect();
        let vary: Vec<Vary> = vary.iter().map(|it| it.parse().unwrap()).collect();
        let seeds = seeds.map(|it| it.parse().unwrap());
        let plan = Plan::of(&[folder.path().to_owned()], &set, &vary, seeds, &Setup::default());
        plan.map_err(|error| error.to_string())
    }

    #[track_caller]
    fn folders(set: &[&str], vary: &[&str], seeds: Option<&str>, want: &[&str]) {
        let plan = plan(set, vary, seeds).unwrap();
        let folders: Vec<_> = plan.runs.iter().map(|run| run.folder.as_str()).collect();
        assert_eq!(folders, want);
    }

    #[test]
    fn a_folder_is_its_scenarios_by_name_and_each_has_its_seeds_and_values() {
        folders(&[], &[], None, &["a-seed5", "b-seed5"]);
        folders(&["name=x"], &[], None, &["x-seed5", "x-seed5-2"]);
        let seeds = ["a-seed1", "a-seed2", "b-seed1", "b-seed2"];
        folders(&[], &[], Some("1..2"), &seeds);
        let want =
            ["seed=2-seed2", "seed=3-seed3"].map(|end| ["a", "b"].map(|it| [it, end].join("-")));
        let mut want = want.concat();
        want.sort();
        let want: Vec<&str> = want.iter().map(String::as_str).collect();
        folders(&[], &["seed=2,3"], None, &want);
    }

    #[test]
    fn values_combine_and_the_last_key_changes_fastest() {
        let plan = plan(&[], &["duration_s=1,2", "flows.*.driver=reno,bbr"], None).unwrap();
        let drawn =
            |run: &Run| format!("{} {}", run.scenario.duration_s, run.scenario.flows[0].driver);
        let drawn: Vec<String> = plan.runs.iter().take(4).map(drawn).collect();
        assert_eq!(drawn, ["1 reno", "1 bbr", "2 reno", "2 bbr"]);
        assert_eq!(plan.runs[1].scenario.name, "a duration_s=1 driver=bbr");
        assert_eq!(plan.runs[1].folder, "a-duration_s=1-driver=bbr-seed5");
        assert_eq!(plan.runs.len(), 8);
    }

    #[test]
    fn keys_of_one_last_part_are_called_in_full() {
        let vary: Vec<Vary> = ["links.a.delay_ms=1,2", "links.b.delay_ms=3", "seed= 4"]
            .map(|text| text.parse().unwrap())
            .into();
        let names: Vec<String> = combinations(&vary).into_iter().map(|it| it.name).collect();
        let want = [1, 2].map(|ms| format!(" links.a.delay_ms={ms} links.b.delay_ms=3 seed=4"));
        assert_eq!(names, want);
    }

    #[test]
    fn what_the_simulator_cannot_run_is_refused_before_anything_runs() {
        for (driver, part) in [
            ("flows.0.driver=cubicc", "a.toml: `flows.0.driver` is cubicc: "),
            ("flows.0.driver=native:bbr", "is native:bbr: bbr is an algorithm of the kernel"),
            ("flows.0.driver=remy", "is remy: remy can drive no flow, as no rule table is loaded"),
            ("flows.0.driver=external", "is external: an external flow needs an environment"),
            ("flows.0.count=0", "a.toml: `flows` is 0 flows"),
        ] {
            let error = plan(&[driver], &[], None).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let error = plan(&[], &[], Some("1..1000000")).unwrap_err();
        assert_eq!(error, "2000000 runs are too many: at most 1000000");
        let all: Vec<String> = (0..9).map(|at| format!("links.l{at}.delay_ms=1,2,3,4,5")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let error = plan(&[], &all, None).unwrap_err();
        assert_eq!(error, "1953125 runs are too many: at most 1000000");
        let error = Plan::of(&[PathBuf::from("no/such.toml")], &[], &[], None, &Setup::default())
            .unwrap_err();
        assert!(error.to_string().starts_with("no/such.toml: cannot read"), "{error}");
        let empty = tempfile::tempdir().unwrap();
        let error =
            Plan::of(&[empty.path().to_owned()], &[], &[], None, &Setup::default()).unwrap_err();
        assert!(error.to_string().ends_with("there is no .toml in this folder"), "{error}");
    }

    #[test]
    fn a_slug_is_a_plain_file_name() {
        assert_eq!(slug("two cubics/é"), "two-cubics--");
        assert_eq!(slug("../../etc"), "-..-etc");
        assert_eq!(slug(""), "-");
        assert_eq!(slug(&"x".repeat(300)).len(), FOLDER_BYTES_MAX);
    }
}
