//! `remuda flows` and `remuda set`

use crate::output::clear_screen;
use crate::table::{figure, table};
use crate::{Failure, RunDirArgs, why};
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::flow::Row;
use ccp_agent::host::Target;
use ccp_agent::prefer::Wants;
use clap::Args;
use std::time::Duration;

/// Show the live flows: peer, arm, window, rate, RTT, and the reason for the arm.
#[derive(Debug, Args)]
pub struct FlowsArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
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
    /// Print one JSON object for each flow instead of a table
    #[arg(long)]
    json: bool,
}

const COLUMNS: [&str; 12] = [
    "flow",
    "peer",
    "driver",
    "arm",
    "cwnd pkts",
    "rate Mbit/s",
    "max delivery Mbit/s",
    "srtt ms",
    "min RTT ms",
    "lost pkts",
    "state",
    "why",
];

fn print_table(rows: &[Row]) {
    // The column of preferences is shown only if a flow has one.
    let wanting = rows.iter().any(|row| row.wants != Wants::DEFAULT);
    let mut columns = COLUMNS.to_vec();
    if wanting {
        columns.insert(COLUMNS.len() - 1, "wants");
    }
    let mut out = table(&columns);
    for row in rows {
        let mut cells = vec![
            row.id.to_string(),
            row.remote.clone(),
            row.driver.clone(),
            row.arm.clone(),
            row.cwnd_pkts.to_string(),
            figure(row.rate_mbit_per_sec),
            figure(row.delivery_mbit_per_sec),
            figure(row.srtt_ms),
            figure(row.rtt_min_ms),
            row.lost_pkts.to_string(),
            row.state.clone(),
        ];
        if wanting {
            cells.push(row.wants.to_string());
        }
        cells.push(row.why.clone());
        out.add_row(cells);
    }
    println!("{out}\n{} flows", rows.len());
}

impl FlowsArgs {
    fn fetch(&self) -> Result<Vec<Row>, Failure> {
        match ask(&self.run_dir.run_dir, &Request::Flows {})? {
            Answer::Flows { flows } => self.selected(flows),
            other => Err(format!("the agent answered {other:?}").into()),
        }
    }

    /// The flow that `--why` names, or all flows.
    fn selected(&self, mut rows: Vec<Row>) -> Result<Vec<Row>, Failure> {
        let Some(Some(id)) = self.why else { return Ok(rows) };
        rows.retain(|row| row.id == id);
        if rows.is_empty() {
            return Err(format!("no flow {id}\nfix: `remuda flows` lists them").into());
        }
        Ok(rows)
    }

    fn show(&self, rows: &[Row]) -> Result<(), Failure> {
        if self.json {
            for row in rows {
                println!("{}", serde_json::to_string(row)?);
            }
        } else {
            match self.why {
                Some(_) => println!("{}", why::text(rows)),
                None => print_table(rows),
            }
        }
        Ok(())
    }

    pub fn run(self) -> Result<(), Failure> {
        if !self.watch {
            return self.show(&self.fetch()?);
        }
        if !(0.1..=3_600.0).contains(&self.interval_s) {
            return Err(format!("--interval-s {}: 0.1 to 3600 seconds", self.interval_s).into());
        }
        loop {
            let rows = self.fetch()?;
            if !self.json {
                clear_screen();
            }
            self.show(&rows)?;
            std::thread::sleep(Duration::from_secs_f64(self.interval_s));
        }
    }
}

/// Give a flow, all flows, or new flows another arm or policy.
#[derive(Debug, Args)]
pub struct SetArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// A flow's number (see `remuda flows`), `all` (running and new flows), or `new`
    #[arg(value_name = "FLOW|all|new", value_parser = target)]
    flow: Target,
    /// An arm or a policy (see `remuda programs`)
    #[arg(value_name = "ARM|POLICY")]
    to: String,
}

fn target(text: &str) -> Result<Target, String> {
    match text {
        "all" => Ok(Target::All),
        "new" => Ok(Target::New),
        number => number
            .parse()
            .map(Target::Flow)
            .map_err(|_| "a flow's number, `all` or `new`".to_owned()),
    }
}

impl SetArgs {
    pub fn run(self) -> Result<(), Failure> {
        let request = Request::Set { target: self.flow, to: self.to.clone() };
        match ask(&self.run_dir.run_dir, &request)? {
            Answer::Set { flows } => {
                let which = match self.flow {
                    Target::All => format!("{flows} running flows, and new ones"),
                    Target::New => "new flows".to_owned(),
                    Target::Flow(number) => format!("flow {number}"),
                };
                println!("{which}: {}", self.to);
                Ok(())
            }
            other => Err(format!("the agent answered {other:?}").into()),
        }
    }
}
