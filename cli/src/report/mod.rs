//! `remuda report`: reports the results of a matrix as a page or in the terminal, and what changed
//! since another matrix.

mod plot;
mod series;
mod show;
mod versus;

use crate::Failure;
use crate::author::AuthorArgs;
use crate::matrix::suite_of;
use ccp_agent::Setup;
use clap::Args;
use remuda_matrix::versus;
use remuda_report::{Board, Diff, Matrix, Series, Wanted, page, plots};
use remuda_scenarios::{Suite, suite_names};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the page beside a table.
const PAGE: &str = "report.html";

/// Report the results of a matrix: one page that needs no network, or tables in the terminal.
///
/// The page shows the best arm on every kind of path, rankings, throughput and delay,
/// distributions, every environment, which flows starve others, and the pass/fail lines. `remuda
/// matrix` writes the page beside its table; this command writes it again, optionally with a
/// comparison with another table, or with time series.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Write the page of the last matrix again
    remuda report
  See the effect of a change: run a matrix before it and after it, and compare
    remuda matrix --arm all --out out/before
    remuda matrix --arm all --out out/after
    remuda report out/after --against out/before
  Compare in the terminal, with an exit status for CI: 0, 1 if an arm became worse, 2 on errors
    remuda report out/after --against out/before --text --check
  Show time series of the environments with cell/ in their name
    remuda report --series wireless/cell/owd_ms=20
  Show the same in the terminal, for one arm
    remuda report --series wireless/cell/owd_ms=20 --arm rein --text
  See where a policy does better than each arm, and where it does not
    remuda report --text --versus rein
  Draw charts for a paper, as SVG and PNG: three arms on two kinds of path
    remuda report --plot out/plots --paths 'cellular paths,wired paths' --arm rein,bbr,cubic")]
pub struct ReportArgs {
    /// A table of `remuda matrix`, or its folder
    #[arg(value_name = "TABLE", default_value = "out/matrix")]
    table: PathBuf,
    /// An older table, or its folder: shows what changed from it to TABLE
    #[arg(long, value_name = "TABLE")]
    against: Option<PathBuf>,
    /// Add time series of the environments whose SUITE/NAME contains this. Runs them again with the
    /// table's first seed, and with all its arms or those of --arm
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    series: Vec<String>,
    /// Suite files with environments of TABLE, for --series
    #[arg(long, value_name = "FILE", value_delimiter = ',', requires = "series")]
    suite: Vec<String>,
    #[command(flatten)]
    authors: AuthorArgs,
    /// The file of the page [default: report.html beside the table]
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    out: Option<PathBuf>,
    /// Also draw the charts into DIR, each as SVG and PNG on white, as wide as a column of a paper:
    /// ranking, throughput and delay, distributions, merit by arm and group
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Paths to draw, by a part of their name on the page, such as `cellular paths` [default: all
    /// paths]
    #[arg(long, value_name = "PART", value_delimiter = ',', requires = "plot")]
    paths: Vec<String>,
    /// Arms of --series [default: all of the table], and arms to mark in the charts of --plot
    /// [default: the five best]. The charts rank all arms in any case
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    arm: Vec<String>,
    /// Compare these policies or arms with each other driver: the difference of what both reach of
    /// the best arm of each environment, and where the first falls behind most
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "text")]
    versus: Vec<String>,
    /// Print tables instead of writing a page; with --series, only time series and changes
    #[arg(long)]
    text: bool,
    /// Exit with status 1 if a run misses a pass/fail line. With --against: if an arm fails or runs
    /// are missing; then a missed line counts only if it was not missed before
    #[arg(long)]
    check: bool,
}

/// Writes the page beside a table that has just been written.
pub fn write_beside(table: &Path, matrix: &Matrix) -> Result<PathBuf, Failure> {
    let path = table.with_file_name(PAGE);
    write(&path, &page(&Board::of(matrix), None, &[])?)?;
    Ok(path)
}

fn write(path: &Path, html: &str) -> Result<(), Failure> {
    fs::write(path, html)
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

/// Why a report does not succeed.
pub enum Failed {
    Check(String),
    /// The report could not be made.
    Trouble(Failure),
}

impl<E: Into<Failure>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Trouble(error.into())
    }
}

impl ReportArgs {
    pub fn run(&self) -> Result<(), Failed> {
        self.check_arms_are_of_something()?;
        let matrix = Matrix::read(&self.table)?;
        let board = Board::of(&matrix);
        let old = self.against.as_deref().map(Matrix::read).transpose()?;
        let diff = old.map(|old| Diff::of(&old, &matrix)).transpose()?;
        let plots = self.drawn(&board)?;
        let series = self.series_of(&matrix)?;
        if self.text {
            let versus = self.versus_of(&matrix)?;
            println!("{}{versus}", show::text(&board, diff.as_ref(), &series));
        } else {
            let path = self.page_path();
            write(&path, &page(&board, diff.as_ref(), &series)?)?;
            println!("{}", path.display());
        }
        if let Some(files) = plots {
            println!("{files}");
        }
        match &diff {
            Some(diff) if self.check && !diff.passes() => Err(Failed::Check(show::failing(diff))),
            None if self.check && !board.missed.is_empty() => {
                let count = board.missed.len();
                Err(Failed::Check(format!("{count} of {} runs miss pass/fail lines", board.runs)))
            }
            _ => Ok(()),
        }
    }

    /// Draws the charts before anything else is written, so that an error leaves no page behind.
    fn drawn(&self, board: &Board) -> Result<Option<String>, Failure> {
        let Some(folder) = &self.plot else { return Ok(None) };
        let plots = plots(board, &self.paths, &self.arm)?;
        Ok(Some(plot::write(folder, &plots)?))
    }

    fn check_arms_are_of_something(&self) -> Result<(), Failure> {
        if self.arm.is_empty() || self.plot.is_some() || !self.series.is_empty() {
            return Ok(());
        }
        Err("--arm: needs --series or --plot; fix: add one of these, or leave it out".into())
    }

    /// The comparison of `--versus`, printed last.
    fn versus_of(&self, matrix: &Matrix) -> Result<String, Failure> {
        let known = matrix.drivers();
        if let Some(name) = self.versus.iter().find(|name| !known.contains(name)) {
            let known = known.join(", ");
            return Err(format!("--versus {name}: is not in the table; it has {known}").into());
        }
        let names: Vec<&str> = self.versus.iter().map(String::as_str).collect();
        Ok(match names.is_empty() {
            true => String::new(),
            false => format!("\n\n{}", versus::shown(&versus(&matrix.rows, &names))),
        })
    }

    fn page_path(&self) -> PathBuf {
        let beside = || match self.table.is_dir() {
            true => self.table.join(PAGE),
            false => self.table.with_file_name(PAGE),
        };
        self.out.clone().unwrap_or_else(beside)
    }

    fn series_of(&self, matrix: &Matrix) -> Result<Vec<Series>, Failure> {
        if self.series.is_empty() {
            return Ok(Vec::new());
        }
        let setup = Arc::new(Setup::default());
        let _authors = self.authors.start(&setup.authors)?;
        let wanted = Wanted { parts: &self.series, arms: &self.arm };
        Ok(Series::of(matrix, wanted, &self.suites(matrix)?, &setup)?)
    }

    /// The suites whose environments are in the table.
    fn suites(&self, matrix: &Matrix) -> Result<Vec<Suite>, Failure> {
        let given = self.suite.iter().map(|name| suite_of(name)).collect::<Result<Vec<_>, _>>()?;
        let mut all = given;
        let names: BTreeSet<&str> = matrix.rows.iter().map(|row| row.suite.as_str()).collect();
        for name in names {
            let is_there = all.iter().any(|suite| suite.name == name);
            if !is_there && suite_names().any(|known| known == name) {
                all.push(suite_of(name)?);
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        report: ReportArgs,
    }

    fn refused(line: &str) -> String {
        let words = ["report"].into_iter().chain(line.split_whitespace());
        match Line::try_parse_from(words) {
            Err(error) => error.to_string(),
            Ok(line) => match line.report.run() {
                Ok(()) => String::new(),
                Err(Failed::Check(why)) => why,
                Err(Failed::Trouble(why)) => why.to_string(),
            },
        }
    }

    #[test]
    fn a_flag_that_says_nothing_is_refused() {
        for (line, part) in [
            ("--arm bbr", "--arm: needs --series or --plot; fix: add one of these"),
            ("--paths wired", "--plot <DIR>"),
            ("--suite a.toml", "--series <PART>"),
            ("--text --out a.html", "cannot be used with"),
            ("--versus rein", "--text"),
            ("/nowhere --plot x", "/nowhere: is not there; fix: "),
        ] {
            assert!(refused(line).contains(part), "{line}: {}", refused(line));
        }
    }
}
