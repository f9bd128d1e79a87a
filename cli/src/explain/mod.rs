//! `remuda explain`: one page on one flow's life.

mod limit;
mod picture;
mod story;

use crate::columns::terminal;
use crate::wrap::wrapped;
use crate::{Failure, RunDirArgs};
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::flow::{Life, Row};
use clap::Args;
use std::fmt::Write as _;

/// Explain a running flow: what held it back, each arm it has had and why, and how fast it was.
#[derive(Debug, Args)]
#[command(after_help = "\
What held a flow back is what the kernel said at each report of the flow: its application had
nothing to send, its peer's receive window or its own send buffer was full, losses were repaired,
or the arm's window or rate was the limit. The arms come from the event log, which keeps the newest
events.")]
pub struct ExplainArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// The flow's number (see `remuda flows`)
    #[arg(value_name = "FLOW")]
    flow: u32,
    /// Print one JSON object instead of a page
    #[arg(long)]
    json: bool,
}

/// A number of bytes in decimal units.
fn bytes(count: u64) -> String {
    match count as f64 {
        it if it < 1e3 => format!("{it:.0} B"),
        it if it < 1e6 => format!("{:.1} kB", it / 1e3),
        it if it < 1e9 => format!("{:.1} MB", it / 1e6),
        it => format!("{:.2} GB", it / 1e9),
    }
}

fn head(row: &Row) -> String {
    let Row { id, local, remote, driver, arm, .. } = row;
    let by = if driver == arm { String::new() } else { format!(", picked by {driver}") };
    let rule = row.rule.as_ref().map_or_else(String::new, |name| format!(", by rule {name}"));
    let ms = |value: Option<f64>| value.map_or("unknown".to_owned(), |it| format!("{it:.1} ms"));
    format!(
        "Flow {id}, {local} to {remote}\n\
         {arm}{by}{rule}; {:.1} s old, {} acknowledged, {} segments lost\n\
         round trip {}, at least {}\n",
        row.age_s,
        bytes(row.acked_bytes),
        row.lost_pkts,
        ms(row.srtt_ms),
        ms(row.rtt_min_ms),
    )
}

fn page(row: &Row, life: &Life, story: &[String], width: usize) -> String {
    let lines: Vec<String> = head(row).lines().map(|line| wrapped(line, width, 2)).collect();
    let mut text = lines.join("\n") + "\n";
    let _ = write!(text, "\nWhat held it back\n{}", limit::text(row, life, width));
    text.push_str("\nIts arms\n");
    for line in story {
        let _ = writeln!(text, "{}", wrapped(line, width, 10));
    }
    let _ = write!(text, "\nMbit/s over its life\n{}", picture::text(life, width));
    text
}

impl ExplainArgs {
    pub fn run(self) -> Result<(), Failure> {
        let (row, life) = match ask(&self.run_dir.run_dir, &Request::Explain { flow: self.flow })? {
            Answer::Explained { row, life } => (row, life),
            other => return Err(format!("the agent answered {other:?}").into()),
        };
        if self.json {
            println!("{}", serde_json::json!({ "row": row, "life": life }));
            return Ok(());
        }
        let story = story::lines(&self.run_dir.run_dir, &row)?;
        let width = terminal().map_or(80, |size| size.width);
        print!("{}", page(&row, &life, &story, width));
        Ok(())
    }
}
