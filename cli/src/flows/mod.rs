//! `remuda flows` and `remuda top`

mod show;
mod sort;

use crate::columns::terminal;
use crate::output::clear_screen;
use crate::select::SelectArgs;
use crate::table::table;
use crate::wrap::fitted;
use crate::{Failure, RunDirArgs, owner, why};
use ccp_agent::admission::RefusedRow;
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::flow::Row;
use ccp_agent::select::Live;
use clap::Args;
use sort::Sort;
use std::path::Path;
use std::time::Duration;

/// Which flows to show, and in which order.
#[derive(Debug, Args)]
pub struct WhichArgs {
    #[command(flatten)]
    on: SelectArgs,
    /// Show only flows with this arm, or driven by this policy
    #[arg(long, value_name = "NAME")]
    arm: Option<String>,
    /// Show only flows for which this rule counts
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Sort by this, the largest first; `flow`, `peer` and `idle` the least first
    #[arg(long, value_enum, value_name = "BY")]
    sort: Option<Sort>,
}

/// Show the live flows: peer, arm, window, rate, round trip, and the reason for the arm.
///
/// In a terminal, columns that have no room are left out. An address or a name that has no room is
/// shortened in its column, and whole on the line below. In a pipe or a file each line has all
/// columns.
#[derive(Debug, Args)]
#[command(after_help = "\
Columns:
  arm         what drives the flow, and after a `:` the arm that the policy has picked
  cwnd        congestion window, in segments
  Mbit/s      the largest delivery rate of the last 10 s
  pace        pacing rate, in Mbit/s; - where the datapath derives it from the window
  srtt, min   smoothed round trip, and the least of the last 10 s, in ms
  lost        segments
  age, idle   since the flow came to the agent, and since bytes were last acknowledged

Examples:
  The five fastest flows of one service
    remuda flows --local-port 443 --sort rate | head -n 11
  The flows of one destination, with all that their policy knew
    remuda flows --destination 198.51.100.0/24 --why")]
pub struct FlowsArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    #[command(flatten)]
    which: WhichArgs,
    /// Update the table until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Seconds between two updates, with --watch
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, requires = "watch")]
    interval_s: f64,
    /// Show why each flow, or the flow ID, has its arm: since when, the policy's inputs and what it
    /// expected of each arm, and the guard's last action
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    why: Option<Option<u32>>,
    /// Show only the sockets that were refused: by user, cgroup and reason
    #[arg(long, conflicts_with = "why")]
    refused: bool,
    /// Print one JSON object for each flow (with --refused: for each row of refused sockets)
    /// instead of a table
    #[arg(long)]
    json: bool,
}

/// Show the busiest flows, updated until Ctrl-C.
///
/// In a terminal there is one screen of them, and an address or a name that has no room is
/// shortened. In a pipe or a file each update follows the former, after an empty line.
#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    #[command(flatten)]
    which: WhichArgs,
    /// Seconds between two updates
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval_s: f64,
    /// End after so many updates
    #[arg(long, value_name = "COUNT")]
    updates: Option<u64>,
}

/// What the agent answers.
struct Fetched {
    rows: Vec<Row>,
    refused: Vec<RefusedRow>,
}

fn fetch(run_dir: &Path) -> Result<Fetched, Failure> {
    match ask(run_dir, &Request::Flows {})? {
        Answer::Flows { flows, refused } => Ok(Fetched { rows: flows, refused }),
        other => Err(format!("the agent answered {other:?}").into()),
    }
}

fn check_interval(seconds: f64) -> Result<Duration, Failure> {
    if (0.1..=3_600.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(format!("--interval-s {seconds}: 0.1 to 3600 seconds").into())
}

impl WhichArgs {
    /// The flows that match, sorted by what was asked for, or by `usual`.
    fn of(&self, rows: Vec<Row>, usual: Sort) -> Result<Vec<Row>, Failure> {
        let on = if self.on.is_empty() {
            None
        } else {
            let selector = self.on.parts()?.parse()?;
            selector.check()?;
            Some(Live::new(selector))
        };
        let is_on = |row: &Row, on: &Live| row.info().is_some_and(|it| on.matches(&it));
        let is_of_arm = |row: &Row, name: &str| row.arm == name || row.driver == name;
        let mut rows: Vec<Row> = rows
            .into_iter()
            .filter(|row| on.as_ref().is_none_or(|on| is_on(row, on)))
            .filter(|row| self.arm.as_deref().is_none_or(|name| is_of_arm(row, name)))
            .filter(|row| self.rule.is_none() || row.rule == self.rule)
            .collect();
        self.sort.unwrap_or(usual).sort(&mut rows);
        Ok(rows)
    }

    fn is_all(&self) -> bool {
        self.arm.is_none() && self.rule.is_none() && self.on.is_empty()
    }
}

fn print_refused(rows: &[RefusedRow]) {
    let mut out = table(&["user", "cgroup", "refused sockets", "reason"]);
    for row in rows {
        out.add_row([
            owner::user(row.uid),
            owner::cgroup(row.cgroup_id),
            row.sockets.to_string(),
            row.reason.clone(),
        ]);
    }
    let sockets: u64 = rows.iter().map(|row| row.sockets).sum();
    let legend = format!("{sockets} sockets were refused; they run the kernel's own algorithm");
    println!("{out}\n{}", fitted(&legend));
}

impl FlowsArgs {
    fn fetch(&self) -> Result<Fetched, Failure> {
        let Fetched { rows, refused } = fetch(&self.run_dir.run_dir)?;
        Ok(Fetched { rows: self.selected(rows)?, refused })
    }

    /// The flow that `--why` names, or all flows that match.
    fn selected(&self, mut rows: Vec<Row>) -> Result<Vec<Row>, Failure> {
        let Some(Some(id)) = self.why else { return self.which.of(rows, Sort::Flow) };
        rows.retain(|row| row.id == id);
        if rows.is_empty() {
            return Err(format!("no flow {id}\nfix: `remuda flows` lists them").into());
        }
        Ok(rows)
    }

    fn show(&self, fetched: &Fetched) -> Result<(), Failure> {
        let Fetched { rows, refused } = fetched;
        if self.json && self.refused {
            for row in refused {
                println!("{}", serde_json::to_string(row)?);
            }
        } else if self.json {
            for row in rows {
                println!("{}", serde_json::to_string(row)?);
            }
        } else if self.refused {
            print_refused(refused);
        } else if self.why.is_some() {
            println!("{}", why::text(rows));
        } else {
            let width = terminal().map(|size| size.width);
            print!("{}", show::flows(rows, width));
            if !refused.is_empty() && self.which.is_all() {
                print_refused(refused);
            }
        }
        Ok(())
    }

    pub fn run(self) -> Result<(), Failure> {
        if !self.watch {
            return self.show(&self.fetch()?);
        }
        let interval = check_interval(self.interval_s)?;
        loop {
            let fetched = self.fetch()?;
            if !self.json && terminal().is_some() {
                clear_screen();
            }
            self.show(&fetched)?;
            std::thread::sleep(interval);
        }
    }
}

impl TopArgs {
    pub fn run(self) -> Result<(), Failure> {
        let interval = check_interval(self.interval_s)?;
        let mut left = self.updates;
        while left != Some(0) {
            let rows = self.which.of(fetch(&self.run_dir.run_dir)?.rows, Sort::Rate)?;
            let size = terminal();
            if size.is_some() {
                clear_screen();
            }
            print!("{}", show::top(&rows, size));
            left = left.map(|left| left - 1);
            if left != Some(0) {
                std::thread::sleep(interval);
            }
        }
        Ok(())
    }
}
