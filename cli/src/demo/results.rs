//! The numbers, in files that describe themselves.

use super::paths::{PATHS, Plan};
use super::race::CROSS_TRAFFIC;
use super::record::Run;
use crate::commit::commit;
use std::fmt::Write as _;
use std::fs;

/// Facts about the run, by name: for the head of a file and for the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts(pub Vec<(String, String)>);

impl Facts {
    /// The facts of this process and this plan.
    pub fn of(plan: &Plan) -> Self {
        let words = std::env::args().skip(1);
        let command = std::iter::once("remuda".to_owned()).chain(words).collect::<Vec<_>>();
        let file = format!(
            "{} bytes to each of {} drivers on each path, {} rounds",
            plan.file_bytes,
            plan.drivers.len(),
            plan.rounds
        );
        let cross = format!(
            "one {CROSS_TRAFFIC} flow of this kernel on each path, started just before the download"
        );
        let mut facts: Vec<(&str, String)> = vec![
            ("command", command.join(" ")),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("commit", commit().unwrap_or_else(|| "unknown".to_owned())),
            ("kernel", kernel()),
            ("seed", plan.seed.to_string()),
            ("downloads", file),
            ("cross traffic", cross),
        ];
        facts.extend(PATHS.map(|path| (path.title, path.about())));
        facts.push(("time", "from the first byte sent to the last one received".to_owned()));
        Self(facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn head(&self, what: &str) -> String {
        let mut head = format!("# remuda demo: {what}\n");
        for (name, value) in &self.0 {
            let value = value.replace(['\n', '\r'], " ");
            let _ = writeln!(head, "# {name}: {value}");
        }
        head
    }
}

fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim())
}

/// A field of a CSV line (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn choices(run: &Run) -> String {
    let texts = run.choices.iter().map(|choice| {
        let features: Vec<String> =
            choice.features.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (at_s, arm) = (choice.at.as_secs_f64(), &choice.arm);
        format!("{at_s:.1} s {arm}: {} [{}]", choice.why, features.join(" "))
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// A CSV file with one line for each download.
pub fn runs_csv(facts: &Facts, runs: &[Run]) -> String {
    let mut text = facts.head("one line for each download");
    text += "# completed: 0 if it was given up; then time_s is a lower bound\n\
             path,driver,round,completed,time_s,received_bytes,retransmitted_pkts,arm_last,\
             choices\n";
    for run in runs {
        let (path, completed) = (PATHS[run.path].key, u8::from(run.completed));
        let _ = writeln!(
            text,
            "{path},{},{},{completed},{:.3},{},{},{},{}",
            field(&run.driver),
            run.round,
            run.elapsed.as_secs_f64(),
            run.received_bytes,
            run.retransmitted_pkts,
            field(run.last_arm()),
            field(&choices(run))
        );
    }
    text
}

/// A CSV file with one line for each sample of a download.
pub fn samples_csv(facts: &Facts, runs: &[Run]) -> String {
    let mut text = facts.head("one line for each sample of a download");
    text += "# at_s: since the download's first byte; srtt_ms is empty before the first sample\n\
             path,driver,round,at_s,received_bytes,arm,srtt_ms,cwnd_pkts\n";
    for run in runs {
        let path = PATHS[run.path].key;
        for sample in &run.samples {
            let srtt = sample.srtt_ms.map_or(String::new(), |ms| format!("{ms:.2}"));
            let _ = writeln!(
                text,
                "{path},{},{},{:.3},{},{},{srtt},{}",
                field(&run.driver),
                run.round,
                sample.at.as_secs_f64(),
                sample.received_bytes,
                field(&sample.arm),
                sample.cwnd_pkts
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::record::Choice;
    use super::super::record::tests::run;
    use super::*;
    use std::time::Duration;

    fn facts() -> Facts {
        Facts::of(&Plan {
            drivers: vec!["rein".to_owned()],
            rounds: 1,
            file_bytes: 1_000_000,
            seed: 42,
            within: Duration::from_secs(10),
        })
    }

    fn columns(line: &str) -> usize {
        let mut quoted = false;
        1 + line
            .chars()
            .filter(|c| {
                quoted ^= *c == '"';
                *c == ',' && !quoted
            })
            .count()
    }

    #[test]
    fn a_file_says_what_it_is_and_has_its_columns_in_every_line() {
        let mut download = run(0, "rein", 4.0, &["cubic", "bbr"]);
        download.choices.push(Choice {
            at: Duration::from_secs(2),
            arm: "bbr".to_owned(),
            why: "full, with \"1\" BDP".to_owned(),
            features: vec![("queue_bdps".to_owned(), "1.00".to_owned())],
        });
        let runs = [download];
        for text in [runs_csv(&facts(), &runs), samples_csv(&facts(), &runs)] {
            for name in ["command: ", "commit: ", "kernel: ", "seed: 42", "WiFi-like: "] {
                assert!(text.contains(&format!("# {name}")), "{name} in {text}");
            }
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(lines.len() > 1);
            for line in &lines {
                assert_eq!(columns(line), columns(lines[0]), "{line}");
            }
        }
        let text = runs_csv(&facts(), &runs);
        let want = "\"2.0 s bbr: full, with \"\"1\"\" BDP [queue_bdps=1.00]\"";
        assert!(text.contains(want), "{text}");
    }
}
