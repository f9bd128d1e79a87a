//! A self-contained HTML page: no script, no network access.

use super::paths::{PATHS, Plan, RATE_MBIT_PER_SEC};
use super::plot::{Band, Bar, BarPlot, Series, TimePlot, escape};
use super::record::Run;
use super::results::Facts;
use super::summary::{PAPER_TIMES_S, POLICY, Summary, Times, columns};
use std::fmt::Write as _;
use std::time::Duration;

const TEMPLATE: &str = include_str!("page.html");
const INTRO: &str = "Every download ran under rein, which starts with cubic and chooses an arm \
                     from what it measures, and under each arm alone.";
const INTRO_WITHOUT_REIN: &str = "Rein did not run.";
/// The number of spans of a download in the goodput plot; none is shorter than the minimum below.
const GOODPUT_SPANS: u32 = 50;
const GOODPUT_SPAN_MIN: Duration = Duration::from_millis(250);

/// The content of the page.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    pub plan: &'a Plan,
    pub runs: &'a [Run],
    pub summary: &'a Summary,
    /// Facts about the run, by name.
    pub facts: &'a Facts,
    /// Names of the files beside the page: runs and samples.
    pub files: [&'a str; 2],
}

/// Replaces names in a template by values, in one pass: a value that looks like a name is not
/// replaced again.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut parts = template.split("{{");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("}}").unwrap_or(("", part));
        let value = values.iter().find(|(candidate, _)| *candidate == name);
        out += value.map_or("", |(_, value)| value);
        out += rest;
    }
    out
}

/// The style class of a driver or an arm.
fn class(name: &str) -> &'static str {
    let known = ["rein", "cubic", "bbr", "westwood", "reno"];
    known.into_iter().find(|it| *it == name).unwrap_or("other")
}

impl Content<'_> {
    pub fn html(&self) -> String {
        let lines = &self.summary.lines;
        let bounds = if lines.iter().any(|line| line.is_bound) {
            "“&gt;”: some downloads were given up, and the true time is longer."
        } else {
            ""
        };
        let intro = if self.summary.picks.is_empty() { INTRO_WITHOUT_REIN } else { INTRO };
        fill(
            TEMPLATE,
            &[
                ("intro", intro.to_owned()),
                ("verdict", escape(&self.summary.verdict())),
                ("bounds", bounds.to_owned()),
                ("times", self.times()),
                ("bars", self.bars()),
                ("paper", escape(&paper())),
                ("legend", self.legend()),
                ("goodput", self.over_time("Mbit/s", RATE_MBIT_PER_SEC, goodput)),
                ("rtt", self.over_time("ms", self.rtt_ms_max(), rtt)),
                ("choices", self.choices()),
                ("facts", self.facts()),
                ("runs_file", escape(self.files[0])),
                ("samples_file", escape(self.files[1])),
            ],
        )
    }

    fn times(&self) -> String {
        let rows = self.summary.lines.iter().map(|line| (class(&line.driver), line.cells()));
        table("times", &columns(), rows)
    }

    fn bars(&self) -> String {
        let lines = &self.summary.lines;
        let all = lines.iter().flat_map(|line| line.times.iter().flatten());
        let most = all.map(|times| times.most_s).fold(0.0, f64::max);
        let plot = |(path, title): (usize, &str)| {
            let bars = lines.iter().map(|line| self.bar(&line.driver, path, line.times[path]));
            BarPlot { title: title.to_owned(), most, bars: bars.collect() }.figure()
        };
        PATHS.iter().map(|path| path.title).enumerate().map(plot).collect()
    }

    fn bar(&self, driver: &str, path: usize, times: Option<Times>) -> Bar {
        let runs = self.runs.iter().filter(|run| run.path == path && run.driver == driver);
        let bound = if times.is_some_and(|times| times.is_bound) { ">" } else { "" };
        let text = |times: Times| format!("{bound}{:.1} s", times.mean_s);
        Bar {
            name: driver.to_owned(),
            class: class(driver),
            mean: times.map(|times| times.mean_s),
            values: runs.map(|run| run.elapsed.as_secs_f64()).collect(),
            text: times.map_or("did not run".to_owned(), text),
        }
    }

    fn legend(&self) -> String {
        let mut items = String::new();
        for driver in &self.plan.drivers {
            let _ = write!(items, "<li class=\"{}\"><i></i>{}</li>", class(driver), escape(driver));
        }
        format!("<ul class=\"legend\">{items}</ul>")
    }

    fn first_round(&self, path: usize) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.path == path && run.round == 0)
    }

    fn rtt_ms_max(&self) -> f64 {
        let samples = self.runs.iter().filter(|run| run.round == 0).flat_map(|run| &run.samples);
        samples.filter_map(|sample| sample.srtt_ms).fold(0.0, f64::max)
    }

    fn over_time(
        &self,
        unit: &'static str,
        most: f64,
        points: impl Fn(&Run) -> Vec<(f64, f64)>,
    ) -> String {
        let plot = |(path, title): (usize, &str)| {
            let mut runs: Vec<&Run> = self.first_round(path).collect();
            runs.sort_by_key(|run| run.driver == POLICY); // rein lies on top
            let series = |run: &&Run| Series {
                name: run.driver.clone(),
                class: class(&run.driver),
                points: points(run),
            };
            let bands = self.first_round(path).find(|run| run.driver == POLICY).map(bands);
            TimePlot {
                title: title.to_owned(),
                unit,
                most,
                series: runs.iter().map(series).collect(),
                bands: bands.unwrap_or_default(),
            }
            .figure()
        };
        PATHS.iter().map(|path| path.title).enumerate().map(plot).collect()
    }

    fn choices(&self) -> String {
        let mut rows = Vec::new();
        for run in self.runs.iter().filter(|run| !run.choices.is_empty()) {
            for choice in &run.choices {
                let features =
                    choice.features.iter().map(|(name, value)| format!("{name}={value}"));
                rows.push((
                    "other",
                    vec![
                        PATHS[run.path].title.to_owned(),
                        (run.round + 1).to_string(),
                        format!("{:.1}", choice.at.as_secs_f64()),
                        choice.arm.clone(),
                        choice.why.clone(),
                        features.collect::<Vec<_>>().join("  "),
                    ],
                ));
            }
        }
        if rows.is_empty() {
            return "<p>No policy made a decision.</p>".to_owned();
        }
        let columns = ["path", "round", "at, s", "arm", "why", "from"].map(str::to_owned);
        table("", &columns, rows.into_iter())
    }

    fn facts(&self) -> String {
        let mut items = String::new();
        for (name, value) in &self.facts.0 {
            let _ = write!(items, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
        format!("<dl>{items}</dl>")
    }
}

fn table(
    style: &str,
    columns: &[String],
    rows: impl Iterator<Item = (&'static str, Vec<String>)>,
) -> String {
    let mut html = format!("<table class=\"{style}\"><thead><tr>");
    for column in columns {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(column));
    }
    html += "</tr></thead><tbody>";
    for (class, cells) in rows {
        let _ = write!(html, "<tr class=\"{class}\">");
        for cell in cells {
            let _ = write!(html, "<td>{}</td>", escape(&cell));
        }
        html += "</tr>";
    }
    html + "</tbody></table>"
}

/// The completion times in the paper.
fn paper() -> String {
    let times = PAPER_TIMES_S.map(|(driver, time_s)| format!("{driver} {time_s:.2} s"));
    format!(
        "The paper’s own means, for 30 MB on its testbed with a public WiFi: {}.",
        times.join(", ")
    )
}

/// The spans of time in which each arm drove the flow.
fn bands(run: &Run) -> Vec<Band> {
    let mut bands: Vec<Band> = Vec::new();
    for sample in &run.samples {
        let at_s = sample.at.as_secs_f64();
        match bands.last_mut() {
            Some(band) if band.name == sample.arm => band.span_s.1 = at_s,
            last => {
                if let Some(band) = last {
                    band.span_s.1 = at_s;
                }
                let (name, class) = (sample.arm.clone(), class(&sample.arm));
                bands.push(Band { name, class, span_s: (at_s, at_s) });
            }
        }
    }
    if let Some(band) = bands.last_mut() {
        band.span_s.1 = run.elapsed.as_secs_f64();
    }
    bands
}

fn rtt(run: &Run) -> Vec<(f64, f64)> {
    let point = |sample: &super::record::Sample| Some((sample.at.as_secs_f64(), sample.srtt_ms?));
    run.samples.iter().filter_map(point).collect()
}

/// The goodput in Mbit/s over spans of a download.
fn goodput(run: &Run) -> Vec<(f64, f64)> {
    let span = (run.elapsed / GOODPUT_SPANS).max(GOODPUT_SPAN_MIN);
    let (mut from, mut points) = ((Duration::ZERO, 0), Vec::new());
    for &(at, bytes) in &run.progress {
        let passed = at.saturating_sub(from.0);
        if passed >= span {
            let mbit_per_sec = (bytes - from.1) as f64 * 8.0 / 1e6 / passed.as_secs_f64();
            points.push((at.as_secs_f64(), mbit_per_sec));
            from = (at, bytes);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::super::record::Choice;
    use super::super::record::tests::run;
    use super::*;

    fn html(why: &str) -> String {
        let plan = Plan {
            drivers: ["rein", "cubic"].map(str::to_owned).to_vec(),
            rounds: 1,
            file_bytes: 1_000_000,
            seed: 1,
            within: Duration::from_secs(10),
        };
        let mut runs = Vec::new();
        for path in 0..PATHS.len() {
            runs.push(run(path, "rein", 4.0, &["cubic", "cubic", "bbr", "bbr"]));
            runs.push(run(path, "cubic", 5.0, &["cubic"]));
        }
        runs[0].choices.push(Choice {
            at: Duration::from_secs(2),
            arm: "bbr".to_owned(),
            why: why.to_owned(),
            features: vec![("queue_bdps".to_owned(), "0.9".to_owned())],
        });
        let summary = Summary::of(&plan, &runs);
        let facts = Facts::of(&plan);
        let files = ["demo.csv", "demo-samples.csv"];
        Content { plan: &plan, runs: &runs, summary: &summary, facts: &facts, files }.html()
    }

    #[test]
    fn the_page_is_whole_and_loads_nothing() {
        let page = html("small buffer");
        assert!(!page.contains("{{") && !page.contains("}}"));
        for part in ["<script", "http", "@import", "url("] {
            assert!(!page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<figure>").count(), 9);
        assert_eq!(page.matches("</figure>").count(), 9);
        assert!(page.contains("rein wins: 4.0 s on average"));
        assert!(page.contains("small buffer") && page.contains("queue_bdps=0.9"));
    }

    #[test]
    fn what_flows_say_cannot_leave_its_cell() {
        let page = html("<img src=x onerror=alert(1)> {{facts}}");
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt; {{facts}}"));
        assert!(!page.contains("<img"));
    }

    #[test]
    fn bands_follow_the_arm_without_gaps() {
        let bands = bands(&run(0, "rein", 4.0, &["cubic", "cubic", "bbr", "bbr"]));
        let spans: Vec<_> = bands.iter().map(|band| (band.name.as_str(), band.span_s)).collect();
        assert_eq!(spans, [("cubic", (0.0, 2.0)), ("bbr", (2.0, 4.0))]);
    }

    #[test]
    fn goodput_is_bytes_over_the_time_they_took() {
        let mut download = run(0, "rein", 4.0, &[]);
        let ms = Duration::from_millis;
        download.progress = (1..=40).map(|n| (ms(100 * n), 100_000 * n)).collect();
        for (_, mbit_per_sec) in goodput(&download) {
            assert!((mbit_per_sec - 8.0).abs() < 1e-6, "{mbit_per_sec}");
        }
    }
}
