//! Arms written in Python: `remuda run`, and `--author` of `remuda sim`.

use crate::stop::stop_flag;
use crate::{Failure, RunDirArgs};
use ccp_agent::author::{Authors, Process, congalg, door};
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::host::Target;
use clap::{Args, ValueEnum};
use remuda_live::real::AuthorsFiles;
use remuda_matrix::{AuthorFiles, start_author};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// How often the loop checks for Ctrl-C and for the end of the process.
const LOOK: Duration = Duration::from_millis(50);

/// The Python that runs an author's file.
#[derive(Clone, Debug, Args)]
pub struct PythonArgs {
    /// A Python with the package `remuda` [default: that of $VIRTUAL_ENV, or python3]
    #[arg(long, value_name = "FILE", env = "REMUDA_PYTHON")]
    python: Option<PathBuf>,
}

impl PythonArgs {
    pub fn path(&self) -> PathBuf {
        let of_environment =
            || std::env::var_os("VIRTUAL_ENV").map(|at| Path::new(&at).join("bin/python"));
        let given = self.python.clone().or_else(of_environment);
        given.unwrap_or_else(|| PathBuf::from("python3"))
    }
}

/// Files with arms in Python, for the simulator.
#[derive(Debug, Args)]
pub struct AuthorArgs {
    /// Python file whose arms can be drivers in scenarios: each class that derives from
    /// `remuda.Controller`. May be given several times
    #[arg(long, value_name = "FILE")]
    author: Vec<PathBuf>,
    #[command(flatten)]
    python: PythonArgs,
}

impl AuthorArgs {
    /// Starts a process for each file. A process ends when its `Process` is dropped.
    pub fn start(&self, authors: &Authors) -> Result<Vec<Process>, Failure> {
        congalg::join(authors, congalg::Served::Simulator)?;
        let python = self.python();
        let start = |file: &PathBuf| Ok(start_author(file, &python, authors)?);
        self.author.iter().map(start).collect()
    }

    /// The files and the Python, for agents on real TCP.
    pub fn named(&self) -> AuthorsFiles {
        AuthorsFiles { python: self.python(), files: self.author.clone(), arguments: Vec::new() }
    }

    /// A Python with the package `remuda`.
    pub fn python(&self) -> PathBuf {
        self.python.path()
    }

    /// All files with the modules that each may import: everything that decides what an arm does.
    pub fn files(&self) -> Result<Vec<AuthorFiles>, Failure> {
        self.author.iter().map(|file| Ok(AuthorFiles::read(file)?)).collect()
    }
}

/// The flows that the first arm of a file drives at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Take {
    /// No flows; give it flows with `remuda set`
    None,
    /// All flows that start from now on
    New,
    /// New and running flows
    All,
}

/// Run arms written in Python on live flows, until Ctrl-C.
///
/// Each class of the file that derives from `remuda.Controller` becomes an arm of the agent while
/// this command runs, and `remuda set` accepts it like any other arm. Policies choose only among
/// the arms they were built with. A class that derives from pyportus' `AlgBase` becomes an arm too,
/// and so does what the file passes to `portus.start`: a file written for pyportus runs unchanged.
/// The arms run in a process of their own. When it ends, its flows fall back to Reno, and new flows
/// get the driver they had before.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Try an arm in the simulator first
    remuda sim one-cubic.toml --author my_cca.py --set 'flows.*.driver=my_cca'
  Drive all flows of the agent, running and new, by the first arm of the file
    remuda run my_cca.py --take all
  Run a pyportus file that has options
    remuda run my_cca.py --take new -- --gain 2")]
pub struct RunArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// The Python file with the arms
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The flows that the file's first arm drives at once
    #[arg(long, value_enum, default_value = "none")]
    take: Take,
    #[command(flatten)]
    python: PythonArgs,
    /// Arguments for the file, after --; it finds them in sys.argv
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

impl RunArgs {
    pub fn run(self) -> Result<(), Failure> {
        let stopped = stop_flag()?;
        let run_dir = &self.run_dir.run_dir;
        let mut process = Process::start_with(&self.python.path(), &self.file, &self.arguments)?;
        let lease = door::join(run_dir, &mut process)?;
        let names: Vec<&str> = process.hello.arms.iter().map(|arm| arm.name.as_str()).collect();
        let (first, all) = (names[0].to_owned(), names.join(", "));
        println!("{all}: in the agent until Ctrl-C (process {})", process.id());
        let target = match self.take {
            Take::None => None,
            Take::New => Some(Target::New),
            Take::All => Some(Target::All),
        };
        match target {
            None => println!("give it flows: remuda set FLOW|all|new {first}"),
            Some(target) => {
                let request = Request::Set { target, to: first.clone() };
                if let Answer::Set { flows } = ask(run_dir, &request)? {
                    println!("{flows} running flows have {first}, and new ones get it");
                }
            }
        }
        while !stopped.load(Ordering::Relaxed) {
            if let Some(why) = lease.ended() {
                return Err(format!("{all} left the agent: {why}").into());
            }
            if process.has_ended() {
                return Err(format!("{}: its process has ended", self.file.display()).into());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}
