//! Arms written in Python: `remuda run`, and `--author` of `remuda sim`.

use crate::stop::stop_flag;
use crate::{Failure, RunDirArgs};
use ccp_agent::author::{Authors, Process, congalg, door};
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::host::Target;
use clap::{Args, ValueEnum};
use remuda_matrix::{AuthorFiles, start_author};
use remuda_real::AuthorsFiles;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// How often Ctrl-C and the process are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Which Python runs an author's file.
#[derive(Clone, Debug, Args)]
pub struct PythonArgs {
    /// The Python that has the package `remuda` [default: of $VIRTUAL_ENV, or python3]
    #[arg(long, value_name = "FILE", env = "REMUDA_PYTHON")]
    python: Option<PathBuf>,
}

impl PythonArgs {
    /// It.
    pub fn path(&self) -> PathBuf {
        let of_environment =
            || std::env::var_os("VIRTUAL_ENV").map(|at| Path::new(&at).join("bin/python"));
        let given = self.python.clone().or_else(of_environment);
        given.unwrap_or_else(|| PathBuf::from("python3"))
    }
}

/// Files of arms in Python, for the simulator.
#[derive(Debug, Args)]
pub struct AuthorArgs {
    /// Arms in Python, as drivers of scenarios: each class of the file that derives from
    /// `remuda.Controller`. May be given several times
    #[arg(long, value_name = "FILE")]
    author: Vec<PathBuf>,
    #[command(flatten)]
    python: PythonArgs,
}

impl AuthorArgs {
    /// Starts their processes, which end with what is returned.
    pub fn start(&self, authors: &Authors) -> Result<Vec<Process>, Failure> {
        congalg::join(authors, congalg::Served::Simulator)?;
        let python = self.python();
        let start = |file: &PathBuf| Ok(start_author(file, &python, authors)?);
        self.author.iter().map(start).collect()
    }

    /// The files by their names.
    pub fn named(&self) -> AuthorsFiles {
        AuthorsFiles { python: self.python(), files: self.author.clone() }
    }

    /// The Python that has the package `remuda`.
    pub fn python(&self) -> PathBuf {
        self.python.path()
    }

    /// All files, and the modules that each may import: what their arms do.
    pub fn files(&self) -> Result<Vec<AuthorFiles>, Failure> {
        self.author.iter().map(|file| Ok(AuthorFiles::read(file)?)).collect()
    }
}

/// Which flows an author's arm is given at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Take {
    /// None: `remuda set` gives it flows
    None,
    /// Those to come
    New,
    /// Those to come and those that run
    All,
}

/// Run arms written in Python on live flows, until Ctrl-C.
///
/// Each class of the file that derives from `remuda.Controller` is an arm of the agent while this
/// runs, equal to the others for `remuda set`; policies choose among the arms they were built with.
/// A class that derives from pyportus' `AlgBase` is one as well, and so is what the
/// file gives `portus.start`: a file written for pyportus runs unchanged. It runs in a process of
/// its own. When it ends, its flows go to Reno, and new flows to what they went to before.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  See that it works, in the simulator
    remuda sim one-cubic.toml --author my_cca.py --set 'flows.*.driver=my_cca'
  All flows of the agent, old and new, by the first arm of the file
    remuda run my_cca.py --take all
  A file for pyportus, with options of its own
    remuda run my_cca.py --take new -- --gain 2")]
pub struct RunArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// The Python file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which flows its first arm is given at once
    #[arg(long, value_enum, default_value = "none")]
    take: Take,
    #[command(flatten)]
    python: PythonArgs,
    /// Arguments of the file's own, after --: what it finds in sys.argv
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

impl RunArgs {
    /// Runs it.
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
