//! `remuda completions` and `remuda manual`: made from the definition of the commands, so they
//! always fit it.

use crate::{Cli, Failure};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::fs;
use std::path::PathBuf;

/// Print a shell's completions of this command.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  For this shell
    source <(remuda completions bash)")]
pub struct CompletionsArgs {
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    pub fn run(self) -> Result<(), Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "remuda", &mut text);
        print!("{}", String::from_utf8(text)?);
        Ok(())
    }
}

/// Write a manual page for each command, as `DIR/remuda-COMMAND.1`.
#[derive(Debug, Args)]
pub struct ManualArgs {
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl ManualArgs {
    pub fn run(self) -> Result<(), Failure> {
        let folder = &self.folder;
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        clap_mangen::generate_to(Cli::command(), folder)
            .map_err(|error| format!("{}: {error}", folder.display()).into())
    }
}
