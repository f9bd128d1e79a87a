//! Measures LingBo's acceptance table in the simulator, as a page.

use clap::Parser;
use remuda_bench::Error;
use remuda_bench::lingbo::rows;
use remuda_bench::stats::{Origin, document, target};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure LingBo's rows E1 to E6: paper, target, got, interval
#[derive(Debug, Parser)]
struct Args {
    /// Seeds of each row; E4 has twice as many
    #[arg(long, value_name = "COUNT", default_value_t = 40)]
    seeds: u64,
    /// Measure only rows whose name begins with this
    #[arg(long, value_name = "NAME", default_value = "")]
    row: String,
    /// Write the page into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

const HEAD: &str = "\
# LingBo beside its paper

`make lingbo-table` writes this page: simulated, with the arms' own programs and controllers. A row
is met if its 95 % interval (Student's t over the seeds) is beyond the target. All rows are of the
development set: they were looked at while the arm was built. Nobody has published the paper's RTT
traces, so RTT_min is drawn by class and seed: a normal AR(1) process, one value a packet, in order.

| class | mean | standard deviation | correlation of one packet with the next |
|---|---|---|---|
| wired | 40 ms | 1 ms | 0.9 |
| wifi | 40 ms | 8 ms | 0.95 |
| cellular | 80 ms | 20 ms | 0.98 |

`lingbo` has alpha 3, as in the paper's evaluation. Paths have 12 Mbit/s and a drop-tail buffer of
500 packets, unless the row says otherwise; runs last 30 s. The paper's figures are of UDP schemes
in Mahimahi. Power95 is goodput over the 95th percentile of the one-way delay.

";

fn measure(args: &Args) -> Result<(), Error> {
    let (rows, ranks) = rows::all(args.seeds, &args.row)?;
    let page = format!("{HEAD}{}. {}{ranks}", Origin::here(), target::table(&rows));
    let path = args.write.as_deref();
    document::write_whole(path, &page).map_err(Error::writing(path))
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lingbo-table: {error}");
            ExitCode::FAILURE
        }
    }
}
