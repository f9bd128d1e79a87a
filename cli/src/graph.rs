//! `remuda graph`: shows logs of links, ours and Mahimahi's, as a table and a plot.

use crate::Failure;
use remuda_results::{LinkLog, link_flows, link_log_png, link_log_svg, link_logs};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// An hour; a coarser plot would show nothing.
const BIN_MS_MAX: u64 = 3_600_000;

/// Show capacity, throughput, queueing delay and drops from logs of links.
///
/// Reads the logs that `remuda link` and Mahimahi's mm-link write with --uplink-log and
/// --downlink-log.
#[derive(Debug, clap::Args)]
pub struct GraphArgs {
    /// Logs in Mahimahi's format
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    /// Draw throughput under capacity, queueing delay and drops over time into FILE.svg or FILE.png
    #[arg(long, value_name = "FILE", value_parser = plot_file)]
    plot: Option<PathBuf>,
    /// The length of a bin of the plot, in ms
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 500,
        value_parser = clap::value_parser!(u64).range(1..=BIN_MS_MAX)
    )]
    bin_ms: u64,
    /// Also print a row for each flow, if the log distinguishes flows
    #[arg(long)]
    flows: bool,
    /// Print one JSON object for each log instead of a table
    #[arg(long, conflicts_with = "flows")]
    json: bool,
}

impl GraphArgs {
    pub fn run(&self) -> Result<(), Failure> {
        let logs = self.logs.iter().map(|path| self.read(path)).collect::<Result<Vec<_>, _>>()?;
        if let Some(path) = &self.plot {
            let bytes = match ending(path) {
                Some("png") => link_log_png(&logs)?,
                _ => link_log_svg(&logs)?.into_bytes(),
            };
            let failed = |error| format!("{}: cannot write the plot: {error}", path.display());
            fs::write(path, bytes).map_err(failed)?;
        }
        if self.json {
            logs.iter().for_each(|log| println!("{}", json_of(log)));
            return Ok(());
        }
        print!("{}", link_logs(&logs));
        if self.flows {
            print!("{}", link_flows(&logs));
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<LinkLog, Failure> {
        let name = path.display().to_string();
        let file =
            File::open(path).map_err(|error| format!("{name}: cannot read the log: {error}"))?;
        Ok(LinkLog::read(&name, BufReader::new(file), self.bin_ms)?)
    }
}

fn ending(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

/// Refuses another file ending before the logs are read.
fn plot_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match ending(&path) {
        Some("svg" | "png") => Ok(path),
        _ => Err("must end in .svg or .png, which selects the format".to_owned()),
    }
}

fn json_of(log: &LinkLog) -> Value {
    let totals = &log.totals;
    json!({
        "log": log.name,
        "queue": log.queue,
        "duration_s": log.duration_s(),
        "capacity_mbit_per_sec": log.capacity_mbit_per_sec(),
        "throughput_mbit_per_sec": log.mbit_per_sec(totals.departed_bytes),
        "utilisation_percent": log.utilisation_percent(),
        "delay_p50_ms": totals.delay_ms(50),
        "delay_p95_ms": totals.delay_ms(95),
        "delay_p99_ms": totals.delay_ms(99),
        "signal_delay_p95_ms": log.signal_delay_ms(95),
        "arrived_packets": totals.arrived_packets,
        "departed_packets": totals.departed_packets,
        "dropped_packets": totals.dropped_packets,
        "dropped_bytes": totals.dropped_bytes,
        "dropped_percent": totals.dropped_percent(),
        "flows": log.flows.keys().filter(|number| **number > 0).count(),
    })
}
