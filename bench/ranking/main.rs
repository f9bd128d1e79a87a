//! Writes tables of `remuda matrix` as one page: every arm and policy, a ranking a set.

use clap::Parser;
use remuda::spread;
use remuda_bench::stats::document;
use remuda_matrix::{Rank, ranking};
use remuda_report::Matrix;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write tables of `remuda matrix` as one page, a ranking for each
#[derive(Debug, Parser)]
struct Args {
    /// Folders of tables, one a set, in the order of the page
    #[arg(value_name = "DIR", required = true)]
    tables: Vec<PathBuf>,
    /// Write the page into this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

const HEAD: &str = "\
# Ranking of all arms and policies

`make ranking` writes this page: simulated, with one seed. Each set has a table. The rank of an arm
or policy is the mean of what it misses: how far its merit is below the best merit of each
environment, in percent. The merit is goodput squared over one-way delay, less for loss and for harm
to neighbours; for transfers, slowdown replaces goodput and delay (`algorithms/src/merit.rs`). The
merit of commit b1bd1fe, from which earlier figures come, left loss out, and judged flows beside
others by fairness alone. Brackets: 95 % bootstrap intervals over environments. `recorded` are fifty
recorded paths that the repository does not have: `make ranking` takes them as `RECORDED=FILE`.

- **beyond the best fixed**: what it misses beyond what the best single arm of that set misses, in
  percent. Only a policy's can be below 0.
- **wins**: environments in which its merit is within 10 % of the best.
- **sent again**: percent of segments, the median.

All sets are development sets: they were looked at while arms and policies were built. The model of
`antelope`, `learned` and `lingbo` were trained on families of paths, some of which are like those
of the sets.

";

/// One table with its ranking, by the name of its folder.
struct Set {
    name: String,
    about: BTreeMap<String, String>,
    ranks: Vec<Rank>,
}

impl Set {
    fn read(folder: &Path) -> Result<Self, String> {
        let Matrix { rows, about } = Matrix::read(folder).map_err(|error| error.to_string())?;
        let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
        Ok(Self { name: name.into_owned(), about, ranks: ranking(&rows) })
    }
}

fn section(set: &Set) -> String {
    let Set { name, about, ranks } = set;
    let about = |key: &str| about.get(key).map(String::as_str);
    let environments = ranks.first().map_or(0, |rank| rank.environments);
    let mut text = format!(
        "## `{name}`\n\n{environments} environments. Commit {}, {}.\n\n\
         | | misses, % | by the merit of b1bd1fe, % | beyond the best fixed, % | wins \
         | sent again, % |\n|---|---|---|---|---|---|\n",
        about("commit").unwrap_or("unknown"),
        about("partial").unwrap_or("all runs done"),
    );
    for rank in ranks {
        let Rank { driver, wins, .. } = rank;
        let [misses, former, beyond] =
            [rank.regret, rank.former_regret, rank.regret_to_fixed].map(|it| spread(it, 100.0));
        let again = spread(rank.retransmitted_percent, 1.0);
        let _ = writeln!(text, "| {driver} | {misses} | {former} | {beyond} | {wins} | {again} |");
    }
    text
}

/// What each driver misses in each set, by the mean over the sets.
fn overview(sets: &[Set]) -> String {
    let mut misses: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for rank in sets.iter().flat_map(|set| &set.ranks) {
        misses.entry(&rank.driver).or_default().push(rank.regret.middle * 100.0);
    }
    let mut rows: Vec<(&str, Vec<f64>)> = misses.into_iter().collect();
    rows.retain(|(_, values)| values.len() == sets.len());
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    rows.sort_by(|(_, one), (_, other)| mean(one).total_cmp(&mean(other)));
    let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
    let mut text = format!(
        "## Together\n\nMisses of each set in percent, and their mean.\n\n| | {} | mean |\n|{}\n",
        names.join(" | "),
        "---|".repeat(sets.len() + 2)
    );
    for (driver, values) in rows {
        let each: Vec<String> = values.iter().map(|value| format!("{value:.1}")).collect();
        let _ = writeln!(text, "| {driver} | {} | {:.1} |", each.join(" | "), mean(&values));
    }
    text
}

fn write(args: &Args) -> Result<(), String> {
    let sets = args.tables.iter().map(|folder| Set::read(folder));
    let sets: Vec<Set> = sets.collect::<Result<_, String>>()?;
    let sections: Vec<String> = sets.iter().map(section).collect();
    let page = format!("{HEAD}{}\n{}", overview(&sets), sections.join("\n"));
    let path = args.write.as_deref();
    document::write_whole(path, &page).map_err(|error| {
        let path = path.unwrap_or(Path::new("standard output"));
        format!("{}: {error}", path.display())
    })
}

fn main() -> ExitCode {
    match write(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ranking: {error}");
            ExitCode::FAILURE
        }
    }
}
