//! `remuda rule`

use crate::select::{SelectArgs, WHICH};
use crate::table::table;
use crate::wrap::fitted;
use crate::{Failure, RunDirArgs};
use ccp_agent::control::{Answer, Request, TestFlow, ask};
use ccp_agent::rules::{Missed, Row, Rule, Share, Tested};
use ccp_agent::select::{Cgroup, Namespace, User};
use clap::{ArgGroup, Args, Subcommand};
use std::net::{IpAddr, SocketAddr};

/// Choose by rules what drives which flows.
#[derive(Debug, Args)]
pub struct RuleArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    #[command(subcommand)]
    what: What,
    /// Print the agent's answer as JSON, one object on each line
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the rules, in the order in which they count
    List,
    /// Add a rule before all others
    ///
    /// Running flows follow at once, except those that `remuda set` has pinned. The rule outlives a
    /// restart of the agent.
    Add(AddArgs),
    /// Remove a rule that was added
    Remove {
        /// The rule's number (see `remuda rule list`), or `all`
        #[arg(value_name = "NUMBER|all", value_parser = numbers)]
        which: Numbers,
    },
    /// Say which rule wins for a flow, and why those before it do not
    Test(TestArgs),
}

#[derive(Clone, Debug, PartialEq)]
enum Numbers {
    All,
    One(u32),
}

fn numbers(text: &str) -> Result<Numbers, String> {
    match text {
        "all" => Ok(Numbers::All),
        number => number
            .parse()
            .map(Numbers::One)
            .map_err(|_| "a rule's number, or `all`: see `remuda rule list`".to_owned()),
    }
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new(WHICH).multiple(true).required(true)))]
struct AddArgs {
    /// An arm or a policy (see `remuda programs`)
    #[arg(value_name = "ARM|POLICY")]
    driver: String,
    #[command(flatten)]
    on: SelectArgs,
    /// The share of the flows that get it; the others are a control group, driven as without the
    /// rule
    #[arg(long, value_name = "0..1", default_value_t = 1.0)]
    share: f64,
    /// A name for tables and metrics
    #[arg(long)]
    name: Option<String>,
}

#[derive(Debug, Args)]
struct TestArgs {
    /// The remote address, with or without a port: 203.0.113.7, 203.0.113.7:443, [2001:db8::1]:443
    #[arg(value_name = "ADDRESS[:PORT]", value_parser = remote)]
    remote: SocketAddr,
    /// The flow's local port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    local_port: u16,
    /// The cgroup of the process: a v2 directory, or its id
    #[arg(long, value_name = "DIR|ID", value_parser = cgroup_id)]
    cgroup: Option<u64>,
    /// SO_MARK of the socket, a number
    #[arg(long, value_name = "MARK", default_value_t = 0)]
    mark: u32,
    /// The socket's user, by name or number
    #[arg(long, value_name = "USER", default_value = "0", value_parser = uid)]
    uid: u32,
    /// The network namespace: `own`, or its cookie
    #[arg(long, value_name = "NETNS", default_value = "own", value_parser = netns)]
    netns: u64,
}

fn remote(text: &str) -> Result<SocketAddr, String> {
    let bare = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 0));
    text.parse().or_else(|_| bare()).map_err(|_| {
        "it must be an address, such as 203.0.113.7, or one with a port, such as 203.0.113.7:443"
            .to_owned()
    })
}

fn cgroup_id(text: &str) -> Result<u64, String> {
    let cgroup = Cgroup::parse(text)?;
    cgroup.id().ok_or_else(|| format!("there is no directory {cgroup}"))
}

fn uid(text: &str) -> Result<u32, String> {
    User::parse(text).map(|user| user.0)
}

fn netns(text: &str) -> Result<u64, String> {
    Namespace::parse(text).map(|netns| netns.0).map_err(str::to_owned)
}

impl RuleArgs {
    fn request(&self) -> Result<Request, Failure> {
        Ok(match &self.what {
            What::List => Request::Rules {},
            What::Add(args) => {
                let rule = Rule::parse(&args.on.parts()?, args.driver.clone())?;
                let rule = Rule { share: Share::new(args.share)?, ..rule };
                Request::RuleAdd { rule: rule.named(args.name.clone())? }
            }
            What::Remove { which: Numbers::All } => Request::RuleRemove { number: None },
            What::Remove { which: Numbers::One(number) } => {
                Request::RuleRemove { number: Some(*number) }
            }
            What::Test(args) => Request::RuleTest {
                flow: TestFlow {
                    remote: args.remote,
                    local_port: args.local_port,
                    mark: args.mark,
                    cgroup_id: args.cgroup.unwrap_or(0),
                    uid: args.uid,
                    netns: args.netns,
                },
            },
        })
    }

    fn show(&self, answer: &Answer) -> Result<(), Failure> {
        match answer {
            Answer::Rules { rules, .. } if self.json => {
                for row in rules {
                    println!("{}", serde_json::to_string(row)?);
                }
            }
            answer if self.json => println!("{}", serde_json::to_string(answer)?),
            Answer::Rules { rules, default } => print_list(rules, default),
            Answer::RuleAdded { number, flows } => {
                println!("added rule {number}; {flows} running flows get another driver");
            }
            Answer::RulesRemoved { rules, flows } => {
                println!("rules removed: {rules}; {flows} running flows get another driver");
            }
            Answer::RuleTested { tested, default } => print_test(tested, default),
            other => return Err(format!("the agent answered {other:?}").into()),
        }
        Ok(())
    }

    pub fn run(self) -> Result<(), Failure> {
        self.show(&ask(&self.run_dir.run_dir, &self.request()?)?)
    }
}

fn say(line: String) {
    println!("{}", fitted(&line));
}

fn print_list(rows: &[Row], default: &str) {
    let mut out = table(&["rule", "flows", "use", "share", "so far", "control"]);
    for row in rows {
        let share = Share::new(row.share).map_or_else(|_| "-".to_owned(), |it| it.to_string());
        out.add_row([
            row.name.clone(),
            row.on.clone(),
            row.driver.clone(),
            share,
            row.flows.to_string(),
            row.control_flows.to_string(),
        ]);
    }
    println!("{out}");
    say(format!("other flows: {default}"));
    for row in rows {
        for note in &row.notes {
            say(format!("note: {}: {note}", row.name));
        }
    }
}

fn print_test(tested: &Tested, default: &str) {
    match &tested.won {
        None => say(format!("no rule matches: {default}, the agent's default")),
        Some(row) => {
            say(format!("{} wins: {} ({})", row.name, row.driver, row.on));
            if row.share < 1.0 {
                let share = Share::new(row.share).map(|it| it.to_string()).unwrap_or_default();
                say(format!("{share} of such flows get it; others go by the next rules"));
            }
            for note in &row.notes {
                say(format!("note: {note}"));
            }
        }
    }
    for Missed { name, on, key } in &tested.missed {
        say(format!("{name} does not match by {key} ({on})"));
    }
    if tested.missed_more > 0 {
        say(format!("{} further rules before it do not match", tested.missed_more));
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
        rule: RuleArgs,
    }

    fn request(line: &str) -> Result<Value, String> {
        let words = std::iter::once("rule").chain(line.split_whitespace());
        let args = Cli::try_parse_from(words).map_err(|error| error.to_string())?.rule;
        let request = args.request().map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(&request).unwrap())
    }

    #[test]
    fn a_line_is_one_request() {
        let test = |remote: &str, port: u16| {
            json!({ "ask": "rule_test", "flow": {
                "remote": remote, "local_port": port, "mark": 0, "cgroup_id": 0, "uid": 0,
                "netns": 0,
            } })
        };
        for (line, want) in [
            ("list", json!({ "ask": "rules" })),
            (
                "add bbr --destination 203.0.113.0/24",
                json!({ "ask": "rule_add", "rule": {
                    "destination": "203.0.113.0/24", "use": "bbr",
                } }),
            ),
            (
                "add rein --local-port 443 --uid root --netns own --share 0.99 --name web",
                json!({ "ask": "rule_add", "rule": {
                    "local_port": 443, "uid": 0, "netns": "own", "use": "rein", "share": 0.99,
                    "name": "web",
                } }),
            ),
            ("remove all", json!({ "ask": "rule_remove", "number": null })),
            ("remove 3", json!({ "ask": "rule_remove", "number": 3 })),
            ("test 203.0.113.7:443", test("203.0.113.7:443", 0)),
            ("test 203.0.113.7 --local-port 80", test("203.0.113.7:0", 80)),
            ("test [2001:db8::1]:443", test("[2001:db8::1]:443", 0)),
            ("test 2001:db8::1", test("[2001:db8::1]:0", 0)),
        ] {
            assert_eq!(request(line), Ok(want), "{line}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_rule() {
        for (line, part) in [
            ("", "Usage: rule"),
            ("add bbr", "required"),
            ("add --mark 1", "required"),
            ("add bbr --mark 1 --share 1.5", "0 to 1"),
            ("add bbr --mark 1 --share nan", "0 to 1"),
            ("add bbr --mark 1 --name a/b", "letters, digits"),
            ("add bbr --destination example.org", "destination = \"example.org\""),
            ("add bbr --uid no-such-user", "no-such-user"),
            ("add bbr --netns blue", "netns = \"blue\""),
            ("remove", "required"),
            ("remove some", "`all`"),
            ("test", "required"),
            ("test example.org", "203.0.113.7:443"),
            ("test 1.2.3.4 --cgroup /nonexistent", "no directory"),
        ] {
            let error = request(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
