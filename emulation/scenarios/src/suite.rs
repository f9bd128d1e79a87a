//! Suites: many environments from one file.
//!
//! A suite states what its environments have in common as a scenario, and how they differ as axes.
//! An environment is one combination of points on the axes. The driver `tested` stands for the
//! driver under test.
//!
//! ```
//! use remuda_scenarios::Suite;
//!
//! let suite = Suite::parse(r#"
//! title = "Two buffers"
//! source = "an example"
//! [scenario]
//! duration_s = 10
//! links.down = { rate_mbit_per_sec = 12, queue = { kind = "droptail", limit_bdp = 1 } }
//! links.up = {}
//! flows = [{ driver = "tested" }]
//! [[families]]
//! name = "steady"
//! group = "A"
//! path = "wired"
//! scenario.links.down.delay_ms = 20
//! axes = [{ name = "queue_bdp", keys = ["links.down.queue.limit_bdp"], values = [0.5, 4] }]
//! "#, "two")?;
//! let environments = suite.environments()?;
//! assert_eq!(environments[1].name, "steady/queue_bdp=4");
//! let scenario = environments[1].scenario("bbr", 7)?;
//! assert_eq!((scenario.flows[0].driver.to_string(), scenario.seed), ("bbr".into(), 7));
//! # Ok::<(), remuda_scenarios::Error>(())
//! ```

use crate::driver::Driver;
use crate::error::Error;
use crate::expect::Expectation;
use crate::library;
use crate::load::{explained, file_text};
use crate::overrides::Override;
use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The name of the driver under test in a suite.
pub const TESTED: &str = "tested";

/// A larger number is a mistake in an axis: ccBench, the largest suite, has 690.
const ENVIRONMENTS_MAX: usize = 100_000;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The stem of the file.
    #[serde(skip)]
    pub name: String,
    pub title: String,
    /// The source of the suite's numbers.
    pub source: String,
    /// The part of the scenario that all environments share.
    #[serde(default)]
    scenario: Table,
    #[serde(default)]
    families: Vec<Family>,
    /// Environments of other suites that come with the program, as `SUITE:ENVIRONMENT`.
    #[serde(default)]
    pick: Vec<String>,
    /// Pass/fail lines for picked environments, added to those of their own suite.
    #[serde(default)]
    expect: BTreeMap<String, Vec<Expectation>>,
    /// The folder of relative trace paths; `None`: the working directory.
    #[serde(skip)]
    folder: Option<PathBuf>,
}

/// Environments that differ along axes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    name: String,
    /// A letter from the table of groups in the README, or an id of a paper.
    group: String,
    path: PathKind,
    /// What a reader should look at in the results.
    #[serde(default)]
    look_at: String,
    #[serde(default)]
    expect: Vec<Expectation>,
    /// Merged into the suite's scenario: tables are merged, except a table with a `kind`;
    /// everything else is replaced.
    #[serde(default)]
    scenario: Table,
    #[serde(default)]
    axes: Vec<Axis>,
}

/// The kind of path that an environment emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathKind {
    /// A constant or stepping rate, with almost no random loss.
    Wired,
    Lossy,
    Cellular,
    /// Bursts of packets, and a delay that varies.
    Wifi,
    /// A long or changing delay.
    Satellite,
    /// A token bucket instead of a queue.
    Policed,
    /// A high rate and a short delay.
    Datacenter,
}

impl PathKind {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wired => "wired",
            Self::Lossy => "lossy",
            Self::Cellular => "cellular",
            Self::Wifi => "wifi",
            Self::Satellite => "satellite",
            Self::Policed => "policed",
            Self::Datacenter => "datacenter",
        }
    }
}

/// One dimension in which the environments of a family differ.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Axis {
    name: String,
    /// The keys that a plain value sets; `*` stands for every link or flow.
    #[serde(default)]
    keys: Vec<String>,
    values: Vec<Point>,
}

/// A point on an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Point {
    /// Merged into the family's scenario.
    Labelled(Labelled),
    /// The value for the keys of the axis.
    Plain(Value),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Labelled {
    label: String,
    scenario: Table,
}

/// A scenario for any driver under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    pub suite: String,
    /// The letter of its group, or an id of a paper.
    pub group: String,
    pub family: String,
    /// The family's name and the point on each axis; unique in the suite.
    pub name: String,
    /// The kind of path.
    pub path: PathKind,
    /// What a reader should look at in the results; may be empty.
    pub look_at: String,
    /// The rules that every driver should meet there.
    pub expect: Vec<Expectation>,
    /// The name of each axis and the label of the point on it.
    pub factors: Vec<(String, String)>,
    table: Table,
}

impl Suite {
    /// Reads and checks a file. The suite's name is the file's stem. Trace paths in the file are
    /// relative to its folder, and the traces must exist.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let refuse = |message| Error::Text { name: path.display().to_string(), message };
        let failed = |error| refuse(format!("cannot read the suite: {error}"));
        let above = || refuse("is above 4 MiB, the limit of a suite file".to_owned());
        let text = file_text(path).map_err(failed)?.ok_or_else(above)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Self { folder: Some(folder), ..Self::unchecked(&text, &stem)? }.checked()
    }

    /// Parses the text of a suite. Errors and results use `name` for the suite. Trace paths are
    /// relative to the working directory.
    pub fn parse(text: &str, name: &str) -> Result<Self, Error> {
        Self::unchecked(text, name)?.checked()
    }

    /// Builds every scenario once, so that a mistake does not appear hours into a run.
    fn checked(self) -> Result<Self, Error> {
        for environment in self.environments()? {
            let scenario = environment.scenario("cubic", 1)?;
            if self.folder.is_some() {
                check_traces(&scenario)?;
            }
        }
        Ok(self)
    }

    /// Parses the suite without building its scenarios.
    pub(crate) fn unchecked(text: &str, name: &str) -> Result<Self, Error> {
        let refuse = |message| Error::Text { name: name.to_owned(), message };
        let suite: Self = toml::from_str(text).map_err(|error| refuse(explained(&error, text)))?;
        Ok(Self { name: name.to_owned(), ..suite })
    }

    /// All environments, in the order of families and axes; the last axis changes fastest.
    pub fn environments(&self) -> Result<Vec<Environment>, Error> {
        let refuse = |message| Error::Text { name: self.name.clone(), message };
        let mut all = Vec::new();
        for family in &self.families {
            family.check_axes().map_err(|rule| refuse(format!("{}: {rule}", family.name)))?;
            let count: usize = family.axes.iter().map(|axis| axis.values.len()).product();
            if count == 0 || all.len() + count > ENVIRONMENTS_MAX {
                let family = &family.name;
                let rule = format!("{family}: {count} environments; a suite has 1 to 100000");
                return Err(refuse(rule));
            }
            for index in 0..count {
                all.push(self.environment(family, index)?);
            }
        }
        for pick in &self.pick {
            all.push(self.picked(pick)?);
        }
        if let Some(name) = self.expect.keys().find(|name| !self.pick.contains(name)) {
            let rule = "is not in `pick`; a family has lines in its own `expect`";
            return Err(refuse(format!("expect: `{name}` {rule}")));
        }
        let mut names = BTreeSet::new();
        match all.iter().find(|it| !names.insert((it.suite.as_str(), it.name.as_str()))) {
            Some(twice) => Err(refuse(format!("{}: two environments have this name", twice.name))),
            None => Ok(all),
        }
    }

    /// A picked environment keeps the name of its own suite, so that its results are the same in
    /// both.
    fn picked(&self, pick: &str) -> Result<Environment, Error> {
        let refuse = |rule: &str| Error::Text {
            name: self.name.clone(),
            message: format!("pick: `{pick}` {rule}"),
        };
        let form = "must be SUITE:ENVIRONMENT, as in ccp:fixed";
        let (suite, name) = pick.split_once(':').ok_or_else(|| refuse(form))?;
        if suite == self.name {
            return Err(refuse("is in this suite already; pick from another one"));
        }
        let found = library::environment(suite, name)?;
        let rule = "does not exist; `remuda matrix --list` shows suites and their environments";
        let mut found = found.ok_or_else(|| refuse(rule))?;
        found.expect.extend(self.expect.get(pick).into_iter().flatten().cloned());
        Ok(found)
    }

    fn environment(&self, family: &Family, index: usize) -> Result<Environment, Error> {
        let mut table = self.scenario.clone();
        merge(&mut table, &family.scenario);
        let mut factors = Vec::new();
        let mut rest = index;
        let mut points = Vec::new();
        for axis in family.axes.iter().rev() {
            points.push((axis, &axis.values[rest % axis.values.len()]));
            rest /= axis.values.len();
        }
        for (axis, point) in points.into_iter().rev() {
            let label = match point {
                Point::Labelled(point) => {
                    merge(&mut table, &point.scenario);
                    point.label.clone()
                }
                Point::Plain(value) => {
                    for key in &axis.keys {
                        let change = Override::of(key, value.clone()).and_then(|it| {
                            it.apply(&mut table)?;
                            Ok(())
                        });
                        change.map_err(|error| Error::from(error).within(&self.name))?;
                    }
                    plain(value)
                }
            };
            factors.push((axis.name.clone(), label));
        }
        if let Some(folder) = &self.folder {
            place_traces(&mut table, folder);
        }
        let places = factors.iter().map(|(axis, label)| format!("/{axis}={label}"));
        let name = family.name.clone() + &places.collect::<String>();
        Ok(Environment {
            suite: self.name.clone(),
            group: family.group.clone(),
            family: family.name.clone(),
            name,
            path: family.path,
            look_at: family.look_at.clone(),
            expect: family.expect.clone(),
            factors,
            table,
        })
    }
}

impl Family {
    /// Refuses a point that is malformed: it would change nothing, and no one would notice.
    fn check_axes(&self) -> Result<(), String> {
        for axis in &self.axes {
            let name = &axis.name;
            for point in &axis.values {
                match point {
                    Point::Labelled(point) if !axis.keys.is_empty() => {
                        let label = &point.label;
                        return Err(format!(
                            "axis `{name}`: `{label}` has a label: leave keys out"
                        ));
                    }
                    Point::Plain(value) if value.get("label").is_some() => {
                        let rule = "with a label may only have `label` and `scenario`";
                        return Err(format!("axis `{name}`: a point {rule}; this is {value}"));
                    }
                    Point::Plain(_) if axis.keys.is_empty() => {
                        return Err(format!("axis `{name}`: plain values need `keys` to set"));
                    }
                    Point::Labelled(_) | Point::Plain(_) => {}
                }
            }
        }
        Ok(())
    }
}

impl Environment {
    /// The scenario with this driver under test and this seed. Switches of a flow under test are
    /// kept only if an arm or a policy drives it: others, such as the kernel's algorithms, cannot
    /// be switched.
    pub fn scenario(&self, tested: &str, seed: u64) -> Result<Scenario, Error> {
        let name = format!("{}/{}", self.suite, self.name);
        let refuse = |message| Error::Text { name: name.clone(), message };
        let mut scenario: Scenario = Value::Table(self.table.clone())
            .try_into()
            .map_err(|error: toml::de::Error| refuse(explained(&error, "")))?;
        let driver: Driver = tested.parse().map_err(|error| refuse(format!("{error}")))?;
        let mut has_tested = false;
        for flow in &mut scenario.flows {
            if flow.driver == Driver::Named(TESTED.to_owned()) {
                has_tested = true;
                flow.driver = driver.clone();
                if !matches!(driver, Driver::Named(_)) {
                    flow.switches.clear();
                }
                if flow.name.is_empty() {
                    flow.name = TESTED.to_owned();
                }
            }
        }
        if !has_tested {
            return Err(refuse("no flow has driver = \"tested\": nothing is tested".to_owned()));
        }
        scenario.name = name.clone();
        scenario.seed = seed;
        scenario.validate().map_err(|error| error.within(&name))?;
        Ok(scenario)
    }

    /// The indices of the flows under test in the scenario.
    pub fn tested_flows(&self, scenario: &Scenario) -> Vec<usize> {
        let flows = self.table.get("flows").and_then(Value::as_array);
        let drivers = flows.into_iter().flatten().map(|flow| flow.get("driver"));
        let is_tested = drivers.map(|driver| driver.and_then(Value::as_str) == Some(TESTED));
        let is_tested: Vec<bool> = is_tested.collect();
        let entries = scenario.entries_of_flows().into_iter().enumerate();
        let of_tested = |(_, entry): &(usize, usize)| is_tested.get(*entry) == Some(&true);
        entries.filter(of_tested).map(|(place, _)| place).collect()
    }
}

/// Merges `over` into `base`. Tables are merged, except a table with a `kind`, which replaces the
/// old queue or generator; everything else is replaced.
fn merge(base: &mut Table, over: &Table) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) if !above.contains_key("kind") => {
                merge(below, above);
            }
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Checks that the traces of a suite file exist.
fn check_traces(scenario: &Scenario) -> Result<(), Error> {
    for (link, spec) in &scenario.links {
        let delays = spec.delay_trace.as_ref().map(|trace| &trace.file);
        for (key, file) in [("trace", spec.trace.as_ref()), ("delay_trace", delays)] {
            let Some(file) = file.filter(|file| !file.is_file()) else { continue };
            let file = file.display();
            let message = format!(
                "[links.{link}] `{key}`: there is no file {file}; a suite's traces are relative \
                 to the folder of its file: put it there, or give an absolute path"
            );
            return Err(Error::Text { name: scenario.name.clone(), message });
        }
    }
    Ok(())
}

/// Makes trace paths relative to `folder`. A path that is not a string is left alone: reading the
/// scenario refuses it with a better message.
fn place_traces(scenario: &mut Table, folder: &Path) {
    let links = scenario.get_mut("links").and_then(Value::as_table_mut);
    let place = |file: Option<&mut Value>| {
        if let Some(Value::String(file)) = file {
            *file = folder.join(&*file).to_string_lossy().into_owned();
        }
    };
    for (_, link) in links.into_iter().flatten() {
        place(link.get_mut("trace"));
        place(link.get_mut("delay_trace").and_then(|trace| trace.get_mut("file")));
    }
}

/// The value's text in names: a string without its quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        title = "t"
        source = "s"
        [scenario]
        duration_s = 10
        links.down = { rate_mbit_per_sec = 12, delay_ms = 5 }
        links.up = { delay_ms = 5 }
        [[scenario.flows]]
        driver = "cubic"
        count = 2
        [[scenario.flows]]
        driver = "tested"
        start_s = 1
        [[families]]
        name = "steady"
        group = "A"
        path = "wired"
        axes = [
            { name = "step", values = [
                { label = "none", scenario = {} },
                { label = "up", scenario.links.down.rate_steps = [
                    { at_s = 5, rate_mbit_per_sec = 24 },
                ] },
            ] },
            { name = "owd_ms", keys = ["links.*.delay_ms"], values = [5, 10] },
        ]
        [[families]]
        name = "alone"
        group = "B"
        path = "lossy"
        scenario.flows = [{ driver = "tested" }]
    "#;

    fn names(text: &str) -> Result<Vec<String>, String> {
        let suite = Suite::parse(text, "s").map_err(|error| error.to_string())?;
        let all = suite.environments().map_err(|error| error.to_string())?;
        Ok(all.into_iter().map(|it| it.name).collect())
    }

    #[test]
    fn every_point_of_the_axes_is_an_environment() {
        let want = [
            "steady/step=none/owd_ms=5",
            "steady/step=none/owd_ms=10",
            "steady/step=up/owd_ms=5",
            "steady/step=up/owd_ms=10",
            "alone",
        ];
        assert_eq!(names(TEXT).unwrap(), want);
        let all = Suite::parse(TEXT, "s").unwrap().environments().unwrap();
        let last = all[3].scenario("bbr", 9).unwrap();
        assert_eq!(last.links["down"].rate_steps.len(), 1);
        assert_eq!((last.links["up"].delay_ms, last.seed), (10.0, 9));
        assert_eq!(all[0].scenario("bbr", 9).unwrap().links["down"].rate_steps.len(), 0);
    }

    #[test]
    fn the_driver_under_test_takes_its_place() {
        let all = Suite::parse(TEXT, "s").unwrap().environments().unwrap();
        let scenario = all[0].scenario("native:bbr", 1).unwrap();
        let flows = scenario.flows_expanded();
        let names: Vec<String> =
            flows.iter().map(|flow| format!("{} {}", flow.name, flow.driver)).collect();
        assert_eq!(names, ["cubic-1 cubic", "cubic-2 cubic", "tested native:bbr"]);
        assert_eq!(all[0].tested_flows(&scenario), [2]);
        let alone = all[4].scenario("reno", 1).unwrap();
        assert_eq!(all[4].tested_flows(&alone), [0]);
        assert!(all[0].scenario("no such", 1).is_err());
    }

    #[test]
    fn only_a_driver_that_takes_orders_is_switched() {
        let order = "start_s = 1\nswitches = [{ at_s = 5, to = \"bbr\" }]";
        let text = TEXT.replace("start_s = 1", order);
        let all = Suite::parse(&text, "s").unwrap().environments().unwrap();
        for (driver, switches) in [("cubic", 1), ("rein", 1), ("native:cubic", 0), ("window:9", 0)]
        {
            let scenario = all[0].scenario(driver, 1).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(scenario.flows[1].switches.len(), switches, "{driver}");
        }
    }

    #[test]
    fn what_is_picked_has_the_lines_of_both_suites() {
        let text = "title = 't'\nsource = 's'\npick = ['transperf:four', 'ccp:drop']\n\
                    [expect]\n'transperf:four' = ['utilisation >= 0.5']\n";
        let lines = |text: &str| {
            let all = Suite::parse(text, "s").map_err(|error| error.to_string())?.environments();
            let all = all.map_err(|error| error.to_string())?;
            let of = |it: &Environment| it.expect.iter().map(ToString::to_string).collect();
            Ok(all.iter().map(of).collect::<Vec<Vec<String>>>())
        };
        let own = library::environment("transperf", "four").unwrap().unwrap().expect.len();
        let all: Vec<Vec<String>> = lines(text).unwrap_or_else(|error: String| panic!("{error}"));
        assert_eq!(all[0].len(), own + 1);
        assert_eq!((all[0][own].as_str(), all[1].len()), ("utilisation >= 0.5", 0));
        let error = lines(&text.replace("'transperf:four' =", "'ccp:cell' =")).unwrap_err();
        assert_eq!(
            error,
            "s: expect: `ccp:cell` is not in `pick`; a family has lines in its own `expect`"
        );
    }

    const TRACED: &str = r#"
        title = "t"
        source = "s"
        [scenario]
        duration_s = 10
        links.down.delay_ms = 5
        links.up = { delay_ms = 5, trace = "up.trace" }
        flows = [{ driver = "tested" }]
        [[families]]
        name = "cell"
        group = "E"
        path = "cellular"
        axes = [{ name = "trace", keys = ["links.down.trace"], values = ["a.trace", "in/b.csv"] }]
    "#;

    #[test]
    fn traces_lie_beside_the_file_of_their_suite() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("in")).unwrap();
        std::fs::write(at("mine.toml"), TRACED).unwrap();
        std::fs::write(at("up.trace"), "1\n").unwrap();
        std::fs::write(at("a.trace"), "1\n").unwrap();
        let error = Suite::load(&at("mine.toml")).unwrap_err().to_string();
        let path = at("in/b.csv").display().to_string();
        let want = format!(
            "mine/cell/trace=in/b.csv: [links.down] `trace`: there is no file {path}; a suite's \
             traces are relative to the folder of its file: "
        );
        assert!(error.starts_with(&want), "{error}");
        std::fs::write(at("in/b.csv"), "0,1\n1,1\n").unwrap();
        let suite = Suite::load(&at("mine.toml")).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(suite.name, "mine");
        let all = suite.environments().unwrap();
        assert_eq!(all[1].name, "cell/trace=in/b.csv", "names have what the file says");
        let scenario = all[1].scenario("reno", 1).unwrap();
        let traces = ["down", "up"].map(|link| scenario.links[link].trace.clone());
        assert_eq!(traces, [Some(at("in/b.csv")), Some(at("up.trace"))]);

        let absolute = TRACED.replace("up.trace", &at("up.trace").display().to_string());
        std::fs::write(at("mine.toml"), absolute).unwrap();
        assert_eq!(Suite::load(&at("mine.toml")).unwrap().environments().unwrap(), all);
        let parsed = Suite::parse(TRACED, "mine").unwrap().environments().unwrap();
        let scenario = parsed[0].scenario("reno", 1).unwrap();
        assert_eq!(scenario.links["down"].trace, Some("a.trace".into()), "a text has no folder");
        let error = Suite::load(&at("other.toml")).unwrap_err().to_string();
        let path = at("other.toml").display().to_string();
        assert!(error.starts_with(&format!("{path}: cannot read the suite: ")), "{error}");
    }

    #[test]
    fn a_refusal_names_suite_and_rule() {
        let twice = TEXT.replace("name = \"alone\"", "name = \"steady/step=up/owd_ms=5\"");
        let none = TEXT.replace("values = [5, 10]", "values = []");
        let untested = TEXT.replace("[{ driver = \"tested\" }]", "[{ driver = \"bbr\" }]");
        let key = TEXT.replace("path = \"lossy\"", "path = \"lossy\"\ncolour = 1");
        let rule = TEXT.replace("values = [5, 10]", "values = [5, -1]");
        let nowhere = TEXT.replace("links.*.delay_ms", "flows.7.count");
        for (text, message) in [
            (twice, "s: steady/step=up/owd_ms=5: two environments have"),
            (none, "s: steady: 0 environments"),
            (untested, "s/alone: no flow has driver = \"tested\""),
            (key, "s: TOML parse error"),
            (rule, "s/steady/step=none/owd_ms=-1: [links.down] `delay_ms` is -1"),
            (TEXT.replace("[scenario]", "pick = ['x']\n[scenario]"), "s: pick: `x` must be SUITE:"),
            (TEXT.replace("[scenario]", "pick = ['ccp:x']\n[scenario]"), "s: pick: `ccp:x` does"),
            (
                TEXT.replace("\"up\", scenario", "\"up\", scenaro"),
                "s: steady: axis `step`: a point",
            ),
            (
                TEXT.replace("keys = [\"links.*.delay_ms\"], ", ""),
                "s: steady: axis `owd_ms`: plain",
            ),
            (
                TEXT.replace("\"step\",", "\"step\", keys = [\"seed\"],"),
                "s: steady: axis `step`: `none`",
            ),
            (nowhere, "s: `flows.7.count=5`: `flows` has 2 entries"),
        ] {
            let error = names(&text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
