//! `remuda set`

use crate::{Failure, RunDirArgs};
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::host::Target;
use clap::Args;

/// Give a flow, all flows, or new flows another arm or policy.
#[derive(Debug, Args)]
pub struct SetArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// A flow's number (see `remuda flows`), `all` (running and new flows), or `new`
    #[arg(value_name = "FLOW|all|new", value_parser = target)]
    flow: Target,
    /// An arm or a policy (see `remuda programs`)
    #[arg(value_name = "ARM|POLICY")]
    to: String,
}

fn target(text: &str) -> Result<Target, String> {
    match text {
        "all" => Ok(Target::All),
        "new" => Ok(Target::New),
        number => number
            .parse()
            .map(Target::Flow)
            .map_err(|_| "a flow's number, `all` or `new`".to_owned()),
    }
}

impl SetArgs {
    pub fn run(self) -> Result<(), Failure> {
        let request = Request::Set { target: self.flow, to: self.to.clone() };
        match ask(&self.run_dir.run_dir, &request)? {
            Answer::Set { flows } => {
                let which = match self.flow {
                    Target::All => format!("{flows} running flows, and new ones"),
                    Target::New => "new flows".to_owned(),
                    Target::Flow(number) => format!("flow {number}"),
                };
                println!("{which}: {}", self.to);
                Ok(())
            }
            other => Err(format!("the agent answered {other:?}").into()),
        }
    }
}
