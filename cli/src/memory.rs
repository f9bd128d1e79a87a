//! `remuda memory`

use crate::table::table;
use crate::{Failure, RunDirArgs, owner};
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::host::NotLearned;
use clap::Args;
use remuda_selector::antelope::memory::{
    HOST_NETNS, LeftOutRow, Network, OTHER_USERS, Row, WhyNot,
};

/// Show what the agent remembers of destinations, or make it forget.
///
/// A destination is an address or its network: /24 of IPv4, /56 of IPv6. A new flow to it begins
/// with the arm of the largest weight, and with the initial window of its prefix if one is set.
/// After the first round trip the flow jumps to half of the bandwidth-delay product that earlier
/// flows had there.
#[derive(Debug, Args)]
pub struct MemoryArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// Forget the destinations in this network, a single address, or all
    #[arg(long, value_name = "PREFIX|all", value_parser = scope)]
    forget: Option<Scope>,
    /// Begin flows to a prefix of any length with this many segments; 0: like other flows. The
    /// longest such prefix of a destination counts, before a learned window (`remuda iw`)
    #[arg(long, value_name = "PREFIX=PKTS", value_parser = initial_cwnd, conflicts_with = "forget")]
    initial_cwnd: Option<(Network, u32)>,
    /// Print one JSON object for each destination instead of a table
    #[arg(long)]
    json: bool,
}

/// The destinations to forget.
#[derive(Clone, Copy, Debug)]
enum Scope {
    All,
    Within(Network),
}

fn scope(text: &str) -> Result<Scope, String> {
    match text {
        "all" => Ok(Scope::All),
        prefix => prefix.parse().map(Scope::Within).map_err(|error| error.to_string()),
    }
}

fn initial_cwnd(text: &str) -> Result<(Network, u32), String> {
    let form = "an address or prefix, `=` and a number of segments, such as 192.0.0.0/20=40";
    let (of, pkts) = text.split_once('=').ok_or(form)?;
    let of = of.parse::<Network>().map_err(|error| error.to_string())?;
    Ok((of, pkts.parse().map_err(|_| form)?))
}

fn why(why: WhyNot) -> &'static str {
    match why {
        WhyNot::Untrusted => {
            "a user has made their network namespace, or a kernel module does not say which it is \
             (learning.trusted_users, learning.trust_modules)"
        }
        WhyNot::TooMany => "the user has added its share of entries (memory.user_entries_max)",
        WhyNot::TooFast => {
            "the user has taught its share of this minute (memory.user_notes_per_min_max, \
             learning.user_samples_per_min_max)"
        }
    }
}

/// What flows did not teach, one line for each user and reason.
fn not_learned(not_learned: &NotLearned) -> String {
    let line = |what: &str, row: &LeftOutRow| {
        let user = match row.uid {
            OTHER_USERS => "other users".to_owned(),
            uid => format!("user {}", owner::user(uid)),
        };
        format!("not learned: {} {what} of flows of {user}: {}\n", row.count, why(row.why))
    };
    let NotLearned { destinations, samples } = not_learned;
    let findings = destinations.iter().map(|row| line("findings", row));
    findings.chain(samples.iter().map(|row| line("samples", row))).collect()
}

fn print_table(rows: &[Row]) {
    // The column of namespaces is shown only if there is one beside the agent's own.
    let has_namespaces = rows.iter().any(|row| row.netns != HOST_NETNS);
    let heads = ["destination", "arms and weights", "initial window pkts", "jump kB", "idle s"];
    let mut heads = heads.to_vec();
    if has_namespaces {
        heads.push("network namespace");
    }
    let mut out = table(&heads);
    for row in rows {
        let arms: Vec<String> =
            row.arms.iter().map(|(arm, weight)| format!("{arm} {weight:.2}")).collect();
        let [given, jump] =
            [row.initial_cwnd_pkts.into(), row.resumed_bytes / 1_000].map(|it: u64| match it {
                0 => "-".to_owned(),
                it => it.to_string(),
            });
        let idle = row.idle_s.to_string();
        let mut cells = vec![row.to.to_string(), arms.join(", "), given, jump, idle];
        if has_namespaces {
            cells.push(match row.netns {
                HOST_NETNS => "the agent's".to_owned(),
                cookie => format!("cookie {cookie}"),
            });
        }
        out.add_row(cells);
    }
    println!("{out}\n{} destinations", rows.len());
}

impl MemoryArgs {
    pub fn run(self) -> Result<(), Failure> {
        let request = match (self.forget, self.initial_cwnd) {
            (Some(Scope::All), _) => Request::Forget { of: None },
            (Some(Scope::Within(network)), _) => Request::Forget { of: Some(network) },
            (None, Some((of, pkts))) => Request::InitialCwnd { of, pkts },
            (None, None) => Request::Memory {},
        };
        match (ask(&self.run_dir.run_dir, &request)?, request) {
            (Answer::Memory { destinations, .. }, _) if self.json => {
                for row in &destinations {
                    println!("{}", serde_json::to_string(row)?);
                }
            }
            (Answer::Memory { destinations, not_learned }, _) => {
                print_table(&destinations);
                print!("{}", self::not_learned(&not_learned));
            }
            (Answer::Forgot { destinations }, _) => {
                println!("{destinations} destinations forgotten")
            }
            (Answer::InitialCwndSet {}, Request::InitialCwnd { of, pkts: 0 }) => {
                println!("{of}: no initial window of its own");
            }
            (Answer::InitialCwndSet {}, Request::InitialCwnd { of, pkts }) => {
                println!("{of}: an initial window of {pkts} segments");
            }
            (other, _) => return Err(format!("the agent answered {other:?}").into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_destination_is_refused_by_rule() {
        assert!(matches!(scope("all"), Ok(Scope::All)));
        assert!(matches!(scope("10.0.0.0/8"), Ok(Scope::Within(_))));
        assert!(scope("10.0.0.1/8").unwrap_err().contains("write 10.0.0.0/8"));
        assert_eq!(initial_cwnd("192.0.2.7=40").unwrap().1, 40);
        for text in ["192.0.2.7", "192.0.2.7=", "192.0.2.7=-1", "x=4"] {
            assert!(initial_cwnd(text).unwrap_err().contains("a"), "{text}");
        }
    }
}
