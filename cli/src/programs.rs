//! `remuda programs`

use crate::table::table;
use crate::{Failure, RunDirArgs};
use ccp_agent::control::{Answer, ProgramRow, Request, ask, policy_rows, program_rows};
use clap::Args;

/// List arms and policies, with the datapath programs.
///
/// Works without an agent: lists what this `remuda` knows. If an agent runs, also lists arms that
/// `remuda run` has added to it.
#[derive(Debug, Args)]
pub struct ProgramsArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// Print the text of this arm's program
    #[arg(long, value_name = "ARM")]
    text: Option<String>,
}

impl ProgramsArgs {
    pub fn run(self) -> Result<(), Failure> {
        if let Some(name) = &self.text {
            let arm = remuda_algorithms::arm(name).ok_or_else(|| {
                let known: Vec<&str> =
                    remuda_algorithms::arms().iter().map(|arm| arm.name).collect();
                format!("unknown arm {name:?}\nfix: one of {}", known.join(", "))
            })?;
            print!("{}", arm.program_text);
            return Ok(());
        }
        let mut arms =
            table(&["arm", "program", "instructions per ACK, at most", "fields", "what"]);
        for row in self.rows()? {
            arms.add_row([
                row.arm,
                row.program,
                row.instructions.to_string(),
                row.fields.to_string(),
                row.summary,
            ]);
        }
        println!("{arms}");
        let native = remuda_bpf::available();
        println!(
            "native:NAME is an arm too: the kernel's own algorithm, on flows of this kernel's TCP\n\
             loaded here: {native}\n"
        );
        let mut policies = table(&["policy", "what"]);
        for (name, summary) in policy_rows() {
            policies.add_row([name, summary]);
        }
        println!("{policies}");
        Ok(())
    }

    fn rows(&self) -> Result<Vec<ProgramRow>, Failure> {
        match ask(&self.run_dir.run_dir, &Request::Programs {}) {
            Ok(Answer::Programs { programs, .. }) => Ok(programs),
            _ => Ok(program_rows()?), // no agent that answers
        }
    }
}
