//! `remuda iw`

use crate::table::{figure, table};
use crate::wrap::fitted;
use crate::{Failure, RunDirArgs};
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::interval::Interval;
use ccp_agent::iw::{GroupReport, Report};
use clap::Args;
use remuda_selector::tcp_rl::grouping::Fault;

/// Show groups of destinations and their learned initial windows; pin or forget a group.
///
/// A group is a subnet, or what is left of an ISP, a region or a shorter prefix ("others"). Flows
/// in no group begin with the standard window of 10 segments. A gain is the mean reward with the
/// learned windows less that with the standard one, with an interval of 95 %.
#[derive(Debug, Args)]
pub struct IwArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// Show the windows that this group tries, and their rewards
    #[arg(value_name = "GROUP")]
    group: Option<String>,
    /// Begin flows to this group with this many segments, and learn nothing of it
    #[arg(long, value_name = "GROUP=PKTS", value_parser = pin, conflicts_with = "group")]
    pin: Option<(String, u32)>,
    /// Learn the window of this group again
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["group", "pin"])]
    unpin: Option<String>,
    /// Forget what this group has learned, and begin with the first windows
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["group", "pin", "unpin"])]
    forget: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn pin(text: &str) -> Result<(String, u32), String> {
    let form = "a group, `=` and a window of 1 to 1000 segments, such as 192.0.2.0/24=20";
    let (group, pkts) = text.rsplit_once('=').ok_or(form)?;
    let pkts: u32 = pkts.parse().map_err(|_| form)?;
    if group.is_empty() || !(1..=1_000).contains(&pkts) {
        return Err(form.to_owned());
    }
    Ok((group.to_owned(), pkts))
}

fn gain(group: &GroupReport) -> String {
    group.gain.map_or_else(
        || "-".to_owned(),
        |Interval { mean, least, most }| format!("{mean:.3} ({least:.3} to {most:.3})"),
    )
}

fn window(group: &GroupReport) -> String {
    let row = &group.row;
    let why = match (row.is_pinned, row.is_control) {
        (true, _) => " pinned",
        (_, true) => " control",
        _ => "",
    };
    format!("{}{why}", row.playing_pkts)
}

fn why(fault: Fault) -> &'static str {
    match fault {
        Fault::FewBins => "there are fewer than two time bins (iw.bin_s)",
        Fault::FewSamples => "some time bins have too few records (iw.samples_min)",
        Fault::Incomparable => "no two time bins had the same window",
        Fault::Jitter => "their jitter is too large (iw.jitter_max)",
    }
}

fn print_groups(report: &Report) {
    let mut out = table(&["group", "window", "best", "rounds", "jitter", "gain"]);
    for group in &report.groups {
        let row = &group.row;
        out.add_row([
            row.name.clone(),
            window(group),
            row.best_pkts.map_or_else(|| "-".to_owned(), |pkts| pkts.to_string()),
            row.rounds.to_string(),
            figure(Some(row.jitter)),
            gain(group),
        ]);
    }
    println!("{out}\n{} groups, {} prefixes", report.groups.len(), report.table_prefixes);
    if report.table_left_out > 0 {
        let left_out = report.table_left_out;
        let rest = format!("{left_out} more prefixes have no room in the table");
        println!("{}", fitted(&format!("{rest} (iw.table_entries_max)")));
    }
    if let Some((records, fault)) = report.rest {
        println!("{}", fitted(&format!("{records} records are in no group: {}", why(fault))));
    }
    let Report { records_stored, records_dropped, records_impossible, .. } = report;
    let records = format!(
        "{records_stored} records stored, {records_dropped} dropped, {records_impossible} \
         impossible"
    );
    println!("{}", fitted(&records));
    for row in &report.not_learned {
        let line = format!("not learned: {} records of flows of user {}", row.count, row.uid);
        println!("{}", fitted(&line));
    }
}

fn print_arms(group: &GroupReport) {
    let mut out = table(&["window", "rounds", "reward", "padding"]);
    for arm in &group.row.arms {
        out.add_row([
            arm.cwnd_pkts.to_string(),
            figure(Some(arm.rounds)),
            figure(arm.reward),
            figure(arm.padding),
        ]);
    }
    let row = &group.row;
    let (name, pending) = (&row.name, row.pending);
    let head = format!("{name}: {} segments now, {pending} records of this round", window(group));
    println!("{}\n{out}", fitted(&head));
    let [learned, standard] = group.compared;
    let gain = gain(group);
    let line = format!("gain {gain} of {learned} records, {standard} with the standard window");
    println!("{}", fitted(&line));
}

impl IwArgs {
    pub fn run(self) -> Result<(), Failure> {
        let request = match (self.pin, self.unpin, self.forget) {
            (Some((group, pkts)), ..) => Request::IwPin { group, cwnd_pkts: Some(pkts) },
            (_, Some(group), _) => Request::IwPin { group, cwnd_pkts: None },
            (.., Some(group)) => Request::IwForget { group },
            _ => Request::Iw {},
        };
        let report = match ask(&self.run_dir.run_dir, &request)? {
            Answer::Iw(report) => report,
            other => return Err(format!("the agent answered {other:?}").into()),
        };
        if self.json {
            println!("{}", serde_json::to_string(&report)?);
            return Ok(());
        }
        let Some(name) = self.group else {
            print_groups(&report);
            return Ok(());
        };
        let group = report.groups.iter().find(|group| group.row.name == name);
        print_arms(group.ok_or_else(|| {
            format!("there is no group {name:?}\nfix: `remuda iw` lists the groups")
        })?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_a_group_and_a_window() {
        assert_eq!(pin("Beijing/CMNET/S1=20"), Ok(("Beijing/CMNET/S1".to_owned(), 20)));
        assert_eq!(pin("a=b others=7"), Ok(("a=b others".to_owned(), 7)));
        for text in ["192.0.2.0/24", "=20", "x=", "x=0", "x=10000", "x=-1"] {
            assert!(pin(text).unwrap_err().contains("1 to 1000"), "{text}");
        }
    }
}
