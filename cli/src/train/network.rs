//! What the trainings of networks have in common: how the training program is called.

use super::python::{is_help, module};
use crate::Failure;
use crate::author::PythonArgs;
use clap::Args;
use std::path::Path;

/// The fix if a Python cannot train networks.
const FIX: &str = "fix: pip install remuda[networks], or name another Python with --python";
/// The exit status of a training program that Ctrl-C has stopped.
const STOPPED: i32 = 130;

#[derive(Debug, Args)]
pub struct NetworkArgs {
    /// Train for some seconds only, to see that training works
    #[arg(long)]
    smoke: bool,
    #[command(flatten)]
    python: PythonArgs,
    /// Arguments for the training program: `-- --help` lists them
    #[arg(last = true, value_name = "ARGS")]
    training: Vec<String>,
}

impl NetworkArgs {
    /// Runs the training program `name`, which writes its weights to `out`. Returns false if the
    /// program has printed only its help.
    ///
    /// # Errors
    ///
    /// The program cannot be run, was stopped or failed.
    pub fn train(&self, name: &str, out: &Path) -> Result<bool, Failure> {
        let python = self.python.path();
        let mut command = module(&python, name);
        command.arg("--out").arg(out).args(self.smoke.then_some("--smoke"));
        let python = python.display();
        let status = command.args(&self.training).status();
        let status = status.map_err(|error| format!("{python}: {error}\n{FIX}"))?;
        if status.code() == Some(STOPPED) {
            return Err("the training was stopped\nfix: run the same command again".into());
        }
        if !status.success() {
            return Err(format!("{python} -m {name}: {status}\n{FIX}").into());
        }
        Ok(!is_help(&self.training))
    }
}
