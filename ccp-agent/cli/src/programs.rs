//! `remuda programs`

use crate::Failure;
use crate::table::table;
use ccp_agent::control::{policy_rows, program_rows};
use clap::Args;

/// List arms and policies, with the datapath programs.
///
/// It needs no agent: what is listed is what this `remuda` knows.
#[derive(Debug, Args)]
pub struct ProgramsArgs {
    /// Print the text of this arm's program
    #[arg(long, value_name = "ARM")]
    text: Option<String>,
}

impl ProgramsArgs {
    /// Runs it.
    pub fn run(self) -> Result<(), Failure> {
        if let Some(name) = self.text {
            let arm = remuda_algorithms::arm(&name).ok_or_else(|| {
                let known: Vec<&str> =
                    remuda_algorithms::arms().iter().map(|arm| arm.name).collect();
                format!("unknown arm {name:?}\nfix: one of {}", known.join(", "))
            })?;
            print!("{}", arm.program_text);
            return Ok(());
        }
        let mut arms =
            table(&["arm", "program", "instructions per ACK, at most", "fields", "what"]);
        for row in program_rows()? {
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
}
