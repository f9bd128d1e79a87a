//! `remuda link` as a program of its own, with the command line of [`remuda_live::args`].

use clap::Parser;
use remuda_live::args::LinkArgs;
use std::process::ExitCode;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    link: LinkArgs,
}

fn main() -> ExitCode {
    match Cli::parse().link.run() {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => {
            eprintln!("remuda link: {error}");
            ExitCode::FAILURE
        }
    }
}
