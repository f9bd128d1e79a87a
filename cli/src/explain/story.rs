//! The arms that a flow has had, from the event log.

use crate::{Failure, event_log};
use ccp_agent::clock;
use ccp_agent::flow::Row;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Lines of a page: the newest are shown, and how many came before.
const LINES_MAX: usize = 20;

fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or("?")
}

/// What an event says, if it belongs to the story.
fn told(event: &Value) -> Option<String> {
    let of = |key| text(event, key);
    Some(match of("event") {
        "created" => format!("starts with {}, driven by {}", of("arm"), of("controller")),
        "switched" => format!("{} to {}: {}", of("from"), of("to"), of("why")),
        "vetoed" => format!("stays: {} is refused: {}", of("to"), of("reason")),
        "rolled_back" => format!("back from {} to {}: {}", of("from"), of("to"), of("why")),
        "failed" => format!("{} failed: {}", of("arm"), of("reason")),
        "fell_back" => "its datapath runs Reno: the agent was silent".to_owned(),
        "restored" => "follows the agent again".to_owned(),
        "recalled" => format!("{} was remembered for {}", of("arm"), of("of")),
        "jumped" => format!(
            "window raised at once from {} to {} bytes, as earlier flows had",
            event["from_bytes"], event["to_bytes"]
        ),
        "preferred" => format!("wants {} (by {})", event["to"], of("by")),
        _ => return None,
    })
}

/// The lines of the story so far, with the seconds since the flow's start.
struct Story {
    began_us: u64,
    lines: Vec<String>,
}

impl Story {
    /// Takes in a line of the log. Says whether it is an event.
    fn take(&mut self, line: &str, flow: u32) -> bool {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return false };
        if event["event"] == "started" {
            self.lines.clear(); // another agent's flows have the same numbers
        }
        if event["flow"].as_u64() != Some(flow.into()) {
            return true;
        }
        let at_us = event["t_unix_us"].as_u64().unwrap_or_default();
        if let Some(told) = told(&event) {
            let seconds = at_us.saturating_sub(self.began_us) as f64 / 1e6;
            self.lines.push(format!("{seconds:7.1} s {told}"));
        }
        true
    }
}

/// The arms of a flow and why it had them, the oldest first.
pub fn lines(run_dir: &Path, row: &Row) -> Result<Vec<String>, Failure> {
    let began = clock::wall().saturating_sub(Duration::try_from_secs_f64(row.age_s)?);
    let began_us = u64::try_from(began.as_micros())?;
    let mut story = Story { began_us, lines: Vec::new() };
    for path in event_log::logs(run_dir) {
        event_log::read(&path, |line| story.take(line, row.id))?;
    }
    let mut lines = story.lines;
    if lines.len() > LINES_MAX {
        let before = lines.len() - LINES_MAX;
        lines.drain(..before);
        lines.insert(0, format!("  {before} earlier events are in the event log"));
    }
    lines.push(format!("      now {}, for {:.1} s: {}", row.arm, row.arm_for_s, row.why));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_of_one_flow_of_the_last_agent() {
        let mut story = Story { began_us: 1_000_000, lines: Vec::new() };
        for line in [
            r#"{"t_unix_us":1,"flow":7,"event":"created","arm":"old","controller":"old"}"#,
            r#"{"t_unix_us":5,"event":"started"}"#,
            r#"{"t_unix_us":1000000,"flow":7,"event":"created","arm":"cubic","controller":"rein"}"#,
            r#"{"t_unix_us":2000000,"flow":8,"event":"switched","from":"a","to":"b","why":"c"}"#,
            r#"{"t_unix_us":3500000,"flow":7,"event":"switched","from":"cubic","to":"bbr",
                "why":"loss"}"#,
            r#"{"t_unix_us":3600000,"flow":7,"event":"clamped"}"#,
        ] {
            assert!(story.take(line, 7), "{line}");
        }
        let want = ["    0.0 s starts with cubic, driven by rein", "    2.5 s cubic to bbr: loss"];
        assert_eq!(story.lines, want);
        assert!(!story.take("{", 7));
    }
}
