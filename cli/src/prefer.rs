//! `remuda prefer`

use crate::select::{SelectArgs, WHICH};
use crate::table::table;
use crate::{Failure, RunDirArgs};
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::prefer::{Order, Row, Rule, Wants};
use clap::{ArgGroup, Args};

/// Set what flows prefer: short delays, throughput, or weights between the two.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new(WHICH).multiple(true)))]
pub struct PreferArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// `default`, `delay`, `throughput`, or weights from 0 to 1: `throughput=0.7,delay=1`
    #[arg(requires = WHICH, required_unless_present_any = ["list", "clear"])]
    wants: Option<Wants>,
    /// One running flow, by its number (see `remuda flows`)
    #[arg(long, value_name = "NUMBER", group = WHICH, conflicts_with_all = RULE)]
    flow: Option<u32>,
    #[command(flatten)]
    on: SelectArgs,
    /// Show orders and the rules of the configuration, in the order in which they count
    #[arg(long, conflicts_with_all = ["wants", WHICH, "clear"])]
    list: bool,
    /// Remove an order by its number (see --list), or all orders
    #[arg(
        long,
        value_name = "NUMBER",
        num_args = 0..=1,
        conflicts_with_all = ["wants", WHICH],
    )]
    clear: Option<Option<u32>>,
    /// Print the agent's answer as JSON, one object on each line
    #[arg(long)]
    json: bool,
}

const RULE: [&str; 6] = ["local_port", "cgroup", "mark", "destination", "uid", "netns"];

fn print_list(rows: &[Row]) {
    let mut out = table(&["order", "flows", "prefer"]);
    for row in rows {
        let order = row.order.map_or_else(|| "configured".to_owned(), |number| number.to_string());
        out.add_row([order, row.on.clone(), row.wants.to_string()]);
    }
    println!("{out}");
}

impl PreferArgs {
    fn request(&self) -> Result<Request, Failure> {
        if let Some(order) = self.clear {
            return Ok(Request::PreferNoMore { order });
        }
        let Some(wants) = self.wants else {
            return Ok(Request::Preferences {});
        };
        if let Some(flow) = self.flow {
            return Ok(Request::Prefer { order: Order::Flow { flow, wants } });
        }
        let parts = self.on.parts()?;
        Ok(Request::Prefer { order: Order::Rule(Rule::parse(&parts, wants)?) })
    }

    fn show(&self, answer: &Answer) -> Result<(), Failure> {
        match answer {
            Answer::Preferences { preferences } if self.json => {
                for row in preferences {
                    println!("{}", serde_json::to_string(row)?);
                }
            }
            answer if self.json => println!("{}", serde_json::to_string(answer)?),
            Answer::Preferences { preferences } => print_list(preferences),
            Answer::Preferred { order, flows } => {
                let wants = self.wants.unwrap_or_default();
                println!("order {order}: {wants}; it counts for {flows} running flows");
            }
            Answer::PreferredNoMore { orders, flows } => {
                println!(
                    "{orders} orders removed; {flows} running flows have another preference now"
                );
            }
            other => return Err(format!("the agent answered {other:?}").into()),
        }
        Ok(())
    }

    pub fn run(self) -> Result<(), Failure> {
        self.show(&ask(&self.run_dir.run_dir, &self.request()?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::{Value, json};

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        prefer: PreferArgs,
    }

    fn request(line: &str) -> Result<Value, String> {
        let words = std::iter::once("prefer").chain(line.split_whitespace());
        let args = Cli::try_parse_from(words).map_err(|error| error.to_string())?.prefer;
        let request = args.request().map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(&request).unwrap())
    }

    #[test]
    fn a_line_is_one_request() {
        let order = |order: Value| json!({ "ask": "prefer", "order": order });
        for (line, want) in [
            ("delay --flow 12", order(json!({ "flow": { "flow": 12, "wants": "delay" } }))),
            (
                "throughput=0.7,delay=1 --local-port 443",
                order(json!({ "rule": {
                    "local_port": 443, "wants": { "throughput": 0.7, "delay": 1.0 },
                } })),
            ),
            (
                "throughput --destination 10.0.0.0/8 --mark 0x10/0xff --cgroup 77",
                order(json!({ "rule": {
                    "cgroup": 77, "mark": "0x10/0xff", "destination": "10.0.0.0/8",
                    "wants": "throughput",
                } })),
            ),
            ("--list", json!({ "ask": "preferences" })),
            ("--clear", json!({ "ask": "prefer_no_more", "order": null })),
            ("--clear 3", json!({ "ask": "prefer_no_more", "order": 3 })),
        ] {
            assert_eq!(request(line), Ok(want), "{line}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_rule() {
        for (line, part) in [
            ("", "required"),
            ("delay", "required"),
            ("--flow 1", "required"),
            ("fast --flow 1", "0 to 1"),
            ("delay --flow 1 --mark 1", "cannot be used with"),
            ("delay --flow 1 --list", "cannot be used with"),
            ("--list --clear", "cannot be used with"),
            ("delay --clear", "cannot be used with"),
            ("delay --local-port 0", "local_port = \"0\""),
            ("delay --mark 0x1/0x2", "mark = \"0x1/0x2\""),
            ("delay --destination example.org", "destination = \"example.org\""),
        ] {
            let error = request(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
